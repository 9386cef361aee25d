#!/usr/bin/env python3
"""Compare the default instruction set with each PELTON_ISA of this CPU, in turn.

Each round runs prefill (pp256) and decode (tg32) of each model with every set; the order alternates. Prints the
medians, and the default's over the best of the others. Appends one line of JSON for each run to RAW.

usage: sets.py RAW MODEL.gguf [...] [--rounds 3] [--sets avx2,avx512,avx512-vnni]
needs: cargo build --release
"""
import argparse
import json
import os
import statistics
import subprocess
from pathlib import Path

from compare import PELTON, positive

TESTS = {"pp256": ["-p", "256", "-n", "0"], "tg32": ["-p", "0", "-n", "32"]}


def run(model, isa, test, threads):
    """Tokens per second."""
    environment = {**os.environ, **({"PELTON_ISA": isa} if isa else {})}
    command = [PELTON, "bench", model, *TESTS[test], "-r", "1", "--device", "cpu", "--threads", threads, "-o", "json"]
    done = subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return json.loads(done.stdout)[0]["tokens_per_second"]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("raw", type=Path, metavar="RAW")
    ap.add_argument("models", nargs="+", metavar="MODEL.gguf")
    ap.add_argument("--rounds", type=positive, default=3, help="runs of each test (3)")
    ap.add_argument("--threads", type=positive, default=2, help="(2)")
    ap.add_argument("--sets", default="avx2,avx512,avx512-vnni",
                    help="values of PELTON_ISA (avx2,avx512,avx512-vnni)")
    a = ap.parse_args()
    sets = [None, *a.sets.split(",")]
    for model in a.models:
        found = {}
        for number in range(a.rounds):
            for isa in sets if number % 2 == 0 else sets[::-1]:
                for test in TESTS:
                    speed = run(model, isa, test, a.threads)
                    found.setdefault((test, isa), []).append(speed)
                    row = {"model": Path(model).stem, "round": number, "isa": isa, "test": test,
                           "tokens_per_second": speed}
                    with a.raw.open("a") as file:
                        file.write(json.dumps(row) + "\n")
        for test in TESTS:
            medians = {isa or "default": statistics.median(found[test, isa]) for isa in sets}
            best = max(speed for isa, speed in medians.items() if isa != "default")
            speeds = ", ".join(f"{isa} {speed:.1f}" for isa, speed in medians.items())
            print(f"{Path(model).stem} {test}: {speeds}; default over best {medians['default'] / best:.2f}", flush=True)


if __name__ == "__main__":
    main()
