"""Questions about a table of facts, facts.txt, and their answers."""

import pathlib
import random

from .grammar import capital


def fill(template, row):
    """The template with its columns: {0}, {0:c} with a capital, {0:l} without."""
    for i, value in enumerate(row):
        template = template.replace("{%d}" % i, value)
        template = template.replace("{%d:c}" % i, capital(value))
        template = template.replace("{%d:l}" % i, value[:1].lower() + value[1:])
    return capital(template)


def load():
    """Each fact: its questions, the answer as a sentence and the answer in brief."""
    text = (pathlib.Path(__file__).parent / "facts.txt").read_text()
    facts, tables = [], {}
    for chunk in text.split("\n== ")[1:]:
        name, *lines = chunk.strip().splitlines()
        questions = [line[3:] for line in lines if line.startswith("Q: ")]
        answer, brief = (
            next(line[3:] for line in lines if line.startswith(mark))
            for mark in ("A: ", "S: ")
        )
        rows = lines[len(questions) + 2 :]
        if rows[0].startswith("= "):
            rows = tables[rows[0][2:]]
        tables[name] = rows
        for row in (line.split(" | ") for line in rows):
            facts.append(
                dict(
                    section=name,
                    subject=row[0],
                    questions=[fill(q, row) for q in questions],
                    answer=fill(answer, row),
                    brief=fill(brief, row),
                )
            )
    return facts


FACTS = load()


def hold_out(seed):
    """One wording of each fact's question is held out of the training text."""
    rng = random.Random(f"facts {seed}")
    held = []
    for fact in FACTS:
        question = fact["questions"].pop(rng.randrange(len(fact["questions"])))
        held.append((question, fact["answer"]))
    return held


HELD_OUT = hold_out(2026)


def question(rng):
    """A question, its answer and its brief answer."""
    fact = rng.choice(FACTS)
    return rng.choice(fact["questions"]), fact["answer"], fact["brief"]


def statements(rng):
    """Facts as text without turns, with no question."""
    return " ".join(fact["answer"] for fact in rng.sample(FACTS, rng.randint(2, 8)))


def follow_up(rng):
    """A question and an elliptical one that depends on it: 'And of Spain?'."""
    section = rng.choice(["capital", "continent", "opposite", "sound", "young"])
    first, second = rng.sample([f for f in FACTS if f["section"] == section], 2)
    word = {"capital": "of ", "opposite": "of "}.get(section, "")
    lean = rng.choice(["And {}{}?", "What about {1}?", "And what about {1}?"])
    lean = lean.replace("{}{}", word + "{1}").replace("{1}", second["subject"])
    return [
        (rng.choice(first["questions"]), first["answer"]),
        (lean, second["answer"]),
    ]
