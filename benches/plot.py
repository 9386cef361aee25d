#!/usr/bin/env python3
"""Draw tokens/s next to llama.cpp's: a CPU by compare.py's raw data, and a GPU by `pelton bench`'s.

Every test of the raw data is a pair of bars with its ratio, those below 1 too. Bars of the CPU are medians of the
valid pairs; those of the GPU are means, of the two programs in runs of their own (gpu/llama-cpp.json says which).
Of a test that several files have, the last file counts.

usage: plot.py --cpu RAW.json --cpu-name NAME --gpu FILE.md|FILE.json [...] --gpu-name NAME -o PLOT.svg
  the plot in the README: benches/plot.py --cpu benches/compare/results/DATE-avx2.json --cpu-name "2 cores, AVX2" \\
    --gpu benches/gpu/results/bench{.json,-*.md} --gpu-name "NVIDIA H200" -o docs/speed.svg
needs: pip install matplotlib
"""
import argparse
import json
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "compare"))
import report  # noqa: E402


def cpu(path):
    """Rows (model, test, pelton, llama.cpp) of compare.py's raw data."""
    rows = []
    for result in json.loads(path.read_text())["results"]:
        if pairs := report.counted(result):
            ours, theirs = map(statistics.median, zip(*pairs))
            rows.append((Path(result["model"]).stem, result["test"], ours, theirs))
    return rows


def speeds(path):
    """Tokens per second by model and test, from the JSON of gpu/run.sh or a Markdown table of `pelton bench`."""
    found = {}
    if path.suffix == ".json":
        for model, outcomes in json.loads(path.read_text()).items():
            found |= {(model, outcome["test"]): outcome["tokens_per_second"] for outcome in outcomes}
        return found
    for line in path.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 7 and "±" in cells[6]:
            found[cells[0].split(",")[0], cells[5]] = float(cells[6].split("±")[0].replace(",", ""))
    return found


def gpu(paths):
    """Rows as those of `cpu`, of the tests that gpu/llama-cpp.json has as well."""
    ours = {}
    for path in paths:
        ours |= speeds(path)
    theirs = json.loads((HERE / "gpu" / "llama-cpp.json").read_text())["models"]
    return [(model, test, ours[model, test], speed) for model, tests in theirs.items()
            for test, speed in tests.items() if (model, test) in ours]


def draw(axes, rows, title):
    """Two bars a test, labelled with the model and the ratio."""
    for y, (model, test, ours, theirs) in enumerate(rows):
        axes.barh(y - 0.2, ours, 0.38, color="tab:blue", label=None if y else "Pelton")
        axes.barh(y + 0.2, theirs, 0.38, color="tab:gray", label=None if y else "llama.cpp")
        ratio = ours / theirs
        colour = "black" if ratio >= 1 else "tab:red"
        axes.text(max(ours, theirs), y, f" {ratio:.2f}", va="center", fontsize=8, color=colour)
    axes.set_yticks(range(len(rows)), [f"{model} {test}" for model, test, *_ in rows], fontsize=8)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.margins(x=0.12)
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("tokens/s", fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(axis="x", alpha=0.3)


def main():
    ap = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--cpu", type=Path, required=True)
    ap.add_argument("--cpu-name", required=True)
    ap.add_argument("--gpu", type=Path, nargs="+", required=True)
    ap.add_argument("--gpu-name", required=True)
    ap.add_argument("-o", "--output", type=Path, required=True)
    a = ap.parse_args()
    pyplot = report.drawing()
    pyplot.switch_backend("agg")  # which needs no display
    machines = [(a.cpu_name, cpu(a.cpu)), (a.gpu_name, gpu(a.gpu))]
    kinds = [("tg", "decode"), ("pp", "prefill")]
    panels = [[[row for row in rows if row[1].startswith(kind)] for kind, _ in kinds]
              for _, rows in machines]
    heights = [1 + max(map(len, rows)) for rows in panels]
    figure, all_axes = pyplot.subplots(2, 2, figsize=(11, 0.8 + 0.36 * sum(heights)), layout="constrained",
                                       gridspec_kw={"height_ratios": heights})
    for (name, _), row, rows in zip(machines, all_axes, panels):
        for axes, (_, kind), tests in zip(row, kinds, rows):
            draw(axes, tests, f"{name}: {kind}")
    handles, labels = next(axes.get_legend_handles_labels() for axes in all_axes.flat if axes.patches)
    figure.legend(handles, labels, loc="outside upper center", ncols=2, fontsize=8)
    figure.savefig(a.output, metadata={"Date": None} if a.output.suffix == ".svg" else None)


if __name__ == "__main__":
    main()
