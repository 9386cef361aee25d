#!/usr/bin/env python3
"""Predicted and measured decode speed of models, side by side.

usage: measure.py [--pelton PATH] [--device D] [--tokens N] [--rounds N] [-o FILE] MODEL[=OPTION OPTION...]...

The options of a model are those of a placement, such as "30b.gguf=--host-experts 48". A round measures the rates of
the devices again, predicts the speed, and runs the model: a shared machine is not equally fast all the time. Ratios
are those of a round, and their median is printed.
"""
import argparse
import json
import platform
import statistics
import subprocess
from datetime import date
from pathlib import Path


def output(*words):
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)


def machine():
    """The CPU as Linux names it."""
    try:
        fields = (line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
        info = {name.strip(): value.strip() for name, value in fields}
        return f"{info['model name']}, family {info['cpu family']}, model {info['model']}"
    except (OSError, KeyError):
        return platform.processor() or platform.machine()


def rounds(args, model, options):
    device = ["--device", args.device, *options]
    context = str(args.tokens)
    for _ in range(args.rounds):
        placement = output(args.pelton, "inspect", model, "--placement", "--json", "--measure",
                           "--context", context, *device)
        bench = output(args.pelton, "bench", model, "-p", "0", "-n", context, "-r", "3", "-o", "json", *device)
        predicted = placement["prediction"]
        measured = next(test for test in bench if test["test"].startswith("tg"))
        yield {"predicted": predicted, "measured": measured}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pelton", default="target/release/pelton")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", "--output")
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    found = {"date": str(date.today()), "machine": machine(), "device": args.device, "tokens": args.tokens, "models": []}
    print("| model | predicted, tokens/s | measured | ratio (range) |\n| --- | ---: | ---: | ---: |")
    for text in args.models:
        model, _, options = text.partition("=")
        runs = list(rounds(args, model, options.split()))
        found["models"].append({"model": Path(model).stem, "options": options, "rounds": runs})
        if any(run["predicted"] is None for run in runs):
            print(f"| {Path(model).stem} {options} | none: rates of a device are not known | | |", flush=True)
            continue
        pairs = [(run["predicted"]["tokens_per_second"], run["measured"]["tokens_per_second"]) for run in runs]
        ratios = [predicted / measured for predicted, measured in pairs]
        predicted, measured = (statistics.median(values) for values in zip(*pairs))
        print(f"| {Path(model).stem} {options} | {predicted:.1f} | {measured:.1f} | "
              f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f}) |", flush=True)
        if args.output:
            Path(args.output).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
