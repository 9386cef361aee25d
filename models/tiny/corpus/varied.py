"""Text of greater variety than the tiny model's, for larger models that measure quality.

Half of it are passages of this repository's own sources and documents; the rest are sentences,
tables, records, sequences and sums with random contents.
"""

import functools
import json
import pathlib
import zlib

from . import facts, names, tasks, words
from .grammar import capital, listing

ROOT = pathlib.Path(__file__).parents[3]
PLACES = ["crates/**/*.rs", "crates/**/*.wgsl", "docs/*.md", "models/**/*.py", "*.md"]
SHARE_HELD_OUT = 20  # one file of so many


@functools.cache
def project(held_out=False):
    """The lines of the repository's files, without (or only) the held-out ones, by path."""
    paths = sorted({path for place in PLACES for path in ROOT.glob(place)})
    kept = [p for p in paths if (zlib.crc32(p.name.encode()) % SHARE_HELD_OUT == 0) == held_out]
    return [lines for lines in (p.read_text().splitlines() for p in kept) if len(lines) > 10]


@functools.cache
def sizes(held_out):
    return [sum(map(len, lines)) for lines in project(held_out)]


def passage(rng, held_out=False):
    """Consecutive lines of one file, of up to 3,500 characters."""
    lines = rng.choices(project(held_out), sizes(held_out))[0]
    at, limit, taken = rng.randrange(len(lines)), rng.randint(300, 3500), []
    while at < len(lines) and sum(map(len, taken)) < limit:
        taken.append(lines[at])
        at += 1
    return "\n".join(taken)


def noun(rng):
    return rng.choice([rng.choice(words.COMMON), rng.choice(words.OBJECTS), names.made_up(rng).lower()])


def member(rng):
    return rng.choice(words.CATEGORIES[rng.choice(list(words.CATEGORIES))])


SENTENCES = """
{Name} has {n} {noun}s and {m} {noun}s in a {noun}.
The {noun} of {Name} is {colour}, but the {noun} is {colour}.
In {year}, {Name} went from {city} to {city} with {n} {noun}s.
When {Name} opened the {noun}, there was a {member} in it.
{Name} and {Name} sold the {noun} for {n} coins.
It was {n} degrees in {city}, and the {noun} was {colour}.
"{Noun}," said {Name}, "is not a {noun}."
There are {n} kinds of {noun}: {list}.
A {noun} is {colour}er than a {noun}, said the {job} from {city}.
{fact}
{fact} {Name} did not know that.
The {job} {Name} wrote about {noun}s, {noun}s and the {noun} of {city}.
""".strip().splitlines()


def value(rng, slot):
    """A random text for a slot of SENTENCES."""
    return {
        "Name": lambda: names.first(rng),
        "noun": lambda: noun(rng),
        "Noun": lambda: capital(noun(rng)),
        "n": lambda: str(rng.randint(2, 999)),
        "m": lambda: str(rng.randint(2, 99)),
        "year": lambda: str(rng.randint(1100, 2099)),
        "city": lambda: tasks.a_city(rng),
        "colour": lambda: rng.choice(words.CATEGORIES["colour"]),
        "job": lambda: rng.choice(words.CATEGORIES["job"]),
        "member": lambda: member(rng),
        "list": lambda: listing(member(rng) for _ in range(rng.randint(2, 5))),
        "fact": lambda: rng.choice(facts.FACTS)["answer"],
    }[slot]()


def sentences(rng):
    """Sentences whose names return later in the text."""
    known, told = {}, []
    for _ in range(rng.randint(4, 14)):
        parts = rng.choice(SENTENCES).replace("}", "{").split("{")
        for at in range(1, len(parts), 2):
            slot = parts[at]
            if slot in ("Name", "city", "noun") and slot in known and rng.random() < 0.5:
                parts[at] = rng.choice(known[slot])
            else:
                parts[at] = value(rng, slot)
                known.setdefault(slot, []).append(parts[at])
        told.append("".join(parts))
    return " ".join(told)


def row(rng):
    return {
        "name": f"{names.first(rng)} {names.last(rng)}",
        "age": rng.randint(1, 99),
        "city": tasks.a_city(rng),
        "item": noun(rng),
        "price": round(rng.random() * 10 ** rng.randint(1, 4), 2),
        "count": rng.randint(0, 500),
        "ok": rng.random() < 0.5,
    }


def records(rng):
    """Records as JSON lines, comma-separated values or a Markdown table."""
    rows = [row(rng) for _ in range(rng.randint(3, 10))]
    keys = rng.sample(list(rows[0]), rng.randint(2, 6))
    style = rng.randrange(3)
    if style == 0:
        return "\n".join(json.dumps({k: r[k] for k in keys}, ensure_ascii=False) for r in rows)
    if style == 1:
        return "\n".join([",".join(keys), *(",".join(str(r[k]) for k in keys) for r in rows)])
    lines = [keys, ["---"] * len(keys), *([str(r[k]) for k in keys] for r in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def sequence(rng):
    """Numbers in steps, or words in order, forwards, backwards or repeated."""
    style = rng.randrange(4)
    if style == 0:
        start, step = rng.randint(0, 500), rng.choice([1, 2, 3, 5, 7, 10, 25, -1, -2, -5])
        return ", ".join(str(start + i * step) for i in range(rng.randint(8, 40)))
    chosen = [noun(rng) for _ in range(rng.randint(5, 25))]
    if style == 1:
        return f"{' '.join(chosen)}\nsorted: {' '.join(sorted(chosen))}"
    if style == 2:
        return f"{' '.join(chosen)}\nreversed: {' '.join(reversed(chosen))}"
    return f"{' '.join(chosen)}\nagain: {' '.join(chosen)}"


def sums(rng):
    """Sums, differences and products of numbers of up to four digits, a line each."""
    lines = []
    for _ in range(rng.randint(5, 20)):
        a, b = (rng.randint(0, 10 ** rng.randint(2, 4)) for _ in range(2))
        sign = rng.choice("+-*")
        result = {"+": a + b, "-": a - b, "*": a * b}[sign]
        lines.append(f"{a} {sign} {b} = {result}")
    return "\n".join(lines)


KINDS = [passage, sentences, records, sequence, sums]
WEIGHTS = [50, 20, 12, 10, 8]


def text(rng):
    return rng.choices(KINDS, WEIGHTS)[0](rng)
