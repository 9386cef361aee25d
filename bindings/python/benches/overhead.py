"""The time that Python adds to a token, in pairs: the Rust library's own iterator and Python's calls.

    python benches/overhead.py [MODEL.gguf] [--threads 1] [--pairs 60] [--tokens 100] [--json FILE]

Both run in this process on the same model, in turns: A B, B A, and so on. The difference of a pair over its
tokens is the overhead of a token: its median and quartiles are printed, of the time and of the CPU time of all
threads. The latter is exact on a busy machine too, and bounds the former from above where a core is free.
Relative figures are those of a model of 500 tokens/s, 2 ms a token.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import time

import pelton
from pelton._pelton import _time_in_rust

PER_TOKEN = 1 / 500
# one event loop, as programs have
RUNNER = asyncio.Runner()


def generate(model, prompt, tokens):
    begun = time.perf_counter()
    count = len(model.generate(prompt, max_tokens=tokens, ignore_eos=True, temperature=0).tokens)
    return count, time.perf_counter() - begun


def stream(model, prompt, tokens):
    begun = time.perf_counter()
    count = 0
    for token in model.stream(prompt, max_tokens=tokens, ignore_eos=True, temperature=0):
        count += len(token.text) >= 0
    return count, time.perf_counter() - begun


def astream(model, prompt, tokens):
    async def read():
        count = 0
        options = {"max_tokens": tokens, "ignore_eos": True, "temperature": 0}
        async for token in model.astream(prompt, **options):
            count += len(token.text) >= 0
        return count

    begun = time.perf_counter()
    return RUNNER.run(read()), time.perf_counter() - begun


def added(pairs, tokens):
    """Microseconds that Python adds to a token, and their percentage of `PER_TOKEN`."""
    each = sorted((python - rust) / tokens for rust, python in pairs)
    middle = statistics.median(each)
    return {
        "microseconds_per_token": round(middle * 1e6, 2),
        "quartiles": [round(each[len(each) * q // 4] * 1e6, 2) for q in (1, 3)],
        "percent": round(100 * middle / PER_TOKEN, 2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    model = pelton.load(
        arguments.model, device="cpu", threads=arguments.threads, speculation="off"
    )
    prompt = model.tokenizer.encode("Once upon a time")
    result = {
        "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "pelton": pelton.__version__,
        "model": model.name,
        "tokens": arguments.tokens,
        "pairs": arguments.pairs,
    }
    for call in (generate, stream, astream):
        _time_in_rust(model, prompt, arguments.tokens)
        call(model, prompt, arguments.tokens)
        pairs = []
        for pair in range(arguments.pairs):
            runs = [_time_in_rust, call]
            times = {}
            for run in runs if pair % 2 == 0 else reversed(runs):
                cpu = time.process_time()
                count, seconds = run(model, prompt, arguments.tokens)
                assert count == arguments.tokens, (count, run)
                times[run] = (seconds, time.process_time() - cpu)
            pairs.append((times[_time_in_rust], times[call]))
        rust = statistics.median(rust[0] for rust, _ in pairs)
        result[call.__name__] = {
            "rust_tokens_per_second": round(arguments.tokens / rust, 1),
            "time": added([(rust[0], python[0]) for rust, python in pairs], arguments.tokens),
            "cpu_time": added([(rust[1], python[1]) for rust, python in pairs], arguments.tokens),
        }
        print(call.__name__, json.dumps(result[call.__name__]))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
