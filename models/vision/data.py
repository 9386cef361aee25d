"""Pictures with conversations about them, as arrays: made by processes, kept on the device.

A picture has ROWS conversations.  Pictures come in pairs: a conversation with two pictures is
about both of a pair.
"""

import collections
import functools
import random

import numpy as np
import pictures
import questions
import tokens
from tokenizers import Tokenizer

SEED = 2026
LENGTH = 128
ROWS = 6
PICTURES = 256
EASY = 300  # the first shards have few shapes
OTHER = 65535  # the token of an image that is the other picture of the pair


class Writer:
    """Conversations as tokens, and which of them are answers."""

    def __init__(self, tokenizer_file):
        tokenizer = Tokenizer.from_file(str(tokenizer_file))
        self.id = {name: tokenizer.token_to_id(name) for name in tokens.SPECIALS}

        @functools.lru_cache(maxsize=200_000)
        def encode(text):
            return tokenizer.encode(text, add_special_tokens=False).ids

        self.encode = encode

    def image(self, other=False):
        marks = [self.id[tokens.FAKE], self.id[tokens.GLOBAL]]
        one = OTHER if other else self.id[tokens.IMAGE]
        return [*marks, *[one] * tokens.IMAGE_TOKENS, marks[0]]

    def turn(self, parts, answer):
        """Tokens and marks of a question, of texts and lists of tokens, and its answer."""
        asked = [self.id[tokens.USER]]
        for part in parts:
            asked += self.encode(part) if isinstance(part, str) else part
        asked += [self.id[tokens.END], self.id[tokens.ASSISTANT]]
        answered = [*self.encode(answer), self.id[tokens.END]]
        return asked + answered, [0] * len(asked) + [1] * len(answered)

    def row(self, turns, system=None):
        """A conversation, without the turns that are too many."""
        ids = [self.id[tokens.BEGIN]]
        if system:
            ids += [self.id[tokens.SYSTEM], *self.encode(system), self.id[tokens.END]]
        marks = [0] * len(ids)
        for parts, answer in turns:
            more, marked = self.turn(parts, answer)
            if len(ids) + len(more) > LENGTH:
                break
            ids, marks = ids + more, marks + marked
        return ids, marks


def conversation(rng, writer, scene, other):
    """The turns of a conversation about a picture, and now and then about another before it."""
    kind = rng.random()
    ask = functools.partial(questions.question, rng)
    if kind < 0.03:
        asked, answer = rng.choice(questions.SMALL_TALK)
        return [([asked], answer)]
    if kind < 0.06:
        return [([ask(scene)[1]], questions.NO_PICTURE) for _ in range(rng.randint(1, 2))]
    image = writer.image()
    if kind < 0.13:
        _, before, answered = ask(other)
        _, asked, answer = ask(scene)
        return [([writer.image(other=True), before], answered), ([image, asked], answer)]
    if kind < 0.18:
        at = rng.randrange(2)
        _, asked, answer = ask([other, scene][at], varied=False)
        asked = questions.ORDER[at] + asked[0].lower() + asked[1:]
        return [([writer.image(other=True), image, asked], answer)]
    turns = []
    for at in range(rng.choices([1, 2, 3, 4], [50, 20, 15, 15])[0]):
        _, asked, answer = ask(scene)
        parts = [image, asked] if at == 0 and rng.random() < 0.85 else [asked, image]
        turns.append((parts if at == 0 else [asked], answer))
    if rng.random() < 0.05:
        turns.append((["Thank you."], "You are welcome."))
    return turns


@functools.lru_cache(maxsize=1)
def writer_of(tokenizer_file):
    return Writer(tokenizer_file)


def shard(job):
    """Pixels, tokens and marks of PICTURES pictures."""
    tokenizer_file, name, easy = job
    writer = writer_of(tokenizer_file)
    rng = random.Random(f"{SEED} {name}")
    scenes = [pictures.scene(rng, easy) for _ in range(PICTURES)]
    pixels = np.stack([pictures.tile(pictures.draw(scene, rng)) for scene in scenes])
    ids = np.zeros((PICTURES, ROWS, LENGTH), np.uint16)
    marks = np.zeros((PICTURES, ROWS, LENGTH), np.uint8)
    for at, scene in enumerate(scenes):
        for row in range(ROWS):
            turns = conversation(rng, writer, scene, scenes[at ^ 1])
            system = rng.choice(questions.SYSTEMS) if rng.random() < 0.1 else None
            tokens_of, marks_of = writer.row(turns, system)
            ids[at, row, : len(tokens_of)] = tokens_of
            marks[at, row, : len(marks_of)] = marks_of
    return pixels, ids, marks


class Store:
    """Pictures on the device, the oldest replaced when there is no room."""

    def __init__(self, pool, tokenizer_file, room, device, ahead):
        import torch

        self.torch, self.pool, self.file = torch, pool, str(tokenizer_file)
        self.room = room // PICTURES * PICTURES
        self.device = device
        self.pixels = torch.empty(
            (self.room, pictures.TILE, pictures.TILE, 3), dtype=torch.uint8, device=device
        )
        self.ids = torch.empty((self.room, ROWS, LENGTH), dtype=torch.int32, device=device)
        self.marks = torch.empty((self.room, ROWS, LENGTH), dtype=torch.uint8, device=device)
        self.drawn, self.asked = 0, 0
        self.pending = collections.deque()
        for _ in range(ahead):
            self.ask()

    def ask(self):
        job = (self.file, self.asked, self.asked < EASY)
        self.pending.append(self.pool.apply_async(shard, [job]))
        self.asked += 1

    def fill(self, most, wait=False):
        """Takes up to `most` finished shards."""
        for _ in range(most):
            if not wait and not self.pending[0].ready():
                return
            arrays = self.pending.popleft().get(timeout=120)
            self.ask()
            at = self.drawn % self.room
            for kept, new in zip((self.pixels, self.ids, self.marks), arrays):
                new = self.torch.from_numpy(new.astype(np.int32) if new.dtype == np.uint16 else new)
                kept[at : at + PICTURES].copy_(new)
            self.drawn += PICTURES

    def batch(self, count, rows):
        """Random pairs of pictures, and some conversations about each."""
        torch = self.torch
        filled = min(self.drawn, self.room)
        pairs = torch.randint(filled // 2, (count // 2,), device=self.device) * 2
        chosen = torch.stack([pairs, pairs + 1], 1).flatten()
        row = torch.rand(count, ROWS, device=self.device).argsort(1)[:, :rows]
        ids = self.ids[chosen[:, None], row].long()
        marks = self.marks[chosen[:, None], row]
        return self.pixels[chosen], ids, marks
