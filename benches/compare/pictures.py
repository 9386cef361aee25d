#!/usr/bin/env python3
"""Compare the times of a prompt that is one picture with llama.cpp's libmtmd, in pairs of runs.

usage: pictures.py PELTON MTMD FOLDER NAME... [--sizes 896x896,1932x1092] [--device gpu] [--threads 4]
                   [--runs 5] [--pairs 2] [-o raw.json]
  PELTON  the program
  MTMD    mtmd-bench of cpp-build.sh
  FOLDER  that of ../towers.py, with NAME/NAME.gguf and NAME/mmproj-NAME.gguf
needs: nothing but Python. PELTON_ISA limits Pelton's instruction set; mtmd-avx2 of cpp-build.sh is built for AVX2.
"""
import argparse
import json
import platform
import statistics
import subprocess
from pathlib import Path

COLUMNS = ["prepared", "tower", "prompt", "first_token"]


def pelton(a, model, size):
    """The runs of Pelton, each with its milliseconds by column, and the tokens of the prompt."""
    command = [a.pelton, "bench", model, "--device", a.device, "--threads", str(a.threads),
               "--picture-sizes", size, "-r", str(a.runs), "-o", "json"]
    [row] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return [dict(zip(COLUMNS, run), tokens=row["tokens"]) for run in row["runs"]]


def mtmd(a, model, size):
    """The same of llama.cpp."""
    tower = model.with_name(f"mmproj-{model.name}")
    layers = "0" if a.device == "cpu" else "999"
    command = [a.mtmd, model, tower, *size.split("x"), str(a.runs), str(a.threads), layers]
    runs = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
    return [{name.removesuffix("_ms"): value for name, value in run.items()} for run in runs]


def machine():
    """The CPU and the GPU."""
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    try:
        gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                             check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    except OSError:
        gpu = None
    return {"cpu": cpu, "gpu": gpu, "system": platform.platform()}


def main():
    ap = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("pelton")
    ap.add_argument("mtmd")
    ap.add_argument("folder", type=Path)
    ap.add_argument("names", nargs="+")
    ap.add_argument("--sizes", default="896x896,1932x1092")
    ap.add_argument("--device", default="gpu")
    ap.add_argument("--threads", type=int, default=4)
    ap.add_argument("--runs", type=int, default=5)
    ap.add_argument("--pairs", type=int, default=2)
    ap.add_argument("-o", "--output", type=Path)
    a = ap.parse_args()
    version = subprocess.run([a.pelton, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    raw = {"machine": machine(), "pelton": version, "device": a.device, "threads": a.threads, "tests": []}
    print("| model | picture | tokens | tower, ms | llama.cpp | ratio | first token, ms | llama.cpp | ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in a.names:
        model = a.folder / name / f"{name}.gguf"
        for size in a.sizes.split(","):
            test = {"model": name, "picture": size, "pelton": [], "llama.cpp": []}
            for pair in range(a.pairs):
                # what else the machine does is the same for both
                turns = [("pelton", pelton), ("llama.cpp", mtmd)]
                for who, run in turns if pair % 2 == 0 else reversed(turns):
                    test[who] += run(a, model, size)
            raw["tests"].append(test)
            if a.output:
                a.output.write_text(json.dumps(raw, indent=1))

            def median(who, column):
                return statistics.median(run[column] for run in test[who])

            cells = [name, size, test["pelton"][0]["tokens"]]
            for column in ("tower", "first_token"):
                own, other = median("pelton", column), median("llama.cpp", column)
                cells += [f"{own:.1f}", f"{other:.1f}", f"{other / own:.2f}"]
            print("|", " | ".join(map(str, cells)), "|", flush=True)


if __name__ == "__main__":
    main()
