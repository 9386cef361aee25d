#!/usr/bin/env python3
"""Compare greedy answers of quantized files here and in llama.cpp: files made here and by llama.cpp, in both engines.

The questions are ones that the built-in model answers. For a text that differs, the raw data has the difference of the
two likeliest tokens' log-probabilities in llama.cpp at the first token that differs: where it is small, both engines are
right within their rounding.

usage: greedy.py PELTON LLAMA_BIN SDIST FOLDER -o RAW.json [--types TYPE ...] [--threads 1]
needs: pip install gguf numpy typing_extensions jinja2 diskcache; LLAMA_BIN is the folder that build.sh fills, SDIST the
       unpacked sdist of llama-cpp-python
"""
import argparse
import json
import os
import sys
from pathlib import Path

import built_in
import machine

TOKENS = 40
TYPES = ["q8_0", "q6_k", "q5_k_m", "q5_0", "q4_k_m", "q4_0", "iq4_nl", "iq4_xs", "q3_k_m", "q2_k"]
QUESTIONS = [
    *(f"What is {a} + {b}?" for a, b in [(3, 4), (2, 9), (7, 8), (6, 6), (1, 12)]),
    *(f"What is {a} - {b}?" for a, b in [(9, 4), (15, 7), (12, 11)]),
    *(f"What is the capital of {name}?" for name in ["France", "Japan", "Norway", "Cuba", "Greece"]),
    *(f"What is the opposite of {word}?" for word in ["hot", "clean", "slow"]),
    *(f"What color is {name}?" for name in ["snow", "grass", "coal"]),
    *(f"Which day comes after {name}?" for name in ["Monday", "Friday"]),
    *(f"How many legs does {name} have?" for name in ["a spider", "a dog"]),
    "What is a baby cat called?",
]


def here(a, file):
    """The answers of Pelton, with the numbers of the tokens of prompts and answers."""
    asked = a.folder / "questions.txt"
    asked.write_text("".join(f"{question}\n" for question in QUESTIONS))
    text = built_in.checked([a.pelton, "run", file, "--prompts", asked, "--temperature", 0, "-n", TOKENS, "--device", "cpu",
                             "-t", a.threads, "--json"])
    answers = [json.loads(line) for line in text.splitlines() if line.strip()]
    if len(answers) != len(QUESTIONS):
        raise SystemExit(f"{len(QUESTIONS)} questions, {len(answers)} answers")
    return [(answer["text"], answer["generated_tokens"], answer["prompt_tokens"]) for answer in answers]


class LlamaCpp:
    """A file in llama-cpp-python, on the library of the build."""

    def __init__(self, file, threads):
        from llama_cpp import Llama

        self.model = Llama(str(file), n_ctx=256, n_threads=threads, n_threads_batch=threads, verbose=False)

    def answer(self, question):
        """The greedy text, the number of the prompt's tokens, and for each token of the text and its end the place of its
        first byte and the distance from the second likeliest."""
        prompt = f"<|begin|><|user|>{question}<|end|><|assistant|>"
        tokens = self.model.tokenize(prompt.encode(), add_bos=False, special=True)
        length = len(tokens)
        self.model.reset()
        text, places = b"", []
        while len(places) < TOKENS:
            self.model.eval(tokens)
            scores = self.row()
            second, best = scores.argsort()[-2:]
            places.append((len(text), round(float(scores[best] - scores[second]), 4)))
            if best == self.model.token_eos():
                break
            tokens = [int(best)]
            text += self.model.detokenize(tokens, special=False)
        return text.decode(errors="replace"), length, places

    def row(self):
        """The logits of the newest token."""
        import numpy as np

        pointer = self.model._ctx.get_logits()
        return np.ctypeslib.as_array(pointer, shape=(self.model.n_vocab(),)).astype(np.float64)


def compared(a, file):
    """How many answers are equal, and those that are not."""
    model, equal, different, least = LlamaCpp(file, a.threads), 0, [], None
    for question, (text, count, prompt) in zip(QUESTIONS, here(a, file)):
        theirs, length, places = model.answer(question)
        if prompt != length:
            raise SystemExit(f"{question}: {prompt} tokens here, {length} in llama.cpp")
        least = min([least or places[0][1], *(distance for _, distance in places)])
        if (text, count) == (theirs, len(places)):
            equal += 1
            continue
        ours, other = text.encode(), theirs.encode()
        same = next((i for i, (x, y) in enumerate(zip(ours, other)) if x != y), min(len(ours), len(other)))
        at = max(i for i, (place, _) in enumerate(places) if place <= same)
        different.append({"question": question, "pelton": [text, count], "llama_cpp": [theirs, len(places)],
                          "distance_at_difference": places[at][1]})
    return {"equal": equal, "of": len(QUESTIONS), "least_distance": least, "different": different}


def main():
    ap = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("pelton", type=Path)
    ap.add_argument("llama", type=Path)
    ap.add_argument("sdist", type=Path)
    ap.add_argument("folder", type=Path)
    ap.add_argument("-o", "--out", type=Path, required=True)
    ap.add_argument("--types", nargs="+", default=TYPES)
    ap.add_argument("--threads", type=int, default=1)
    a = ap.parse_args()
    os.environ["LLAMA_CPP_LIB_PATH"] = str(a.llama)
    sys.path.insert(0, str(a.sdist))
    a.folder.mkdir(parents=True, exist_ok=True)
    base, ours, theirs = (a.folder / f"{name}.gguf" for name in ("base", "ours", "theirs"))
    built_in.dequantized(base)
    raw = machine.about(pelton=built_in.checked([a.pelton, "--version"]).strip(), llama_cpp="PyPI llama-cpp-python 0.3.36",
                        tokens=TOKENS, questions=QUESTIONS, results=[])
    for kind in a.types:
        built_in.checked([a.pelton, "quantize", base, ours, kind, "--force"])
        built_in.checked([sys.executable, Path(__file__).with_name("llama_quantize.py"), a.llama, a.sdist, base, theirs, kind, 2])
        result = {"type": kind, "file_of_pelton": compared(a, ours), "file_of_llama_cpp": compared(a, theirs)}
        raw["results"].append(result)
        print(kind, *((of, result[of]["equal"], result[of]["least_distance"]) for of in result if of != "type"), flush=True)
        a.out.write_text(json.dumps(raw, indent=1) + "\n")


if __name__ == "__main__":
    main()
