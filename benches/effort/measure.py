"""Measure what effort costs in quality and gains in speed, and plot both.

    python benches/effort/measure.py text OUT.txt [MIX [SEED]]   # held-out text of the tiny or varied mix
    python benches/effort/measure.py quality PELTON MODEL TEXT OUT.json [MODE='FLAGS' ...]
    python benches/effort/measure.py formats PELTON MODEL TEXT OUT.json OTHER.gguf ...
    python benches/effort/measure.py modes PELTON MODEL TEXT OTHER OUT.json  # KL of tables and modes, the
                                                                          # tables calibrated on OTHER
    python benches/effort/measure.py speed PELTON MODEL OUT.json          # tokens/s, efforts in turn
    python benches/effort/measure.py plot                                 # curves.svg from *.json here
    python benches/effort/measure.py table QUALITY.json FORMATS.json      # which points are dominated

Quality (KL divergence, perplexity, top token) is measured by `pelton perplexity` against the saved logits
of the same model at effort 1, with every token read at the effort (all) or with the first half of each
window read at 1 (answers). A MODE other than channel has a name and the flags that choose it. Formats are
the same model converted by requantize.py, against the same logits. Bytes are those of the weights that a
generated token reads: with effort the codes of live inputs, all scales, and what is always whole.
"""

import functools
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
EFFORTS = [1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3]


def run(*args):
    return json.loads(subprocess.run([str(a) for a in args], check=True, capture_output=True).stdout)


def text(out, mix="tiny", seed="effort 2026"):
    sys.path.insert(0, str(HERE.parents[1] / "models/tiny"))
    import corpus
    from corpus import varied

    rng = random.Random(seed)
    kinds = [corpus.story, corpus.plain_facts]
    if mix == "varied":
        held_out = functools.partial(varied.passage, held_out=True)
        kinds += [held_out, held_out, varied.sentences, varied.records, varied.sequence]
    documents = [rng.choice(kinds)(rng) for _ in range(120)]
    most = 500 if mix == "varied" else None
    plain = [d.removeprefix(corpus.BEGIN).removesuffix(corpus.END)[:most] for d in documents]
    pathlib.Path(out).write_text("\n\n".join(plain) + "\n")


def perplexity(pelton, model, text, *more):
    return run(pelton, "perplexity", model, text, "--json", "--device", "cpu", *more)


WINDOWS = ["--context", 256, "--windows", 12]
# the share of a format's bytes that are codes, which effort reads for live inputs alone
CODES = {"Q8_0": 32 / 34, "Q4_0": 16 / 18}


def weights(pelton, model):
    """Bytes of the weights that a token reads whole, and the matrices of which it reads a part."""
    tensors = run(pelton, "inspect", model, "--tensors", "--json")["tensors"]
    is_part = lambda t: t["name"].startswith("blk.") and len(t["shape"]) == 2
    return sum(t["bytes"] for t in tensors if not is_part(t)), [t for t in tensors if is_part(t)]


def read(whole, parts, effort):
    """Bytes of weights that a token reads at an effort."""
    total = whole
    for tensor in parts:
        inputs, codes = tensor["shape"][0], CODES.get(tensor["type"], 0)
        total += tensor["bytes"] * (1 - codes + codes * math.ceil(effort * inputs) / inputs)
    return round(total)


def save(out, rows):
    pathlib.Path(out).write_text(json.dumps(rows, indent=1) + "\n")


def show(row, *names):
    print(*names, row["perplexity"]["value"], row["base"]["kl_divergence"]["mean"], flush=True)


def quality(pelton, model, text, out, *modes):
    rows = []
    uniform = ["--effort-table", "uniform"]
    whole, parts = weights(pelton, model)
    with tempfile.TemporaryDirectory() as folder:
        base = pathlib.Path(folder) / "base.kld"
        perplexity(pelton, model, text, *WINDOWS, "--save-base", base)
        for mode in modes or ["channel="]:
            mode, _, flags = mode.partition("=")
            for effort in EFFORTS:
                for name, more in (("all", []), ("answers", ["--dense-context"])):
                    more += flags.split()
                    row = perplexity(pelton, model, text, "--base", base, "--effort", effort, *uniform, *more)
                    row = {"protocol": name, "mode": mode} | row
                    if mode == "channel":
                        row["bytes"] = read(whole, parts, effort)
                    rows.append(row)
                    show(row, mode, name, effort)
    save(out, rows)


def formats(pelton, model, text, out, *others):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        base = pathlib.Path(folder) / "base.kld"
        perplexity(pelton, model, text, *WINDOWS, "--save-base", base)
        for other in others:
            row = perplexity(pelton, other, text, "--base", base)
            whole, parts = weights(pelton, other)
            row |= {"type": parts[0]["type"], "bytes": whole + sum(t["bytes"] for t in parts)}
            rows.append(row)
            show(row, row["type"], row["bytes"])
    save(out, rows)


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


def chart(left, title, ticks, lines, top=30):
    """One chart of lines (label, colour, dash, points) over 1 down to 0.2."""
    width, height = 300, 210
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
        points.sort(reverse=True)
        path = "L".join(f"{x(e):.1f} {y(v):.1f}" for e, v in points)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dash}"/>')
        parts += [f'<circle cx="{x(e):.1f}" cy="{y(v):.1f}" r="2" fill="{colour}"/>' for e, v in points]
        at = top + height + 36 + 16 * row
        parts.append(f'<path d="M{left} {at - 4}h24" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dash}"/>')
        parts.append(f'<text x="{left + 30}" y="{at}">{label}</text>')
    return parts


COLOURS = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#ff7f0e"]


def mean_kl(row):
    return row["base"]["kl_divergence"]["mean"]["value"]


def modes_of(rows, protocol):
    """The rows of a protocol below effort 1, by mode."""
    kept = [r for r in rows if r["protocol"] == protocol and r["effort"] < 1]
    return {mode: [r for r in kept if r["mode"] == mode] for mode in dict.fromkeys(r["mode"] for r in kept)}


def plot():
    quality, speed, bought = [], [], []
    protocols = (("all", "", "every token"), ("answers", "4 3", "context at 1"))
    files = sorted(HERE.glob("quality-*.json"))
    for path in files:
        rows, model = json.loads(path.read_text()), path.stem.removeprefix("quality-")
        dense = max(r.get("bytes", 0) for r in rows)
        for protocol, dash, told in protocols:
            for mode, of in modes_of(rows, protocol).items():
                colour = COLOURS[len(quality) // 2 % len(COLOURS)]
                points = [(r["effort"], mean_kl(r)) for r in of]
                quality.append((f"{model}, {mode}, {told}", colour, dash, points))
                points = [(r["bytes"] / dense, mean_kl(r)) for r in of if "bytes" in r]
                if points:
                    bought.append((f"{model}, {mode}, {told}", colour, dash, points))
        for other in HERE.glob(f"formats-{model}.json"):
            colour = COLOURS[-1 - files.index(path)]
            points = [(r["bytes"] / dense, mean_kl(r)) for r in json.loads(other.read_text())]
            bought.append((f"{model}, converted to other formats", colour, "1 2", points))
    for path, colour in zip(sorted(HERE.glob("speed-*.json")), COLOURS):
        rows = json.loads(path.read_text())
        dense = statistics.median(v for r in rows if r["test"].endswith("dense") for v in r["runs"])
        of = [r for r in rows if not r["test"].endswith("dense")]
        points = [(float(r["test"].partition(" e")[2] or 1), statistics.median(r["runs"]) / dense) for r in of]
        speed.append((path.stem.removeprefix("speed-"), colour, "", points))
    ticks = [0.0001, 0.001, 0.01, 0.1, 1, 10]
    parts = chart(60, "mean KL divergence in nats, by effort (log)", ticks, quality)
    most = math.ceil(max((v for _, _, _, points in speed for _, v in points), default=1))
    parts += chart(430, "decoding speed, dense kernels = 1", list(range(most + 1)), speed)
    top = 320 + 16 * max(len(quality), len(speed))
    title = "mean KL divergence in nats, by weights read, Q8_0 = 1 (log)"
    parts += chart(60, title, ticks, bought, top)
    height = top + 260 + 16 * len(bought)
    style = 'font-family="sans-serif" font-size="11"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{height}" {style}>'
    body = [head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]
    (HERE / "curves.svg").write_text("\n".join(body) + "\n")


def table(quality, formats):
    """Writes the points by bytes; a point is dominated if another reads no more and diverges less."""
    points = [(r["type"], r) for r in json.loads(pathlib.Path(formats).read_text())]
    for r in json.loads(pathlib.Path(quality).read_text()):
        if r["protocol"] == "all" and "bytes" in r and r["effort"] < 1:
            points.append((f"{r['mode']} {r['effort']:g}", r))
    for name, r in sorted(points, key=lambda point: -point[1]["bytes"]):
        better = [n for n, o in points if o["bytes"] <= r["bytes"] and mean_kl(o) < mean_kl(r)]
        top = r["base"]["same_top_token"]["value"]
        row = [name, f"{r['bytes'] / 1e6:.2f}", f"{r['perplexity']['value']:.3f}", f"{mean_kl(r):.4f}",
               f"{r['base']['kl_divergence']['mean']['error']:.4f}", f"{top:.1%}", ", ".join(better)]
        print(f"| {' | '.join(row)} |")


COMMANDS = [text, quality, formats, modes, speed, plot, table]
{command.__name__: command for command in COMMANDS}[sys.argv[1]](*sys.argv[2:])
