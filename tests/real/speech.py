#!/usr/bin/env python3
"""Compare ways to transcribe long recordings with OpenAI's Whisper tiny.en: is a sentence lost, and how fast is each?

Recordings of about 99 s are made of a given recording whose text is known, and of sentences that Flite and eSpeak NG
speak, with pauses of 0.2 to 3 s. A sentence is lost if a way has nothing in the place of more than half of its words, and
the decoding of window after window has something there. A word that is misheard is no lost word, but an error.

usage: speech.py PELTON MODEL RECORDING [--only NAME]... [--ways WAY]... [--json FILE]
needs: flite, espeak-ng, sox; no Python package
"""
import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from pathlib import Path

RATE = 16_000
JFK = ["And so my fellow Americans", "ask not what your country can do for you",
       "ask what you can do for your country"]
SENTENCES = """
The train to the coast leaves at seven in the morning.
My sister planted three apple trees behind the old house.
Please bring the blue folder to the meeting on Friday.
It rained so hard that the river flooded the market.
We walked along the harbor and watched the boats come in.
The teacher asked the children to open their books.
Nobody remembered where the spare key was hidden.
A small dog followed us all the way to the station.
The museum is closed on Mondays during the winter.
He repaired the clock with a piece of copper wire.
They painted the kitchen yellow and the hallway white.
The doctor told him to drink more water every day.
Our neighbors are moving to another city next month.
She wrote a long letter to her cousin in Australia.
The bread was still warm when we carried it home.
Two engineers measured the bridge before it was opened.
I would rather wait here than stand in the cold.
The library bought a hundred new books this year.
Turn left at the church and then go over the hill.
The fishermen sold everything before noon.
There is a narrow path between the garden and the barn.
The pilot announced that we would land in twenty minutes.
Her grandfather built this table with his own hands.
The shop around the corner sells fresh eggs and cheese.
Snow covered the roofs and the streets were quiet.
We lost the map but found our way by the stars.
The children sang a song for their mother's birthday.
A strong wind broke two branches of the old oak.
The letter arrived three days after the wedding.
Could you tell me where the nearest bank is?
The orchestra will play in the park on Sunday evening.
His brother works as a cook in a large hotel.
The cat slept on the warm stones beside the wall.
Every summer they swim across the lake together.
The company opened a new office near the airport.
Nothing in the report explained the missing money.
""".split("\n")[1:-1]


def words(text):
    return re.findall(r"[a-z0-9']+", text.lower())


def run(*command, data=None):
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout


def speak(voice, text):
    """16-bit samples at 16 kHz."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/a.wav"
        program, name = voice
        if program == "flite":
            run("flite", "-voice", name, "-t", text, "-o", path)
        else:
            run("espeak-ng", "-v", name, "-s", "150", "-w", path, text)
        return samples(path)


def samples(path):
    return run("sox", path, "-t", "raw", "-e", "signed", "-b", "16", "-r", str(RATE), "-c", "1", "-")


def pause(rng, longest):
    return bytes(2 * int(RATE * rng.uniform(0.2, longest)))


def recordings(recording):
    """Names, samples and sentences."""
    speech = samples(recording)
    yield "jfk", speech * 9, JFK * 9
    for seed in range(4):
        rng, audio, text = random.Random(seed), b"", []
        while len(audio) < 90 * RATE * 2:
            audio += speech + pause(rng, 3)
            text += JFK
        yield f"jfk-{seed}", audio, text
    voices = [("flite", name) for name in ("slt", "rms", "awb")] + [("espeak", name) for name in ("en-us", "en-gb")]
    for program, name in voices:
        for seed in range(2):
            rng, audio, text = random.Random(f"{name}{seed}"), b"", []
            # each at most once: the model makes one of what is said twice
            for sentence in rng.sample(SENTENCES, len(SENTENCES)):
                if len(audio) >= 94 * RATE * 2:
                    break
                text.append(sentence)
                audio += speak((program, name), text[-1]) + pause(rng, 3 if seed else 1)
            yield f"{program}-{name}-{seed}", audio, text


def kept(sentences, text):
    """The shares of each sentence's words in whose place a text has a word, and has that word."""
    owner = [index for index, sentence in enumerate(sentences) for _ in words(sentence)]
    reference = [word for sentence in sentences for word in words(sentence)]
    heard = words(text)
    edits = [list(range(len(heard) + 1))]
    for i, word in enumerate(reference):
        row = [i + 1]
        for j, own in enumerate(heard):
            row.append(min(edits[i][j] + (word != own), edits[i][j + 1] + 1, row[j] + 1))
        edits.append(row)
    placed, found, i, j = [0] * len(sentences), [0] * len(sentences), len(reference), len(heard)
    while i and j:
        if edits[i][j] == edits[i - 1][j - 1] + (reference[i - 1] != heard[j - 1]):
            i, j = i - 1, j - 1
            placed[owner[i]] += 1
            found[owner[i]] += reference[i] == heard[j]
        elif edits[i][j] == edits[i - 1][j] + 1:
            i -= 1
        else:
            j -= 1
    lengths = [len(words(sentence)) for sentence in sentences]
    return [[count / length for count, length in zip(counts, lengths)] for counts in (placed, found)]


def command_line(pelton, model, path, audio, flags):
    return run(pelton, "transcribe", model, path, *flags, "--format", "txt").decode()


def streamed(pelton, model, path, audio, flags):
    raw = run(pelton, "transcribe", model, "--stream", "-", *flags, data=audio)
    return raw.decode(errors="replace")


class Server:
    """A server that lives as long as this program."""

    def __init__(self, pelton, model):
        self.process = subprocess.Popen([pelton, "serve", model, "--port", "0"], stderr=subprocess.PIPE, text=True)
        self.lines = []
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(r"http://[0-9.]+:\d+", line):
                self.address = found.group()
                break
        else:
            sys.exit(f"the server has no address: {''.join(self.lines)}")

    def transcribe(self, path, fields):
        boundary = uuid.uuid4().hex
        parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
                 for name, value in fields.items()]
        parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'.encode()
                     + Path(path).read_bytes() + b"\r\n")
        request = urllib.request.Request(
            f"{self.address}/v1/audio/transcriptions", b"".join(parts) + f"--{boundary}--\r\n".encode(),
            {"Content-Type": f"multipart/form-data; boundary={boundary}"})
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)["text"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("pelton", "model", "recording"):
        parser.add_argument(name)
    parser.add_argument("--only", action="append")
    parser.add_argument("--ways", action="append")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    server = Server(arguments.pelton, arguments.model)

    def served(pelton, model, path, audio, fields):
        return server.transcribe(path, fields)

    ways = {"sequential": (command_line, []), "batch": (command_line, ["--batch", "4"]),
            "vad": (command_line, ["--vad"]), "vad and batch": (command_line, ["--vad", "--batch", "4"]),
            "server": (served, {"chunking_strategy": "auto"}), "stream": (streamed, [])}
    lost, rows = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for name, audio, sentences in recordings(arguments.recording):
            if arguments.only and name not in arguments.only:
                continue
            path = f"{folder}/{name}.wav"
            raw = ["-t", "raw", "-e", "signed", "-b", "16", "-r", str(RATE), "-c", "1", "-"]
            run("sox", *raw, path, data=audio)
            first = None
            for way, (function, flags) in ways.items():
                if arguments.ways and way not in arguments.ways and way != "sequential":
                    continue
                start = time.monotonic()
                text = function(arguments.pelton, arguments.model, path, audio, flags)
                seconds = time.monotonic() - start
                share, exact = kept(sentences, text)
                first = first or (share, seconds)
                missing = [i for i, (own, whole) in enumerate(zip(share, first[0])) if own < 0.5 <= whole]
                lost += len(missing)
                rows.append({"recording": name, "way": way, "seconds": seconds, "audio": len(audio) / RATE / 2,
                             "sentences": len(sentences), "kept": sum(x >= 0.5 for x in share),
                             "words": round(sum(x * len(words(t)) for x, t in zip(exact, sentences))),
                             "lost": missing, "text": text})
                print(f"{name:18} {way:14} {seconds:6.1f} s, {first[1] / seconds:5.2f} of the speed of sequential, "
                      f"{rows[-1]['kept']:3} of {len(sentences)} sentences, "
                      f"{rows[-1]['words']:3} of {sum(len(words(t)) for t in sentences)} words"
                      + "".join(f"; LOST {i}: {sentences[i]}" for i in missing), flush=True)
    server.process.terminate()
    if arguments.json:
        Path(arguments.json).write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(f"{lost} sentences lost")
    sys.exit(lost > 0)


if __name__ == "__main__":
    main()
