"""Small arithmetic: sums, differences, products, counting, comparing.

About every seventh pair of the sums and differences up to 20 is held out: it does not
occur in the training text, in either order or any wording. See HELD_OUT_SUMS and
HELD_OUT_DIFFERENCES.
"""

import random

from .words import BOYS, FOODS, GIRLS, NUMBERS
from .grammar import capital

SMALL = 20
LARGE = 99
SHARE_HELD_OUT = 0.15


def hold_out(seed):
    rng = random.Random(f"arithmetic {seed}")
    sums = {
        (a, b)
        for total in range(SMALL + 1)
        for a in range(total // 2 + 1)
        for b in [total - a]
        if rng.random() < SHARE_HELD_OUT
    }
    sums |= {(b, a) for a, b in sums}
    differences = {
        (a, b)
        for a in range(SMALL + 1)
        for b in range(a + 1)
        if rng.random() < SHARE_HELD_OUT
    }
    return sums, differences


HELD_OUT_SUMS, HELD_OUT_DIFFERENCES = hold_out(2026)

SUM_WORDINGS = [
    "What is {a} + {b}?",
    "What is {a} plus {b}?",
    "{a} + {b}",
    "{a} + {b} =",
    "{a}+{b}=?",
    "Add {a} and {b}.",
    "How much is {a} + {b}?",
    "Calculate {a} + {b}.",
    "What is the sum of {a} and {b}?",
    "What do you get when you add {b} to {a}?",
]
DIFFERENCE_WORDINGS = [
    "What is {a} - {b}?",
    "What is {a} minus {b}?",
    "{a} - {b}",
    "{a} - {b} =",
    "{a}-{b}=?",
    "Take {b} away from {a}.",
    "How much is {a} - {b}?",
    "Calculate {a} - {b}.",
    "Subtract {b} from {a}.",
]
PRODUCT_WORDINGS = [
    "What is {a} * {b}?",
    "What is {a} times {b}?",
    "Multiply {a} by {b}.",
    "How much is {a} times {b}?",
]


def addends(rng, large=0.45):
    """Two numbers to add that are not held out; some of them up to 99."""
    while True:
        if rng.random() < large:
            a, b = rng.randint(0, LARGE), rng.randint(0, LARGE)
        else:
            # Uniform over pairs: a total of t has t + 1 of them.
            total = int((SMALL + 1) * rng.random() ** 0.5)
            a = rng.randint(0, total)
            b = total - a
        if (a, b) not in HELD_OUT_SUMS:
            return a, b


def minuend(rng, large=0.45):
    """Two numbers to subtract, the first not the smaller, that are not held out."""
    while True:
        a = rng.randint(0, LARGE if rng.random() < large else SMALL)
        b = rng.randint(0, a)
        if (a, b) not in HELD_OUT_DIFFERENCES:
            return a, b


def sum_question(rng):
    a, b = addends(rng)
    if a <= SMALL and b <= SMALL and a + b <= SMALL and rng.random() < 0.1:
        asked = f"What is {NUMBERS[a]} plus {NUMBERS[b]}?"
        said = f"{capital(NUMBERS[a])} plus {NUMBERS[b]} is {NUMBERS[a + b]}."
        return asked, said, NUMBERS[a + b]
    wording = rng.choice(SUM_WORDINGS)
    return wording.format(a=a, b=b), f"{a} + {b} = {a + b}.", str(a + b)


def difference_question(rng):
    a, b = minuend(rng)
    wording = rng.choice(DIFFERENCE_WORDINGS)
    return wording.format(a=a, b=b), f"{a} - {b} = {a - b}.", str(a - b)


def product_question(rng):
    a, b = rng.randint(0, 10), rng.randint(0, 10)
    wording = rng.choice(PRODUCT_WORDINGS)
    return wording.format(a=a, b=b), f"{a} * {b} = {a * b}.", str(a * b)


def three_addends_question(rng):
    while True:
        a, b = addends(rng, 0)
        c = rng.randint(0, 9)
        if not {(b, c), (a, c), (a + b, c)} & HELD_OUT_SUMS:
            break
    asked = rng.choice(["What is {} + {} + {}?", "{} + {} + {} =", "Add {}, {} and {}."])
    total = a + b + c
    return asked.format(a, b, c), f"{a} + {b} + {c} = {total}.", str(total)


def tale(name, a, b, things, more):
    """A sum or a difference as a word problem."""
    if more:
        asked = (
            f"{name} has {a} {things} and gets {b} more. "
            f"How many {things} does {name} have now?"
        )
        return asked, f"{name} has {a + b} {things}.", str(a + b)
    asked = (
        f"{name} has {a} {things} and gives away {b}. "
        f"How many {things} are left?"
    )
    return asked, f"{a - b} {things} are left.", str(a - b)


def tale_question(rng):
    more = rng.random() < 0.5
    a, b = addends(rng, 0.3) if more else minuend(rng, 0.3)
    things = rng.choice(FOODS + ["books", "coins", "pencils", "marbles", "stones"])
    return tale(rng.choice(BOYS + GIRLS), a, b, things, more)


def number_question(rng):
    """Counting, neighbours, comparing, odd and even."""
    n = rng.randint(1, LARGE)
    kind = rng.randrange(7)
    if kind == 0:
        return f"What number comes after {n}?", f"{n + 1} comes after {n}.", str(n + 1)
    if kind == 1:
        return f"What number comes before {n}?", f"{n - 1} comes before {n}.", str(n - 1)
    if kind == 2:
        m = rng.choice([k for k in range(LARGE + 1) if k != n])
        word = rng.choice(["bigger", "larger", "smaller"])
        best = min(n, m) if word == "smaller" else max(n, m)
        other = n + m - best
        return f"Which is {word}, {n} or {m}?", f"{best} is {word} than {other}.", str(best)
    if kind == 3:
        word = "odd" if n % 2 else "even"
        asked = rng.choice([f"Is {n} odd or even?", f"Is {n} even or odd?"])
        return asked, f"{n} is {word}.", capital(word)
    if kind == 4:
        start = rng.randint(0, 30)
        stop = start + rng.randint(2, 12)
        row = ", ".join(map(str, range(start, stop + 1)))
        return f"Count from {start} to {stop}.", row + ".", row
    if kind == 5:
        stop = rng.randint(3, 20)
        start = stop - rng.randint(2, min(stop, 10))
        row = ", ".join(map(str, range(stop, start - 1, -1)))
        return f"Count down from {stop} to {start}.", row + ".", row
    n = rng.randint(0, SMALL)
    if rng.random() < 0.5:
        return f"Write the number {n} as a word.", f"{capital(NUMBERS[n])}.", NUMBERS[n]
    return f"Write {NUMBERS[n]} as a number.", f"{n}.", str(n)


KINDS = [
    sum_question,
    difference_question,
    tale_question,
    number_question,
    product_question,
    three_addends_question,
]
WEIGHTS = [40, 28, 13, 13, 6, 4]


def question(rng):
    """A question, its answer and its brief answer."""
    return rng.choices(KINDS, WEIGHTS)[0](rng)


def column(rng):
    """Sums and differences as text without turns, one per line."""
    lines = []
    for _ in range(rng.randint(4, 12)):
        if rng.random() < 0.6:
            a, b = addends(rng)
            lines.append(f"{a} + {b} = {a + b}")
        else:
            a, b = minuend(rng)
            lines.append(f"{a} - {b} = {a - b}")
    return "\n".join(lines)


def held_out_sums():
    """Every held-out sum in every wording, with its answer."""
    cases = []
    for a, b in sorted(HELD_OUT_SUMS):
        for wording in SUM_WORDINGS:
            cases.append((wording.format(a=a, b=b), f"{a} + {b} = {a + b}."))
        cases.append(tale("Mia", a, b, "apples", True)[:2])
    return cases


def held_out_differences():
    """Every held-out difference in every wording, with its answer."""
    cases = []
    for a, b in sorted(HELD_OUT_DIFFERENCES):
        for wording in DIFFERENCE_WORDINGS:
            cases.append((wording.format(a=a, b=b), f"{a} - {b} = {a - b}."))
        cases.append(tale("Tom", a, b, "plums", False)[:2])
    return cases
