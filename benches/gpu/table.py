#!/usr/bin/env python3
"""Print Markdown tables of run.sh's results: speed, speed at a depth, profile of each model.

usage: table.py OUT
"""
import json
import lzma
import sys
from pathlib import Path

LLAMA_CPP = Path(__file__).with_name("llama-cpp.json")


def read(folder, name):
    """The contents of a file, perhaps a packed one, or an empty object if there is none."""
    path, packed = folder / f"{name}.json", folder / f"{name}.json.xz"
    if packed.exists():
        return json.loads(lzma.decompress(packed.read_bytes()))
    return json.loads(path.read_text()) if path.exists() else {}


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |")


def head(*names):
    """A table's head: the first column is text, the others are numbers."""
    row(*names)
    row("---", *["---:"] * (len(names) - 1))


def by_test(outcomes):
    return {outcome["test"]: outcome for outcome in outcomes}


def spread(outcome):
    return f"{outcome['tokens_per_second']:,.0f} ± {outcome['deviation']:,.0f}" if outcome else "-"


def ratio(outcome, other):
    return f"{outcome['tokens_per_second'] / other:.2f}" if outcome and other else "-"


def print_speeds(bench, llama_cpp):
    tests = ["pp512", "tg128"]
    head("model", *[name for test in tests for name in (test, "llama.cpp CUDA", "ratio")])
    for model, outcomes in bench.items():
        outcomes, others = by_test(outcomes), llama_cpp.get(model, {})
        cells = []
        for test in tests:
            ours, other = outcomes.get(test), others.get(test)
            cells += [spread(ours), f"{other:,}" if other else "-", ratio(ours, other)]
        row(model, *cells)


def print_depths(bench, depth):
    head("model", "test", "tokens/s", "relative to depth 0")
    for model, outcomes in depth.items():
        for outcome in outcomes:
            test = outcome["test"]
            start = by_test(bench.get(model, [])).get(test.split(" @ ")[0])
            share = outcome["tokens_per_second"] / start["tokens_per_second"] if start else None
            row(model, test, spread(outcome), f"{100 * share:.0f} %" if share else "-")


def print_profile(name, profile):
    bandwidth = profile["read_bandwidth"]
    kinds = {}
    for step in profile["steps"]:
        kinds.setdefault(step["kind"], []).append(step)

    def line(kind, count, microseconds, steps):
        total = {key: sum(step[key] for step in steps)
                 for key in ("bytes", "dispatches", "dependent_dispatches")}
        rate = total["bytes"] / max(microseconds, 1e-6) * 1e6
        row(kind, count, f"{microseconds:.1f}", f"{microseconds / count:.2f}",
            f"{total['bytes'] / 1e6:.2f}", f"{rate / 1e9:,.0f}",
            f"{100 * rate / bandwidth:.0f} %" if bandwidth else "-",
            f"{total['dispatches']} ({total['dependent_dispatches']})")

    print(f"\n{name}, one token at depth {profile['depth']} on {profile['backend']}\n")
    head("kind", "steps", "µs", "µs each", "MB read", "GB/s", "of bandwidth",
         "dispatches (dependent)")
    for kind, steps in kinds.items():
        line(kind, len(steps), sum(step["microseconds"] for step in steps), steps)
    steps = profile["steps"]
    line("sum of steps", len(steps), profile["sum"]["microseconds"], steps)
    line("whole pass", len(steps), profile["pass_microseconds"], steps)
    layer = [step for step in steps if step["layer"] == 0]
    print(f"\nper layer: {sum(step['dispatches'] for step in layer)} dispatches, "
          f"{sum(step['dependent_dispatches'] for step in layer)} of them dependent; "
          f"recording on the CPU: {profile['recording_microseconds']:.0f} µs per token")
    if bandwidth:
        print(f"bandwidth of a read-only kernel: {bandwidth / 1e9:,.0f} GB/s")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    folder = Path(sys.argv[1])
    for device in read(folder, "devices"):
        print(f"{device['device']}: {device['name']}, {device['interface']}, {device['driver']}")
    bench, depth = read(folder, "bench"), read(folder, "depth")
    reference = json.loads(LLAMA_CPP.read_text())
    if bench:
        print()
        print_speeds(bench, reference["models"])
        print(f"\ntokens/s; llama.cpp: {reference['source']}")
    if depth:
        print()
        print_depths(bench, depth)
    for name, profile in read(folder, "profile").items():
        print_profile(name, profile)


if __name__ == "__main__":
    main()
