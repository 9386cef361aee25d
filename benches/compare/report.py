#!/usr/bin/env python3
"""Print the tables and draw the plot of measurements by compare.py.

usage: report.py RAW.json [...] [-o PLOT.svg]
needs, for the plot: pip install matplotlib
"""
import argparse
import json
import statistics
from pathlib import Path


def counted(result):
    """Tokens per second of pelton and of llama.cpp in the valid pairs."""
    return [(p["pelton"]["tokens_per_second"], p["llama_cpp"]["tokens_per_second"])
            for p in result["pairs"] if not p["dropped"]]


def ratios(result):
    return [pelton / llama_cpp for pelton, llama_cpp in counted(result)]


def table_head():
    return ("| model | test | pelton tokens/s | llama.cpp tokens/s | ratio (range) | pairs, dropped |\n"
            "| --- | --- | ---: | ---: | ---: | ---: |")


def table_row(result):
    pairs = counted(result)
    dropped = len(result["pairs"]) - len(pairs)
    row = f"| {Path(result['model']).stem} | {result['test']} "
    if pairs:
        pelton, llama_cpp = map(statistics.median, zip(*pairs))
        each = ratios(result)
        row += (f"| {pelton:.1f} | {llama_cpp:.1f} | {statistics.median(each):.2f} "
                f"({min(each):.2f}–{max(each):.2f}) ")
    else:
        row += "| | | "
    return f"{row}| {len(pairs)}, {dropped} |"


def drawing():
    """The plotting module; exits if it is not installed."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise SystemExit("a plot needs matplotlib, which is not installed (pip install matplotlib)")
    return pyplot


def plot(results, path):
    """Draw a line per test from the smallest to the largest ratio and a dot per pair."""
    pyplot = drawing()
    results = [result for result in results if counted(result)]
    pyplot.switch_backend("agg")  # which needs no display
    figure, axes = pyplot.subplots(figsize=(8, 1.2 + 0.3 * len(results)), layout="constrained")
    for y, result in enumerate(results):
        each = ratios(result)
        colour = "tab:blue" if result["test"].startswith("tg") else "tab:orange"
        axes.plot([min(each), max(each)], [y, y], color=colour, alpha=0.4, linewidth=4)
        axes.plot(each, [y] * len(each), ".", color=colour, alpha=0.6)
        axes.plot(statistics.median(each), y, "|", color="black", markersize=12)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(range(len(results)),
                    [f"{Path(r['model']).stem} {r['test']}" for r in results])
    axes.invert_yaxis()
    axes.margins(y=0.1)
    axes.set_xlim(left=0)
    axes.set_xlabel("speed of pelton / speed of llama.cpp; a bar marks the median")
    axes.grid(axis="x", alpha=0.3)
    figure.savefig(path)


def main():
    ap = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("raw", type=Path, nargs="+")
    ap.add_argument("-o", "--output", type=Path)
    a = ap.parse_args()
    results = []
    for path in a.raw:
        try:
            results += json.loads(path.read_text())["results"]
        except OSError as error:
            ap.error(f"{path}: {error.strerror}")
        except (ValueError, LookupError, TypeError):
            ap.error(f"{path} is not raw data written by compare.py")
    print(table_head(), *map(table_row, results), sep="\n")
    if a.output:
        plot(results, a.output)


if __name__ == "__main__":
    main()
