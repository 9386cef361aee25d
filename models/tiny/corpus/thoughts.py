"""Short thoughts before an answer, between `<think>` and `</think>`."""

from . import arithmetic, facts, names, tasks, words
from .grammar import capital


def sum_by_tens(a, b):
    """The steps of a sum: to the next ten, then the rest."""
    to_ten = -a % 10
    steps = {(a, to_ten), (a + to_ten, b - to_ten)}
    if not to_ten or to_ten >= b or steps & arithmetic.HELD_OUT_SUMS:
        return f"{a} + {b} = {a + b}."
    return f"{a} + {to_ten} = {a + to_ten}, and {a + to_ten} + {b - to_ten} = {a + b}."


def of_sum(rng):
    a, b = arithmetic.addends(rng)
    asked = rng.choice(arithmetic.SUM_WORDINGS).format(a=a, b=b)
    return asked, f"I add {a} and {b}. {sum_by_tens(a, b)}", f"{a} + {b} = {a + b}."


def of_difference(rng):
    a, b = arithmetic.minuend(rng)
    asked = rng.choice(arithmetic.DIFFERENCE_WORDINGS).format(a=a, b=b)
    check = f"{a} - {b} = {a - b}"
    if (a - b, b) not in arithmetic.HELD_OUT_SUMS:
        check += f", because {a - b} + {b} = {a}"
    return asked, f"I take {b} away from {a}. {check}.", f"{a} - {b} = {a - b}."


def of_tale(rng):
    more = rng.random() < 0.5
    a, b = arithmetic.addends(rng) if more else arithmetic.minuend(rng)
    asked, answered, _ = arithmetic.tale(names.first(rng), a, b, rng.choice(words.FOODS), more)
    if more:
        return asked, f"I add {a} and {b}. {sum_by_tens(a, b)}", answered
    return asked, f"I take {b} away from {a}. {a} - {b} = {a - b}.", answered


def of_fact(rng):
    fact = rng.choice(facts.FACTS)
    asked = rng.choice(fact["questions"])
    thought = rng.choice([f"This is about {fact['subject']}. {fact['answer']}", f"I know this. {fact['answer']}"])
    return asked, thought, fact["answer"]


def of_task(rng):
    asked, answered, _ = tasks.question(rng)
    thought = rng.choice(["I do what the user asks.", "This is a small task.", f"The user writes: {capital(asked)}"])
    return asked, thought, answered


KINDS = [of_sum, of_difference, of_tale, of_fact, of_task]
WEIGHTS = [32, 18, 12, 25, 13]


def question(rng):
    """A question, the thought and the answer."""
    return rng.choices(KINDS, WEIGHTS)[0](rng)


OPENED = "<think>\n"


def thinking(thought, answer):
    """An answer after a thought."""
    return f"{OPENED}{thought}\n</think>\n\n{answer}"
