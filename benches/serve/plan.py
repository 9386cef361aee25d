#!/usr/bin/env python3
"""Compare what `pelton plan` predicts with what `pelton bench --streams` measures on this machine's CPU.

usage: plan.py PELTON MODEL [MODEL ...] [--streams 1,4,8] [--prompt 128] [--tokens 64] [--threads 2] -o RAW.json
needs: Python 3.10 or later, Linux

The measured memory is the resident set of the process in the middle of its run: after the load, and before the end.
"""
import argparse
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

from client import machine


def output(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Resident(threading.Thread):
    """The resident set of a process over its time, in bytes: anonymous memory and pages of files."""

    def __init__(self, process):
        super().__init__()
        self.process, self.samples = process, []
        self.start()

    def run(self):
        while self.process.poll() is None:
            try:
                text = Path(f"/proc/{self.process.pid}/status").read_text()
            except OSError:
                break
            lines = dict(line.split(":", 1) for line in text.splitlines())
            if "RssAnon" in lines:
                self.samples.append([int(lines[name].split()[0]) << 10 for name in ("RssAnon", "RssFile")])
            time.sleep(0.02)


def measure(args, model, streams):
    """Tokens per second of all streams, and bytes."""
    command = [args.pelton, "bench", model, "--device", "cpu", "--threads", str(args.threads), "--streams", str(streams),
               "-p", str(args.prompt), "-n", str(args.tokens), "-r", "2", "-o", "json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    resident = Resident(process)
    text = process.communicate()[0]
    resident.join()
    if process.returncode:
        raise SystemExit(f"{command} failed")
    anonymous, of_files = resident.samples[len(resident.samples) * 3 // 4]
    return json.loads(text)[0]["decode_tokens_per_second"]["median"], anonymous, of_files


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("pelton")
    ap.add_argument("models", nargs="+")
    ap.add_argument("--streams", default="1,4,8")
    ap.add_argument("--prompt", type=int, default=128)
    ap.add_argument("--tokens", type=int, default=64)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("-o", dest="out", required=True)
    args = ap.parse_args()
    result = {**machine(), "prompt": args.prompt, "tokens": args.tokens, "threads": args.threads, "cases": []}
    for model in args.models:
        for streams in map(int, args.streams.split(",")):
            plan = json.loads(output([
                args.pelton, "plan", model, "--device", "cpu", "--threads", str(args.threads), "--streams", str(streams),
                "--context", str(args.prompt + args.tokens), "--depth", str(args.prompt + args.tokens // 2), "--json"]))
            rate, anonymous, of_files = measure(args, model, streams)
            memory = anonymous + of_files
            result["cases"].append({
                "model": Path(model).stem, "streams": streams, "plan": plan, "tokens_per_second": rate,
                "anonymous_bytes": anonymous, "file_bytes": of_files})
            predicted = plan["decode_tokens_per_second"], plan["memory"]["total"]
            print(f"{Path(model).stem}, {streams} streams: {predicted[0]:.0f} of {rate:.0f} tokens/s "
                  f"({predicted[0] / rate:.2f}), {predicted[1] / 1e6:.1f} of {memory / 1e6:.1f} MB "
                  f"({predicted[1] / memory:.3f}); {anonymous / 1e6:.1f} anonymous", flush=True)
            Path(args.out).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
