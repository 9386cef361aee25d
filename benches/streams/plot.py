#!/usr/bin/env python3
"""Draw the results of `pelton bench --streams … -o json` against the number of streams.

The upper plot shows the decode tokens per second of all streams together, the lower one the 99th
percentile of the time between two tokens of a stream: medians, with the range of the repetitions.

usage: plot.py FILE.json [...] -o PLOT.png|svg
needs: pip install matplotlib
"""
import argparse
import json
from pathlib import Path

RATE = "decode_tokens_per_second"
TIME = "time_between_tokens_p99_ms"


def read(path):
    """The rows of a file by model, backend and test."""
    series = {}
    for row in json.loads(path.read_text()):
        for figure in (RATE, TIME):
            row[figure] = {key: float(row[figure][key]) for key in ("median", "min", "max")}
        name = f"{row['model']}, {row['backend']}, {row['test']}"
        series.setdefault(name, []).append(row | {"streams": int(row["streams"])})
    return series


def drawing():
    """The plotting module; exits if it is not installed."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise SystemExit("a plot needs matplotlib, which is not installed (pip install matplotlib)")
    return pyplot


def draw(axes, rows, figure, label):
    """A line of medians, and a band from the least to the greatest value."""
    rows = sorted(rows, key=lambda row: row["streams"])
    streams = [row["streams"] for row in rows]
    median, low, high = ([row[figure][key] for row in rows] for key in ("median", "min", "max"))
    line, = axes.plot(streams, median, ".-", label=label)
    axes.fill_between(streams, low, high, color=line.get_color(), alpha=0.2, linewidth=0)


def plot(series, path):
    pyplot = drawing()
    pyplot.switch_backend("agg")  # which needs no display
    figure, (rate, time) = pyplot.subplots(2, 1, sharex=True, figsize=(8, 7), layout="constrained")
    for label, rows in series:
        draw(rate, rows, RATE, label)
        draw(time, rows, TIME, label)
    streams = sorted({row["streams"] for _, rows in series for row in rows})
    rate.set_ylabel("decode tokens/s, all streams")
    time.set_ylabel("p99 time between tokens, ms")
    time.set_xlabel("streams; a line is the median of the repetitions, a band their range")
    for axes in (rate, time):
        axes.set_xscale("log", base=2)
        axes.set_xticks(streams, [str(n) for n in streams])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    rate.legend(fontsize="small")
    figure.savefig(path)


def main():
    ap = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("raw", type=Path, nargs="+")
    ap.add_argument("-o", "--output", type=Path, required=True)
    a = ap.parse_args()
    series = []
    for path in a.raw:
        try:
            # the same model in two files is two lines, such as two versions of pelton
            label = f"{path.stem}: " if len(a.raw) > 1 else ""
            series += [(label + name, rows) for name, rows in read(path).items()]
        except OSError as error:
            ap.error(f"{path}: {error.strerror}")
        except (ValueError, LookupError, TypeError, AttributeError):
            ap.error(f"{path} is no result of pelton bench --streams … -o json")
    if not series:
        ap.error("the files have no results")
    plot(series, a.output)


if __name__ == "__main__":
    main()
