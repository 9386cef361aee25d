#!/usr/bin/env python3
"""Time `pelton quantize` and llama.cpp's quantizer on a whole model file, in turns.

usage: whole.py PELTON LLAMA_BIN SDIST IN.gguf FOLDER -o RAW.json [--types TYPE ...] [--threads 2]
needs: pip install gguf numpy typing_extensions jinja2 diskcache; LLAMA_BIN is the folder that build.sh fills, SDIST the
       unpacked sdist of llama-cpp-python. IN.gguf may be of ../models.py, such as qwen3-0.6b-F16.gguf
"""
import argparse
import json
import sys
from pathlib import Path

import machine


def main():
    ap = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ["pelton", "llama", "sdist", "source", "folder"]:
        ap.add_argument(name, type=Path)
    ap.add_argument("-o", "--out", type=Path, required=True)
    ap.add_argument("--types", nargs="+", default=["q4_k_m", "q3_k_m", "q6_k"])
    ap.add_argument("--threads", type=int, default=2)
    a = ap.parse_args()
    a.folder.mkdir(parents=True, exist_ok=True)
    # both read the file from memory
    with a.source.open("rb") as file:
        while file.read(1 << 24):
            pass
    version, _, _ = machine.run([a.pelton, "--version"])
    raw = machine.about(pelton=version.strip(), llama_cpp="PyPI llama-cpp-python 0.3.36", threads=a.threads,
                        source=a.source.name, source_bytes=a.source.stat().st_size, results=[])
    program = Path(__file__).with_name("llama_quantize.py")
    out = a.folder / "out.gguf"
    for kind in a.types:
        ours, figures, said = machine.run([a.pelton, "quantize", a.source, out, kind, "--force", "-t", a.threads])
        if ours is None:
            raise SystemExit(f"pelton, {kind}: {said}")
        result = {"type": kind, "bytes": out.stat().st_size, "pelton": figures}
        out.unlink()
        theirs, figures, said = machine.run([sys.executable, program, a.llama, a.sdist, a.source, out, kind, a.threads])
        if theirs is None:
            raise SystemExit(f"llama.cpp, {kind}: {said}")
        # the seconds of the call, without Python's
        result["llama_cpp"] = {**figures, **json.loads(theirs)}
        result["speed"] = round(result["llama_cpp"]["seconds"] / result["pelton"]["seconds"], 2)
        out.unlink()
        raw["results"].append(result)
        print(result, flush=True)
        a.out.write_text(json.dumps(raw, indent=1) + "\n")


if __name__ == "__main__":
    main()
