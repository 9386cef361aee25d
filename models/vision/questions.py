"""Questions about a scene, and their answers.

A task is a function of a scene that gives the words of a question and the answer, or None if the
scene does not suit it.  WORDINGS has its questions; those after "held out" are never trained.
"""

import collections

from pictures import COLOURS, PLACES, SHAPES

NUMBERS = ["None", "One", "Two", "Three", "Four", "Five", "Six"]
NO_PICTURE = "I see no picture."

WORDINGS = """
count_all
How many shapes are there?
How many shapes are in the picture?
How many shapes do you see?
How many shapes can you see?
Count the shapes.
Count all shapes.
What is the number of shapes?
How many shapes does the picture have?
Tell me how many shapes there are.
How many objects are there?
How many things are in the picture?
Can you count the shapes?
held out
How many shapes are there in this picture?
Please count all the shapes.

count_shape
How many {shapes} are there?
How many {shapes} are in the picture?
How many {shapes} do you see?
How many {shapes} can you see?
Count the {shapes}.
Count all {shapes}.
What is the number of {shapes}?
How many {shapes} does the picture have?
Tell me how many {shapes} there are.
How many of the shapes are {shapes}?
Can you count the {shapes}?
held out
How many {shapes} are there in this picture?
Please count all the {shapes}.

count_colour
How many {colour} shapes are there?
How many shapes are {colour}?
How many {colour} shapes do you see?
How many {colour} shapes can you see?
Count the {colour} shapes.
Count all {colour} shapes.
How many {colour} shapes are in the picture?
How many {colour} shapes does the picture have?
Tell me how many {colour} shapes there are.
How many of the shapes are {colour}?
How many {colour} objects are there?
held out
How many {colour} shapes are there in this picture?
Please count all the {colour} shapes.

colour_of
What colour is the {shape}?
Which colour is the {shape}?
What is the colour of the {shape}?
What colour does the {shape} have?
Which colour does the {shape} have?
Name the colour of the {shape}.
Tell me the colour of the {shape}.
The {shape} is what colour?
What is the {shape}'s colour?
Do you know the colour of the {shape}?
held out
Tell me what colour the {shape} is.
Which is the colour of the {shape}?

shape_of
What shape is {colour}?
Which shape is {colour}?
What is the {colour} shape?
Which shape is the {colour} one?
What shape is the {colour} one?
What {colour} shape is there?
What kind of shape is {colour}?
Name the {colour} shape.
Tell me which shape is {colour}.
What is {colour} in the picture?
What shape does the {colour} object have?
held out
Tell me what the {colour} shape is.
Which {colour} shape is there?

exists
Is there a {thing}?
Is there a {thing} in the picture?
Do you see a {thing}?
Can you see a {thing}?
Does the picture have a {thing}?
Does the picture show a {thing}?
Is a {thing} in the picture?
Are there any {things}?
Do you see any {things}?
Can you find a {thing}?
Tell me if there is a {thing}.
Is one of the shapes a {thing}?
held out
Can you see any {things}?
Is there any {thing} here?

position
Where is {the}?
Where is {the} in the picture?
Where do you see {the}?
Where can you see {the}?
In which part of the picture is {the}?
What is the position of {the}?
Where can I find {the}?
Where in the picture is {the}?
Tell me where {the} is.
What is the place of {the}?
held out
Tell me the position of {the}.
In which place is {the}?

at_position
What is {place}?
What is {place} of the picture?
What do you see {place}?
What can you see {place}?
Which shape is {place}?
What shape is {place}?
What is there {place}?
Tell me what is {place}.
Name the shape {place}.
What can I find {place}?
held out
Tell me what you see {place}.
Which shape can you see {place}?

relation
Is {the} {side} {other}?
Is {the} to be found {side} {other}?
Do you see {the} {side} {other}?
Can you see {the} {side} {other}?
Is it true that {the} is {side} {other}?
Tell me if {the} is {side} {other}.
Is {the} somewhere {side} {other}?
Would you say that {the} is {side} {other}?
held out
Is it right that {the} is {side} {other}?
Can you find {the} {side} {other}?

neighbour
What is {side} {the}?
What do you see {side} {the}?
What can you see {side} {the}?
Which shape is {side} {the}?
What shape is {side} {the}?
What is there {side} {the}?
Tell me what is {side} {the}.
Name the shape {side} {the}.
What can I find {side} {the}?
held out
Tell me what you see {side} {the}.
Which shape can you see {side} {the}?

size
How big is {the}?
What size is {the}?
What size does {the} have?
Is {the} big or small?
Is {the} small or big?
What is the size of {the}?
Which size does {the} have?
Tell me the size of {the}.
Tell me if {the} is big or small.
How large is {the}?
held out
Which size is {the}?
Tell me how big {the} is.

background
What colour is the background?
Which colour is the background?
What is the colour of the background?
What colour does the background have?
Which colour does the background have?
Name the colour of the background.
Tell me the colour of the background.
What is the background colour?
What colour is behind it?
The background is what colour?
held out
Tell me what colour the background is.
Which is the colour of the background?

describe
Describe the picture.
Describe this picture.
Describe the image.
What is in the picture?
What is in this picture?
What do you see?
What can you see?
What do you see in the picture?
What does the picture show?
What is shown in the picture?
Tell me what is in the picture.
Tell me what you see.
What is this?
What is in the image?
Describe what you see.
Please describe the picture.
held out
Please describe this image.
What can you see in this picture?

number
Which number is written?
What number is written?
Which number is this?
What number is this?
What is the number?
Which number do you see?
What number do you see?
Which number can you see?
Read the number.
Tell me the number.
What number is in the picture?
Which number does the picture show?
Can you read the number?
What does the number say?
What is written?
What is written in the picture?
held out
Tell me which number is written.
What number does this picture show?

number_colour
What colour is the number?
Which colour is the number?
What is the colour of the number?
What colour does the number have?
Which colour does the number have?
Name the colour of the number.
Tell me the colour of the number.
In which colour is the number written?
The number is what colour?
held out
Tell me what colour the number is.
Which is the colour of the number?

digits
How many digits does the number have?
How many digits are there?
How many digits do you see?
How many digits can you see?
How many digits are in the picture?
Count the digits.
What is the number of digits?
Tell me how many digits there are.
How many digits are written?
held out
How many digits are there in this picture?
Please count all the digits.
""".strip()

SMALL_TALK = [
    ("Hello.", "Hello! Show me a picture of shapes or of a number."),
    ("Hello!", "Hello! Show me a picture of shapes or of a number."),
    ("Hi.", "Hello! Show me a picture of shapes or of a number."),
    ("Good morning.", "Hello! Show me a picture of shapes or of a number."),
    ("Who are you?", "I am Pelton's picture model. Ask me about shapes, colours and numbers."),
    ("What are you?", "I am Pelton's picture model. Ask me about shapes, colours and numbers."),
    ("What can you do?", "I am Pelton's picture model. Ask me about shapes, colours and numbers."),
    ("Thank you.", "You are welcome."),
    ("Thanks!", "You are welcome."),
    ("Goodbye.", "Goodbye!"),
    ("Bye.", "Goodbye!"),
]
SYSTEMS = [
    "You are a helpful assistant.",
    "You are a friendly assistant.",
    "Answer briefly.",
    "You look at pictures.",
    "Answer questions about the picture.",
]
OPENINGS = ["In this picture: ", "Look at the picture. ", "Please tell me: ", "Question: ", "Hey, "]
ORDER = ["In the first picture: ", "In the second picture: "]
SIDES = {"left of": (-1, 0), "right of": (1, 0), "above": (0, -1), "below": (0, 1)}
SIDE_WORDS = {
    "left of": ["left of", "left of", "to the left of"],
    "right of": ["right of", "right of", "to the right of"],
    "above": ["above", "above", "over"],
    "below": ["below", "below", "under"],
}


def read_wordings():
    trained, held_out = {}, {}
    for block in WORDINGS.split("\n\n"):
        name, *questions = block.splitlines()
        border = questions.index("held out")
        trained[name], held_out[name] = questions[:border], questions[border + 1 :]
    return trained, held_out


TRAINED, HELD_OUT = read_wordings()


def plural(shape):
    return shape + ("es" if shape.endswith("s") else "s")


def article(noun):
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def named(shape):
    return f"{shape.colour} {shape.shape}"


def sentence(text):
    return text[0].upper() + text[1:] + "."


def joined(parts):
    return ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else parts[0]


def known(shapes, name):
    """The shapes whose name, of a kind of names, no other has."""
    counts = collections.Counter(map(name, shapes))
    return [shape for shape in shapes if counts[name(shape)] == 1]


def referred(rng, scene, shapes=None):
    """A shape of the scene and words that mean only it."""
    of_shape = known(scene.shapes, lambda s: s.shape)
    of_colour = known(scene.shapes, lambda s: s.colour)
    of_both = known(scene.shapes, named)
    found = [shape for shape in of_both if shapes is None or shape in shapes]
    if not found:
        return None
    shape = rng.choice(found)
    names = ["the " + named(shape)]
    names += ["the " + shape.shape] * 2 if shape in of_shape else []
    names += [f"the {shape.colour} shape"] if shape in of_colour else []
    return shape, rng.choice(names)


def count_all(rng, scene):
    return {}, NUMBERS[len(scene.shapes)] + "."


def count_shape(rng, scene):
    present = [shape.shape for shape in scene.shapes]
    kind = rng.choice(present) if present and rng.random() < 0.85 else rng.choice(SHAPES)
    return dict(shapes=plural(kind)), NUMBERS[present.count(kind)] + "."


def count_colour(rng, scene):
    present = [shape.colour for shape in scene.shapes]
    absent = [c for c in COLOURS if c != scene.background]
    colour = rng.choice(present) if present and rng.random() < 0.85 else rng.choice(absent)
    return dict(colour=colour), NUMBERS[present.count(colour)] + "."


def colour_of(rng, scene):
    found = known(scene.shapes, lambda s: s.shape)
    if found:
        shape = rng.choice(found)
        return dict(shape=shape.shape), sentence(shape.colour)


def shape_of(rng, scene):
    found = known(scene.shapes, lambda s: s.colour)
    if found:
        shape = rng.choice(found)
        return dict(colour=shape.colour), sentence(article(shape.shape))


def exists(rng, scene):
    kinds = {s.shape for s in scene.shapes}
    pairs = {named(s) for s in scene.shapes}
    colours = {s.colour for s in scene.shapes}
    if rng.random() < 0.5 or not scene.shapes:
        absent = [k for k in SHAPES if k not in kinds]
        yes = bool(kinds) and rng.random() < 0.5
        thing = rng.choice(sorted(kinds) if yes or not absent else absent)
        yes = thing in kinds
    else:
        yes = rng.random() < 0.5
        near = [f"{c} {k}" for c in COLOURS for k in SHAPES if (c in colours) != (k in kinds)]
        mixed = [f"{c} {k}" for c in colours for k in kinds]
        absent = [pair for pair in mixed if pair not in pairs] * 3 + near
        thing = rng.choice(sorted(pairs)) if yes else rng.choice(sorted(absent))
    return dict(thing=thing, things=plural(thing)), "Yes." if yes else "No."


def position(rng, scene):
    found = referred(rng, scene, [s for s in scene.shapes if s.place])
    if found:
        return dict(the=found[1]), sentence(found[0].place)


def at_position(rng, scene):
    occupied = {}
    for shape in scene.shapes:
        if shape.cell is None or shape.r > 0.2:
            return None
        occupied.setdefault(shape.cell, []).append(shape)
    alone = [cell for cell, shapes in occupied.items() if len(shapes) == 1]
    free = [(y, x) for y in range(3) for x in range(3) if (y, x) not in occupied]
    if not scene.shapes or not alone:
        return None
    row, column = rng.choice(alone if rng.random() < 0.75 else free)
    inside = occupied.get((row, column))
    answer = sentence(article(named(inside[0]))) if inside else "Nothing."
    return dict(place=PLACES[row][column]), answer


def beside(shape, other, side):
    """Whether a shape is on a side of another: True, False, or None if it is hard to say."""
    across, down = SIDES[side]
    distance = across * (shape.x - other.x) + down * (shape.y - other.y)
    return True if distance > 0.15 else False if distance < 0.03 else None


def relation(rng, scene):
    if len(scene.shapes) < 2:
        return None
    first = referred(rng, scene)
    second = first and referred(rng, scene, [s for s in scene.shapes if s is not first[0]])
    if not second:
        return None
    wanted = rng.random() < 0.5
    sides = [side for side in SIDES if beside(first[0], second[0], side) is wanted]
    if sides:
        side = rng.choice(SIDE_WORDS[rng.choice(sides)])
        return dict(the=first[1], other=second[1], side=side), "Yes." if wanted else "No."


def neighbour(rng, scene):
    """The only shape on a side of another, or nothing."""
    found = referred(rng, scene)
    if not found or len(scene.shapes) > 4 or len(scene.shapes) < 2:
        return None
    answers = {}
    for side in SIDES:
        placed = [(s, beside(s, found[0], side)) for s in scene.shapes if s is not found[0]]
        there = {named(shape) for shape, is_there in placed if is_there}
        if len(there) < 2 and None not in (is_there for _, is_there in placed):
            answers[side] = sentence(article(there.pop())) if there else "Nothing."
    some = [side for side, answer in answers.items() if answer != "Nothing."]
    if not answers:
        return None
    side = rng.choice(some if some and rng.random() < 0.8 else list(answers))
    return dict(the=found[1], side=rng.choice(SIDE_WORDS[side])), answers[side]


def size(rng, scene):
    found = referred(rng, scene, [s for s in scene.shapes if s.size])
    if found:
        return dict(the=found[1]), sentence(found[0].size)


def background(rng, scene):
    return {}, sentence(scene.background)


def describe(rng, scene):
    ground = f"on {article(scene.background)} background"
    if scene.number:
        return {}, sentence(f"the number {scene.number} in {scene.ink} {ground}")
    shapes = sorted(scene.shapes, key=lambda s: s.cell or (9, 9))
    if len(shapes) > 4:
        return {}, sentence(f"{NUMBERS[len(shapes)].lower()} shapes {ground}")
    if any(shape.cell is None for shape in shapes) or len({s.cell for s in shapes}) < len(shapes):
        return None
    if len(shapes) == 1 and shapes[0].size:
        one = shapes[0]
        return {}, sentence(f"{article(f'{one.size} {named(one)}')} {one.place} {ground}")
    if len(shapes) < 4:
        return {}, sentence(joined([f"{article(named(s))} {s.place}" for s in shapes]))
    counts = collections.Counter(map(named, shapes))
    parts = [
        article(name) if count == 1 else f"{NUMBERS[count].lower()} {plural(name)}"
        for name, count in counts.items()
    ]
    return {}, f"Four shapes: {joined(parts)}."


def number(rng, scene):
    return ({}, scene.number + ".") if scene.number else None


def number_colour(rng, scene):
    return ({}, sentence(scene.ink)) if scene.number else None


def digits(rng, scene):
    return ({}, NUMBERS[len(scene.number)] + ".") if scene.number else None


TASKS = [
    count_all, count_shape, count_colour, colour_of, shape_of, exists, position, at_position,
    relation, neighbour, size, background, describe, number, number_colour, digits,
]  # fmt: skip
OF_SHAPES = dict(
    count_all=2, count_shape=3, count_colour=2.5, colour_of=2, shape_of=2, exists=3, position=2.5,
    at_position=2.5, relation=5, neighbour=5, size=2, background=1, describe=3,
)  # fmt: skip
OF_NUMBER = dict(number=6, number_colour=2, digits=2, background=1, describe=2, exists=0.7, count_all=0.3)
FUNCTIONS = {task.__name__: task for task in TASKS}


def question(rng, scene, wordings=TRAINED, task=None, varied=True):
    """A task's name, a question and its answer; None if the scene does not suit the given task."""
    weights = OF_NUMBER if scene.number else OF_SHAPES
    name = task or rng.choices(list(weights), weights.values())[0]
    found = FUNCTIONS[name](rng, scene) if name in weights else None
    if found is None:
        return None if task else question(rng, scene, wordings, None, varied)
    words, answer = found
    text = rng.choice(wordings[name]).format(**words)
    for vowel in "aeiou":
        text = text.replace(f" a {vowel}", f" an {vowel}")
    return name, reworded(rng, text) if varied else text, answer


def reworded(rng, text):
    """Now and then with an opening, another spelling, in lower case or without its mark."""
    if rng.random() < 0.15:
        text = text.replace("colour", "color")
    if rng.random() < 0.15:
        opening = rng.choice(OPENINGS)
        text = opening + (text if opening.endswith(". ") else text[0].lower() + text[1:])
    if rng.random() < 0.08:
        text = text.lower()
    return text.rstrip("?.") if rng.random() < 0.08 else text
