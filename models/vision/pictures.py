"""Pictures of shapes or of a number, drawn from a seed, and their resize to the model's tile.

`scene(rng)` decides what a picture has, `draw(scene, rng)` is the picture at its own size, and
`tile(picture)` is what the image processor of Idefics3 makes of it.
"""

import dataclasses
import functools
import math

import numpy as np
from PIL import Image, ImageDraw, ImageFont

TILE = 96
SHAPES = ["circle", "square", "triangle", "star", "heart", "cross"]
COLOURS = {
    "red": [(255, 0, 0), (220, 40, 40), (200, 20, 40)],
    "orange": [(255, 165, 0), (255, 140, 0), (240, 130, 30)],
    "yellow": [(255, 255, 0), (250, 220, 40), (255, 235, 90)],
    "green": [(0, 128, 0), (0, 200, 0), (60, 170, 80), (0, 255, 0)],
    "blue": [(0, 0, 255), (40, 90, 220), (60, 130, 240)],
    "purple": [(128, 0, 128), (140, 60, 180), (150, 40, 200)],
    "black": [(0, 0, 0), (30, 30, 30)],
    "white": [(255, 255, 255), (240, 240, 240)],
    "grey": [(128, 128, 128), (105, 105, 105), (160, 160, 160)],
}
# Never drawn for the training: numbers, and shapes in a colour.
UNSEEN_NUMBERS = ["17", "38", "64", "92"]
UNSEEN_SHAPES = [("purple", "star"), ("green", "heart"), ("orange", "square")]
PLACES = [
    ["at the top left", "at the top", "at the top right"],
    ["on the left", "in the middle", "on the right"],
    ["at the bottom left", "at the bottom", "at the bottom right"],
]
SMALL, BIG = (0.075, 0.095), (0.125, 0.16)


@dataclasses.dataclass
class Shape:
    """A shape with its centre in parts of the sides and its radius in parts of the shorter one."""

    shape: str
    colour: str
    x: float
    y: float
    r: float

    @property
    def size(self):
        return "small" if self.r <= SMALL[1] else "big" if self.r >= BIG[0] else None

    @property
    def cell(self):
        """Row and column of the thirds that have the centre; None near a border of thirds."""
        if min(abs(at - border) for at in (self.x, self.y) for border in (1 / 3, 2 / 3)) < 0.06:
            return None
        return min(2, int(self.y * 3)), min(2, int(self.x * 3))

    @property
    def place(self):
        return self.cell and PLACES[self.cell[0]][self.cell[1]]


@dataclasses.dataclass
class Scene:
    background: str
    width: int
    height: int
    shapes: list
    number: str = ""
    ink: str = ""


def scene(rng, easy=False, unseen=None):
    """What a picture has.  `unseen` is "number" or "shape": it has one of the untrained ones."""
    area = math.exp(rng.uniform(math.log(80), math.log(480)))
    aspect = math.exp(rng.uniform(-0.34, 0.34)) if rng.random() < 0.7 else 1.0
    width, height = (min(512, max(64, round(area * f))) for f in (aspect**0.5, aspect**-0.5))
    plain = rng.random() < 0.55
    background = rng.choice(["white", "white", "black", "grey"] if plain else list(COLOURS))
    colours = [colour for colour in COLOURS if colour != background]
    picture = Scene(background, width, height, [])
    if unseen == "number" or (unseen is None and rng.random() < 0.25):
        picture.ink = rng.choice(colours)
        trained = [str(n) for n in range(100) if str(n) not in UNSEEN_NUMBERS]
        one_digit = unseen is None and rng.random() < 0.3
        numbers = trained[:10] if one_digit else trained[10:]
        picture.number = rng.choice(UNSEEN_NUMBERS if unseen else numbers)
        return picture
    count = rng.choices(range(1, 7), [8, 6, 4, 2, 1, 0] if easy else [20, 24, 20, 14, 12, 10])[0]
    kinds = rng.sample(SHAPES, rng.randint(1, min(count, 4)))
    colours = rng.sample(colours, rng.randint(1, min(count, 4)))
    pairs = [(c, s) for c in colours for s in kinds if (c, s) not in UNSEEN_SHAPES]
    if unseen:
        pairs = pairs or [(rng.choice(["red", "blue"]), kinds[0])]
    chosen = [rng.choice(pairs) for _ in range(count)] if pairs else [("red", "circle")] * count
    if background in {colour for colour, _ in chosen}:
        picture.background = "white" if background != "white" else "black"
    if unseen:
        chosen[0] = rng.choice(UNSEEN_SHAPES)
        picture.background = rng.choice(["white", "black"])
        chosen = [pair for pair in chosen if pair[0] != picture.background]
    put(rng, picture, chosen)
    return picture


def put(rng, picture, chosen):
    """Places shapes apart from each other: in thirds of the picture, or anywhere if few."""
    if len(chosen) <= 2 and rng.random() < 0.6:
        # Half extents of a shape in parts of each side.
        short = min(picture.width, picture.height)
        spread = short / picture.width, short / picture.height
        most = 0.4 if len(chosen) == 1 else 0.22
        for colour, shape in chosen:
            for _ in range(30):
                r = rng.choice([rng.uniform(*SMALL), rng.uniform(*BIG), rng.uniform(BIG[0], most)])
                x, y = (rng.uniform(r * s + 0.01, 1 - r * s - 0.01) for s in spread)
                apart = all(
                    abs(x - o.x) > (r + o.r) * spread[0] + 0.03
                    or abs(y - o.y) > (r + o.r) * spread[1] + 0.03
                    for o in picture.shapes
                )
                if apart:
                    picture.shapes.append(Shape(shape, colour, x, y, r))
                    break
        return
    cells = rng.sample(range(9), len(chosen))
    for (colour, shape), cell in zip(chosen, cells):
        r = rng.uniform(*rng.choice([SMALL, BIG]))
        free = max(0.0, min(0.07, 1 / 6 - r - 0.005))
        x, y = ((at + 0.5) / 3 + rng.uniform(-free, free) for at in (cell % 3, cell // 3))
        picture.shapes.append(Shape(shape, colour, x, y, r))


def ink(rng, colour):
    """A tone of a colour: between two of its tones, and a little beside."""
    first, second, part = rng.choice(COLOURS[colour]), rng.choice(COLOURS[colour]), rng.random()
    if rng.random() < 0.3:
        return first
    mixed = (a + (b - a) * part + rng.uniform(-6, 6) for a, b in zip(first, second))
    return tuple(min(255, max(0, round(value))) for value in mixed)


def turned(points, angle):
    cos, sin = math.cos(angle), math.sin(angle)
    return [(x * cos - y * sin, x * sin + y * cos) for x, y in points]


def outline(shape):
    """The corners of a shape in a circle of radius 1."""
    if shape == "square":
        return [(-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8)]
    if shape == "triangle":
        return [(0, -1), (0.92, 0.75), (-0.92, 0.75)]
    if shape == "star":
        corners = ((1 if i % 2 == 0 else 0.42, i * math.pi / 5) for i in range(10))
        return [(r * math.sin(a), -r * math.cos(a)) for r, a in corners]
    if shape == "cross":
        a, b = 0.3, 0.95
        corner = [(-a, -a), (-a, -b), (a, -b), (a, -a), (b, -a), (b, a)]
        return corner + [(-x, -y) for x, y in corner]
    turns = [i * math.pi / 20 for i in range(40)]
    if shape == "circle":
        return [(0.95 * math.cos(t), 0.95 * math.sin(t)) for t in turns]
    heart = [
        (16 * math.sin(t) ** 3, 13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t))
        for t in turns
    ]
    return [(x / 17, -(y + 2.5) / 16) for x, y in heart]


OUTLINES = {shape: outline(shape) for shape in SHAPES}
SIX = (
    "9,1 6,0 3,1 1,3 0,6 1,8 3,10 6,10 9,9 10,7 9,5 6,4 3,4 1,6"
)
# Strokes of the digits in a box of 10 by 10.
STROKES = [
    "5,0 2,1 0,4 0,6 2,9 5,10 8,9 10,6 10,4 8,1 5,0",
    "2,2 6,0 6,10",
    "0,2 1,1 4,0 7,0 9,1 10,3 9,5 0,10 10,10",
    "0,1 3,0 7,0 9,1 9,4 7,5 4,5;7,5 10,6 10,8 7,10 3,10 0,9",
    "7,10 7,0 0,7 10,7",
    "9,0 1,0 0,5 4,4 7,4 10,6 10,8 7,10 3,10 0,9",
    SIX,
    "0,0 10,0 4,10",
    "5,5 2,4 1,2 3,0 7,0 9,2 8,4 5,5 1,6 0,8 3,10 7,10 10,8 9,6 5,5",
    " ".join(f"{10 - int(x)},{10 - int(y)}" for x, y in (p.split(",") for p in SIX.split())),
]
SEGMENTS = ["0,0 10,0", "10,0 10,5", "10,5 10,10", "0,10 10,10", "0,5 0,10", "0,0 0,5", "0,5 10,5"]
LIT = ["012345", "12", "01346", "01236", "1256", "02356", "023456", "012", "0123456", "012356"]


@functools.cache
def lines(digit, style):
    """The strokes of a digit: lists of points in a box of side 1."""
    parts = STROKES[digit].split(";") if style == "strokes" else [SEGMENTS[int(i)] for i in LIT[digit]]
    return [[tuple(int(v) / 10 for v in p.split(",")) for p in part.split()] for part in parts]


def write(rng, pen, text, colour, width, height):
    style = rng.choice(["strokes", "segments", "font", "font"])
    if style == "font":
        size = height * rng.uniform(0.3, 0.85)
        box = pen.textbbox((0, 0), text, font=ImageFont.load_default(size))
        size *= min(1.0, 0.9 * width / (box[2] - box[0]), 0.9 * height / (box[3] - box[1]))
        font = ImageFont.load_default(size)
        box = pen.textbbox((0, 0), text, font=font)
        x, y = rng.uniform(0, width - box[2] + box[0]), rng.uniform(0, height - box[3] + box[1])
        pen.text((x - box[0], y - box[1]), text, fill=colour, font=font)
        return
    h = height * rng.uniform(0.25, 0.7)
    w = h * rng.uniform(0.45, 0.65)
    gap = w * rng.uniform(0.35, 0.55)
    line = h * rng.uniform(0.1, 0.17)
    total = len(text) * w + (len(text) - 1) * gap + line
    shrink = min(1.0, 0.95 * width / total)
    h, w, gap, line, total = (v * shrink for v in (h, w, gap, line, total))
    slant = rng.uniform(-0.1, 0.2) * w
    x = rng.uniform(0, max(0.0, width - total)) + line / 2
    y = rng.uniform(0, max(0.0, height - h - line)) + line / 2
    for digit in text:
        for points in lines(int(digit), style):
            at = [(x + px * w + slant * (0.5 - py), y + py * h) for px, py in points]
            pen.line(at, fill=colour, width=max(1, round(line)), joint="curve")
            for px, py in at:
                pen.ellipse((px - line / 2, py - line / 2, px + line / 2, py + line / 2), fill=colour)
        x += w + gap


def draw(picture, rng):
    """The picture in RGB at its own size."""
    width, height = picture.width, picture.height
    fine = 2 if max(width, height) <= 256 and rng.random() < 0.6 else 1
    image = Image.new("RGB", (width * fine, height * fine), ink(rng, picture.background))
    pen = ImageDraw.Draw(image)
    short = min(width, height) * fine
    # All shapes of one colour have one tone in most pictures.
    tones = {shape.colour: ink(rng, shape.colour) for shape in picture.shapes}
    if picture.number:
        write(rng, pen, picture.number, ink(rng, picture.ink), width * fine, height * fine)
    for shape in picture.shapes:
        points = turned(OUTLINES[shape.shape], rng.uniform(-0.25, 0.25))
        x, y, r = shape.x * width * fine, shape.y * height * fine, shape.r * short
        tone = tones[shape.colour] if rng.random() < 0.9 else ink(rng, shape.colour)
        pen.polygon([(x + r * px, y + r * py) for px, py in points], fill=tone)
    if fine > 1:
        image = image.reduce(fine)
    return Image.fromarray(textured(np.asarray(image), rng)) if rng.random() < 0.4 else image


def textured(pixels, rng):
    """Noise, a change of brightness across the picture, or both."""
    height, width, _ = pixels.shape
    style = rng.choice(["noise", "gradient", "both"])
    change = np.zeros((height, width, 1), np.int16)
    if style != "noise":
        ramp = np.linspace(0, rng.uniform(-22, 22), width if rng.random() < 0.5 else height)
        ramp = ramp.astype(np.int16)
        change += ramp[None, :, None] if len(ramp) == width else ramp[:, None, None]
    if style != "gradient":
        noise = np.random.default_rng(rng.getrandbits(32))
        most = rng.randint(4, 22)
        grain = noise.integers(-most, most + 1, (height, width, rng.choice([1, 3])), np.int8)
        change = change + grain
    return (pixels + change).clip(0, 255).astype(np.uint8)


def tile(image):
    """The image processor of Idefics3 without normalization, for one tile: u8, rows first."""
    width, height = image.size
    if width >= height:
        size = TILE, int(TILE / (width / height))
        size = TILE, max(1, size[1] + size[1] % 2)
    else:
        size = int(TILE * (width / height)), TILE
        size = max(1, size[0] + size[0] % 2), TILE
    image = image.resize(size, Image.Resampling.LANCZOS)
    return np.asarray(image.resize((TILE, TILE), Image.Resampling.LANCZOS))
