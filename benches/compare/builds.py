#!/usr/bin/env python3
"""Compare two builds of Pelton, or two models by the bytes that a token reads, in alternating runs.

With `--builds OLD NEW` each test of each model runs in pairs, once with each build: prefill (ppN), decode (tgN),
and the maximum resident size of both processes (getrusage, ru_maxrss). Ratios are NEW over OLD.

With `--bytes PELTON` decode of the first model and of each other one run in pairs. The active bytes of a token are
those of all matrices, of a mixture of experts those of the experts that a token uses, without the table of
embeddings unless it is the output matrix too. Ratios are bytes per second over those of the first model.

The order within a pair alternates. Each run states what other processes and the hypervisor took of all cores.

usage: builds.py (--builds OLD NEW | --bytes PELTON) MODEL.gguf [...] [-p 256] [-n 32] [--pairs 5] -o RAW.json
needs: pip install gguf (for --bytes)
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

import disturbance


def active_bytes(path):
    """Bytes of weights that decoding one token reads."""
    import gguf

    reader = gguf.GGUFReader(path)

    def number(end):
        found = [f.contents() for name, f in reader.fields.items() if name.endswith(end)]
        return found[0] if found else 1

    experts, used = number(".expert_count"), number(".expert_used_count")
    names = {tensor.name for tensor in reader.tensors}
    total = 0
    for tensor in reader.tensors:
        if tensor.name == "token_embd.weight" and "output.weight" in names:
            continue
        size = int(tensor.n_bytes)
        total += size * used // experts if "_exps" in tensor.name else size
    return total


def run(program, model, test, threads):
    """Tokens per second, the maximum resident size in KiB, and the disturbance by others."""
    kind, count = test
    prompt, tokens = (count, 0) if kind == "pp" else (0, count)
    command = [program, "bench", model, "-p", prompt, "-n", tokens, "-r", 1, "--device", "cpu",
               "--threads", threads, "-o", "json"]
    with tempfile.TemporaryFile() as out, disturbance.Watch() as watch:
        process = subprocess.Popen([str(part) for part in command], stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read()
    if process.returncode:
        raise SystemExit(f"{command} failed")
    [row] = json.loads(text)
    return {"tokens_per_second": row["tokens_per_second"], "max_rss_kib": usage.ru_maxrss,
            "shares": watch.shares}


def pairs_of(a, b, test, threads, count):
    pairs = []
    for i in range(count):
        pair = [None, None]
        for side in (0, 1) if i % 2 == 0 else (1, 0):
            pair[side] = run(*(a, b)[side], test, threads)
        pairs.append(pair)
    return pairs


def summary(pairs, value):
    ratios = [value(b, 1) / value(a, 0) for a, b in pairs]
    return {"a": statistics.median(value(a, 0) for a, _ in pairs),
            "b": statistics.median(value(b, 1) for _, b in pairs),
            "median_ratio": statistics.median(ratios), "range": [min(ratios), max(ratios)]}


def show(what, s, unit):
    low, high = s["range"]
    print(f"{what}: {s['a']:.1f} and {s['b']:.1f} {unit}, ratio {s['median_ratio']:.3f} "
          f"({low:.3f} to {high:.3f})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--builds", nargs=2, metavar=("OLD", "NEW"))
    how.add_argument("--bytes", metavar="PELTON")
    parser.add_argument("models", nargs="+")
    parser.add_argument("-p", type=int, default=256)
    parser.add_argument("-n", type=int, default=32)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("-o", dest="out", required=True)
    args = parser.parse_args()
    cpu = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    raw = {"date": datetime.date.today().isoformat(), "cpu": cpu, "cores": os.cpu_count(),
           "threads": args.threads, "results": []}

    def keep(result):
        raw["results"].append(result)
        Path(args.out).write_text(json.dumps(raw, indent=1) + "\n")

    if args.bytes:
        first, *others = args.models
        sizes = {model: active_bytes(model) for model in args.models}
        for other in others:
            pairs = pairs_of((args.bytes, first), (args.bytes, other), ("tg", args.n), args.threads, args.pairs)
            both = (first, other)
            speed = summary(pairs, lambda run, side: run["tokens_per_second"] * sizes[both[side]] / 1e9)
            show(f"{Path(first).name} and {Path(other).name}, tg{args.n}", speed, "GB/s")
            keep({"models": [Path(m).name for m in both], "active_bytes": [sizes[m] for m in both],
                  "test": f"tg{args.n}", "gigabytes_per_second": speed, "pairs": pairs})
        return
    old, new = args.builds
    for model in args.models:
        for test in [("tg", args.n), ("pp", args.p)]:
            pairs = pairs_of((old, model), (new, model), test, args.threads, args.pairs)
            speed = summary(pairs, lambda run, _: run["tokens_per_second"])
            memory = summary(pairs, lambda run, _: run["max_rss_kib"])
            name = f"{Path(model).name}, {test[0]}{test[1]}"
            show(name, speed, "tokens/s")
            show(f"{name}, resident", memory, "KiB")
            keep({"model": Path(model).name, "test": f"{test[0]}{test[1]}", "tokens_per_second": speed,
                  "max_rss_kib": memory, "pairs": pairs})


if __name__ == "__main__":
    main()
