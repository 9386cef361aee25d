#!/usr/bin/env python3
"""Draw curves.svg from quality-*.json and formats-*.json: divergence by the bytes that a token reads.

usage: python3 benches/effort/curves.py
"""
import json
import math
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import chart  # noqa: E402

MODELS = {"built-in-Q8_0": "built-in model, 7 million parameters", "42M-Q8_0": "42 million parameters"}
# the forms that are shown, in the order of the document, with the names of their lines
LINES = {"nested": "nested", "bucket": "bucket"}
WIDTH, PANEL, PLOT, HEIGHT = 920, 460, 270, 260
LEFT, TOP = 56, 46
MOST_BYTES, LEAST_BYTES = 1.8, 0.3
LEAST_KL, MOST_KL = 1e-4, 10


def x(share):
    """Bytes fall from left to right, in logarithms."""
    return PLOT * math.log(MOST_BYTES / share) / math.log(MOST_BYTES / LEAST_BYTES)


def y(divergence):
    return HEIGHT * (1 - math.log(divergence / LEAST_KL) / math.log(MOST_KL / LEAST_KL))


def lines_of(model):
    """The points (bytes, KL) of each line; bytes are those of a token as a part of Q8_0's."""
    rows = json.loads((HERE / f"quality-{model}.json").read_text())
    formats = json.loads((HERE / f"formats-{model}.json").read_text())
    dense = max(row["bytes"] for row in rows if row["mode"] == "whole")
    point = lambda row: (row["bytes"] / dense, row["base"]["kl_divergence"]["mean"]["value"])
    for mode, label in LINES.items():
        of = [r for r in rows if (r["mode"], r["protocol"]) == (mode, "all") and r["dial"] < 1]
        if of:
            yield label, [point(row) for row in of]
    yield "converted files", [point(row) for row in formats]


def apart(wanted, gap=14):
    """Places of labels near `wanted`, each at least `gap` below the one before."""
    placed = []
    for place in sorted(wanted):
        placed.append(max(place, placed[-1] + gap) if placed else place)
    return dict(zip(sorted(wanted), placed))


def panel(left, model, name):
    """The elements of a model's chart; each line's name is next to its right end."""
    parts = [chart.text(left - LEFT + 12, 16, name, "machine"),
             chart.text(left - LEFT + 12, 34, "KL divergence in nats", "test")]
    for power in range(-4, 2):
        at = TOP + y(10.0**power)
        parts += [chart.line(left, at, left + PLOT, at, "grid"),
                  chart.text(left - 8, at + 4, f"{10.0**power:g}", "tick", "end")]
    for share in (1.5, 1, 0.75, 0.5, 0.4):
        parts.append(chart.text(left + x(share), TOP + HEIGHT + 18, f"{share:g}", "tick", "middle"))
    parts.append(chart.text(left + PLOT / 2, TOP + HEIGHT + 36, "bytes a token reads, of Q8_0's", "test", "middle"))
    lines = {label: sorted(points, reverse=True) for label, points in lines_of(model)}
    places = apart([y(points[-1][1]) for points in lines.values()])
    for number, (label, points) in enumerate(lines.items()):
        at = [(left + x(share), TOP + y(divergence)) for share, divergence in points]
        name = f"line{number}" if label != "converted files" else "files"
        path = "L".join(f"{px:.1f} {py:.1f}" for px, py in at)
        parts.append(f'<path class="{name}" d="M{path}"/>')
        parts += [f'<circle class="{name}" cx="{px:.1f}" cy="{py:.1f}" r="2.5"/>' for px, py in at]
        parts.append(chart.text(left + PLOT + 10, TOP + places[y(points[-1][1])] + 4, label, f"{name} label"))
    return parts


COLOURS = {  # of a light and of a dark screen
    "line0": ("#0969da", "#58a6ff"),
    "line1": ("#8250df", "#bc8cff"),
    "line2": ("#1a7f37", "#3fb950"),
    "line3": ("#9a6700", "#d29922"),
    "line4": ("#bf3989", "#f778ba"),
    "files": ("#656d76", "#9198a1"),
}


def style(dark):
    rules = (f".{name} {{ stroke: {both[dark]}; fill: {both[dark]} }}" for name, both in COLOURS.items())
    return "\n".join(rules)


def main():
    parts = [element for number, (model, name) in enumerate(MODELS.items())
             for element in panel(LEFT + PANEL * number, model, name)]
    rules = (f"{style(0)}\npath {{ fill: none !important; stroke-width: 1.6 }}\ntext.label {{ stroke: none }}\n"
             f".files {{ stroke-dasharray: 3 3 }}\n@media (prefers-color-scheme: dark) {{\n{style(1)}\n}}")
    (HERE / "curves.svg").write_text(chart.document(WIDTH, TOP + HEIGHT + 48, parts, rules))


if __name__ == "__main__":
    main()
