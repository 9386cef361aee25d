"""Measure what effort costs in quality, and plot it next to its speed, which speed.sh measures.

    python benches/effort/measure.py text OUT.txt [MIX [SEED]]   # held-out text of the tiny or varied mix
    python benches/effort/measure.py quality PELTON MODEL TEXT OUT.json [OTHER [FLOATS]]
    python benches/effort/measure.py formats PELTON MODEL TEXT OUT.json OTHER.gguf ...
    python benches/effort/measure.py plot                                 # curves.svg from *.json here
    python benches/effort/measure.py table QUALITY.json FORMATS.json      # which points are dominated

Quality (KL divergence, perplexity, top token) is measured by `pelton perplexity` against the saved logits
of the same model at effort 1, with every token read at the effort (all) or with the first half of each
window read at 1 (answers): of every mode, with a table that is calibrated on the text OTHER, and of buckets
in f16 made of FLOATS, the same weights in F16. Formats are the same model converted by requantize.py, against the
same logits. Bytes are those of the weights that a generated token reads: with effort the codes of live
inputs, as `live_share` counts them, all scales, and what is always whole.
"""

import functools
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
EFFORTS = [1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3]
SHARES = [0.9999, 0.999, 0.995, 0.99, 0.98, 0.95, 0.9, 0.8]


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
# bytes of the codes of sorted buckets
BUCKETS = {"bucket": 2, "bucket q8": 1}


def weights(pelton, model):
    """Bytes of the weights that a token reads whole, and the matrices of which it reads a part."""
    tensors = run(pelton, "inspect", model, "--tensors", "--json")["tensors"]
    is_part = lambda t: t["name"].startswith("blk.") and len(t["shape"]) == 2
    return sum(t["bytes"] for t in tensors if not is_part(t)), [t for t in tensors if is_part(t)]


def read(whole, parts, share, mode):
    """Bytes of weights that a token reads if it multiplies a share of those that effort applies to."""
    total = whole
    for tensor in parts:
        inputs, outputs = tensor["shape"]
        codes = CODES.get(tensor["type"], 0)
        if mode in BUCKETS:
            # a code for each, and of each input the mean magnitudes of its 16 ranks, or of its 8 and their levels
            total += BUCKETS[mode] * share * inputs * outputs + 64 * inputs
        else:
            total += tensor["bytes"] * (1 - codes + codes * share)
    return round(total)


def save(out, rows):
    pathlib.Path(out).write_text(json.dumps(rows, indent=1) + "\n")


def show(row, *names):
    print(*names, row["perplexity"]["value"], row["base"]["kl_divergence"]["mean"], flush=True)


def quality(pelton, model, text, out, other=None, floats=None):
    """Every mode at every effort; tables need OTHER to be calibrated on, buckets the weights FLOATS."""
    rows = []
    whole, parts = weights(pelton, model)
    with tempfile.TemporaryDirectory() as folder:
        base = pathlib.Path(folder) / "base.kld"
        perplexity(pelton, model, text, *WINDOWS, "--save-base", base)
        for mode, of, dial, values, flags in modes(pelton, model, other, floats, folder):
            for value in values:
                for protocol, more in (("all", []), ("answers", ["--dense-context"])):
                    more = [*more, *flags, dial, value]
                    row = perplexity(pelton, of, text, "--base", base, *more)
                    row = {"protocol": protocol, "mode": mode, "dial": value} | row
                    row["bytes"] = read(whole, parts, row.get("live_share", 1), mode)
                    rows.append(row)
                    show(row, mode, protocol, value, row["bytes"])
    save(out, rows)


def modes(pelton, model, other, floats, folder):
    """The modes: name, model, dial, its values, and flags."""
    uniform = ["--effort-table", "uniform"]
    yield "channel", model, "--effort", EFFORTS, uniform
    if other:
        table = pathlib.Path(folder) / "channel.json"
        run(pelton, "effort", "calibrate", model, other, "--minutes", 2, "--output", table, "--json", "--device", "cpu")
        yield "table", model, "--effort", EFFORTS[1:], ["--effort-table", table]
    yield "nested", model, "--effort", EFFORTS[1:], ["--effort-mode", "nested", *uniform]
    yield "energy", model, "--effort-energy", SHARES, []
    bucket = ["--effort-mode", "bucket", *uniform]
    yield "bucket q8", model, "--effort", EFFORTS[1:], [*bucket, "--bucket-format", "q8"]
    if floats:
        yield "bucket", floats, "--effort", EFFORTS[1:], bucket


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


def chart(left, title, ticks, lines, top=30):
    """One chart of lines (label, colour, dash, points) over 1 down to 0.2; points beyond are left out."""
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
        points = [(e, v) for e, v in points if (not log or v >= low) and 0.2 <= e <= 1]
        points.sort(reverse=True)
        path = "L".join(f"{x(e):.1f} {y(v):.1f}" for e, v in points)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dash}"/>')
        parts += [f'<circle cx="{x(e):.1f}" cy="{y(v):.1f}" r="2" fill="{colour}"/>' for e, v in points]
        at = top + height + 36 + 16 * row
        parts.append(f'<path d="M{left} {at - 4}h24" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dash}"/>')
        parts.append(f'<text x="{left + 30}" y="{at}">{label}</text>')
    return parts


COLOURS = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#bcbd22", "#ff7f0e"]


def mean_kl(row):
    return row["base"]["kl_divergence"]["mean"]["value"]


def lines_of(rows, formats, dense):
    """The lines of a model by the bytes that a token reads, as a part of those of Q8_0."""
    point = lambda row: (row["bytes"] / dense, mean_kl(row))
    names = list(dict.fromkeys(r["mode"] for r in rows))
    for mode, colour in zip(names, COLOURS):
        for protocol, dash, told in (("all", "", ""), ("answers", "4 3", ", context at 1")):
            of = [r for r in rows if (r["mode"], r["protocol"]) == (mode, protocol) and r["dial"] < 1]
            if protocol == "all" or mode == "channel":
                yield f"{mode}{told}", colour, dash, [point(r) for r in of]
    yield "converted to other formats", COLOURS[-1], "1 2", [point(r) for r in formats]


def plot():
    ticks = [0.0001, 0.001, 0.01, 0.1, 1, 10]
    charts = []
    for path in sorted(HERE.glob("quality-*.json")):
        rows, model = json.loads(path.read_text()), path.stem.removeprefix("quality-")
        formats = json.loads((HERE / f"formats-{model}.json").read_text())
        lines = list(lines_of(rows, formats, max(r["bytes"] for r in rows if r["mode"] == "channel")))
        charts.append((f"{model}: mean KL in nats, by weights read (log)", ticks, lines))
    speeds = []
    for path, colour in zip(sorted(HERE.glob("speed-*.json")), COLOURS):
        rows = json.loads(path.read_text())
        for load, dash in (("channel", ""), ("nested", "4 3")):
            of = [r for r in rows if r["load"] == load]
            points = [(float(r["test"].partition(" e")[2] or 1), r["of_dense"]) for r in of]
            if points:
                speeds.append((f"{path.stem.removeprefix('speed-')}, {load}", colour, dash, points))
    most = math.ceil(max(v for _, _, _, points in speeds for _, v in points))
    charts.append(("decoding speed on CPUs by effort, dense kernels = 1", list(range(most + 1)), speeds))
    parts, top = [], 30
    for i in range(0, len(charts), 2):
        pair = charts[i : i + 2]
        for left, (title, ticks, lines) in zip((60, 430), pair):
            parts += chart(left, title, ticks, lines, top)
        top += 290 + 16 * max(len(lines) for _, _, lines in pair)
    style = 'font-family="sans-serif" font-size="11"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{top - 20}" {style}>'
    body = [head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]
    (HERE / "curves.svg").write_text("\n".join(body) + "\n")


def table(quality, formats):
    """Writes the points by bytes; a point is dominated if another reads no more and diverges less."""
    points = [(r["type"], r) for r in json.loads(pathlib.Path(formats).read_text())]
    for r in json.loads(pathlib.Path(quality).read_text()):
        if r["protocol"] == "all" and r["dial"] < 1:
            points.append((f"{r['mode']} {r['dial']:g}", r))
    for name, r in sorted(points, key=lambda point: -point[1]["bytes"]):
        better = [n for n, o in points if o["bytes"] <= r["bytes"] and mean_kl(o) < mean_kl(r)]
        top = r["base"]["same_top_token"]["value"]
        row = [name, f"{r['bytes'] / 1e6:.2f}", f"{r['perplexity']['value']:.3f}", f"{mean_kl(r):.4f}",
               f"{r['base']['kl_divergence']['mean']['error']:.4f}", f"{top:.1%}", ", ".join(better)]
        print(f"| {' | '.join(row)} |")


COMMANDS = [text, quality, formats, plot, table]
{command.__name__: command for command in COMMANDS}[sys.argv[1]](*sys.argv[2:])
