#!/usr/bin/env python3
"""Measure the gain of a head that predicts further tokens, at chosen rates of acceptance.

The model has the shapes of TinyLlama 1.1B, random weights in Q4_0 and one layer more, the head. All
layers add zeros, so that the next token depends on the newest alone; the head reads the same
embedding, so that its logits are the model's. Noise in the rows of its projection lowers the
acceptance. Every round pairs a plain text with one with drafts, which must be equal.

usage: head.py PELTON FOLDER [--device DEVICE] [--noise F,...] [--speculate auto|always]
               [--tokens N] [--rounds N] [--output FILE]
needs: pip install gguf numpy
"""
import argparse
import json
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Type

sys.path.insert(0, str(Path(__file__).parent.parent))
import models

LAYERS = 22
SHAPE = models.SHAPES["tinyllama-1.1b"]._replace(arch="glm4moe", layers=LAYERS + 1)
KIND = "Q4_0"


def tensors():
    for name, dims, kind in models.tensors(SHAPE, KIND):
        yield name.replace("ffn_norm", "post_attention_norm"), dims, kind
    nextn = f"blk.{LAYERS}.nextn."
    yield nextn + "eh_proj.weight", (SHAPE.hidden, 2 * SHAPE.hidden), Type[KIND]
    for norm in ("enorm", "hnorm", "shared_head_norm"):
        yield f"{nextn}{norm}.weight", (SHAPE.hidden,), Type.F32


def projection(noise):
    """The identity of the first half of the inputs, with random codes in a part of the rows."""
    rows, blocks = SHAPE.hidden, 2 * SHAPE.hidden // 32
    data = np.zeros((rows, blocks, 18), np.uint8)
    data[..., :2] = np.array([1.0], np.float16).view(np.uint8)
    data[..., 2:] = 0x88
    for row in range(rows):
        block, at = divmod(row, 32)
        low, high = (9, 8) if at < 16 else (8, 9)
        data[row, block, 2 + at % 16] = low | high << 4
    rng = np.random.default_rng(3)
    noisy = rng.random(rows) < noise
    data[noisy, :, 2:] = rng.integers(0, 256, (int(noisy.sum()), blocks, 16), dtype=np.uint8)
    data[noisy, :, :2] = np.array([0.004], np.float16).view(np.uint8)
    return data.reshape(rows, -1)


def write(path, noise):
    def data(name, dims, kind):
        if len(dims) == 1:
            return np.ones(dims, np.float32)
        if "eh_proj" in name:
            return projection(noise)
        seed = zlib.crc32(name.encode())
        values = models.random_matrix(np.random.default_rng(seed), *dims, kind)
        if ".attn_output." in name or ".ffn_down." in name:
            values.reshape(-1, 18)[:, :2] = 0
        return values

    models.write(path, SHAPE, KIND, data, tensors(), [("nextn_predict_layers", 1)])


def main():
    ap = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("pelton")
    ap.add_argument("folder", type=Path)
    ap.add_argument("--device", default="cpu")
    ap.add_argument("--noise", default="0,0.05,0.1,0.2,0.5,1")
    ap.add_argument("--speculate", default="auto", choices=["auto", "always"])
    ap.add_argument("--tokens", type=int, default=96)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--output", type=Path)
    a = ap.parse_args()
    a.folder.mkdir(parents=True, exist_ok=True)
    results = []
    print("| noise | accepted of drafted | plain tokens/s | with drafts | of plain (range) |")
    print("| ---: | ---: | ---: | ---: | ---: |", flush=True)
    for noise in map(float, a.noise.split(",")):
        path = a.folder / f"head-noise-{noise}.gguf"
        if not path.exists():
            write(path, noise)
        command = [a.pelton, "bench", path, "--speculation", "--draft", "mtp", "--device", a.device,
                   "--speculate", a.speculate, "-o", "json", "-p", 16, "-n", a.tokens, "-r", a.rounds]
        command = list(map(str, command))
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        result, = json.loads(done.stdout)
        results.append({"noise": noise, **result})
        drafts, ratio = result["drafts"], result["ratio"]
        speeds = [result[f"{kind}_tokens_per_second"]["median"] for kind in ("plain", "speculative")]
        print(f"| {noise} | {drafts['accepted']} of {drafts['drafted']} | {speeds[0]:.0f} "
              f"| {speeds[1]:.0f} | {ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f}) |",
              flush=True)
    if a.output:
        a.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
