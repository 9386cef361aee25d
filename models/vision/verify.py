"""Compare the model with transformers, and make the samples.

    python verify.py HF_DIR [--cases N] [--samples FOLDER]

`Idefics3ForConditionalGeneration` answers held-out questions greedily.  Its answers and logits
must be those of `model.py`.  Writes HF_DIR/answers.json; with --samples also pictures in PNG and
their answers, from weights rounded to Q8_0.
"""

import argparse
import json
import pathlib
import random

import data
import evaluate
import pictures
import questions
import tokens
import torch
from tokenizers import Tokenizer
from transformers import Idefics3ForConditionalGeneration

MOST_BYTES = 4096
LONGEST = 48


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

    def inputs(self, image, asked):
        ids, _ = self.writer.row([([self.writer.image(), asked], "")])
        pixels = torch.from_numpy(pictures.tile(image).copy())
        values = ((pixels.float() / 255 - 0.5) / 0.5).permute(2, 0, 1)[None, None]
        return dict(input_ids=torch.tensor([ids[:-1]]), pixel_values=values), pixels

    @torch.no_grad()
    def answer(self, inputs):
        ids = self.model.generate(
            **inputs,
            attention_mask=torch.ones_like(inputs["input_ids"]),
            max_new_tokens=LONGEST,
            do_sample=False,
            pad_token_id=self.tokenizer.token_to_id(tokens.END),
        )
        return self.tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :].tolist())


@torch.no_grad()
def difference(reader, own, inputs, pixels):
    """The greatest difference of logits between the two programs."""
    ids = inputs["input_ids"]
    theirs = reader.model(**inputs, attention_mask=torch.ones_like(ids)).logits[0]
    pair = torch.stack([ids, torch.zeros_like(ids)])
    return (theirs - own(torch.stack([pixels, pixels]), pair)[0, 0]).abs().max().item()


def write_samples(hf_dir, folder, count=16):
    reader, chosen, number = Reader(hf_dir, rounded=True), [], 10_000
    folder.mkdir(parents=True, exist_ok=True)
    while len(chosen) < count:
        image, task, asked, answer = held_out(number)
        number += 1
        path = folder / f"{len(chosen):02}-{task.replace('_', '-')}.png"
        image.save(path, optimize=True)
        got = reader.answer(reader.inputs(image, asked)[0])
        if path.stat().st_size > MOST_BYTES or got != answer:
            path.unlink()
            number += len(questions.TRAINED) - 1 if number < 11_000 else 0
            continue
        described = reader.answer(reader.inputs(image, "Describe the picture.")[0])
        chosen.append(dict(file=path.name, asked=asked, answer=got, described=described))
    (folder / "answers.json").write_text(json.dumps(chosen, indent=1) + "\n")


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
        inputs, pixels = reader.inputs(image, asked)
        most = max(most, difference(reader, own, inputs, pixels))
        got = reader.answer(inputs)
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
