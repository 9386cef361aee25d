#!/usr/bin/env python3
"""Compare `pelton quantize` with llama.cpp's quantizer on a file of F16 with random weights of real shapes.

For each type, with and without importance: whether all tensors get equal types, the root of the mean squared error of
each tensor relative to llama.cpp's, the seconds and CPU seconds with two threads, and the greatest resident size.

usage: encoders.py PELTON LLAMA_BIN SDIST FOLDER -o RAW.json [--shape qwen3-0.6b] [--layers N] [--vocab N] [--rows 64] [--types TYPE ...]
       encoders.py --table RAW.json
needs: pip install gguf numpy typing_extensions jinja2 diskcache; LLAMA_BIN is the folder that build.sh fills, SDIST the
       unpacked sdist of llama-cpp-python
"""
import argparse
import json
import math
import sys
from pathlib import Path

import gguf
import numpy as np

import machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import models  # noqa: E402

TYPES = ["q8_0", "q6_k", "q5_k_m", "q5_k_s", "q5_1", "q5_0", "q4_k_m", "q4_k_s", "q4_1", "q4_0", "iq4_nl", "iq4_xs",
         "q3_k_l", "q3_k_m", "q3_k_s", "q2_k", "q2_k_s"]
# types whose encoders read no importance
PLAIN = ["q8_0"]
THREADS = 2


def importance(path, tensors):
    """Writes an importance of columns that are far apart, as those of real models are, and returns it."""
    rng = np.random.default_rng(2)
    writer = gguf.GGUFWriter(path, "imatrix")
    writer.add_type("imatrix")
    writer.add_array("imatrix.datasets", ["random"])
    writer.add_uint32("imatrix.chunk_count", 100)
    writer.add_uint32("imatrix.chunk_size", 512)
    found = {}
    for name, columns in tensors:
        sums = np.exp(1.5 * rng.standard_normal(columns)).astype(np.float32)
        found[name] = sums
        writer.add_tensor(f"{name}.in_sum2", 51200 * sums.reshape(1, -1))
        writer.add_tensor(f"{name}.counts", np.full((1, 1), 51200, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return found


def some_rows(tensor, count):
    """Rows of a tensor at even distances, as floats."""
    data = tensor.data.reshape(-1, tensor.data.shape[-1])
    rows = data[:: max(1, len(data) // count)][:count]
    return gguf.dequantize(np.ascontiguousarray(rows), tensor.tensor_type).astype(np.float64)


def matrices(path):
    return {t.name: t for t in gguf.GGUFReader(path).tensors if len(t.shape) > 1}


def errors(original, path, weights, count):
    """The type and the relative error of each matrix."""
    found = {}
    for name, tensor in matrices(path).items():
        x, y = some_rows(original[name], count), some_rows(tensor, count)
        w = weights.get(name, 1.0) if weights else 1.0
        error = math.sqrt(float((w * (x - y) ** 2).sum() / (w * x ** 2).sum()))
        found[name] = (tensor.tensor_type.name, error)
    return found


def compared(a, source, original, kind, file, weights):
    ours, theirs = a.folder / "ours.gguf", a.folder / "theirs.gguf"
    option = ["--imatrix", file] if file else []
    figures = {"type": kind, "importance": file is not None}
    text, figures["pelton"], said = machine.run([a.pelton, "quantize", source, ours, kind, "--force", "-t", THREADS, *option])
    if text is None:
        raise SystemExit(f"pelton, {kind}: {said}")
    program = Path(__file__).with_name("llama_quantize.py")
    text, used, said = machine.run(
        [sys.executable, program, a.llama, a.sdist, source, theirs, kind, THREADS, *([file] if file else [])])
    found = errors(original, ours, weights, a.rows)
    if text is None:
        figures["llama_cpp"] = {"refused": said.strip().splitlines()[-1]}
    else:
        # the process has Python's seconds too
        figures["llama_cpp"] = {**used, **json.loads(text)}
        expected = errors(original, theirs, weights, a.rows)
        different = {n: [found[n][0], expected[n][0]] for n in found if found[n][0] != expected[n][0]}
        ratios = {n: found[n][1] / expected[n][1] for n in found if expected[n][1] > 0 and n not in different}
        worst = max(ratios, key=ratios.get)
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        figures.update(
            different_types=different, error_ratio_mean=round(mean, 5), error_ratio_greatest=round(ratios[worst], 5),
            error_ratio_greatest_of=worst, speed=round(figures["llama_cpp"]["cpu_seconds"] / figures["pelton"]["cpu_seconds"], 3),
            tensors={n: [found[n][0], float(f"{found[n][1]:.6g}"), float(f"{expected[n][1]:.6g}")] for n in found},
        )
        theirs.unlink()
    figures["bytes"] = ours.stat().st_size
    ours.unlink()
    return figures


def table(raw):
    """Markdown: for each type the errors relative to llama.cpp's, and the speed, without importance and with it."""
    lines = ["| type | error, mean | worst tensor | speed | error with importance | worst tensor | speed |",
             "|---|---|---|---|---|---|---|"]
    found = {(r["type"], r["importance"]): r for r in raw["results"]}
    for kind in dict.fromkeys(r["type"] for r in raw["results"]):
        cells = []
        for importance in [False, True]:
            r = found.get((kind, importance), {})
            cells += [f"{r[k]:.{d}f}" if k in r else "" for k, d in
                      [("error_ratio_mean", 3), ("error_ratio_greatest", 3), ("speed", 2)]]
        lines.append(f"| `{kind}` | " + " | ".join(cells) + " |")
    different = sum(len(r.get("different_types", {})) for r in raw["results"])
    return "\n".join([*lines, "", f"tensors of another type than llama.cpp's: {different}"])


def main():
    if sys.argv[1:2] == ["--table"]:
        print(table(json.loads(Path(sys.argv[2]).read_text())))
        return
    ap = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("pelton", type=Path)
    ap.add_argument("llama", type=Path)
    ap.add_argument("sdist", type=Path)
    ap.add_argument("folder", type=Path)
    ap.add_argument("--types", nargs="+", default=TYPES)
    ap.add_argument("-o", "--out", type=Path, required=True)
    ap.add_argument("--shape", default="qwen3-0.6b", choices=models.SHAPES)
    ap.add_argument("--layers", type=int)
    ap.add_argument("--vocab", type=int)
    ap.add_argument("--rows", type=int, default=64, help="rows of each tensor whose errors are taken")
    ap.add_argument("--without-importance", action="store_true")
    a = ap.parse_args()
    a.folder.mkdir(parents=True, exist_ok=True)
    shape = models.SHAPES[a.shape]
    shape = shape._replace(layers=a.layers or shape.layers, vocab=a.vocab or shape.vocab)
    source, file = a.folder / "source.gguf", a.folder / "imatrix.gguf"
    models.write(source, shape, "F16")
    original = matrices(source)
    weights = importance(file, [(n, int(t.shape[0])) for n, t in original.items() if n.startswith("blk.")])
    version, _, _ = machine.run([a.pelton, "--version"])
    raw = machine.about(pelton=version.strip(), llama_cpp="PyPI llama-cpp-python 0.3.36", threads=THREADS,
                        shape=shape._asdict(), rows=a.rows, source_bytes=source.stat().st_size, results=[])
    for kind in a.types:
        for of in [None] if kind in PLAIN or a.without_importance else [None, file]:
            result = compared(a, source, original, kind, of, weights if of else None)
            raw["results"].append(result)
            print({k: v for k, v in result.items() if k != "tensors"}, flush=True)
            lines = ",\n".join(json.dumps(r) for r in raw["results"])
            head = json.dumps({k: v for k, v in raw.items() if k != "results"}, indent=1)[:-2]
            a.out.write_text(f'{head},\n "results": [\n{lines}\n ]\n}}\n')
    source.unlink()
    file.unlink()


if __name__ == "__main__":
    main()
