#!/usr/bin/env python3
"""Write docs/speed.svg and the tables between `<!-- table: NAME -->` and `<!-- end -->` from the raw data.

A test that several files have is that of the last one in the lists below: append a newer file there. Figures of a
CPU are medians of pairs. Figures of a GPU are means of runs, and those of llama.cpp come from gpu/llama-cpp.json.

usage: figures.py [--check]        # --check writes nothing and fails if a document or the plot would change
"""
import json
import re
import statistics
import sys
from pathlib import Path

import chart
from compare import report

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
DOCUMENTS = ["benches/README.md", "docs/cpu.md", "docs/gpu.md"]
PLOT = ROOT / "docs/speed.svg"

LLAMA_CPP = ["2026-11-22-avx2.json", "2026-11-22-avx2-late.json"]
RECURRENT = [f"2026-11-29-{part}-avx2.json" for part in ("lfm2", "granite", "nemotron", "few-bits")]
IK_LLAMA_CPP = ["2026-11-23-ik-avx2.json", "2026-11-23-ik-avx2-F16.json", "2026-11-23-ik-avx2-Q8_0.json"]
PRODUCTS = "2026-11-22-matmul-avx2-late.txt"
GPU = [
    ("11-21", "bench.json"),
    ("11-21", "depth.json"),
    ("11-22", "bench-others-2026-11-22.md"),
    ("11-22", "bench-llama-3.2-1b-Q4_0.md"),
    ("11-22", "bench-llama-3.1-8b-Q4_K_M.md"),
    ("11-22", "bench-2026-11-22.md"),
    ("11-22", "bench-2026-11-22-late.md"),
    ("11-23", "bench-2026-11-23.md"),
]
STREAMS = "2026-11-22-h200-{}.md"
PASSES = "passes-{}.txt"

MODELS = {
    "smollm-135m": "SmolLM-135M",
    "qwen3-0.6b": "Qwen3-0.6B",
    "tinyllama-1.1b": "TinyLlama-1.1B",
    "llama-3.2-1b": "Llama-3.2-1B",
    "lfm2-1.2b": "LFM2-1.2B",
    "nemotron-h-4b": "Nemotron-H-4B",
    "granite-4-h-tiny": "Granite-4-H-tiny",
    "mistral-8-layers": "Mistral-7B, 8 of 32 layers,",
    "llama-3.1-8b": "Llama-3.1-8B",
    "qwen3-30b-a3b": "Qwen3-30B-A3B",
}
TYPES = ["q1_0", "Q4_0", "Q4_K_M", "Q8_0", "F16"]


def title(model):
    """`Llama-3.2-1B Q4_0` for `llama-3.2-1b-Q4_0`."""
    shape, kind = model.rsplit("-", 1)
    return f"{MODELS[shape]} {kind.upper()}"


def order(model):
    """Models have one order in all tables and plots: by size, then by type."""
    shape, kind = model.rsplit("-", 1)
    return list(MODELS).index(shape), TYPES.index(kind)


def table(head, rows):
    """A Markdown table whose columns but the first are aligned to the right."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, rule, *rows])


def measured(speed, deviation):
    """Tokens/s with their deviation, in three digits or more."""
    digits = 1 if speed < 1000 else 0
    return f"{speed:,.{digits}f} ± {deviation:,.{digits}f}"


def pairs(files):
    """The results of compare.py by model and test; the last file that has one counts."""
    found = {}
    for file in files:
        for result in json.loads((HERE / "compare/results" / file).read_text())["results"]:
            if report.counted(result):
                found[Path(result["model"]).stem, result["test"]] = result
    return found


def compared(files):
    """A row for each model: the speeds and ratios of decode and of prompts."""
    found, rows = pairs(files), []
    for model in sorted({model for model, _ in found}, key=order):
        row = [title(model)]
        for test in ("tg32", "pp512"):
            ours, theirs = (statistics.median(s) for s in zip(*report.counted(found[model, test])))
            ratios = report.ratios(found[model, test])
            spread = f"{min(ratios):.2f}–{max(ratios):.2f}"
            row += [f"{ours:,.1f}", f"{theirs:,.1f}", f"{statistics.median(ratios):.2f} ({spread})"]
        rows.append(row)
    return rows


def comparison(name, files):
    return table(["model", "tg32", name, "ratio (range)", "pp512", name, "ratio (range)"], compared(files))


def gpu_speeds():
    """(date, tokens/s, deviation) by model and test."""
    found = {}
    for date, name in GPU:
        path = HERE / "gpu/results" / name
        if path.suffix == ".json":
            for model, outcomes in json.loads(path.read_text()).items():
                for o in outcomes:
                    found[model, o["test"]] = (date, o["tokens_per_second"], o["deviation"])
            continue
        for line in path.read_text().splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if len(cells) == 7 and "±" in cells[6]:
                speed, deviation = (float(part) for part in cells[6].split("±"))
                found[cells[0].split(",")[0], cells[5]] = (date, speed, deviation)
    return found


def llama_cpp():
    return json.loads((HERE / "gpu/llama-cpp.json").read_text())


def gpu_table(tests):
    """A row for each model and test of `tests` that llama.cpp has too."""
    ours, theirs, rows = gpu_speeds(), llama_cpp()["models"], []
    for model in sorted({model for model, test in ours if test in tests}, key=order):
        for test in tests:
            other = theirs.get(model, {}).get(test)
            if other and (model, test) in ours:
                date, speed, deviation = ours[model, test]
                rows.append([title(model), test, measured(speed, deviation), f"{other:,}",
                             f"{speed / other:.2f}", date])
    return table(["model", "test", "Pelton", "llama.cpp CUDA", "ratio", "measured"], rows)


def gpu_more():
    """The tests of the GPU without a figure of llama.cpp."""
    theirs = llama_cpp()["models"]
    rows = [[title(model), test, measured(speed, deviation), date]
            for (model, test), (date, speed, deviation) in gpu_speeds().items()
            if test not in theirs.get(model, {}) and test != "tg64"]
    names = {title(model): model for model, _ in gpu_speeds()}
    rows.sort(key=lambda row: (order(names[row[0]]), row[1]))
    return table(["model", "test", "tokens/s", "measured"], rows)


def streams():
    """Decode of many requests at once, of two models, next to llama.cpp's."""
    models, rows = ["llama-3.2-1b-Q4_0", "llama-3.1-8b-Q4_K_M"], {}
    for column, model in enumerate(models):
        theirs = llama_cpp()["streams"][model]
        for line in (HERE / "streams/results" / STREAMS.format(model)).read_text().splitlines()[2:]:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            count, speed, other = cells[4], float(cells[6]), theirs.get(cells[4])
            row = rows.setdefault(int(count), [""] * 6)
            row[3 * column:3 * column + 3] = [f"{speed:,.0f}", f"{other:,}" if other else "",
                                              f"{speed / other:.2f}" if other else ""]
    head = ["requests"] + [name for model in models for name in (title(model), "llama.cpp", "ratio")]
    return table(head, [[str(count), *rows[count]] for count in sorted(rows)])


def passes():
    """Decoding passes by their number of rows, of two models."""
    models, rows = ["llama-3.2-1b-Q4_0", "llama-3.1-8b-Q4_K_M"], {}
    for model in models:
        text = (HERE / "gpu/results" / PASSES.format(model)).read_text()
        for count, milliseconds, speed in re.findall(r"^\| (\d+) \| ([\d.]+) \| (\d+) \|", text, re.M):
            rows.setdefault(int(count), {})[model] = [milliseconds, f"{int(speed):,}"]
    head = ["rows"] + [name for model in models for name in (f"{title(model)}: ms", "tokens/s")]
    return table(head, [[str(count), *sum((rows[count][model] for model in models), [])]
                        for count in sorted(rows) if len(rows[count]) == len(models)])


def products():
    """The fractions of the ceilings that packed products reach with AVX2."""
    rows = []
    for line in (HERE / "compare/results" / PRODUCTS).read_text().splitlines():
        if found := re.match(r"(\w+) AVX2( packed)? .* (\d+) % +(\d+) % +(\d+) %$", line):
            kind, packed, *shares = found.groups()
            if packed or kind == "F16":
                rows.append([kind, *(f"{share} %" for share in shares)])
    return table(["weights", "one row, of the bandwidth", "8 rows, of the bandwidth",
                  "512 rows, of the multiplications"], rows)


def plot():
    """Pelton's speed over llama.cpp's, on a CPU and on a GPU."""
    cpu, speeds, theirs = pairs(LLAMA_CPP), gpu_speeds(), llama_cpp()["models"]

    def cpu_rows(test):
        models = sorted((model for model, name in cpu if name == test), key=order)
        results = [cpu[model, test] for model in models]
        speeds = [statistics.median(ours for ours, _ in report.counted(result)) for result in results]
        ratios = [statistics.median(report.ratios(result)) for result in results]
        return [chart.Row(title(model), *row) for model, *row in zip(models, speeds, ratios)]

    def gpu_rows(tests):
        found = [(model, test) for model in sorted(theirs, key=order) for test in tests
                 if test in theirs[model] and (model, test) in speeds]
        label = lambda model, test: title(model) + ("" if test in ("tg128", "pp512") else f", {int(test[2:]):,}")
        row = lambda model, test, speed: chart.Row(label(model, test), speed, speed / theirs[model][test])
        return [row(*key, speeds[key][1]) for key in found]

    return chart.draw([
        ("Speed over that of llama.cpp: two cores of an AMD EPYC, AVX2",
         [("decode", cpu_rows("tg32")), ("prompt of 512", cpu_rows("pp512"))]),
        ("NVIDIA H200 through Vulkan, llama.cpp with CUDA",
         [("decode", gpu_rows(["tg128"])),
          ("prompt of 512, or as stated", gpu_rows(["pp512", "pp4096", "pp16384"]))]),
    ])


TABLES = {
    "cpu-llama-cpp": lambda: comparison("llama.cpp", LLAMA_CPP),
    "cpu-recurrent": lambda: comparison("llama.cpp", RECURRENT),
    "cpu-ik-llama-cpp": lambda: comparison("ik_llama.cpp", IK_LLAMA_CPP),
    "cpu-products": products,
    "gpu-decode": lambda: gpu_table(["tg128"]),
    "gpu-prompts": lambda: gpu_table(["pp512", "pp4096", "pp16384"]),
    "gpu-more": gpu_more,
    "gpu-streams": streams,
    "gpu-passes": passes,
}


def filled(document):
    """A document with its tables written anew."""
    return re.sub(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)",
                  lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n\n{found[3]}", document, flags=re.S)


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__.strip())
    contents = {ROOT / name: filled((ROOT / name).read_text()) for name in DOCUMENTS} | {PLOT: plot()}
    stale = [path for path, content in contents.items() if not path.exists() or path.read_text() != content]
    if sys.argv[1:]:
        sys.exit("".join(f"{path.relative_to(ROOT)} differs from the raw data\n" for path in stale) or None)
    for path in stale:
        path.write_text(contents[path])


if __name__ == "__main__":
    main()
