#!/usr/bin/env python3
"""Compare the speed of constrained decoding with that of free decoding.

Runs `pelton bench` with the schemas next to this script: of strings.json nearly nothing is forced,
of records.json three quarters. Each run of the program has many pairs of short texts, one free and
one constrained, of equal lengths and sampling; the order within a pair alternates. The result is
the median of the ratios of all pairs. A run during which other processes or, on a virtual machine,
the hypervisor used more of the cores than the limits of benches/compare/disturbance.py is dropped
and repeated.

usage: constrained.py PELTON MODEL.gguf [--run COMMAND] [--device DEVICE] [--runs N] [--pairs N]
                      [--tokens N] [--output FILE]
needs: nothing but Python
"""
import argparse
import datetime
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "compare"))
import disturbance

SCHEMAS = ("strings", "records")


def machine(pelton):
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":")[1] for line in info.read_text().splitlines() if "model name" in line]
        cpu = names[0].strip() if names else cpu
    version = subprocess.run([pelton, "--version"], capture_output=True, text=True).stdout.strip()
    return {"cpu": cpu, "processors": os.cpu_count(), "system": platform.platform(), "pelton": version}


def work(command):
    """Runs a command; prints the shares of others and what it printed."""
    watch = disturbance.Watch()
    with watch:
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    print(json.dumps([watch.shares, json.loads(done.stdout)]))


def main():
    if sys.argv[1:2] == ["--worker"]:
        return work(json.loads(sys.argv[2]))
    ap = argparse.ArgumentParser(description=__doc__, usage=argparse.SUPPRESS,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("pelton")
    ap.add_argument("model")
    ap.add_argument("--run", default="", help="a command before each run of the program")
    ap.add_argument("--device", default="cpu")
    ap.add_argument("--runs", type=int, default=5, help="runs that count, of each schema (5)")
    ap.add_argument("--most", type=int, help="runs in all, of each schema (twice --runs)")
    ap.add_argument("--pairs", type=int, default=9, help="pairs of texts in a run (9)")
    ap.add_argument("--tokens", type=int, default=32, help="tokens of a text (32)")
    ap.add_argument("--others", type=float, default=disturbance.LIMITS["others"],
                    help="share of the cores that other processes may use (%(default)g)")
    ap.add_argument("--output", type=Path)
    a = ap.parse_args()
    limits = disturbance.LIMITS | {"others": a.others}
    results = {schema: [] for schema in SCHEMAS}

    def count(schema):
        return sum(not run["dropped"] for run in results[schema])

    def measure(schema):
        command = [a.pelton, "bench", a.model, "--device", a.device, "-p", "16",
                   "-n", str(a.tokens), "-r", str(a.pairs), "-o", "json", "--json-schema",
                   str(HERE / f"{schema}.json")]
        # --run may wait for the machine, which is not part of the run
        worker = [*shlex.split(a.run), sys.executable, __file__, "--worker", json.dumps(command)]
        done = subprocess.run(worker, check=True, stdout=subprocess.PIPE)
        shares, (result,) = json.loads(done.stdout)
        ratios = [constrained / free for free, constrained in result["runs"]]
        dropped = disturbance.disturbed(shares, limits)
        print(f"{schema}: {statistics.median(ratios):.3f} {shares}"
              f"{' (dropped)' if dropped else ''}", file=sys.stderr, flush=True)
        return {"dropped": dropped, "shares": shares, "ratio": statistics.median(ratios),
                "tokens": result["tokens"], "forced": result["forced"], "pairs": result["runs"],
                "backend": result["backend"], "threads": result["threads"]}

    # the schemas take turns
    for _ in range(a.most or 2 * a.runs):
        for schema in SCHEMAS:
            if count(schema) < a.runs:
                results[schema].append(measure(schema))
    if a.output:
        data = {"date": datetime.date.today().isoformat(), "machine": machine(a.pelton),
                "model": Path(a.model).name, "tokens": a.tokens, "limits": limits,
                "results": results}
        a.output.write_text(json.dumps(data, indent=1) + "\n")
    print("| schema | forced of all tokens | free tokens/s | constrained tokens/s | ratio "
          "| medians of the runs | runs (dropped) |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for schema, runs in results.items():
        kept = [run for run in runs if not run["dropped"]] or runs
        pairs = [pair for run in kept for pair in run["pairs"]]
        ratios = [run["ratio"] for run in kept]
        free, constrained = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
        ratio = statistics.median(constrained / free for free, constrained in pairs)
        print(f"| {schema} | {sum(run['forced'] for run in kept)} of "
              f"{sum(run['tokens'] for run in kept)} | {free:.1f} | {constrained:.1f} | {ratio:.3f} "
              f"| {min(ratios):.3f} to {max(ratios):.3f} | {len(kept)} ({len(runs) - len(kept)}) |")


if __name__ == "__main__":
    main()
