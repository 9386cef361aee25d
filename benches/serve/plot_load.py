"""The plot of a load benchmark: a row of panels for each workload, a line for each server."""
import math
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from chart import document, line, text  # noqa: E402

PANEL_WIDTH, PANEL_HEIGHT, LEFT, TOP = 300, 190, 52, 40
COLORS = ("#0969da", "#bc4c00", "#1a7f37", "#8250df")


def p(name, quantile):
    return lambda point: None if point[name][quantile] is None else 1e3 * point[name][quantile]


PANELS = [
    ("good requests/s", [(lambda point: point["good_per_second"], "")], False),
    ("first token, ms: p50, p99 dashed", [(p("first_token_seconds", "p50"), ""),
                                          (p("first_token_seconds", "p99"), "5 3")], True),
    ("longest gap, ms: p50, p99 dashed", [(p("longest_gap_seconds", "p50"), ""),
                                          (p("longest_gap_seconds", "p99"), "5 3")], True),
]


def ticks(least, most, log):
    """Round numbers that an axis shows."""
    if log:
        first, last = math.floor(math.log10(least)), math.ceil(math.log10(most))
        return [factor * 10 ** power for power in range(first, last + 1) for factor in (1, 3)
                if least <= factor * 10 ** power <= most]
    step = 10 ** math.floor(math.log10(max(most, 1e-9)))
    step = next(size for size in (step / 5, step / 2, step, 2 * step) if most / size <= 6)
    return [step * number for number in range(int(most / step) + 1)]


def series(points, server, value):
    """(rate, median of the blocks) of a server."""
    rates = sorted({point["rate"] for point in points})
    found = []
    for rate in rates:
        values = [value(point) for point in points if point["server"] == server and point["rate"] == rate]
        values = [number for number in values if number is not None]
        if values:
            found.append((rate, statistics.median(values)))
    return found


def panel(left, top, title, points, servers, lines, log):
    """The elements of one panel."""
    drawn = [(number, dash, series(points, server, value))
             for number, server in enumerate(servers) for value, dash in lines]
    values = [value for *_, found in drawn for _, value in found] or [1]
    rates = [point["rate"] for point in points]
    least, most = (min(values) / 1.3, max(values) * 1.3) if log else (0, max(max(values) * 1.08, 1e-9))
    span = max(rates) - min(rates) or 1

    def x(rate):
        return left + LEFT + (PANEL_WIDTH - LEFT - 16) * (rate - min(rates)) / span

    def y(value):
        part = math.log(value / least) / math.log(most / least) if log else value / most
        return top + TOP + (PANEL_HEIGHT - TOP - 30) * (1 - part)

    parts = [text(left + LEFT, top + 24, title, "test")]
    for tick in ticks(least, most, log):
        parts += [line(left + LEFT, y(tick), left + PANEL_WIDTH - 16, y(tick), "grid"),
                  text(left + LEFT - 6, y(tick) + 4, f"{tick:,g}", "tick", "end")]
    for rate in sorted(set(rates)):
        parts.append(text(x(rate), top + PANEL_HEIGHT - 14, f"{rate:g}", "tick", "middle"))
    for number, dash, found in drawn:
        color = COLORS[number % len(COLORS)]
        dots = " ".join(f"{x(rate):.1f},{y(value):.1f}" for rate, value in found)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        parts.append(f'<polyline points="{dots}" fill="none" stroke="{color}" stroke-width="2"{dashed}/>')
        if not dash:
            parts += [f'<circle cx="{x(rate):.1f}" cy="{y(value):.1f}" r="3" fill="{color}"/>' for rate, value in found]
    return parts


def draw(result):
    """The SVG of raw data."""
    points = result["points"]
    servers = list(dict.fromkeys(point["server"] for point in points))
    workloads = list(dict.fromkeys(point["workload"] for point in points))
    parts = [text(12, 20, result.get("note") or "load", "machine")]
    for number, server in enumerate(servers):
        parts.append(f'<g fill="{COLORS[number % len(COLORS)]}">{text(12 + 140 * number, 40, server, "name")}</g>')
    for row, workload in enumerate(workloads):
        own = [point for point in points if point["workload"] == workload]
        top = 48 + row * (PANEL_HEIGHT + 20)
        parts.append(text(12, top + 12, f"{workload}, by requests/s", "machine"))
        for column, (title, lines, log) in enumerate(PANELS):
            parts += panel(column * PANEL_WIDTH, top, title, own, servers, lines, log)
    return document(3 * PANEL_WIDTH + 8, 48 + len(workloads) * (PANEL_HEIGHT + 20), parts)
