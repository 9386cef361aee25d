#!/usr/bin/env python3
"""Time to the first token of a request, and of a second one with the same beginning.

Starts `pelton serve`, sends one request after the other, and prints for each pair the milliseconds
until the first token of both, and in brackets those of them outside of the model: the connection, the
body, its JSON, threads that wake up (all but the histogram of /metrics, which begins when the request
is submitted to the scheduler). Each pair has a prefix of its own, so only the second request of a pair
finds it in the cache.

usage: prefix.py PELTON MODEL [--common 4000] [--own 100] [--pairs 5] [-o FILE.json] [-- FLAGS]
  FLAGS   further arguments of `pelton serve`, such as --device cpu --threads 2
"""
import argparse
import json
import random
import re
import socket
import statistics
import subprocess
import sys
import time
import urllib.request


def in_model(port):
    """Seconds from submission to first token of all requests so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
        text = response.read().decode()
    return sum(map(float, re.findall(r"time_to_first_token_seconds_sum\S* (\S+)", text)))


def first_token(port, model, ids):
    """Milliseconds from sending a prompt to the first event with a choice, and those outside of the model."""
    before = in_model(port)
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
    all_of_it = 1e3 * (found - begun)
    return all_of_it, all_of_it - 1e3 * (in_model(port) - before)


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
    for (first, first_outside), (second, second_outside) in pairs:
        print(f"first {first:9.1f} ms ({first_outside:.1f})   second {second:9.1f} ms ({second_outside:.1f})   "
              f"ratio {second / first:.3f}")
    print(f"median ratio {statistics.median(b / a for (a, _), (b, _) in pairs):.3f}, outside of the model "
          f"{statistics.median(outside for pair in pairs for _, outside in pair):.1f} ms")
    if args.output:
        with open(args.output, "w") as file:
            json.dump({"common": args.common, "own": args.own,
                       "ms": [[ms for ms, _ in pair] for pair in pairs],
                       "ms_outside_of_the_model": [[ms for _, ms in pair] for pair in pairs]}, file)


if __name__ == "__main__":
    main()
