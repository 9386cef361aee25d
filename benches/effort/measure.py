"""Measure what effort costs in quality; curves.py plots it, and speed.sh measures its speed.

    python benches/effort/measure.py text OUT.txt [MIX [SEED]]   # held-out text of the tiny or varied mix
    python benches/effort/measure.py quality PELTON MODEL TEXT OUT.json [FLOATS]
    python benches/effort/measure.py formats PELTON MODEL TEXT OUT.json OTHER.gguf ...
    python benches/effort/measure.py table QUALITY.json FORMATS.json      # which points are dominated

Quality (KL divergence, perplexity, top token) is measured by `pelton perplexity` against the saved logits
of the same model at effort 1, with every token read at the effort (all) or with the first half of each
window read at 1 (answers): of the model in Q8_0, and of FLOATS, the same weights in F16. Formats are the same model converted by requantize.py, against the
same logits. Bytes are those of the weights that a generated token reads: with effort the codes of live
inputs, as `live_share` counts them, all scales, and what is always whole.
"""

import functools
import json
import pathlib
import random
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


def read(whole, parts, share, mode):
    """Bytes of weights that a token reads if it multiplies a share of those that effort applies to."""
    total = whole
    for tensor in parts:
        inputs, outputs = tensor["shape"]
        codes = CODES.get(tensor["type"], 0)
        if mode == "bucket":
            # a code for each, and of each input the mean magnitudes of its 16 ranks
            total += 2 * share * inputs * outputs + 64 * inputs
        else:
            total += tensor["bytes"] * (1 - codes + codes * share)
    return round(total)


def save(out, rows):
    pathlib.Path(out).write_text(json.dumps(rows, indent=1) + "\n")


def show(row, *names):
    print(*names, row["perplexity"]["value"], row["base"]["kl_divergence"]["mean"], flush=True)


def quality(pelton, model, text, out, floats=None):
    """Every form at every effort; buckets in f16 need the weights FLOATS."""
    rows = []
    whole, parts = weights(pelton, model)
    with tempfile.TemporaryDirectory() as folder:
        base = pathlib.Path(folder) / "base.kld"
        perplexity(pelton, model, text, *WINDOWS, "--save-base", base)
        for mode, of, values in forms(model, floats):
            for value in values:
                for protocol, more in (("all", []), ("answers", ["--dense-context"])):
                    more = [*more, "--effort", value]
                    row = perplexity(pelton, of, text, "--base", base, *more)
                    row = {"protocol": protocol, "mode": mode, "dial": value} | row
                    row["bytes"] = read(whole, parts, row.get("live_share", 1), mode)
                    rows.append(row)
                    show(row, mode, protocol, value, row["bytes"])
    save(out, rows)


def forms(model, floats):
    """What is measured: name, model, efforts."""
    yield "whole", model, EFFORTS[:1]
    yield "nested", model, EFFORTS[1:]
    if floats:
        yield "bucket", floats, EFFORTS[1:]


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


def mean_kl(row):
    return row["base"]["kl_divergence"]["mean"]["value"]


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


COMMANDS = [text, quality, formats, table]
{command.__name__: command for command in COMMANDS}[sys.argv[1]](*sys.argv[2:])
