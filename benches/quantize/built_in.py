#!/usr/bin/env python3
"""Judge every type on the built-in model: bytes, perplexity, KL divergence from the unquantized file, greedy tokens.

Each file is made by `pelton quantize`, judged by `pelton compare`, and then by llama.cpp's library, which reads
the same file and text. Greedy tokens come from the file here and in PyPI llama-cpp-python, and from llama.cpp's file of the same
type in both. The first half of the text gives the importance, the second half is scored.

usage: built_in.py PELTON LLAMA_BIN SDIST FOLDER -o RAW.json [--types TYPE ...] [--windows N] [--threads 2]
       built_in.py --tables RAW.json        (prints the table, writes docs/quantize.svg)
needs: pip install gguf numpy typing_extensions jinja2 diskcache; LLAMA_BIN is the folder that build.sh fills, SDIST the
       unpacked sdist of llama-cpp-python
"""
import argparse
import json
import math
import os
import sys
from pathlib import Path

import machine

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/tiny/pelton-tiny.gguf"
TEXT = ROOT / "benches/effort/text.txt"
TYPES = ["q8_0", "q6_k", "q5_k_m", "q5_k_s", "q5_1", "q5_0", "q4_k_m", "q4_k_s", "q4_1", "q4_0", "iq4_nl", "iq4_xs",
         "q3_k_l", "q3_k_m", "q3_k_s", "q2_k", "q2_k_s"]
CONTEXT = 512
PROMPTS = ["Once upon a time", "The opposite of hot is", "A small bird"]
TOKENS = 32


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


def log_probs(scores):
    """Log-probabilities in f64."""
    import numpy as np

    scores = np.asarray(scores, np.float64)
    scores = scores - scores.max(-1, keepdims=True)
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True))


class Judge:
    def __init__(self, a):
        self.a, self.base = a, a.folder / "base.gguf"
        self.text, self.file = a.folder / "text.txt", a.folder / "imatrix.gguf"
        os.environ["LLAMA_CPP_LIB_PATH"] = str(a.llama)
        sys.path.insert(0, str(a.sdist))

    def prepare(self):
        dequantized(self.base)
        parts = TEXT.read_text().split("\n\n")
        (self.a.folder / "importance.txt").write_text("\n\n".join(parts[: len(parts) // 2]))
        self.text.write_text("\n\n".join(parts[len(parts) // 2 :]))
        checked([self.a.pelton, "imatrix", self.base, self.a.folder / "importance.txt", "-o", self.file, "--force", "-t",
                 self.a.threads, "--windows", self.a.windows])
        self.rows = list(self.scored(self.base))
        return self.llama_cpp(self.base)["perplexity"]

    def pelton(self, file):
        """The results of `pelton compare`."""
        return json.loads(checked([self.a.pelton, "compare", self.base, file, self.text, "--context", CONTEXT, "--device",
                                   "cpu", "-t", self.a.threads, "--windows", self.a.windows, "--json"]))

    def scored(self, file):
        """The log-probabilities of the scored rows of each window, and the tokens that come next, by llama-perplexity's
        rule."""
        from llama_cpp import Llama

        model = Llama(str(file), n_ctx=CONTEXT, n_batch=CONTEXT, n_threads=self.a.threads,
                      n_threads_batch=self.a.threads, logits_all=True, verbose=False)
        tokens = model.tokenize(self.text.read_bytes(), add_bos=True)
        begins = tokens[0] == model.token_bos() and model.metadata.get("tokenizer.ggml.add_bos_token") == "true"
        for first in range(0, len(tokens) - CONTEXT + 1, CONTEXT)[: self.a.windows]:
            window = tokens[first : first + CONTEXT]
            window[0] = model.token_bos() if begins else window[0]
            model.reset()
            model.eval(window)
            half = CONTEXT // 2
            yield log_probs(model.scores[half : CONTEXT - 1]), window[half + 1 :]

    def llama_cpp(self, file):
        """Perplexity, and the divergence from the unquantized file, by llama.cpp's logits."""
        import numpy as np

        nats, divergence = [], []
        for (found, following), (base, _) in zip(self.scored(file), self.rows):
            nats += [-row[token] for row, token in zip(found, following)]
            divergence += list((np.exp(base) * (base - found)).sum(-1))
        return {"perplexity": float(np.exp(np.mean(nats))), "divergence": float(np.mean(divergence)), "tokens": len(nats)}

    def texts(self, file):
        """The greedy texts of the prompts here."""
        return [json.loads(checked([self.a.pelton, "run", file, p, "--raw", "--temperature", 0, "-n", TOKENS, "--device",
                                    "cpu", "-t", self.a.threads, "--json"]))["text"] for p in PROMPTS]

    def texts_of_llama_cpp(self, file):
        """The same in llama-cpp-python, on the library of the build."""
        from llama_cpp import Llama

        model = Llama(str(file), n_ctx=256, n_threads=self.a.threads, n_threads_batch=self.a.threads, verbose=False)
        made = [model.create_completion(p, max_tokens=TOKENS, temperature=0.0, top_k=1, repeat_penalty=1.0) for p in PROMPTS]
        return [text["choices"][0]["text"] for text in made]

    def judged(self, kind, importance):
        """All results of a type."""
        ours, theirs = self.a.folder / "ours.gguf", self.a.folder / "theirs.gguf"
        option = ["--imatrix", self.file] if importance else []
        checked([self.a.pelton, "quantize", self.base, ours, kind, "--force", *option])
        program = Path(__file__).with_name("llama_quantize.py")
        made, _, said = machine.run([sys.executable, program, self.a.llama, self.a.sdist, self.base, theirs, kind, 2,
                                     *([self.file] if importance else [])])
        result = {"type": kind, "importance": importance, "bytes": ours.stat().st_size,
                  "pelton": self.pelton(ours), "llama_cpp": self.llama_cpp(ours), "texts": {}}
        for name, file in [("ours", ours)] + ([("theirs", theirs)] if made else []):
            here, there = self.texts(file), self.texts_of_llama_cpp(file)
            result["texts"][name] = {"equal": sum(a == b for a, b in zip(here, there)),
                                     "different": [[a, b] for a, b in zip(here, there) if a != b]}
        if not made:
            result["refused"] = said.strip().splitlines()[-1]
        return result


def table(raw):
    lines = ["| type | MB | perplexity | by llama.cpp | KL, millinats | same top token | with importance: KL |",
             "|---|---|---|---|---|---|---|"]
    weighted = {r["type"]: r for r in raw["results"] if r["importance"]}
    for r in (r for r in raw["results"] if not r["importance"]):
        ours, other = r["pelton"], weighted.get(r["type"])
        kl = lambda of: f"{1000 * of['pelton']['kl_divergence']['mean']['value']:.2f}"
        lines.append(
            f"| `{r['type']}` | {r['bytes'] / 1e6:.2f} | {ours['b']['perplexity']['value']:.4f} | "
            f"{r['llama_cpp']['perplexity']:.4f} | {kl(r)} | {100 * ours['same_top_token']['value']:.1f} % | "
            f"{kl(other) if other else ''} |")
    return "\n".join(lines)


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
    base = judge.prepare()
    raw = machine.about(pelton=checked([a.pelton, "--version"]).strip(), llama_cpp="PyPI llama-cpp-python 0.3.36",
                        context=CONTEXT, windows=a.windows, threads=a.threads, prompts=PROMPTS, tokens=TOKENS, base_bytes=judge.base.stat().st_size,
                        base_perplexity_llama_cpp=base, results=[])
    for kind in a.types:
        for importance in [False] if kind == "q8_0" else [False, True]:
            result = judge.judged(kind, importance)
            raw["results"].append(result)
            texts = {name: of["equal"] for name, of in result["texts"].items()}
            print(kind, importance, result["pelton"]["b"]["perplexity"], result["pelton"]["kl_divergence"]["mean"],
                  result["llama_cpp"], texts, flush=True)
            a.out.write_text(json.dumps(raw, indent=1) + "\n")


def main():
    ap = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--tables", type=Path)
    ap.add_argument("pelton", type=Path, nargs="?")
    ap.add_argument("llama", type=Path, nargs="?")
    ap.add_argument("sdist", type=Path, nargs="?")
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
        ap.error("PELTON, LLAMA_BIN, SDIST, FOLDER and -o are needed")


if __name__ == "__main__":
    main()
