#!/usr/bin/env python3
"""Compare the gain of a draft model with the gain that its acceptance and the times of passes predict.

The model has the shapes of TinyLlama 1.1B and random weights in Q4_0. All of its layers but the
first two add zeros, so that the two alone are a draft model of 0.22 B parameters with the same
logits; noise in their weights lowers the acceptance. With k drafted tokens a pass, of which the
fraction a is accepted, the predicted gain is (1 + k a) t(1) / (t(k + 1) + k d): t(r) is the time of
a decoding pass of r rows and d that of the draft model's for one row, both measured alone, in each
round before the gains.

usage: draft.py PELTON FOLDER [--run COMMAND] [--device DEVICE] [--noise F,...] [--rounds N]
                [--output FILE]
needs: pip install gguf numpy
"""
import argparse
import json
import shlex
import statistics
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
import models

SHAPE = models.SHAPES["tinyllama-1.1b"]
LAYERS = 2
KIND = "Q4_0"
DRAFTED = 4


def data_of(name, dims, kind, noise, silent):
    """The data of a tensor, the same for each file but for the noise."""
    if len(dims) == 1:
        return np.ones(dims, np.float32)
    seed = zlib.crc32(name.encode())
    data = models.random_matrix(np.random.default_rng(seed), *dims, kind)
    blocks = data.reshape(-1, 18)
    if silent:
        blocks[:, :2] = 0
    if noise > 0 and name.startswith("blk."):
        rng = np.random.default_rng(seed + 1)
        codes = blocks[:, 2:]
        changed = rng.random(codes.shape) < noise
        codes[changed] = rng.integers(0, 256, int(changed.sum()), dtype=np.uint8)
    return data


def write(path, layers, noise=0.0):
    def data(name, dims, kind):
        layer = int(name.split(".")[1]) if name.startswith("blk.") else 0
        adds = ".attn_output." in name or ".ffn_down." in name
        return data_of(name, dims, kind, noise, adds and layer >= LAYERS)

    models.write(path, SHAPE._replace(layers=layers), KIND, data)


def main():
    ap = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("pelton")
    ap.add_argument("folder", type=Path)
    ap.add_argument("--run", default="", help="a command before each measurement")
    ap.add_argument("--device", default="cpu")
    ap.add_argument("--noise", default="0,0.02,0.1,0.3")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--output", type=Path)
    a = ap.parse_args()
    a.folder.mkdir(parents=True, exist_ok=True)
    noises = [float(noise) for noise in a.noise.split(",")]
    model = a.folder / "layers-22.gguf"
    drafts = [a.folder / f"layers-2-noise-{noise}.gguf" for noise in noises]
    if not model.exists():
        write(model, SHAPE.layers)
    for path, noise in zip(drafts, noises):
        if not path.exists():
            write(path, LAYERS, noise)

    def bench(*arguments):
        command = [*shlex.split(a.run), a.pelton, "bench", *map(str, arguments), "--device",
                   a.device, "-o", "json", "-p", "16"]
        print(shlex.join(command), file=sys.stderr, flush=True)
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout)

    def passes(path, rows):
        """Seconds of a decoding pass of each number of rows."""
        results = bench(path, "--streams", ",".join(map(str, rows)), "-n", 48, "-r", 3)
        speeds = [result["decode_tokens_per_second"]["median"] for result in results]
        return [count / speed for count, speed in zip(rows, speeds)]

    rounds = []
    for _ in range(a.rounds):
        one, several = passes(model, [1, DRAFTED + 1])
        drafting, = passes(drafts[0], [1])
        runs = []
        for path, noise in zip(drafts, noises):
            result, = bench(model, "--speculation", "--speculate", "always", "--draft", path,
                            "-n", 96, "-r", 2)
            counts = result["drafts"]
            acceptance = counts["accepted"] / counts["drafted"]
            predicted = (1 + DRAFTED * acceptance) * one / (several + DRAFTED * drafting)
            runs.append({"noise": noise, **counts, "predicted": predicted,
                         "measured": result["ratio"]["median"]})
        times = {"1": one, str(DRAFTED + 1): several, "draft model": drafting}
        rounds.append({"seconds_of_a_pass": times, "runs": runs})
    data = {"backend": result["backend"], "threads": result["threads"], "rounds": rounds}
    if a.output:
        a.output.write_text(json.dumps(data, indent=1) + "\n")
    print("| noise | accepted of drafted | predicted gain | measured gain | measured over predicted |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for runs in zip(*(part["runs"] for part in rounds)):
        accepted, drafted = (sum(run[key] for run in runs) for key in ("accepted", "drafted"))
        print(f"| {runs[0]['noise']} | {accepted} of {drafted} "
              f"| {spread([run['predicted'] for run in runs])} "
              f"| {spread([run['measured'] for run in runs])} "
              f"| {spread([run['measured'] / run['predicted'] for run in runs])} |")


def spread(values):
    """The median and the range."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main()
