"""Compare the model with transformers, and make the samples.

    python verify.py HF_DIR [--cases N] [--samples FOLDER]

`Idefics3ForConditionalGeneration` answers held-out questions greedily.  Its answers and logits
must be those of `model.py`.  Writes HF_DIR/answers.json; with --samples also pictures in PNG and
their answers, from weights rounded to Q8_0.  A sample's file is small, and each token of its
answers is clearly the most probable.  Whether the answers are right does not matter.
"""

import argparse
import itertools
import json
import pathlib
import random

import data
import evaluate
import numpy as np
import pictures
import questions
import tokens
import torch
from tokenizers import Tokenizer
from transformers import Idefics3ForConditionalGeneration

MOST_BYTES = 4096
LONGEST = 48
SAMPLES = 6 * len(questions.TRAINED)
CLEAR = 0.5  # between the logits of the most probable token and the next
DESCRIBE = "Describe the picture."


def held_out(number):
    """A picture, a question and the answer of a number."""
    rng = random.Random(f"verify {data.SEED} {number}")
    task = list(questions.TRAINED)[number % len(questions.TRAINED)]
    scene, asked, answer = evaluate.case_of(rng, task, questions.TRAINED)
    return pictures.draw(scene, rng), task, asked, answer


class Reader:
    """transformers' model, given pixels and tokens as its processor gives them."""

    def __init__(self, hf_dir, rounded):
        self.tokenizer = Tokenizer.from_file(str(hf_dir / "tokenizer.json"))
        self.writer = data.Writer(hf_dir / "tokenizer.json")
        self.model = Idefics3ForConditionalGeneration.from_pretrained(hf_dir, dtype=torch.float32)
        self.model.eval()
        if rounded:
            with torch.no_grad():
                for name, weight in self.model.named_parameters():
                    if evaluate.in_q8_0(name, weight):
                        weight.copy_(evaluate.round_to_q8_0(weight))

    def inputs(self, images, *asked, answered=()):
        """Tokens and pixels of turns; the first has all images but the last, which has the last
        if there are several turns."""
        places = [[self.writer.image()] * len(images)] + [[] for _ in asked[1:]]
        if len(asked) > 1:
            places[-1].append(places[0].pop())
        turns = [([*at, text], answer) for at, text, answer in zip(places, asked, [*answered, ""])]
        ids, _ = self.writer.row(turns)
        pixels = np.stack([pictures.tile(image) for image in images]) if images else None
        inputs = dict(input_ids=torch.tensor([ids[:-1]]))
        if images:
            values = (torch.from_numpy(pixels).float() / 255 - 0.5) / 0.5
            inputs["pixel_values"] = values.permute(0, 3, 1, 2)[None]
        return inputs, pixels

    @torch.no_grad()
    def answer(self, inputs):
        """The greedy answer, and the least distance from a token's logit to the next one's."""
        found = self.model.generate(
            **inputs,
            attention_mask=torch.ones_like(inputs["input_ids"]),
            max_new_tokens=LONGEST,
            do_sample=False,
            pad_token_id=self.tokenizer.token_to_id(tokens.END),
            return_dict_in_generate=True,
            output_logits=True,
        )
        ids = found.sequences[0, inputs["input_ids"].shape[1] :].tolist()
        best = torch.cat(found.logits).topk(2).values
        return self.tokenizer.decode(ids), (best[:, 0] - best[:, 1]).min().item()


@torch.no_grad()
def difference(reader, own, inputs, pixels):
    """The greatest difference of logits between the two programs."""
    ids = inputs["input_ids"]
    theirs = reader.model(**inputs, attention_mask=torch.ones_like(ids)).logits[0]
    pair = torch.stack([ids, torch.zeros_like(ids)])
    pixels = torch.from_numpy(np.concatenate([pixels, pixels]))
    return (theirs - own(pixels, pair)[0, 0]).abs().max().item()


def sample(reader, folder, at, number):
    """A picture's entry, or None if its file is large or an answer is unclear."""
    image, task, asked, expected = held_out(number)
    path = folder / f"{at:02}-{task.replace('_', '-')}.png"
    image.save(path, optimize=True)
    if path.stat().st_size <= MOST_BYTES:
        answer, margin = reader.answer(reader.inputs([image], asked)[0])
        described, other = reader.answer(reader.inputs([image], DESCRIBE)[0])
        if min(margin, other) >= CLEAR:
            texts = dict(asked=asked, expected=expected, answer=answer, described=described)
            return image, dict(file=path.name, task=task) | texts
    path.unlink()
    return None


def write_samples(hf_dir, folder):
    reader, chosen = Reader(hf_dir, rounded=True), []
    folder.mkdir(parents=True, exist_ok=True)
    tasks = len(questions.TRAINED)
    numbers = [itertools.count(160_000 + task, tasks) for task in range(tasks)]
    for at in range(SAMPLES):
        found = (sample(reader, folder, at, number) for number in numbers[at % tasks])
        chosen.append(next(entry for entry in found if entry))
    pairs, chats, texts = [], [], []
    for (first, one), (second, other) in zip(chosen[:32:2], chosen[1:32:2]):
        files = [one["file"], other["file"]]
        asked = questions.ORDER[len(pairs) % 2] + "describe the picture."
        answer, margin = reader.answer(reader.inputs([first, second], asked)[0])
        if margin >= CLEAR:
            pairs.append(dict(files=files, asked=asked, answer=answer))
        turns = reader.inputs(
            [first, second], one["asked"], other["asked"], answered=[one["answer"]]
        )
        answer, margin = reader.answer(turns[0])
        if margin >= CLEAR:
            turns = dict(asked=[one["asked"], other["asked"]], answers=[one["answer"], answer])
            chats.append(dict(files=files) | turns)
        for asked in (one["asked"], DESCRIBE, "Hello.")[: 1 if texts else 3]:
            answer, margin = reader.answer(reader.inputs([], asked)[0])
            if margin >= CLEAR:
                texts.append(dict(asked=asked, answer=answer))
    entries = [entry for _, entry in chosen]
    answers = dict(pictures=entries, pairs=pairs, chats=chats, texts=texts)
    (folder / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")
    right = sum(entry["answer"] == entry["expected"] for entry in entries)
    size = sum(path.stat().st_size for path in folder.glob("*.png"))
    print(f"{right} of {len(entries)} samples are right; {size} bytes of pictures")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hf_dir", type=pathlib.Path)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--samples", type=pathlib.Path)
    args = parser.parse_args()
    reader, own = Reader(args.hf_dir, False), evaluate.loaded(args.hf_dir, rounded=False)
    entries, most = [], 0.0
    for number in range(args.cases):
        image, task, asked, expected = held_out(number)
        inputs, pixels = reader.inputs([image], asked)
        most = max(most, difference(reader, own, inputs, pixels))
        got, _ = reader.answer(inputs)
        entries.append(dict(number=number, task=task, asked=asked, expected=expected, got=got))
    (args.hf_dir / "answers.json").write_text(json.dumps(entries, indent=1) + "\n")
    right = sum(entry["got"] == entry["expected"] for entry in entries)
    print(f"{right} of {len(entries)} answers are right; logits differ by {most:.2e} at most")
    if most > 1e-3:
        raise SystemExit("transformers has other logits than model.py")
    if args.samples:
        write_samples(args.hf_dir, args.samples)


if __name__ == "__main__":
    main()
