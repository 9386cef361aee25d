#!/usr/bin/env python3
"""Time to the first token of a request, and of a second one with the same beginning.

Starts `pelton serve`, sends one request after the other, and prints for each pair the milliseconds
until the first token of both. Each pair has a prefix of its own, so only the second request of a
pair finds it in the cache.

usage: prefix.py PELTON MODEL [--common 4000] [--own 100] [--pairs 5] [-o FILE.json] [-- FLAGS]
  FLAGS   further arguments of `pelton serve`, such as --device cpu --threads 2
"""
import argparse
import json
import random
import socket
import statistics
import subprocess
import sys
import time
import urllib.request


def first_token(port, model, ids):
    """Milliseconds from sending a prompt to the first event with a choice."""
    body = {"model": model, "prompt": ids, "max_tokens": 2, "stream": True, "temperature": 0}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/completions",
        json.dumps({**body, "ignore_eos": True}).encode(),
        {"Content-Type": "application/json"},
    )
    begun = time.perf_counter()
    with urllib.request.urlopen(request) as response:
        found = None
        for line in response:
            if line.startswith(b"data: {") and b'"choices"' in line and found is None:
                found = time.perf_counter()
    return 1e3 * (found - begun)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pelton")
    parser.add_argument("model")
    parser.add_argument("--common", type=int, default=4000)
    parser.add_argument("--own", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("-o", "--output")
    own, flags = sys.argv[1:], []
    if "--" in own:
        at = own.index("--")
        own, flags = own[:at], own[at + 1 :]
    args = parser.parse_args(own)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = str(args.common + args.own + 64)
    command = [args.pelton, "serve", args.model, "--port", str(port), "--context", context]
    server = subprocess.Popen(command + flags, stderr=subprocess.DEVNULL)
    try:
        model = None
        while model is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models") as response:
                    model = json.load(response)["data"][0]["id"]
            except OSError:
                if server.poll() is not None:
                    raise SystemExit("the server has stopped")
                time.sleep(0.1)
        draw = random.Random(1)
        ids = lambda count: [draw.randrange(300, 1000) for _ in range(count)]
        first_token(port, model, ids(args.common))
        pairs = []
        for _ in range(args.pairs):
            common = ids(args.common)
            pairs.append([first_token(port, model, common + ids(args.own)) for _ in range(2)])
    finally:
        server.terminate()
        server.wait()
    for first, second in pairs:
        print(f"first {first:9.1f} ms   second {second:9.1f} ms   ratio {second / first:.3f}")
    print(f"median ratio {statistics.median(b / a for a, b in pairs):.3f}")
    if args.output:
        with open(args.output, "w") as file:
            json.dump({"common": args.common, "own": args.own, "ms": pairs}, file)


if __name__ == "__main__":
    main()
