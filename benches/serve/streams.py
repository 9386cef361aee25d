#!/usr/bin/env python3
"""Measure streams over HTTP: `pelton serve` next to llama.cpp's `llama-server`.

Each run sends N requests at once, each with a prompt of its own of `--prompt` tokens, and reads them to
their ends. Runs of the two servers alternate in the order A B B A; the server that is not measured is
stopped by a signal. Both run the same file on the same number of threads with as many slots as
streams, and sample with the same options (temperature 1, top-k 40, top-p 0.95).

usage: streams.py MODEL --llama-server PROGRAM --streams N [--pelton PROGRAM] [--blocks N] -o RAW.json
"""
import argparse
import asyncio
import json
import statistics
import time

from client import Server, machine, prompt, stream


async def burst(port, count, length, tokens, seed):
    """Total tokens a second, and the seconds to the first token of each stream."""
    begun = time.perf_counter()
    streams = [stream(port, prompt(length, seed * 100 + i), tokens, seed * 100 + i) for i in range(count)]
    times = await asyncio.gather(*streams)
    return count * tokens / (time.perf_counter() - begun), [first for first, _ in times]


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--pelton", default="target/release/pelton")
    parser.add_argument("--llama-server", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--streams", type=int, required=True)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("-o", dest="out", required=True)
    args = parser.parse_args()
    n, threads = args.streams, str(args.threads)
    servers = [
        Server("pelton", [args.pelton, "serve", args.model, "--device", "cpu", "--threads", threads, "--port",
                          "18201", "--context", "512", "--parallel", str(n)], 18201),
        Server("llama-server", [args.llama_server, "-m", args.model, "-t", threads, "-tb", threads, "--host",
                                "127.0.0.1", "--port", "18202", "-c", str(512 * n), "-np", str(n)], 18202),
    ]
    results = {server.name: {"tokens_per_second": [], "first_token_seconds": []} for server in servers}
    try:
        for server in servers:
            asyncio.run(burst(server.port, n, args.prompt, 8, 99))
        for server in servers:
            server.pause()
        for block in range(args.blocks):
            for turn, i in enumerate([0, 1, 1, 0]):
                server = servers[i]
                server.resume()
                speed, firsts = asyncio.run(
                    burst(server.port, n, args.prompt, args.tokens, 10 * block + turn))
                server.pause()
                results[server.name]["tokens_per_second"].append(speed)
                results[server.name]["first_token_seconds"].append(firsts)
    finally:
        for server in servers:
            server.close()
    summary = {}
    for name, runs in results.items():
        firsts = [first for run in runs["first_token_seconds"] for first in run]
        summary[name] = {
            "tokens_per_second": statistics.median(runs["tokens_per_second"]),
            "first_token_p50": quantile(firsts, 0.5), "first_token_p99": quantile(firsts, 0.99),
        }
    ours, theirs = (results[server.name]["tokens_per_second"] for server in servers)
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    result = {
        **machine(), "model": args.model.rsplit("/", 1)[-1], "threads": args.threads, "streams": n,
        "prompt": args.prompt, "tokens": args.tokens, "summary": summary, "ratios": ratios, "runs": results,
    }
    with open(args.out, "w") as file:
        json.dump(result, file, indent=1)
    for name, values in summary.items():
        print(f"{n} streams, {name}: {values['tokens_per_second']:.1f} tokens/s, first token "
              f"p50 {values['first_token_p50'] * 1e3:.0f} ms, p99 {values['first_token_p99'] * 1e3:.0f} ms")
    print(f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}), {len(ratios)} pairs")


main()
