#!/usr/bin/env python3
"""Compare Pelton's speech with whisper.cpp and faster-whisper on the models of models.py.

Each round runs every program in turn, each in a process of its own with the same number of threads:

- encoder: milliseconds of one window of 30 s, the median of three after one more;
- token: milliseconds of a step of one sequence in the decoder, over 40 steps. Pelton's and whisper.cpp's have no
  choice of the token; faster-whisper's is the difference of two texts;
- file: seconds for MINUTES of synthetic speech, with greedy decoding, in batches where the program has them. Every
  window has 101 or 102 tokens. Pelton's include its start; those of others begin after the model is loaded.

Each of these has the time of the CPU too, which other processes disturb less: compare it with one thread, as
whisper.cpp's threads wait in loops. Pelton's encoder and token are those of `cargo bench -p pelton-cpu --bench
speech`. Prints the medians, and appends one line of JSON for each run to RAW.

usage: peers.py FOLDER RAW --bench BINARY [--size tiny] [--rounds 3] [--isa avx2] [--whisper-cpp PYTHON] ...
needs: pip install faster-whisper pywhispercpp; cargo build --release; models.py FOLDER
"""
import argparse
import importlib.metadata
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import time
import wave
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RATE = 16000
PROMPT = [50258, 50259, 50359, 50363]
STEPS = 40
BATCH = 8
COLUMNS = ["encoder", "encoder CPU", "token", "token CPU", "file", "file CPU", "windows", "tokens"]


def speech(minutes):
    """The samples of the built-in model, one after the other with pauses."""
    import numpy as np
    parts = []
    for path in sorted((ROOT / "models/speech/samples").glob("*.wav")):
        with wave.open(str(path)) as file:
            codes = np.frombuffer(file.readframes(file.getnframes()), np.uint8)
        parts += [(codes.astype(np.float32) - 128) / 128, np.zeros(RATE // 5, np.float32)]
    once = np.concatenate(parts)
    count = int(minutes * 60 * RATE)
    return np.tile(once, -(-count // len(once)))[:count]


def write_wav(path, samples):
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, len(samples), "NONE", None))
        file.writeframes((samples * 32767).astype("<i2").tobytes())


class Timer:
    """Seconds of the wall and of the CPU since it was made."""

    def __init__(self):
        self.begin = time.perf_counter(), time.process_time()

    def passed(self):
        return time.perf_counter() - self.begin[0], time.process_time() - self.begin[1]


def named(what, times, factor=1):
    return {what: factor * times[0], f"{what} CPU": factor * times[1]}


def median_of_three(run):
    run()
    times = []
    for _ in range(3):
        timer = Timer()
        run()
        times.append(timer.passed())
    return [statistics.median(column) for column in zip(*times)]


def whisper_cpp(folder, size, minutes, threads):
    import _pywhispercpp as w
    import numpy as np
    options = w.whisper_context_default_params()
    options.use_gpu = False
    context = w.whisper_init_from_file_with_params(str(folder / f"ggml-{size}.bin"), options)
    samples = speech(max(minutes, 0.5))
    window = np.ascontiguousarray(samples[: 30 * RATE])
    w.whisper_pcm_to_mel(context, window, len(window), threads)
    found = named("encoder", median_of_three(lambda: w.whisper_encode(context, 0, threads)), 1e3)
    for position, token in enumerate(PROMPT):
        w.whisper_decode(context, token, 1, position, threads)
    timer = Timer()
    for step in range(STEPS):
        w.whisper_decode(context, 1000 + step, 1, len(PROMPT) + step, threads)
    found |= named("token", timer.passed(), 1e3 / STEPS)
    if minutes:
        params = w.whisper_full_default_params(w.whisper_sampling_strategy.WHISPER_SAMPLING_GREEDY)
        params.n_threads, params.language, params.no_timestamps = threads, "en", True
        params.single_segment = False
        params.n_max_text_ctx, params.temperature_inc = 0, 0.0
        params.print_progress = params.print_realtime = params.print_timestamps = False
        timer = Timer()
        w.whisper_full(context, params, samples, len(samples))
        found |= named("file", timer.passed())
        count = w.whisper_full_n_segments(context)
        found["windows"] = count
        found["tokens"] = sum(w.whisper_full_n_tokens(context, i) for i in range(count))
    found["program"] = f"pywhispercpp {importlib.metadata.version('pywhispercpp')}: {w.whisper_print_system_info()}"
    return found


def faster_whisper(folder, size, minutes, threads):
    from faster_whisper import BatchedInferencePipeline, WhisperModel
    import ctranslate2
    import numpy as np
    model = WhisperModel(
        str(folder / f"ct2-{size}"), device="cpu", compute_type="int8", cpu_threads=threads, local_files_only=True)
    samples = speech(max(minutes, 0.5))
    features = model.feature_extractor(samples[: 30 * RATE])[:, :3000]
    features = ctranslate2.StorageView.from_array(np.ascontiguousarray(features[None]))
    found = named("encoder", median_of_three(lambda: model.model.encode(features)), 1e3)
    encoded = model.model.encode(features)

    def text(count):
        timer = Timer()
        result = model.model.generate(encoded, [PROMPT], beam_size=1, max_length=len(PROMPT) + count)
        return len(result[0].sequences_ids[0]), timer.passed()

    text(20)
    (few, short), (many, long) = text(20), text(180)
    found |= named("token", [after - before for before, after in zip(short, long)], 1e3 / (many - few))
    if minutes:
        pipeline = BatchedInferencePipeline(model)
        timer = Timer()
        segments, _ = pipeline.transcribe(
            samples, language="en", beam_size=1, batch_size=BATCH, temperature=0.0, suppress_tokens=[],
            log_prob_threshold=None, compression_ratio_threshold=None, no_speech_threshold=None)
        segments = list(segments)
        found |= named("file", timer.passed())
        found["windows"] = len(segments)
        found["tokens"] = sum(len(segment.tokens) for segment in segments)
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("faster-whisper", "ctranslate2")]
    found["program"] = f"{', '.join(versions)}, int8"
    return found


def output(words, environment):
    return subprocess.run(
        [str(word) for word in words], env=environment, check=True, capture_output=True, text=True).stdout


def pelton(args, kind, minutes):
    environment = os.environ | ({"PELTON_ISA": args.isa} if args.isa else {})
    words = [args.bench, args.threads, kind, args.size, "--bench"]
    text = output(words, environment)
    found = {}
    for what, row in (("encoder", "encoder, a window"), ("token", "decoder, a step of 1")):
        line = re.search(rf"{row} +([0-9.]+) ms, +([0-9.]+) ms of the CPU", text)
        found |= named(what, (float(line[1]), float(line[2])))
    if minutes:
        file = args.folder / f"speech-{minutes:g}.wav"
        write_wav(file, speech(minutes))
        model = args.folder / f"ggml-{args.size}{'' if kind == 'f16' else '-' + kind}.bin"
        words = [args.pelton, "transcribe", model, file, "--beam", 1, "-l", "en", "--no-condition", "--batch", BATCH,
                 "--threads", args.threads,
                 "--format", "json"]
        timer, before = Timer(), resource.getrusage(resource.RUSAGE_CHILDREN)
        text = output(words, environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        found |= named("file", (timer.passed()[0], cpu))
        segments = json.loads(text)["segments"]
        found["windows"] = len(segments)
        found["tokens"] = sum(len(segment["tokens"]) for segment in segments)
    found["program"] = f"pelton, {kind}, {args.isa or 'best instruction set'}"
    return found


def worker(python, name, args, minutes):
    words = [python, __file__, args.folder, args.raw, "--worker", name, "--size", args.size,
             "--minutes", minutes, "--threads", args.threads]
    # a build from source does not find its own libraries
    packages = next((Path(python).parent.parent / "lib").glob("python*/site-packages"), "")
    environment = os.environ | {"LD_LIBRARY_PATH": str(packages)}
    done = subprocess.run([str(w) for w in words], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{name} failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("raw", type=Path)
    parser.add_argument("--bench", type=Path, help="the program that cargo built of crates/cpu/benches/speech.rs")
    parser.add_argument("--pelton", type=Path, default=ROOT / "target/release/pelton")
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--minutes", type=float, default=10, help="of the file; 0 leaves it out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--isa", help="of Pelton, such as avx2")
    parser.add_argument("--whisper-cpp", type=Path, help="a Python with another build of pywhispercpp, compared too")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        of = {"whisper.cpp": whisper_cpp, "faster-whisper": faster_whisper}[args.worker]
        found = of(args.folder, args.size, args.minutes, args.threads)
        print(json.dumps(found))
        return
    if not args.bench:
        parser.error("--bench names the benchmark's program")
    runs = {
        "pelton f16": lambda: pelton(args, "f16", args.minutes),
        "pelton q8_0": lambda: pelton(args, "q8_0", args.minutes),
        "whisper.cpp": lambda: worker(sys.executable, "whisper.cpp", args, args.minutes),
        "faster-whisper": lambda: worker(sys.executable, "faster-whisper", args, args.minutes),
    }
    if args.whisper_cpp:
        runs["whisper.cpp, own build"] = lambda: worker(args.whisper_cpp, "whisper.cpp", args, args.minutes)
    found = {name: [] for name in runs}
    with open(args.raw, "a") as raw:
        for turn in range(args.rounds):
            # the order alternates, so that no program always follows the same one
            for name in list(runs)[:: -1 if turn % 2 else 1]:
                result = runs[name]()
                found[name].append(result)
                line = {"size": args.size, "name": name, "round": turn, "threads": args.threads,
                        "minutes": args.minutes} | result
                raw.write(json.dumps(line) + "\n")
                raw.flush()
    print(f"{args.size}: medians of {args.rounds}")
    for name, results in found.items():
        medians = [f"{what} {statistics.median(result[what] for result in results):.2f}"
                   for what in COLUMNS if what in results[0]]
        print(f"  {name:24}", *medians)


if __name__ == "__main__":
    main()
