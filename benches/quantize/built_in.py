#!/usr/bin/env python3
"""Judge every type on the built-in model: bytes, perplexity, KL divergence from the unquantized file.

Each file is made by `pelton quantize`, judged by `pelton compare`, and then by llama.cpp's `llama-perplexity` on the same
text. The first half of the text gives the importance, the second half is scored. Results in RAW.json are not repeated.

usage: built_in.py PELTON LLAMA_BIN FOLDER -o RAW.json [--types TYPE ...] [--windows N] [--threads 2]
       built_in.py --tables RAW.json        (prints the table, writes docs/quantize.svg)
needs: pip install gguf numpy; LLAMA_BIN is the folder that build.sh fills
"""
import argparse
import json
import math
import re
import sys
from pathlib import Path

import machine

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/tiny/pelton-tiny.gguf"
TEXT = ROOT / "benches/effort/text.txt"
TYPES = ["q8_0", "q6_k", "q5_k_m", "q5_k_s", "q5_1", "q5_0", "q4_k_m", "q4_k_s", "q4_1", "q4_0", "iq4_nl", "iq4_xs",
         "q3_k_l", "q3_k_m", "q3_k_s", "q2_k", "q2_k_s"]
CONTEXT = 512
# lines of llama-perplexity
FIGURES = {"perplexity": "Mean PPL\\(Q\\)", "kl_divergence": "Mean +KLD", "same_top_token": "Same top p"}


def dequantized(path):
    """The built-in model with its values in F32."""
    import gguf
    import numpy as np

    reader = gguf.GGUFReader(MODEL)
    writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key not in ("general.architecture", "general.file_type"):
            kind = field.types[0]
            sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(key, field.contents(), kind, sub_type=sub)
    for t in reader.tensors:
        values = gguf.dequantize(t.data, t.tensor_type).astype(np.float32)
        writer.add_tensor(t.name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def checked(words, **variables):
    text, _, said = machine.run(words, **variables)
    if text is None:
        raise SystemExit(f"{' '.join(map(str, words))}: {said}")
    return text


class Judge:
    def __init__(self, a):
        self.a, self.base = a, a.folder / "base.gguf"
        self.text, self.file = a.folder / "text.txt", a.folder / "imatrix.gguf"
        self.logits = a.folder / "base.logits"

    def prepare(self):
        dequantized(self.base)
        parts = TEXT.read_text().split("\n\n")
        (self.a.folder / "importance.txt").write_text("\n\n".join(parts[: len(parts) // 2]))
        self.text.write_text("\n\n".join(parts[len(parts) // 2 :]))
        checked([self.a.pelton, "imatrix", self.base, self.a.folder / "importance.txt", "-o", self.file, "--force", "-t",
                 self.a.threads, "--windows", self.a.windows])
        self.perplexity(self.base)

    def pelton(self, file):
        """The results of `pelton compare`."""
        return json.loads(checked([self.a.pelton, "compare", self.base, file, self.text, "--context", CONTEXT, "--device",
                                   "cpu", "-t", self.a.threads, "--windows", self.a.windows, "--json"]))

    def perplexity(self, file, *options):
        """What llama-perplexity prints. Without options it keeps the logits of the unquantized file."""
        words = [self.a.llama / "llama-perplexity", "-m", file, "-f", self.text, "-c", CONTEXT, "--chunks", self.a.windows,
                 "-t", self.a.threads, "--kl-divergence-base", self.logits, *options]
        text, _, said = machine.run(words)
        if text is None:
            raise SystemExit(f"llama-perplexity: {said}")
        return text + said

    def llama_cpp(self, file):
        """The means of llama-perplexity with their errors."""
        # on a busy machine it ends at times before its log is written
        for _ in range(10):
            said = self.perplexity(file, "--kl-divergence")
            found = {name: re.search(line + r" *: *(-?[\d.]+) ± *([\d.]+)", said) for name, line in FIGURES.items()}
            if all(found.values()):
                return {name: {"value": float(m[1]), "error": float(m[2])} for name, m in found.items()}
        raise SystemExit(f"llama-perplexity: {said}")

    def judged(self, kind, importance):
        """All results of a type."""
        file = self.a.folder / "ours.gguf"
        option = ["--imatrix", self.file] if importance else []
        checked([self.a.pelton, "quantize", self.base, file, kind, "--force", *option])
        return {"type": kind, "importance": importance, "bytes": file.stat().st_size, "pelton": self.pelton(file),
                "llama_cpp": self.llama_cpp(file)}


def outside(raw):
    """The files and figures that differ by more than the error that llama-perplexity prints."""
    for r in raw["results"]:
        ours = {"perplexity": r["pelton"]["b"]["perplexity"]["value"],
                "kl_divergence": r["pelton"]["kl_divergence"]["mean"]["value"]}
        for name, value in ours.items():
            theirs = r["llama_cpp"][name]
            if abs(value - theirs["value"]) > theirs["error"]:
                yield f"{r['type']}{' with importance' if r['importance'] else ''}: {name} {value:.6f}, {theirs}"


def table(raw):
    lines = ["| type | MB | perplexity | by llama.cpp | KL, millinats | by llama.cpp | same top token | with importance: KL | by llama.cpp |",
             "|---|---|---|---|---|---|---|---|---|"]
    weighted = {r["type"]: r for r in raw["results"] if r["importance"]}
    kl = lambda of: f"{1000 * of['pelton']['kl_divergence']['mean']['value']:.2f}"
    theirs = lambda of: "{:.2f} ± {:.2f}".format(*(1000 * of["llama_cpp"]["kl_divergence"][k] for k in ("value", "error")))
    for r in (r for r in raw["results"] if not r["importance"]):
        ours, other = r["pelton"], weighted.get(r["type"])
        lines.append(
            f"| `{r['type']}` | {r['bytes'] / 1e6:.2f} | {ours['b']['perplexity']['value']:.4f} | "
            f"{r['llama_cpp']['perplexity']['value']:.4f} | {kl(r)} | {theirs(r)} | "
            f"{100 * ours['same_top_token']['value']:.1f} % | {kl(other) if other else ''} | {theirs(other) if other else ''} |")
    beyond = list(outside(raw))
    return "\n".join([*lines, "", f"figures beyond the error that llama-perplexity prints: {len(beyond)}", *beyond])


def plot(raw):
    """KL divergence against bytes, both in logarithms, without importance and with it."""
    sys.path.insert(0, str(ROOT / "benches"))
    import chart

    points = [(r["bytes"], r["pelton"]["kl_divergence"]["mean"]["value"], r["type"], r["importance"]) for r in raw["results"]]
    sizes, values = [p[0] for p in points], [p[1] for p in points]
    left, top, width, height = 70, 40, 800, 400
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    small, large = math.log(min(sizes) * 0.96), math.log(max(sizes) * 1.06)
    x = lambda size: left + width * (math.log(size) - small) / (large - small)
    y = lambda value: top + height * (high - math.log10(value)) / (high - low)
    parts = [chart.text(left, 20, "KL divergence (nats) of the built-in model by bytes of the file", "machine")]
    for decade in range(low, high + 1):
        parts += [chart.line(left, y(10 ** decade), left + width, y(10 ** decade), "grid"),
                  chart.text(left - 8, y(10 ** decade) + 4, f"{10 ** decade:g}", "tick", "end")]
    for mega in range(1, 100):
        if math.exp(small) <= mega * 1e6 <= math.exp(large):
            parts += [chart.line(x(mega * 1e6), top, x(mega * 1e6), top + height, "grid"),
                      chart.text(x(mega * 1e6), top + height + 18, f"{mega} MB", "tick", "middle")]
    for size, value, kind, importance in points:
        name = "slower" if importance else "faster"
        parts.append(f'<circle class="{name}" cx="{x(size):.1f}" cy="{y(value):.1f}" r="4"/>')
        if not importance:
            parts.append(chart.text(x(size) + 7, y(value) - 5, kind, "label"))
    for row, (name, words) in enumerate([("faster", "without importance"), ("slower", "with importance")]):
        parts += [f'<circle class="{name}" cx="{left + width - 150}" cy="{top + 16 + 20 * row}" r="4"/>',
                  chart.text(left + width - 140, top + 20 + 20 * row, words, "label")]
    return chart.document(left + width + 50, top + height + 40, parts)


def measured(a):
    judge = Judge(a)
    a.folder.mkdir(parents=True, exist_ok=True)
    judge.prepare()
    raw = machine.about(pelton=checked([a.pelton, "--version"]).strip(), llama_cpp="PyPI llama-cpp-python 0.3.36",
                        context=CONTEXT, windows=a.windows, threads=a.threads, base_bytes=judge.base.stat().st_size,
                        results=[])
    if a.out.exists():
        raw = json.loads(a.out.read_text())
    found = [(r["type"], r["importance"]) for r in raw["results"]]
    for importance in [False, True]:
        for kind in a.types:
            # Q8_0 has no use for an importance
            if (kind, importance) in [*found, ("q8_0", True)]:
                continue
            result = judge.judged(kind, importance)
            raw["results"].append(result)
            print(kind, importance, result["pelton"]["b"]["perplexity"], result["pelton"]["kl_divergence"]["mean"],
                  result["llama_cpp"], flush=True)
            a.out.write_text(json.dumps(raw, indent=1) + "\n")


def main():
    ap = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--tables", type=Path)
    ap.add_argument("pelton", type=Path, nargs="?")
    ap.add_argument("llama", type=Path, nargs="?")
    ap.add_argument("folder", type=Path, nargs="?")
    ap.add_argument("-o", "--out", type=Path)
    ap.add_argument("--types", nargs="+", default=TYPES)
    ap.add_argument("--windows", type=int, default=40)
    ap.add_argument("--threads", type=int, default=2)
    a = ap.parse_args()
    if a.tables:
        raw = json.loads(a.tables.read_text())
        print(table(raw))
        (ROOT / "docs/quantize.svg").write_text(plot(raw))
    elif a.folder and a.out:
        measured(a)
    else:
        ap.error("PELTON, LLAMA_BIN, FOLDER and -o are needed")


if __name__ == "__main__":
    main()
