"""SVG plots, light or dark as the reader's screen; `draw` shows speed ratios, a panel of rows for each test."""
import math
from dataclasses import dataclass
from html import escape

WIDTH, PANEL, LABELS, ROW = 920, 460, 200, 21
# ratios from LEAST to MOST cross REACH units of an axis in logarithms
LEAST, MOST, REACH = 0.75, 2.6, 150
TICKS = (1, 1.5, 2)

STYLE = """
svg { font: 12px system-ui, sans-serif; fill: #1f2328; background: #fff }
.machine { font-weight: 600; font-size: 14px }
.test, .speed, .tick { fill: #656d76 }
.grid { stroke: #d8dee4 }
.one { stroke: #656d76 }
.faster { fill: #0969da; stroke: #0969da }
.slower { fill: #bc4c00; stroke: #bc4c00 }
text.value { font-weight: 600; stroke: none }
line { stroke-width: 1 }
line.faster, line.slower { stroke-width: 2 }
@media (prefers-color-scheme: dark) {
  svg { fill: #e6edf3; background: #0d1117 }
  .test, .speed, .tick { fill: #9198a1 }
  .grid { stroke: #30363d }
  .one { stroke: #9198a1 }
  .faster { fill: #58a6ff; stroke: #58a6ff }
  .slower { fill: #ffa657; stroke: #ffa657 }
}"""


@dataclass
class Row:
    """A test of a model: tokens/s of Pelton, and how many times as fast as the other engine it is."""

    label: str
    speed: float
    ratio: float


def place(ratio):
    """The offset of a ratio on an axis."""
    return REACH * math.log(ratio / LEAST) / math.log(MOST / LEAST)


def text(x, y, content, name, anchor="start"):
    return f'<text class="{name}" x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(content)}</text>'


def line(x1, y1, x2, y2, name):
    return f'<line class="{name}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def document(width, height, parts, rules=""):
    """An SVG of elements, with the style of all plots and further rules."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    style = f"<style>{STYLE}\n{rules}</style>" if rules else f"<style>{STYLE}\n</style>"
    return "\n".join([head, style, *parts, "</svg>"]) + "\n"


def panel(left, top, test, rows):
    """The elements of a panel: the name of its test, an axis, and a row for each model."""
    axis, bottom = left + LABELS, top + 30 + ROW * len(rows)
    parts = [text(left, top + 12, test, "test"), text(left + PANEL - 16, top + 12, "tokens/s", "tick", "end")]
    for tick in TICKS:
        x = axis + place(tick)
        parts.append(line(x, top + 20, x, bottom, "one" if tick == 1 else "grid"))
        parts.append(text(x, top + 12, f"{tick:g}×", "tick", "middle"))
    for number, row in enumerate(rows):
        y, ratio = top + 34 + ROW * number, row.ratio
        name, x = "faster" if ratio >= 1 else "slower", axis + place(ratio)
        parts.append(text(axis - 8, y + 4, row.label, "label", "end"))
        parts.append(line(axis + place(1), y, x, y, name))
        parts.append(f'<circle class="{name}" cx="{x:.1f}" cy="{y}" r="4"/>')
        parts.append(text(max(x, axis + place(1)) + 9, y + 4, f"{ratio:.2f}", f"{name} value"))
        parts.append(text(left + PANEL - 16, y + 4, f"{row.speed:,.0f}", "speed", "end"))
    return parts


def draw(machines):
    """The SVG of `machines`: (name, [(test, rows), (test, rows)]) each, its two panels next to each other."""
    parts, top = [], 8
    for machine, panels in machines:
        parts.append(text(12, top + 16, machine, "machine"))
        for number, (test, rows) in enumerate(panels):
            parts += panel(12 + PANEL * number, top + 28, test, rows)
        top += 28 + 30 + ROW * max(len(rows) for _, rows in panels) + 18
    return document(WIDTH, top, parts)
