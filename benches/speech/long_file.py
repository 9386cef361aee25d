"""The memory of `pelton transcribe` for a file of hours, above the weights.

    python3 benches/speech/long_file.py [--pelton target/release/pelton] [--hours 2] [--model MODEL]

It writes a wav file of the built-in model's samples with pauses between them, transcribes it with voice
activity detection and without, and prints the peak of the resident memory of each run. Both have to stay
300 MB above the weights at most. A file of one sample shows what is there before any audio.
"""

import argparse
import os
import pathlib
import platform
import random
import subprocess
import sys
import tempfile
import time
import wave

HERE = pathlib.Path(__file__).resolve().parent
SAMPLES = HERE / "../../models/speech/samples"
WEIGHTS = HERE / "../../models/speech/pelton-speech.gguf"
RATE = 16000
MOST = 300e6


def samples():
    """The samples as 16-bit values."""
    out = []
    for path in sorted(SAMPLES.glob("*.wav")):
        with wave.open(str(path)) as file:
            # 8 bits without a sign
            assert file.getsampwidth() == 1 and file.getframerate() == RATE, path
            data = file.readframes(file.getnframes())
        out.append(b"".join(((byte - 128) << 8).to_bytes(2, "little", signed=True) for byte in data))
    return out


def write(path, seconds):
    """Sentences with pauses of up to 4 s, to at least this length."""
    parts, chosen, written = samples(), random.Random(1), 0
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        while written < seconds * RATE * 2:
            part = chosen.choice(parts) + bytes(2 * chosen.randrange(RATE // 4, 4 * RATE))
            file.writeframesraw(part)
            written += len(part)
    return written / RATE / 2


def run(args, audio, flags):
    """Seconds, CPU seconds, the peak of resident memory in bytes, and lines of text."""
    command = [args.pelton, "transcribe", args.model, str(audio), "--device", "cpu", "--beam", "1", *flags]
    begun = time.monotonic()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, command
        out.seek(0)
        lines = out.read().count(b"\n")
    return time.monotonic() - begun, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pelton", default="target/release/pelton")
    parser.add_argument("--hours", type=float, default=2)
    parser.add_argument("--model", default="built-in")
    args = parser.parse_args()
    weights = WEIGHTS if args.model == "built-in" else pathlib.Path(args.model)
    version = subprocess.run([args.pelton, "--version"], capture_output=True, text=True).stdout.strip()
    print(f"{version}, {platform.platform()}, {os.cpu_count()} virtual CPUs")
    print(f"{weights.name}: {weights.stat().st_size / 1e6:.1f} MB")
    good = True
    with tempfile.TemporaryDirectory() as folder:
        audio = pathlib.Path(folder) / "long.wav"
        for hours, flags in [(1 / 3600, []), (args.hours, []), (args.hours, ["--vad"]), (args.hours, ["--batch", "8"])]:
            seconds = write(audio, hours * 3600)
            wall, cpu, peak, lines = run(args, audio, flags)
            above = peak - weights.stat().st_size
            good = good and above <= MOST
            name = " ".join(flags) or "no flags"
            print(
                f"{seconds:7.0f} s of audio, {name}: peak {peak / 1e6:.0f} MB, {above / 1e6:.0f} MB above the weights, "
                f"{wall:.0f} s, {cpu:.0f} s of the CPU, {lines} lines",
                flush=True,
            )
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
