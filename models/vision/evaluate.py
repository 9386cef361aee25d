"""Evaluate the model on held-out pictures and wordings, with its weights rounded to Q8_0.

    python evaluate.py HF_DIR [--cases N]

An answer is correct if greedy decoding gives it to the character.  Writes HF_DIR/figures.json.
"""

import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import random

import data
import model as models
import numpy as np
import pictures
import questions
import tokens
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

PART = 50


def q8_0(weight):
    """Codes of Q8_0: blocks of 32 with a float16 scale and integers from -127 to 127, halves
    away from zero, as in ggml's quantize_row_q8_0_ref."""
    blocks = weight.reshape(-1, 32)
    scale = blocks.abs().amax(1, keepdim=True) / 127
    scaled = torch.where(scale > 0, blocks * (1 / scale), 0.0)
    return scaled.sign() * (scaled.abs() + 0.5).floor(), scale.half()


def round_to_q8_0(weight):
    codes, scale = q8_0(weight)
    return (codes * scale.float()).reshape(weight.shape)


def in_q8_0(name, weight):
    """Whether the GGUF files have a tensor in Q8_0."""
    return weight.dim() == 2 and "position_embedding" not in name


def loaded(hf_dir, rounded=True):
    tokenizer = Tokenizer.from_file(str(hf_dir / "tokenizer.json"))
    model = models.Seer(tokenizer.get_vocab_size(), tokenizer.token_to_id(tokens.IMAGE))
    weights = {
        name.removeprefix("model."): weight.float()
        for name, weight in load_file(hf_dir / "model.safetensors").items()
    }
    if rounded:
        weights = {n: round_to_q8_0(w) if in_q8_0(n, w) else w for n, w in weights.items()}
    model.load_state_dict(weights)
    return model.eval()


def case_of(rng, task, wordings, unseen=None):
    """A scene, and a question and its answer."""
    while True:
        scene = pictures.scene(rng, unseen=unseen)
        found = questions.question(rng, scene, wordings, task, varied=wordings is questions.TRAINED)
        if found:
            return scene, found[1], found[2]


def turns_of(rng, writer, test):
    """Two scenes and the turns of one case; the last turn is the one that counts."""
    kind, task, worded = test
    wordings = questions.HELD_OUT if worded == "held out" else questions.TRAINED
    image = writer.image()
    other = pictures.scene(rng)
    if kind == "second turn":
        scene, asked, answer = case_of(rng, task, wordings)
        _, before, answered = questions.question(rng, scene)
        return (scene, other), [([image, before], answered), ([asked], answer)]
    if kind == "no picture":
        _, asked, _ = case_of(rng, task, wordings)
        return (other, other), [([asked], questions.NO_PICTURE)]
    if kind == "another picture":
        scene, asked, answer = case_of(rng, task, wordings)
        _, before, answered = questions.question(rng, other)
        turns = [([writer.image(other=True), before], answered), ([image, asked], answer)]
        return (scene, other), turns
    if kind == "two pictures":
        at = rng.randrange(2)
        scenes = pictures.scene(rng), other
        _, asked, answer = questions.question(rng, scenes[1 - at], varied=False)
        asked = questions.ORDER[at] + asked[0].lower() + asked[1:]
        return scenes, [([writer.image(other=True), image, asked], answer)]
    unseen = kind if kind in ("number", "shape") else None
    scene, asked, answer = case_of(rng, task, wordings, unseen)
    return (scene, other), [([image, asked], answer)]


def part(job):
    """Arrays of PART cases of a test, and their words.  Pictures are pairs; the second has no row."""
    tokenizer_file, test, number = job
    writer = data.writer_of(tokenizer_file)
    rng = random.Random(f"test {data.SEED} {test} {number}")
    pixels = np.empty((PART, 2, pictures.TILE, pictures.TILE, 3), np.uint8)
    ids = np.zeros((PART, data.LENGTH), np.int64)
    marks = np.zeros((PART, data.LENGTH), np.uint8)
    words, at = [], 0
    while at < PART:
        scenes, turns = turns_of(rng, writer, test)
        *before, last = turns
        head, _ = writer.row(before)
        row, marked = writer.row(turns)
        if len(row) <= len(head):
            continue  # the conversation is too long
        pixels[at] = [pictures.tile(pictures.draw(scene, rng)) for scene in scenes]
        ids[at, : len(row)] = row
        marks[at, len(head) : len(row)] = marked[len(head) :]
        words.append((last[0][-1] if isinstance(last[0][-1], str) else last[0][0], last[1]))
        at += 1
    return test, pixels, ids, marks, words


TESTS = (
    [("one question", task, "trained") for task in questions.TRAINED]
    + [("one question", task, "held out") for task in questions.HELD_OUT]
    + [(kind, None, "trained") for kind in ("second turn", "another picture", "two pictures", "no picture")]
    + [("number", "number", "trained")]
    + [("shape", task, "trained") for task in ("colour_of", "exists", "describe")]
)


@torch.no_grad()
def found(model, pixels, ids, marks):
    """For each case: whether every token of the answer is the most probable, and those tokens."""
    device = next(model.parameters()).device
    pixels = torch.from_numpy(pixels).to(device).flatten(0, 1)
    ids = torch.from_numpy(ids).to(device)
    pairs = torch.stack([ids, torch.zeros_like(ids)], 1).flatten(0, 1)[:, None]
    best = model(pixels, pairs)[::2, 0, :-1].argmax(-1)
    marked = torch.from_numpy(marks).to(device)[:, 1:] > 0
    right = ((best == ids[:, 1:]) | ~marked).all(-1)
    return right.tolist(), [row[mark].tolist() for row, mark in zip(best, marked)]


def label(test):
    kind, task, worded = test
    return f"{kind}, {worded} wording" + (f": {task}" if task else "")


def score(model, pool, tokenizer_file, tests, cases, batch=4):
    """Accuracy by test, and some wrong answers."""
    tokenizer = Tokenizer.from_file(tokenizer_file)
    jobs = [(tokenizer_file, test, n) for test in tests for n in range(-(-cases // PART))]
    figures = collections.defaultdict(lambda: dict(cases=0, right=0, wrong=[]))
    waiting = []

    def flush():
        if not waiting:
            return
        arrays = [np.concatenate([entry[i] for entry in waiting]) for i in (1, 2, 3)]
        right, best = found(model, *arrays)
        names = [label(entry[0]) for entry in waiting for _ in range(PART)]
        words = [word for entry in waiting for word in entry[4]]
        for name, correct, tokens_of, (asked, answer) in zip(names, right, best, words):
            figure = figures[name]
            figure["cases"] += 1
            figure["right"] += correct
            if not correct and len(figure["wrong"]) < 8:
                got = tokenizer.decode(tokens_of, skip_special_tokens=True)
                figure["wrong"].append(dict(asked=asked, expected=answer, got=got))
        waiting.clear()

    for entry in pool.imap(part, jobs):
        waiting.append(entry)
        if len(waiting) == batch:
            flush()
    flush()
    for figure in figures.values():
        figure["share"] = round(figure["right"] / figure["cases"], 4)
    return dict(figures)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hf_dir", type=pathlib.Path)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--workers", type=int, default=max(1, os.cpu_count()))
    args = parser.parse_args()
    with multiprocessing.get_context("fork").Pool(args.workers) as pool:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.backends.cudnn.allow_tf32 = False
        model = loaded(args.hf_dir).to(device)
        file = str(args.hf_dir / "tokenizer.json")
        figures = score(model, pool, file, TESTS, args.cases)
    (args.hf_dir / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    for name, figure in figures.items():
        print(f"{100 * figure['share']:6.2f} %  {figure['cases']:5} {name}")
    for name, figure in figures.items():
        for wrong in figure["wrong"][:2]:
            print(f"{name}: {wrong}")


if __name__ == "__main__":
    main()
