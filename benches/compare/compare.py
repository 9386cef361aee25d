#!/usr/bin/env python3
"""Pelton and llama.cpp on the same model file, in turn.

Each pair of runs is pelton, then PyPI `llama-cpp-python` (llama.cpp's own kernels), with the
same number of threads. Both run N random tokens as one prompt (ppN) and N tokens one after the
other (tgN), without encoding text and without sampling, as llama-bench does. Prints the median of
each, the median of the pairs' ratios with their range, and writes every figure to a JSON file.

usage: compare.py MODEL.gguf [...] [-p 512] [-n 128] [--pairs 5] [--threads 2] [-o raw.json]
needs: pip install llama-cpp-python; cargo build --release
"""
import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

PELTON = Path(__file__).resolve().parents[2] / "target" / "release" / "pelton"


def run_pelton(model, prompt, tokens, threads):
    """Tokens a second of ppN and tgN, one run after a warm-up."""
    command = [PELTON, "bench", model, "-p", str(prompt), "-n", str(tokens), "-r", "1",
               "--device", "cpu", "--threads", str(threads), "-o", "json"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return {row["test"]: row["tokens_per_second"] for row in rows}


def llama_cpp_worker(model, prompt, tokens, threads):
    """The same through llama.cpp; runs in a process of its own."""
    import llama_cpp as lc
    from llama_cpp._internals import LlamaBatch

    lc.llama_backend_init()
    params = lc.llama_model_default_params()
    params.n_gpu_layers = 0
    handle = lc.llama_model_load_from_file(model.encode(), params)
    context = lc.llama_context_default_params()
    context.n_ctx = max(prompt, tokens, 1)
    context.n_batch = context.n_ubatch = 512
    context.n_threads = context.n_threads_batch = threads
    ctx = lc.llama_init_from_model(handle, context)
    vocab = lc.llama_vocab_n_tokens(lc.llama_model_get_vocab(handle))
    ids = [random.Random(1).randrange(vocab) for _ in range(max(prompt, tokens))]

    batch = LlamaBatch(n_tokens=512, embd=0, n_seq_max=1)

    def run(count, step):
        lc.llama_memory_clear(lc.llama_get_memory(ctx), True)
        begun = time.perf_counter()
        for at in range(0, count, step):
            batch.set_batch(ids[at:min(at + step, count)], at, False)
            if lc.llama_decode(ctx, batch.batch):
                raise SystemExit("llama_decode failed")
        lc.llama_synchronize(ctx)
        return count / (time.perf_counter() - begun)

    out = {}
    for name, count, step in [(f"pp{prompt}", prompt, 512), (f"tg{tokens}", tokens, 1)]:
        if count:
            run(count, step)
            out[name] = run(count, step)
    print(json.dumps(out))


def run_llama_cpp(model, prompt, tokens, threads):
    command = [sys.executable, __file__, "--worker", model, "-p", str(prompt), "-n", str(tokens),
               "--threads", str(threads)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def machine():
    cpu = platform.processor()
    if os.path.exists("/proc/cpuinfo"):
        names = [l for l in open("/proc/cpuinfo") if l.startswith("model name")]
        cpu = names[0].split(":")[1].strip() if names else cpu
    import importlib.metadata as meta
    version = subprocess.run([PELTON, "--version"], capture_output=True, text=True).stdout.strip()
    return {"cpu": cpu, "cores": os.cpu_count(), "system": platform.platform(),
            "pelton": version, "llama_cpp_python": meta.version("llama_cpp_python")}


def main():
    ap = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("models", nargs="+")
    ap.add_argument("-p", "--prompt", type=int, default=512)
    ap.add_argument("-n", "--tokens", type=int, default=128)
    ap.add_argument("--pairs", type=int, default=5)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("-o", "--output", default=None)
    ap.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    a = ap.parse_args()
    if a.worker:
        return llama_cpp_worker(a.models[0], a.prompt, a.tokens, a.threads)

    raw = {"machine": machine(), "threads": a.threads, "runs": []}
    print("| model | test | pelton tokens/s | llama.cpp tokens/s | ratio (range) |")
    print("| --- | --- | ---: | ---: | ---: |")
    for model in a.models:
        pairs = []
        for _ in range(a.pairs):
            args = (model, a.prompt, a.tokens, a.threads)
            pairs.append({"pelton": run_pelton(*args), "llama_cpp": run_llama_cpp(*args)})
        raw["runs"].append({"model": Path(model).name, "pairs": pairs})
        for test in pairs[0]["pelton"]:
            ours = [p["pelton"][test] for p in pairs]
            theirs = [p["llama_cpp"][test] for p in pairs]
            ratios = [o / t for o, t in zip(ours, theirs)]
            print(f"| {Path(model).stem} | {test} | {statistics.median(ours):.1f} "
                  f"| {statistics.median(theirs):.1f} | {statistics.median(ratios):.2f} "
                  f"({min(ratios):.2f}–{max(ratios):.2f}) |", flush=True)
    if a.output:
        Path(a.output).write_text(json.dumps(raw, indent=1) + "\n")


if __name__ == "__main__":
    main()
