#!/usr/bin/env python3
"""Measure servers under load: open-loop Poisson arrivals over HTTP, at given rates, several servers in one run.

A server is `NAME=COMMAND`, which is started with {port} replaced, or `NAME=http://HOST:PORT`, which runs already.
Servers take turns at each rate, in the order A B, then B A; a server that was started and is not measured is stopped
by a signal. All servers get the same requests: prompts as token ids, answers of exact lengths (`ignore_eos`).

workloads (--workload, lengths times --scale):
  chat       prompts of 50 to 600 tokens, answers of 50 to 250
  retrieval  prompts of 8,000, of which 5,600 are one of four documents, answers of 200
  agents     3 to 6 turns on a growing prompt with tool calls: calls of 20 to 80, results of 50 to 500,
             answers of 100 to 300, 1,200 shared by all

A request is good if its first token comes within --target-ttft ms after the request was due, its other tokens
within --target-tbt ms each in the mean, and its answer is whole. --abandon is the fraction of clients that go away
within their answers; those count as neither.

usage: load.py --server NAME=COMMAND [--server ...] --rates 4,8,16 [--workload chat] -o RAW.json [--plot PLOT.svg]
       load.py --join RAW.json [RAW.json ...] -o RAW.json     (points of several runs in one file)
needs: Python 3.10 or later, nothing else
"""
import argparse
import asyncio
import json
import shlex
import sys
import urllib.parse
from pathlib import Path

import plot_load
from client import Server, machine
from goodput import figures
from open_loop import run
from workloads import NAMES, Source

PORT = 18300


class Running:
    """A server that runs already."""

    def __init__(self, name, url):
        parts = urllib.parse.urlsplit(url)
        if not parts.hostname or not parts.port:
            raise SystemExit(f"{name} is {url}, expected http://HOST:PORT")
        self.name, self.address = name, (parts.hostname, parts.port)

    def pause(self):
        pass

    resume = close = pause


class Started(Server):
    """A server that a command starts on a port of its own."""

    def __init__(self, name, command, port):
        super().__init__(name, [word.replace("{port}", str(port)) for word in shlex.split(command)], port)
        self.address = ("127.0.0.1", port)


def server(text, port):
    name, _, rest = text.partition("=")
    if not rest:
        raise SystemExit(f"--server is {text}, expected NAME=COMMAND or NAME=http://HOST:PORT")
    return Running(name, rest) if rest.startswith("http://") else Started(name, rest, port)


def show(point):
    """A line of a point."""
    ms = lambda value: "-" if value is None else f"{value * 1e3:,.0f}"
    first, gap = point["first_token_seconds"], point["longest_gap_seconds"]
    token = point["token_seconds"]
    return (f"{point['workload']} {point['rate']:g}/s {point['server']}: good {point['good_per_second']:.2f}/s of "
            f"{point['requests_per_second']:.2f}, first token {ms(first['p50'])} / {ms(first['p99'])} ms, token "
            f"{ms(token['p50'])} / {ms(token['p99'])} ms, longest gap {ms(gap['p50'])} / {ms(gap['p99'])} ms, "
            f"{point['tokens_per_second']:,.0f} tokens/s, {point['outcomes']}")


def parsed():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--server", action="append", default=[])
    ap.add_argument("--rates", default="1,2,4")
    ap.add_argument("--workload", default="chat", help="one of chat, retrieval and agents, or several with commas")
    ap.add_argument("--seconds", type=float, default=20, help="of arrivals at each rate")
    ap.add_argument("--drain", type=float, default=60, help="seconds after the last arrival")
    ap.add_argument("--blocks", type=int, default=1, help="runs of each server at each rate")
    ap.add_argument("--scale", type=float, default=1.0)
    ap.add_argument("--vocab", type=int, default=4000)
    ap.add_argument("--abandon", type=float, default=0.03)
    ap.add_argument("--target-ttft", type=float, default=500, help="milliseconds")
    ap.add_argument("--target-tbt", type=float, default=25, help="milliseconds")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--options", default='{"temperature": 1, "top_k": 40, "top_p": 0.95}',
                    help="further fields of each request, as JSON")
    ap.add_argument("--api-key")
    ap.add_argument("--note", default="", help="a sentence for the raw data, such as the model")
    ap.add_argument("--join", nargs="+", type=Path)
    ap.add_argument("-o", dest="out", required=True)
    ap.add_argument("--plot")
    args = ap.parse_args()
    args.rates = [float(rate) for rate in args.rates.split(",")]
    args.workload = args.workload.split(",")
    for name in args.workload:
        if name not in NAMES:
            ap.error(f"--workload is {name}, expected one of {', '.join(NAMES)}")
    return args


def measure(args, servers):
    """Yields the points of all workloads, rates and servers."""
    options = json.loads(args.options)
    targets = args.target_ttft / 1e3, args.target_tbt / 1e3
    for other in servers:
        # kernels are compiled and costs learned before the first measured request
        for number, name in enumerate(args.workload):
            warm = Source(name, f"warm {number}", args.scale, args.vocab, abandon=0)
            sessions = [warm.session(0.05 * i) for i in range(4)]
            asyncio.run(run(other.address, sessions, options, args.drain, args.api_key))
        other.pause()
    for name in args.workload:
        for rate in args.rates:
            for block in range(args.blocks):
                for other in servers if block % 2 == 0 else reversed(servers):
                    source = Source(name, f"{args.seed} {rate} {block}", args.scale, args.vocab, args.abandon)
                    sessions = source.arrivals(rate, args.seconds)
                    other.resume()
                    work = run(other.address, sessions, options, args.drain, args.api_key)
                    outcomes, elapsed = asyncio.run(work)
                    other.pause()
                    point = {"workload": name, "rate": rate, "server": other.name, "block": block}
                    yield point | figures(outcomes, args.seconds, elapsed, *targets)


def main():
    args = parsed()
    if args.join:
        files = [json.loads(path.read_text()) for path in args.join]
        result = files[0] | {"points": [point for file in files for point in file["points"]]}
    else:
        result = {**machine(), "note": args.note, "seconds": args.seconds, "scale": args.scale, "seed": args.seed,
                  "abandon": args.abandon, "target_ttft_ms": args.target_ttft, "target_tbt_ms": args.target_tbt,
                  "servers": args.server, "points": []}
        servers = []
        try:
            for number, text in enumerate(args.server):
                servers.append(server(text, PORT + number))
            for point in measure(args, servers):
                result["points"].append(point)
                print(show(point), flush=True)
                Path(args.out).write_text(json.dumps(result, indent=1) + "\n")
        finally:
            for other in servers:
                other.close()
    Path(args.out).write_text(json.dumps(result, indent=1) + "\n")
    if args.plot:
        Path(args.plot).write_text(plot_load.draw(result))


if __name__ == "__main__":
    sys.exit(main())
