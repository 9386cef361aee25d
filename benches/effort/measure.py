"""Measure what effort costs in quality and gains in speed, and plot both.

    python benches/effort/measure.py text OUT.txt [SEED]                  # stories and facts, a new seed
    python benches/effort/measure.py quality PELTON MODEL TEXT OUT.json   # KL, perplexity, top token
    python benches/effort/measure.py modes PELTON MODEL TEXT OTHER OUT.json  # KL of tables and modes, the
                                                                          # tables calibrated on OTHER
    python benches/effort/measure.py speed PELTON MODEL OUT.json          # tokens/s, efforts in turn
    python benches/effort/measure.py plot                                 # curves.svg from *.json here

Quality is measured by `pelton perplexity` against the saved logits of the same model at effort 1, with
every token read at the effort (all) or with the first half of each window read at 1 (answers).
"""

import json
import math
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
EFFORTS = [1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.35, 0.3, 0.25, 0.2]


def run(*args):
    return json.loads(subprocess.run([str(a) for a in args], check=True, capture_output=True).stdout)


def text(out, seed="effort 2026"):
    sys.path.insert(0, str(HERE.parents[1] / "models/tiny"))
    import corpus

    rng = random.Random(seed)
    documents = [rng.choice([corpus.story, corpus.plain_facts])(rng) for _ in range(120)]
    plain = [d.removeprefix(corpus.BEGIN).removesuffix(corpus.END) for d in documents]
    pathlib.Path(out).write_text("\n\n".join(plain) + "\n")


def quality(pelton, model, text, out):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        base = pathlib.Path(folder) / "base.kld"
        common = [pelton, "perplexity", model, text, "--json", "--device", "cpu"]
        windows = ["--context", 256, "--windows", 12]
        run(*common, *windows, "--save-base", base)
        for effort in EFFORTS:
            for name, more in (("all", []), ("answers", ["--dense-context"])):
                row = run(*common, "--base", base, "--effort", effort, "--effort-table", "uniform", *more)
                rows.append({"protocol": name} | row)
                print(name, effort, row["perplexity"], row["base"]["kl_divergence"]["mean"], flush=True)
    pathlib.Path(out).write_text(json.dumps(rows, indent=1) + "\n")


def modes(pelton, model, text, other, out):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        base = pathlib.Path(folder) / "base.kld"
        common = [pelton, "perplexity", model, text, "--json", "--device", "cpu"]
        run(*common, "--context", 256, "--windows", 12, "--save-base", base)
        tables = {}
        for mode in ("channel", "nested"):
            table = tables[mode] = pathlib.Path(folder) / f"{mode}.json"
            calibrate = [pelton, "effort", "calibrate", model, other, "--minutes", 1, "--output", table]
            rows.append(run(*calibrate, "--effort-mode", mode, "--json", "--device", "cpu") | {"calibrated": mode})
        variants = [
            (f"{mode} {name}", ["--effort-mode", mode, "--effort-table", table])
            for mode in tables
            for name, table in (("uniform", "uniform"), ("table", tables[mode]))
        ]
        for name, more in variants:
            for effort in (0.8, 0.7, 0.6, 0.5, 0.4, 0.3):
                rows.append(run(*common, "--base", base, "--effort", effort, *more) | {"variant": name})
        for share in (0.999, 0.995, 0.99, 0.98, 0.95, 0.9, 0.8):
            found = run(*common, "--base", base, "--effort-energy", share)
            rows.append(found | {"variant": "energy"})
    for row in rows:
        row.pop("file", None)
        if "variant" in row:
            kl, dial = row["base"]["kl_divergence"], row.get("effort", row.get("effort_energy"))
            print(row["variant"], dial, kl["mean"], row["base"]["same_top_token"]["value"], flush=True)
    pathlib.Path(out).write_text(json.dumps(rows, indent=1) + "\n")


def speed(pelton, model, out):
    efforts = "1,0.7,0.5,0.35,0.25,0.2"
    common = [pelton, "bench", model, "-p", "0", "-n", "8", "-r", "5", "-o", "json", "--device", "cpu"]
    # the dense kernels, before and after
    rows = run(*common)
    rows[0]["test"] += " dense"
    rows += run(*common, "--efforts", efforts, "--effort-table", "uniform")
    rows += [row | {"test": row["test"] + " dense"} for row in run(*common)]
    pathlib.Path(out).write_text(json.dumps(rows, indent=1) + "\n")
    for row in rows:
        print(row["test"], round(row["tokens_per_second"], 2), "±", round(row["deviation"], 2))


def chart(left, title, ticks, lines):
    """One chart of lines (label, colour, points), with the effort from 1 down to 0.2."""
    top, width, height = 30, 300, 210
    x = lambda effort: left + width * (1 - effort) / 0.8
    low, high = ticks[0], ticks[-1]
    log = title.endswith("(log)")
    scale = math.log10 if log else float
    y = lambda v: top + height * (1 - (scale(v) - scale(low)) / (scale(high) - scale(low)))
    parts = [f'<text x="{left}" y="{top - 12}">{title}</text>']
    for tick in ticks:
        parts.append(f'<path d="M{left} {y(tick):.1f}h{width}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for effort in (1, 0.8, 0.6, 0.4, 0.2):
        parts.append(f'<text x="{x(effort):.1f}" y="{top + height + 16}" text-anchor="middle">{effort:g}</text>')
    for row, (label, colour, dash, points) in enumerate(lines):
        points = [(e, v) for e, v in points if not log or v > 0]
        path = "L".join(f"{x(e):.1f} {y(v):.1f}" for e, v in points)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dash}"/>')
        parts += [f'<circle cx="{x(e):.1f}" cy="{y(v):.1f}" r="2" fill="{colour}"/>' for e, v in points]
        at = top + height + 36 + 16 * row
        parts.append(f'<path d="M{left} {at - 4}h24" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dash}"/>')
        parts.append(f'<text x="{left + 30}" y="{at}">{label}</text>')
    return parts


def plot():
    colours = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd"]
    quality, speed = [], []
    for path, colour in zip(sorted(HERE.glob("quality-*.json")), colours):
        rows = json.loads(path.read_text())
        for name, dash in (("all", ""), ("answers", "4 3")):
            of = [r for r in rows if r["protocol"] == name and r["effort"] < 1]
            points = [(r["effort"], r["base"]["kl_divergence"]["mean"]["value"]) for r in of]
            label = f"{path.stem.removeprefix('quality-')}, " + ("every token" if name == "all" else "context at 1")
            quality.append((label, colour, dash, points))
    for path, colour in zip(sorted(HERE.glob("speed-*.json")), colours):
        rows = json.loads(path.read_text())
        dense = statistics.median(v for r in rows if r["test"].endswith("dense") for v in r["runs"])
        of = [r for r in rows if not r["test"].endswith("dense")]
        points = [(float(r["test"].partition(" e")[2] or 1), statistics.median(r["runs"]) / dense) for r in of]
        speed.append((path.stem.removeprefix("speed-"), colour, "", points))
    parts = chart(60, "mean KL divergence in nats, by effort (log)", [0.0001, 0.001, 0.01, 0.1, 1, 10], quality)
    most = math.ceil(max((v for _, _, _, points in speed for _, v in points), default=1))
    parts += chart(430, "decoding speed, dense kernels = 1", list(range(most + 1)), speed)
    height = 290 + 16 * max(len(quality), len(speed))
    style = 'font-family="sans-serif" font-size="11"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{height}" {style}>'
    body = [head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]
    (HERE / "curves.svg").write_text("\n".join(body) + "\n")


{"text": text, "quality": quality, "modes": modes, "speed": speed, "plot": plot}[sys.argv[1]](*sys.argv[2:])
