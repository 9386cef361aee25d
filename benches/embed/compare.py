#!/usr/bin/env python3
"""Embeddings in pelton and in ONNX Runtime, the same weights, texts and threads, in turn.

Each pair embeds TEXTS texts of LENGTH tokens (with [CLS] and [SEP]) in both programs, which have
loaded the model before. Prints texts/s of both and their ratio, median and range over the pairs,
and the greatest difference of the embeddings.

usage: compare.py PELTON FOLDER [--texts 64] [--length 128] [--threads 2] [--pairs 5]
                  [--quantize q8_0] [--json]
  PELTON  a release binary
  FOLDER  written by make.py
needs: pip install numpy onnxruntime
"""
import argparse
import json
import platform
import statistics
import subprocess
import time
from pathlib import Path

import numpy as np
import onnxruntime


def texts_of(count, length):
    """Texts of `length - 2` single-letter words, a token each, and their ids."""
    rng = np.random.default_rng(1)
    letters = rng.integers(0, 26, (count, length - 2))
    texts = [" ".join(chr(97 + c) for c in row) for row in letters]
    ids = np.full((count, length), 3, np.int64)
    ids[:, 0] = 2
    ids[:, 1:-1] = letters + 5
    return texts, ids


def pelton(a, texts):
    """The embeddings, and the seconds that they took after the load."""
    command = [a.pelton, "embed", a.folder, "-", "--threads", str(a.threads), "--pooling", "mean",
               "--json", "--device", "cpu"]
    if a.quantize:
        command += ["--quantize", a.quantize]
    out = subprocess.run(command, input="\n".join(texts), capture_output=True, text=True,
                         check=True).stdout
    answer = json.loads(out)
    return np.array([e["embedding"] for e in answer["data"]]), answer["seconds"]


def cpu():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(": ", 1)[1]
    return platform.processor()


def main():
    ap = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("pelton")
    ap.add_argument("folder")
    ap.add_argument("--texts", type=int, default=64)
    ap.add_argument("--length", type=int, default=128)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--pairs", type=int, default=5)
    ap.add_argument("--quantize", help="convert Pelton's weights at load")
    ap.add_argument("--json", action="store_true")
    a = ap.parse_args()
    texts, ids = texts_of(a.texts, a.length)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = a.threads
    session = onnxruntime.InferenceSession(str(Path(a.folder) / "model.onnx"), options,
                                           providers=["CPUExecutionProvider"])
    session.run(None, {"input_ids": ids[:2]})
    pairs, difference = [], 0.0
    for _ in range(a.pairs):
        start = time.perf_counter()
        theirs = session.run(None, {"input_ids": ids})[0]
        onnx_seconds = time.perf_counter() - start
        ours, seconds = pelton(a, texts)
        difference = max(difference, float(np.abs(ours - theirs).max()))
        pairs.append({"pelton": a.texts / seconds, "onnxruntime": a.texts / onnx_seconds,
                      "ratio": onnx_seconds / seconds})
    ratios = sorted(pair["ratio"] for pair in pairs)
    result = {"cpu": cpu(), "threads": a.threads, "texts": a.texts, "length": a.length,
              "weights": a.quantize or "f32", "onnxruntime": onnxruntime.__version__, "pairs": pairs,
              "ratio": statistics.median(ratios), "difference": difference}
    if a.json:
        print(json.dumps(result, indent=1))
        return
    print(f"{result['cpu']}, {a.threads} threads, {a.texts} texts of {a.length} tokens")
    for pair in pairs:
        print(f"pelton {pair['pelton']:7.1f} texts/s   ONNX Runtime {pair['onnxruntime']:7.1f}"
              f"   ratio {pair['ratio']:.2f}")
    print(f"median ratio {result['ratio']:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}), "
          f"greatest difference {difference:.1e}")


if __name__ == "__main__":
    main()
