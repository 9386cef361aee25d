"""Small tasks on words: lists, JSON extraction, spelling, sorting, repeating."""

import json

from . import names, words
from .grammar import capital, expand, listing, plain

COUNTS = dict(zip(range(2, 6), ["two", "three", "four", "five"]))


def plural(noun):
    return words.PLURALS.get(noun, noun + "s")


def list_question(rng):
    """'Name three fruits.', as a sentence or as numbered or dotted lines."""
    category, members = rng.choice(list(words.CATEGORIES.items()))
    n = rng.randint(2, min(5, len(members)))
    chosen = rng.sample(members, n)
    count = rng.choice([COUNTS[n], str(n)])
    style = rng.randrange(4)
    if style == 1:
        ask = rng.choice(["Give me a numbered list of", "Make a numbered list of"])
        lines = [f"{i}. {capital(w)}" for i, w in enumerate(chosen, 1)]
        return f"{ask} {count} {plural(category)}.", "\n".join(lines)
    if style == 2:
        ask = rng.choice(["Make a list of", "Give me a list of", "List"])
        return f"{ask} {count} {plural(category)}.", "\n".join(f"- {w}" for w in chosen)
    if style == 3:
        ask = f"List {count} {plural(category)} as a JSON array."
        return ask, json.dumps(chosen)
    ask = rng.choice(["Name {} {}.", "Tell me {} {}.", "Can you name {} {}?", "{c} {}, please.", "Give me {} {}."])
    ask = ask.replace("{c}", capital(count)).format(
        *([count] if "{c}" not in ask else []), plural(category)
    )
    return ask, capital(listing(chosen)) + "."


def membership_question(rng):
    """'Is a rose a flower?', and the category of a word."""
    category, members = rng.choice(list(words.CATEGORIES.items()))
    other = rng.choice([c for c in words.CATEGORIES if c != category])
    word = rng.choice(members)
    style = rng.randrange(3)
    if style == 0:
        return f'Is "{word}" a word for a {category}?', f'Yes, "{word}" is a word for a {category}.'
    if style == 1 and word not in words.CATEGORIES[other]:
        return f'Is "{word}" a word for a {other}?', f'No, "{word}" is not a word for a {other}.'
    odd = rng.choice([w for w in words.CATEGORIES[other] if w not in members])
    row = rng.sample(members, 3) + [odd]
    rng.shuffle(row)
    return (
        f"Which word does not belong: {', '.join(row)}?",
        f"{capital(odd)} does not belong.",
    )


def a_city(rng):
    return names.made_up(rng) if rng.random() < 0.2 else rng.choice(words.CITIES)


def person(rng):
    """A person: fields, and sentences that state them."""
    name = names.first(rng)
    if rng.random() < 0.3:
        name += " " + names.last(rng)
    age, city = rng.randint(3, 90), a_city(rng)
    hobby, job = rng.choice(words.HOBBIES), rng.choice(words.CATEGORIES["job"])
    fields = {"name": name, "age": age, "city": city, "hobby": hobby, "job": job}
    slots = {k: plain(str(v)) for k, v in fields.items()}
    told = {
        ("name", "age"): "{name} is {age} years old.|{name}, aged {age}, sends greetings.|My name is {name} and I am {age} years old.",
        ("name", "age", "city"): "{name} is {age} years old and lives in {city}.|{name} from {city} is {age}.|I am {name}, I am {age} and I live in {city}.",
        ("name", "city"): "{name} lives in {city}.|{name} moved to {city} last year.",
        ("name", "job"): "{name} works as a {job}.|{name} is a {job}.",
        ("name", "job", "city"): "{name} is a {job} in {city}.|{name} works as a {job} and lives in {city}.",
        ("name", "hobby"): "{name} likes {hobby}.|The hobby of {name} is {hobby}.",
        ("name", "age", "hobby"): "{name} is {age} and loves {hobby}.|{name}, who is {age} years old, likes {hobby}.",
        ("name", "age", "city", "hobby"): "{name} is {age} years old, lives in {city} and likes {hobby}.",
    }
    keys, sentences = rng.choice(list(told.items()))
    text = expand(rng.choice(sentences.split("|")), slots, rng)
    return {k: fields[k] for k in keys}, text


def order(rng):
    """A purchase: fields, and the sentence that states them."""
    item, count, price = rng.choice(words.OBJECTS), rng.randint(1, 20), rng.randint(1, 200)
    name = names.first(rng)
    colour = rng.choice(words.CATEGORIES["colour"])
    things = item if count == 1 else item + "s"
    forms = [
        ({"item": item, "price": price}, f"The {item} costs {price} euros."),
        ({"item": item, "price": price}, f"You can have this {item} for {price} euros."),
        ({"item": item, "colour": colour}, f"There is a {colour} {item} in the room."),
        ({"name": name, "item": item}, f"{name} bought a {item}."),
        ({"name": name, "item": item, "price": price}, f"{name} bought a {item} for {price} euros."),
        ({"item": item, "colour": colour, "price": price}, f"The {colour} {item} costs {price} euros."),
        ({"name": name, "count": count, "item": item}, f"{name} ordered {count} {things}."),
        ({"item": item, "available": True}, f"The {item} is available."),
        ({"item": item, "available": False}, f"The {item} is sold out."),
    ]
    return rng.choice(forms)


def meeting(rng):
    """A date: fields, and the sentence that states them."""
    people = [names.first(rng) for _ in range(rng.randint(2, 3))]
    day = rng.choice("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split())
    city, hour = a_city(rng), rng.randint(8, 20)
    forms = [
        ({"names": people, "day": day}, f"{listing(people)} meet on {day}."),
        ({"names": people, "city": city}, f"{listing(people)} are going to {city}."),
        ({"day": day, "hour": hour}, f"The meeting is on {day} at {hour} o'clock."),
        ({"city": city, "day": day}, f"The train to {city} leaves on {day}."),
        ({"name": people[0], "day": day, "hour": hour}, f"{people[0]} will come on {day} at {hour} o'clock."),
    ]
    return rng.choice(forms)


def extraction_question(rng):
    """'Extract name and age as JSON: ...'; sometimes not all the fields."""
    fields, text = rng.choices([person, order, meeting], [5, 3, 2])[0](rng)
    keys = list(fields)
    if len(keys) > 2 and rng.random() < 0.3:
        keys = rng.sample(keys, 2)
    elif rng.random() < 0.3:
        rng.shuffle(keys)
    ask = expand(
        rng.choice(
            [
                "Extract {keys} as JSON: {text}",
                "Extract the {keys} as JSON: {text}",
                "Give me {keys} as JSON. {text}",
                "{text} Extract {keys} as JSON.",
                "{text}\nWrite {keys} as a JSON object.",
                "Turn this into JSON with {keys}: {text}",
            ]
        ),
        {"keys": plain(listing(keys)), "text": plain(text)},
        rng,
    )
    return ask, json.dumps({k: fields[k] for k in keys}, ensure_ascii=False)


def token_soup(rng):
    """A few characters of any script, as training text for the byte tokens."""
    ranges = [(0x21, 0x7E), (0xA1, 0x17F), (0x391, 0x3C9), (0x410, 0x44F), (0x5D0, 0x5EA),
              (0x627, 0x64A), (0x905, 0x939), (0x3042, 0x3093), (0x4E00, 0x9FA0), (0xAC00, 0xD7A3),
              (0x1F300, 0x1F64F), (0x2190, 0x21FF)]
    low, high = rng.choice(ranges)
    return "".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 6)))


def word_question(rng):
    """Spelling, repeating, first and last, sorting, counting."""
    kind = rng.choices(range(8), [2, 4, 1, 1, 1, 1, 1, 1])[0]
    word = rng.choice(words.COMMON)
    row = rng.sample(words.COMMON, rng.randint(3, 5))
    shown = ", ".join(row)
    if kind == 0:
        word = names.made_up(rng) if rng.random() < 0.3 else word
        return f'Spell the word "{word}".', "-".join(word) + "."
    if kind == 1:
        text = rng.choice([token_soup(rng), names.made_up(rng), " ".join(row)])
        if rng.random() < 0.3:
            text += " " + names.made_up(rng)
        return rng.choice([f"Repeat after me: {text}", f"Say: {text}", f"Repeat: {text}"]), text
    if kind == 2:
        end, at = rng.choice([("first", 0), ("last", -1)])
        return f"What is the {end} word in this list: {shown}?", f"The {end} word is {row[at]}."
    if kind == 3:
        return f"Sort these words: {shown}.", ", ".join(sorted(row)) + "."
    if kind == 4:
        return f"How many words are in this list: {shown}?", f"There are {len(row)} words."
    if kind == 5:
        end, at = rng.choice([("first", 0), ("last", -1)])
        return f'What is the {end} letter of "{word}"?', f'The {end} letter of "{word}" is {word[at]}.'
    if kind == 6:
        return f'Write "{word}" in capital letters.', word.upper()
    return f"Put these words in reverse order: {shown}.", ", ".join(reversed(row)) + "."


KINDS = [list_question, extraction_question, membership_question, word_question]
WEIGHTS = [42, 40, 8, 22]


def question(rng):
    """A question, its answer and its brief answer, here the same."""
    asked, answered = rng.choices(KINDS, WEIGHTS)[0](rng)
    return asked, answered, answered
