#!/usr/bin/env python3
"""Measure the cost of HTTP: decode speed of one stream over HTTP next to that of `pelton run`.

Runs alternate in the order A B B A; the speed is that of the tokens after the first, which `pelton run`
measures in the process and the client by the times of the first token and of the end. It also states the CPU
time that the server's own threads take for a token, and how often they are woken for it.

usage: http_cost.py MODEL [--pelton PROGRAM] [--threads N] [--tokens N] [--blocks N] -o RAW.json
"""
import argparse
import json
import statistics
import subprocess

from client import Server, machine, stream_quietly

PROMPT = "Once upon a time"


def run(program, model, threads, tokens):
    """Tokens a second of `pelton run`."""
    command = [program, "run", model, PROMPT, "--raw", "--json", "--tokens", str(tokens), "--temperature", "0",
               "--device", "cpu", "--threads", str(threads), "--speculate", "off", "--context", "1024"]
    out = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert out["generated_tokens"] == tokens, out["finish_reason"]
    return out["decode_tokens_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--pelton", default="target/release/pelton")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--blocks", type=int, default=6)
    parser.add_argument("-o", dest="out", required=True)
    args = parser.parse_args()
    port = 18200
    server = Server("pelton", [args.pelton, "serve", args.model, "--device", "cpu", "--threads",
                               str(args.threads), "--port", str(port), "--context", "1024",
                               "--parallel", "1", "--speculate", "off"], port)

    def direct():
        server.pause()
        speed = run(args.pelton, args.model, args.threads, args.tokens)
        server.resume()
        return speed

    own = []

    def http():
        before = server.own_threads()
        first, last = stream_quietly(port, PROMPT, args.tokens)
        own.append([(b - a) / args.tokens for a, b in zip(before, server.own_threads())])
        return (args.tokens - 1) / (last - first)

    try:
        direct(), http()
        pairs = []
        for _ in range(args.blocks):
            a, b, c, d = direct(), http(), http(), direct()
            pairs += [[a, b], [d, c]]
    finally:
        server.close()
    ratios = [http / direct for direct, http in pairs]
    result = {
        **machine(), "model": args.model.rsplit("/", 1)[-1], "threads": args.threads, "tokens": args.tokens,
        "pairs": pairs, "median_ratio": statistics.median(ratios), "range": [min(ratios), max(ratios)],
        "server_microseconds_per_token": 1e6 * statistics.median(seconds for seconds, _ in own),
        "server_slices_per_token": statistics.median(slices for _, slices in own),
        "direct": statistics.median(a for a, _ in pairs), "http": statistics.median(b for _, b in pairs),
    }
    with open(args.out, "w") as file:
        json.dump(result, file, indent=1)
    print(f"{result['model']}, {args.threads} threads: direct {result['direct']:.1f}, HTTP {result['http']:.1f} "
          f"tokens/s, ratio {result['median_ratio']:.3f} ({min(ratios):.3f} to {max(ratios):.3f}), "
          f"{len(pairs)} pairs; the server's own threads {result['server_microseconds_per_token']:.0f} µs and "
          f"{result['server_slices_per_token']:.2f} slices a token")


main()
