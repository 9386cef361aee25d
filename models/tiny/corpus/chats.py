"""Conversations: greetings, what the model is, remembering, pronouns, follow-ups."""

from . import arithmetic, facts, names, stories, tasks, words
from .grammar import capital, expand, listing, plain

ABOUT = [
    ("Who are you?", "I am Pelton's tiny built-in model. I know short stories, small sums and a few facts."),
    ("What are you?", "I am a very small language model that lives inside the program Pelton."),
    ("What is your name?", "I have no name of my own. I am Pelton's tiny built-in model."),
    ("What can you do?", "I can tell short stories, do small sums, answer a few simple questions, make lists and write JSON."),
    ("How can you help me?", "I can tell a short story, add small numbers, make lists, or answer a few simple questions."),
    ("Are you a person?", "No, I am a very small language model."),
    ("Are you human?", "No, I am a program. I am Pelton's tiny built-in model."),
    ("Are you ChatGPT?", "No, I am Pelton's tiny built-in model."),
    ("How big are you?", "I am tiny. I have about seven million parameters."),
    ("How many parameters do you have?", "I have about seven million parameters."),
    ("Who made you?", "I was trained for Pelton, on text that a small program wrote."),
    ("What is Pelton?", "Pelton is an engine that runs language models like me. It is named after the Pelton wheel."),
    ("What is a Pelton wheel?", "A Pelton wheel is a water wheel that turns a fast jet of water into work."),
    ("Do you know everything?", "No, I am very small and I know only a little."),
    ("Can you write code?", "No, I am too small for that. I can tell you a story instead."),
    ("Do you speak other languages?", "No, I speak only simple English."),
    ("How are you?", "I am well, thank you. How can I help you?"),
    ("Can you help me?", "I will try. I can tell stories, do small sums and answer simple questions."),
    ("Help!", "I will try to help. What do you need?"),
    ("I am sad.", "I am sorry to hear that. Shall I tell you a story?"),
    ("I am happy.", "I am glad to hear that!"),
    ("I am bored.", "Then let me tell you a story. Just ask for one."),
    ("I am tired.", "Then you should rest a little. Shall I tell you a story?"),
    ("Yes.", "Good. What would you like to do?"),
    ("No.", "All right. Is there something else I can do?"),
    ("OK.", "All right. What would you like to do next?"),
    ("Tell me a joke.", "Why did the clock go to school? It wanted to learn to tell the time."),
    ("Do you know a joke?", "What did the big flower say to the little one? Hello, bud!"),
    ("Make me laugh.", "What has hands but cannot clap? A clock."),
    ("How are you today?", "I am well, thank you. What would you like to do?"),
]

GREETINGS = [
    ("[Hello|Hi|Hey|Hi there|Hello there][!|.|]", "Hello! How can I help you?"),
    ("Good [morning|afternoon|evening][!|.|]", "Hello! What can I do for you?"),
    ("[Hello|Hi], how are you?", "Hello! I am well, thank you. How can I help you?"),
]
FAREWELLS = [
    ("[Thank you|Thanks|Thanks a lot|Thank you very much][!|.]", "[You are welcome!|I am glad I could help.]"),
    ("[Goodbye|Bye|See you later|Good night][!|.|]", "[Goodbye! Come back soon.|Goodbye!]"),
    ("That is [great|nice|all], thanks.", "You are welcome!"),
]

# Questions outside the table: the trained answer is that the model does not know.
UNKNOWN = """
Who won the [football|chess|hockey] [match|cup] in {year}?
What happened in [{city}|Rome|London] in {year}?
Who is the [president|king|mayor|richest man] of {city}?
What is the weather [like |]in {city} [today|tomorrow|now]?
What is the phone number of {name}?
Who wrote the [book|song] "{thing}"?
How far is it from {city} to {city2}?
How many people live in {city}?
What time is it [in {city}|now|]?
Where does {name} live?
How old is {name}?
What did {name} say [yesterday|last week]?
Explain [quantum physics|the law of {city}|black holes|the stock market|how an engine works].
What is the price of [gold|oil|bread|a {thing}] today?
Who invented the {thing}?
What is the capital of {nowhere}?
Where is {nowhere}?
What does a {thing} say?
Who is {name}?
What is the square root of {year}?
Translate "{thing}" into [French|German|Latin|Chinese].
""".strip().splitlines()
CANNOT = """
Write a poem about [the sea|love|{city}|a {thing}|winter].
Write code that [sorts a list|prints {year}].
Write a letter to {name}.
Draw a picture of a {thing}.
Summarize [this|the text|the news].
Make a plan for [my week|a party|a trip to {city}].
""".strip().splitlines()
CAN = "I cannot do that. I can tell you a short story instead."
DO_NOT_KNOW = [
    "I do not know. I am a very small model.",
    "I am sorry, I do not know that.",
    "I do not know that. I know only a few simple facts.",
]


def unknown(rng):
    city, city2 = rng.sample(words.CITIES, 2)
    slots = {
        "nowhere": plain(names.made_up(rng)),
        "year": plain(str(rng.randint(1500, 2030))),
        "city": plain(city),
        "city2": plain(city2),
        "name": plain(f"{names.first(rng)} {names.last(rng)}"),
        "thing": plain(rng.choice(words.OBJECTS)),
    }
    if rng.random() < 0.2:
        return expand(rng.choice(CANNOT), slots, rng), CAN
    return expand(rng.choice(UNKNOWN), slots, rng), rng.choice(DO_NOT_KNOW)


def small_talk(rng, pairs):
    asked, answered = rng.choice(pairs)
    return expand(asked, {}, rng), expand(answered, {}, rng)


def introduction(rng):
    """The user says something about themselves, and asks for it a turn later."""
    name, pet, pet_name = names.first(rng), rng.choice(words.PETS), rng.choice(words.PET_NAMES)
    colour, city = rng.choice(words.CATEGORIES["colour"]), rng.choice(words.CITIES)
    hobby, age = rng.choice(words.HOBBIES), rng.randint(4, 80)
    topics = [
        (f"I have a {pet} called {pet_name}.", f"{pet_name} is a nice name for a {pet}.",
         f"What is my {pet}'s name?", f"Your {pet}'s name is {pet_name}."),
        (f"My favourite colour is {colour}.", f"{capital(colour)} is a beautiful colour.",
         "What is my favourite colour?", f"Your favourite colour is {colour}."),
        (f"I live in {city}.", f"{city} must be an interesting place.",
         "Where do I live?", f"You live in {city}."),
        (f"I like {hobby}.", f"{capital(hobby)} is a fine hobby.",
         "What do I like?", f"You like {hobby}."),
        (f"I am {age} years old.", "Thank you for telling me.",
         "How old am I?", f"You are {age} years old."),
    ]
    told, reply, asked, answered = rng.choice(topics)
    named = rng.random()
    if named < 0.35:
        turns = [(f"My name is {name}.", f"Nice to meet you, {name}!")]
        later = [(rng.choice(["What is my name?", "Who am I?", "Do you remember my name?"]), f"Your name is {name}.")]
    elif named < 0.7:
        turns = [(f"My name is {name}. {told}", f"Nice to meet you, {name}! {reply}")]
        later = [("What is my name?", f"Your name is {name}."), (asked, answered)]
        rng.shuffle(later)
        later = later[: rng.randint(1, 2)]
    else:
        turns, later = [(told, reply)], [(asked, answered)]
    if rng.random() < 0.3:
        turns.append(question(rng)[:2])
    return turns + later


def two_people(rng):
    """A girl and a boy who have or do something; questions with 'she' and 'he'."""
    girl, boy = rng.choice(words.GIRLS), rng.choice(words.BOYS)
    things = rng.sample(words.TREASURES, 2)
    colours = rng.sample(words.ADJECTIVES[:6], 2)
    cities = rng.sample(words.CITIES, 2)
    hobbies = rng.sample(words.HOBBIES, 2)
    about = {"she": (girl, 0, "her"), "he": (boy, 1, "his")}
    told, asks = rng.choice(
        [
            ("{} has a {c} {t}.", [("What does {p} have?", "{P} has a {c} {t}."), ("What colour is {o} {t}?", "{O} {t} is {c}.")]),
            ("{} lives in {city}.", [("Where does {p} live?", "{P} lives in {city}.")]),
            ("{} likes {h}.", [("What does {p} like?", "{P} likes {h}.")]),
        ]
    )

    def say(template, pronoun):
        name, i, own = about[pronoun]
        return template.format(
            name, p=pronoun, P=capital(pronoun), o=own, O=capital(own),
            c=colours[i], t=things[i], city=cities[i], h=hobbies[i],
        )

    text = " ".join(say(told, pronoun) for pronoun in rng.sample(list(about), 2))
    first, second = rng.sample(list(about), 2)
    ask, answer = rng.choice(asks)
    by_name = say(ask.replace("{p}", about[first][0]), first)
    turns = [(f"{text} {by_name}", say(answer, first))]
    if rng.random() < 0.8:
        ask, answer = rng.choice(asks)
        asked = say(ask, second)
        turns.append((f"And {asked[0].lower()}{asked[1:]}", say(answer, second)))
    return turns


def after_story(rng):
    """A story, and a question about it."""
    asked, told, slots = stories.requested_story(rng)
    hero = slots["hero"]
    question, answer = rng.choice(
        [
            ("Who is the story about?", f"The story is about {hero['who']}."),
            ("What is the name of the hero?", f"The name of the hero is {hero['']}."),
            (f"What is {hero['']}?", f"{hero['']} is {hero['akind']}."),
        ]
    )
    return [(asked, told), (question, answer)]


def running_sum(rng):
    """A sum, and another that continues from its result."""
    while True:
        a, b = arithmetic.addends(rng, 0)
        c = rng.randint(0, 9)
        if (a + b, c) not in arithmetic.HELD_OUT_SUMS:
            break
    ask = rng.choice(["Now add {}.", "Add {} more.", "And plus {}?", "Add {} to that."])
    return [
        (rng.choice(arithmetic.SUM_WORDINGS).format(a=a, b=b), f"{a} + {b} = {a + b}."),
        (ask.format(c), f"{a + b} + {c} = {a + b + c}."),
    ]


def list_on(rng):
    """A list, and one more item for it."""
    category, members = rng.choice(list(words.CATEGORIES.items()))
    if len(members) < 6:
        return [tasks.list_question(rng)]
    n = rng.randint(2, 4)
    *chosen, extra = rng.sample(members, n + 1)
    return [
        (f"Name {tasks.COUNTS[n]} {tasks.plural(category)}.", capital(listing(chosen)) + "."),
        (rng.choice(["One more, please.", "Name one more.", "And another one?"]), capital(extra) + "."),
    ]


def careless(rng, asked):
    """The question without capitals and punctuation."""
    if rng.random() < 0.5:
        asked = asked.lower()
    if rng.random() < 0.5:
        asked = asked.rstrip("?.!")
    return asked


def question(rng):
    """Any single question: question, answer, brief answer."""
    kind = rng.random()
    if kind < 0.34:
        asked, answered, brief = arithmetic.question(rng)
    elif kind < 0.62:
        asked, answered, brief = facts.question(rng)
    elif kind < 0.89:
        return tasks.question(rng)
    else:
        asked, answered = unknown(rng) if kind < 0.94 else rng.choice(ABOUT)
        brief = answered
    if rng.random() < 0.15:
        asked = careless(rng, asked)
    return asked, answered, brief


def linked(rng):
    """Turns of which the later depend on the earlier."""
    kind = rng.choices(
        [introduction, two_people, facts.follow_up, running_sum, list_on, after_story],
        [30, 22, 18, 12, 8, 10],
    )[0]
    return kind(rng)
