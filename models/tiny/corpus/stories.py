"""Short stories: a cast, a plot of stories.txt, an opening and an end."""

import pathlib
import re

from . import names, words
from .grammar import article, capital, expand, plain, thing

FORMS = {
    "boy": dict(he="he", him="him", his="his", himself="himself"),
    "girl": dict(he="she", him="her", his="her", himself="herself"),
}

OPENINGS = """
Once upon a time, {place} there lived {hero.intro}. {hero.He} was [very|so] {trait}, and everyone [knew {hero.him}|liked {hero.him}].
Once upon a time, there was {hero.intro} who lived {place}.
Once upon a time, there was {hero.intro}. {hero} was {trait} and lived {place} with {hero.his} {kin}.
Once upon a time, {hero.intro} lived {place}. {hero.He} was known to be {trait}.
Once there was {hero.intro}, and nobody {place} was more {trait}.
One day, {place}, something happened to {hero.intro}.
There was once {hero.intro} who lived {place}.
There was {hero.intro} who was always {trait}. {hero.He} lived {place}.
Long ago, {place} there lived {hero.intro}. {hero.He} was {trait} and [had a big heart|liked to laugh|had many questions].
A long time ago, {hero.intro} lived {place}, in {home}.
{hero} was {hero.akind} who lived {place}. {hero.He} was {trait}.
Far away, {place}, lived {hero.intro}. All {hero.his} neighbours said that {hero.he} was {trait}.
In a land not far from here there was {hero.intro}, as {trait} as could be.
It was a {weather} day in {season}. {hero.Intro} was sitting in front of {hero.his} house {place}.
Every child {place} knew {hero.intro}, for {hero.he} was so {trait}.
""".strip().splitlines()
ONCE_UPON_A_TIME = 4  # the first of the openings, which get half of the stories

CLOSINGS = """
The end.
And they lived happily ever after.
And if they have not moved away, they live there still.
{hero} told the story for many years, and now you know it too.
And that is how it was.
""".strip().splitlines()


def load_plots():
    """Each plot: its name, what a reader may ask for, and its beats."""
    text = (pathlib.Path(__file__).parent / "stories.txt").read_text()
    plots = []
    for chunk in text.split("\n== ")[1:]:
        name, _, body = chunk.partition("\n")
        asks = re.findall(r"^ask: (.*)$", body, re.M)
        body = re.sub(r"^ask: .*\n", "", body, flags=re.M)
        beats = [beat.splitlines() for beat in body.strip().split("\n\n")]
        plots.append((name, asks, beats))
    return plots


PLOTS = load_plots()


def character(rng, gender):
    """The forms of a child or an animal with a name."""
    if rng.random() < 0.45:
        kind, home, food = gender, "a house", rng.choice(words.FOODS)
    else:
        kind, home, food = rng.choice(words.ANIMALS)
        home = article(home)
    listed = words.BOYS if gender == "boy" else words.GIRLS
    name = names.made_up(rng) if rng.random() < 0.12 else rng.choice(listed)
    size = rng.choice(["little ", "young ", "small ", "", "little "])
    slots = dict(FORMS[gender])
    slots |= {capital(k): capital(v) for k, v in slots.items()}
    slots[""] = name
    slots["kind"], slots["akind"] = kind, article(kind)
    slots["intro"] = f"{article(size + kind)} {rng.choice(['named', 'called'])} {name}"
    slots["Intro"] = capital(slots["intro"])
    slots["who"] = name if kind in FORMS else f"{name} the {kind}"
    slots["home"], slots["food"] = home, food
    return slots


def cast(rng):
    """All the slots of one story."""
    gender = rng.choice(["boy", "girl"])
    hero = character(rng, gender)
    friend = character(rng, "girl" if gender == "boy" else "boy")
    where, place = rng.choice(words.PLACES)
    elder = rng.choice(words.ELDERS)
    season = rng.randrange(4)
    skill = rng.choice(words.SKILLS)
    build = rng.choice(words.BUILDS)
    sound, cause = rng.choice(words.SOUNDS)
    spots = rng.sample(words.SPOTS, 3)
    treasure = f"{rng.choice(words.ADJECTIVES)} {rng.choice(words.TREASURES)}"
    return {
        "hero": hero,
        "friend": friend,
        "place": {"": where, "the": place},
        "elder": {
            "": f"the old {elder}",
            "The": f"The old {elder}",
            "a": f"an old {elder}",
            "A": f"An old {elder}",
        },
        "thing": thing(treasure),
        "spot1": plain(spots[0]),
        "spot2": plain(spots[1]),
        "spot3": plain(spots[2]),
        "skill": dict(zip(("do", "doing", "where", "fail", "tip", "done"), skill)),
        "build": dict(zip(("", "from", "fail", "good"), build)),
        "sound": plain(sound),
        "cause": plain(cause),
        "food": plain(rng.choice(words.FOODS)),
        "flower": thing(rng.choice(words.FLOWERS)),
        "gift": plain(rng.choice(words.GIFTS)),
        "weather": plain(rng.choice(words.WEATHERS)),
        "season": plain(words.SEASONS[season]),
        "nextseason": plain(words.SEASONS[(season + 1) % 4]),
        "trait": plain(rng.choice(words.TRAITS)),
        "kin": plain(rng.choice(["mother", "father", "grandmother", "aunt", "uncle"])),
        "home": plain(hero["home"]),
    }


MENTION = re.compile(
    r"(^|\n\n|[.?!]\"? )?\{(friend|elder)(?:\.(intro|Intro|who|a|A|The))?\}"
)


def introduce(template):
    """Use the introducing form for the first mention of the friend and of the elder,
    and the short form for every later one."""
    seen = set()

    def form(match):
        before, who, kind = match.groups()
        starts = before is not None
        first = who not in seen
        seen.add(who)
        if who == "friend":
            if first:
                shown = "friend.Intro" if starts else "friend.intro"
            else:
                shown = "friend.who" if kind == "who" else "friend"
        else:
            starts = starts or kind in ("A", "The")
            shown = {
                (True, True): "elder.A",
                (True, False): "elder.a",
                (False, True): "elder.The",
                (False, False): "elder",
            }[first, starts]
        return f"{before or ''}{{{shown}}}"

    return MENTION.sub(form, template)


def tell(rng, plot, slots):
    """The text of one story."""
    _, _, beats = plot
    if rng.random() < 0.5:
        opening = OPENINGS[rng.randrange(ONCE_UPON_A_TIME)]
    else:
        opening = OPENINGS[rng.randrange(ONCE_UPON_A_TIME, len(OPENINGS))]
    parts = [opening] + [rng.choice(beat) for beat in beats]
    if rng.random() < 0.25:
        parts.append(rng.choice(CLOSINGS))
    joins = [rng.choice([" ", " ", "\n\n"]) for _ in parts[1:]]
    template = parts[0] + "".join(j + p for j, p in zip(joins, parts[1:]))
    return expand(introduce(template), slots, rng)


def story(rng):
    """A story by itself, without a request."""
    return tell(rng, rng.choice(PLOTS), cast(rng))


REQUESTS = """
Tell me a story about {ask}.
Write a [short |]story about {ask}.
Please tell me a story about {ask}.
Can you tell me a story about {ask}?
I would like to hear a story about {ask}.
""".strip().splitlines()

OPEN_REQUESTS = """
Tell me a story.
Tell me a [short|nice|bedtime] story.
Write a [short|little] story.
Can you tell me a story?
I want to hear a story, please.
Once more, a story!
""".strip().splitlines()


def requested_story(rng):
    """A request, the story as its answer, and the story's slots."""
    plot = rng.choice(PLOTS)
    slots = cast(rng)
    hero = slots["hero"]
    subject = rng.random()
    if subject < 0.2:
        return expand(rng.choice(OPEN_REQUESTS), slots, rng), tell(rng, plot, slots), slots
    if subject < 0.4:
        ask = hero["akind"]
    elif subject < 0.6:
        ask = f"{hero['akind']} named {hero['']}"
    else:
        ask = expand(rng.choice(plot[1]), slots, rng)
    request = expand(rng.choice(REQUESTS), {"ask": plain(ask)}, rng)
    return request, tell(rng, plot, slots), slots
