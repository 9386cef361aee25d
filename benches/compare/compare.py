#!/usr/bin/env python3
"""Benchmark Pelton and llama.cpp on the same model files, in alternating runs.

llama.cpp is that of PyPI `llama-cpp-python`, called through its C API; with `--llama FOLDER` the
shared libraries of another build of it (llama-builds.sh), such as one for AVX2 alone. The tests are those of
llama-bench: ppN runs N random tokens as one prompt, tgN decodes N tokens one by one, and
`tgN @ dD` does so with D positions in the cache. No text is encoded and no token is sampled.

Each test of each model runs in pairs, once with each program, with the same number of threads; the
order within a pair alternates. A pair during which other processes or, on a virtual machine, the
hypervisor used CPU time is dropped and repeated, up to a limit. Prints a table: medians of the
valid pairs, and the median and range of their ratios.

usage: compare.py MODEL.gguf [...] [-p 512] [-n 32] [--depth 0,4096] [--pairs 5] [--isa avx2 --llama FOLDER] [-o raw.json]
needs: pip install llama-cpp-python; cargo build --release
"""
import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import disturbance
import report

PELTON = Path(__file__).resolve().parents[2] / "target" / "release" / "pelton"
BATCH = 512


class Test(NamedTuple):
    """A test of `count` tokens, `step` per pass, after `depth` tokens that are not timed."""
    count: int
    step: int
    depth: int

    def __str__(self):
        name = f"tg{self.count}" if self.step == 1 else f"pp{self.count}"
        return f"{name} @ d{self.depth}" if self.depth else name


def pelton(model, test, threads):
    decode = test.step == 1
    return [PELTON, "bench", model, "-p", 0 if decode else test.count,
            "-n", test.count if decode else 0, "--depth", test.depth, "-r", 1,
            "--device", "cpu", "--threads", threads, "-o", "json"]


def llama_cpp(model, test, threads):
    return [sys.executable, __file__, "--worker", json.dumps([model, test, threads])]


SIDES = {"pelton": pelton, "llama_cpp": llama_cpp}


def program(path):
    """The command of a program in place of llama.cpp, such as native-bench."""
    return lambda model, test, threads: [path, model, test.count, test.step, test.depth, threads]


def llama_cpp_worker(model, test, threads):
    """The equivalent of `pelton bench` with llama.cpp, in a separate process."""
    import llama_cpp as lc
    from llama_cpp._internals import LlamaBatch

    test = Test(*test)
    lc.llama_backend_init()
    params = lc.llama_model_default_params()
    params.n_gpu_layers = 0
    handle = lc.llama_model_load_from_file(model.encode(), params)
    params = lc.llama_context_default_params()
    params.n_ctx = test.depth + test.count
    params.n_batch = params.n_ubatch = BATCH
    params.n_threads = params.n_threads_batch = threads
    context = lc.llama_init_from_model(handle, params)
    vocab = lc.llama_vocab_n_tokens(lc.llama_model_get_vocab(handle))
    generator = random.Random(1)
    ids = [generator.randrange(vocab) for _ in range(test.depth + test.count)]
    batch = LlamaBatch(n_tokens=BATCH, embd=0, n_seq_max=1)

    def run(first, last, step):
        for at in range(first, last, step):
            batch.set_batch(ids[at:min(at + step, last)], at, False)
            if lc.llama_decode(context, batch.batch):
                raise SystemExit("llama_decode failed")
        lc.llama_synchronize(context)

    run(0, test.depth, BATCH)
    for _ in ("warm-up", "timed run"):
        lc.llama_memory_seq_rm(lc.llama_get_memory(context), 0, test.depth, -1)
        begun = time.perf_counter()
        run(test.depth, test.depth + test.count, test.step)
        seconds = time.perf_counter() - begun
    print(json.dumps([{"test": str(test), "tokens_per_second": test.count / seconds}]))


def hold(isa, libraries):
    """Hold Pelton to an instruction set, and llama.cpp to a build, in this process's environment."""
    if isa:
        os.environ["PELTON_ISA"] = isa
    if libraries:
        found = libraries / "libllama.so"
        if not found.exists():
            raise SystemExit(f"{found} does not exist, expected the libraries of llama-builds.sh")
        os.environ["LLAMA_CPP_LIB_PATH"] = os.environ["LD_LIBRARY_PATH"] = str(libraries.resolve())


def llama_cpp_features():
    """The instructions that llama.cpp was built for, by its own account."""
    code = "import llama_cpp; print(llama_cpp.llama_print_system_info().decode())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.stdout.strip()


def run(side, model, test, threads):
    """Tokens per second, and the disturbance by other processes during the run."""
    command = [str(part) for part in SIDES[side](model, test, threads)]
    with disturbance.Watch() as watch:
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
    [row] = json.loads(done.stdout)
    return {"tokens_per_second": row["tokens_per_second"], "shares": watch.shares}


def compare(model, test, threads, limits, wanted, most):
    """Run pairs until the required number is valid or the maximum is reached."""
    pairs = []
    while sum(not pair["dropped"] for pair in pairs) < wanted and len(pairs) < most:
        order = list(SIDES) if len(pairs) % 2 == 0 else list(SIDES)[::-1]
        pair = {side: run(side, model, test, threads) for side in order}
        pair["dropped"] = any(disturbance.disturbed(pair[side]["shares"], limits)
                              for side in SIDES)
        pairs.append(pair)
    return {"model": Path(model).name, "test": str(test), "pairs": pairs}


def machine(other):
    cpu = platform.processor()
    if os.path.exists("/proc/cpuinfo"):
        names = [line for line in open("/proc/cpuinfo") if line.startswith("model name")]
        cpu = names[0].split(":")[1].strip() if names else cpu
    version = subprocess.run([PELTON, "--version"], capture_output=True, text=True).stdout.strip()
    return {"cpu": cpu, "processors": os.cpu_count(), "system": platform.platform(),
            "pelton": version, "pelton_isa": os.environ.get("PELTON_ISA"),
            **other}


def python_package():
    """The instructions and the version of llama.cpp."""
    return {"llama_cpp_features": llama_cpp_features(),
            "llama_cpp_python": importlib.metadata.version("llama_cpp_python")}


def numbers(text):
    return [int(part) for part in text.split(",")]


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number}, expected at least 1")
    return number


def main():
    ap = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("models", nargs="+", metavar="MODEL.gguf")
    ap.add_argument("-p", "--prompt", type=numbers, default=[512], metavar="N,N,…",
                    help="lengths of prompts, 0 for none (512)")
    ap.add_argument("-n", "--tokens", type=numbers, default=[32], metavar="N,N,…",
                    help="numbers of tokens to decode, 0 for none (32)")
    ap.add_argument("--depth", type=numbers, default=[0], metavar="N,N,…",
                    help="depths: positions filled before a decode (0)")
    ap.add_argument("--pairs", type=positive, default=5, help="valid pairs of each test (5)")
    ap.add_argument("--most", type=positive,
                    help="maximum pairs of each test, including dropped ones (three times --pairs)")
    for kind, whose in [("steal", "a hypervisor's"), ("others", "other processes'")]:
        ap.add_argument(f"--{kind}", type=float, default=100 * disturbance.LIMITS[kind],
                        metavar="PERCENT", help=f"{whose} CPU time, as a share of all cores, above which a "
                        "pair is dropped (%(default)g)")
    ap.add_argument("--threads", type=positive, default=2, help="threads of each program (2)")
    ap.add_argument("--isa", metavar="SET", help="the instruction set of Pelton (PELTON_ISA)")
    ap.add_argument("--llama", type=Path, metavar="FOLDER", help="a folder with another build's libllama.so")
    ap.add_argument("--program", type=Path, metavar="FILE", help="a program in place of llama.cpp, with the arguments "
                    "MODEL COUNT STEP DEPTH THREADS, such as that of cpp-build.sh")
    ap.add_argument("-o", "--output", type=Path, action="append", default=[], metavar="FILE",
                    help="write raw data to a .json, a plot to an .svg or .png; may be repeated")
    ap.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    a = ap.parse_args()
    if a.worker:
        return llama_cpp_worker(*json.loads(a.models[0]))

    hold(a.isa, a.llama)
    if a.program:
        SIDES["llama_cpp"] = program(a.program.resolve())
    other = {"program": str(a.program)} if a.program else python_package()
    tests = [Test(n, BATCH, 0) for n in a.prompt if n]
    tests += [Test(n, 1, depth) for n in a.tokens if n for depth in a.depth]
    if not disturbance.visible():
        print("/proc/stat is not available: no pair is dropped.", file=sys.stderr)
    plots = [path for path in a.output if path.suffix != ".json"]
    if plots:
        report.drawing()  # fail before the measurements if matplotlib is missing
    limits = {kind: getattr(a, kind) / 100 for kind in disturbance.LIMITS}
    results = []
    raw = {"date": datetime.date.today().isoformat(), "machine": machine(other), "threads": a.threads,
           "limits": limits,
           "results": results}
    print(report.table_head(), flush=True)
    for model in a.models:
        for test in tests:
            results.append(compare(model, test, a.threads, limits, a.pairs, a.most or 3 * a.pairs))
            print(report.table_row(results[-1]), flush=True)
            # after each test, so that an interrupted run leaves its results
            for path in set(a.output) - set(plots):
                path.write_text(json.dumps(raw, indent=1) + "\n")
    for path in plots:
        report.plot(results, path)


if __name__ == "__main__":
    main()
