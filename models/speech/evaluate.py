"""Word error rates of greedy decoding on held-out voices, sentences and noise levels.

    python evaluate.py DIR [--ranks multilingual.tiktoken]

Writes DIR/results.json, from the trained weights and from those that `export.py` writes.
"""

import argparse
import copy
import dataclasses
import json
import os
import pathlib
import random
import wave

import audio
import data
import grammar
import model as whisper
import numpy as np
import tokens
import torch

ROWS = 64
NEW_TOKENS = 224


@dataclasses.dataclass(frozen=True)
class Test:
    """Utterances of a kind of voice, with noise at `decibels` below them or none."""

    name: str
    voices: str
    split: str
    count: int
    decibels: float | None = None


TESTS = [
    Test("known voices, held-out sentences", "espeak", "sentences", 320),
    Test("known voices, held-out number pairs", "espeak", "pairs", 320),
    Test("held-out variants", "variant", "sentences", 320),
    Test("held-out variants, 20 dB", "variant", "sentences", 320, 20),
    Test("held-out variants, 10 dB", "variant", "sentences", 320, 10),
    Test("held-out variants, 5 dB", "variant", "sentences", 320, 5),
    Test("held-out accent", "accent", "sentences", 320),
    Test("Flite awb, kal16 and rms, held-out sentences", "flite", "sentences", 160),
    Test("Flite slt, held out", "slt", "sentences", 160),
]


def voices_of(pool, tests, tokenizer, device):
    """Stores of the tests' utterances, by kind of voice and split."""
    jobs = sorted({(f"{t.voices} {t.split}", t.voices, t.split, t.count) for t in tests})
    stores = {}
    for name, kind, samples, found in pool.imap(data.test_job, jobs):
        store = data.Store(len(samples) / 3600 / audio.RATE + 0.001, tokenizer, device)
        store.add(kind, samples, found)
        stores[name] = store
    return stores


def errors(expected, found):
    """Fewest words to insert, delete or replace."""
    row = list(range(len(found) + 1))
    for i, word in enumerate(expected, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(found, 1):
            diagonal, row[j] = (
                row[j],
                min(row[j] + 1, row[j - 1] + 1, diagonal + (word != other)),
            )
    return row[-1]


def rate(expected, found):
    """Word errors of texts in percent of the expected words."""
    pairs = [(grammar.words(a), grammar.words(b)) for a, b in zip(expected, found)]
    return 100 * sum(errors(*pair) for pair in pairs) / max(sum(len(a) for a, _ in pairs), 1)


@torch.no_grad()
def greedy(model, mel, times):
    """Token ids of each row without prompt and end, and the probability of no speech."""
    states = model.encoder.stem(mel)
    for block in model.encoder.blocks:
        states = block.forward(states)
    states = model.encoder.ln_post(states)
    caches = [
        block.cross_attn.project(states, block.cross_attn.key, block.cross_attn.value)
        for block in model.decoder.blocks
    ]
    prompt = [tokens.START, tokens.ENGLISH, tokens.TRANSCRIBE]
    ids = torch.tensor([prompt + [tokens.NO_TIMESTAMPS] * (not times)] * len(mel)).to(mel.device)
    begin, silence = ids.shape[1], None
    done = torch.zeros(len(mel), dtype=torch.bool, device=mel.device)
    for _ in range(NEW_TOKENS):
        logits = decoded(model, ids, caches)
        if silence is None:
            silence = logits[:, 0].softmax(-1)[:, tokens.NO_SPEECH]
        chosen = torch.where(done, tokens.END, logits[:, -1].argmax(-1))
        done |= chosen == tokens.END
        if done.all():
            break
        ids = torch.cat([ids, chosen[:, None]], 1)
    rows = [[i for i in row if i != tokens.END] for row in ids[:, begin:].tolist()]
    return rows, silence.tolist()


def decoded(model, ids, caches):
    """Logits of the first and the last position."""
    decoder = model.decoder
    x = decoder.token_embedding(ids) + decoder.positional_embedding[: ids.shape[1]]
    for block, (key, value) in zip(decoder.blocks, caches):
        x = x + block.attn(block.attn_ln(x), causal=True)
        (query,) = block.cross_attn.project(block.cross_attn_ln(x), block.cross_attn.query)
        x = x + block.cross_attn.attend(query, key, value)
        x = x + block.mlp(block.mlp_ln(x))
    return decoder.ln(x[:, [0, -1]]) @ decoder.token_embedding.weight.T


def q8_0(weight):
    """A matrix rounded to blocks of 32 codes and a float16 scale, as ggml does."""
    blocks = weight.float().reshape(-1, 32)
    scale = blocks.abs().amax(1, keepdim=True) / 127
    scaled = torch.where(scale > 0, blocks * (1 / scale), 0.0)
    codes = scaled.sign() * (scaled.abs() + 0.5).floor()
    return (codes * scale.half().float()).reshape(weight.shape)


def quantized(model):
    """A copy with the weights of the GGUF file."""
    model = copy.deepcopy(model)
    for name, weight in model.named_parameters():
        half = weight.data.half().float()
        matrix = weight.ndim == 2 and "positional" not in name
        weight.data = q8_0(half) if matrix else half
    return model


class Examiner:
    """Runs the tests on one device."""

    def __init__(self, stores, device):
        self.stores = stores
        self.device = device
        self.mel = audio.Mel(device)
        generator = torch.Generator(device)
        generator.manual_seed(data.SEED)
        self.pool = audio.noises(device, generator)

    def windows(self, test):
        """Spectrograms of ROWS utterances each, one to a window, and their texts."""
        store = self.stores[f"{test.voices} {test.split}"]
        entries = store.kinds[test.voices][: test.count]
        generator = torch.Generator(self.device)
        generator.manual_seed(data.SEED)
        rng = random.Random(data.SEED)
        for first in range(0, len(entries), ROWS):
            some = entries[first : first + ROWS]
            onsets = [int(rng.uniform(0.1, 1.0) * audio.RATE) for _ in some]
            yield (
                self.rendered(store, [[pair] for pair in zip(onsets, some)], test, generator),
                [entry.text for entry in some],
            )

    def rendered(self, store, rows, test, generator):
        samples, device = 30 * audio.RATE, self.device
        slots = torch.zeros(5, len(rows), data.SLOTS, dtype=torch.float64)
        slots[1] = 1 << 40
        for i, row in enumerate(rows):
            for j, (at, entry) in enumerate(row):
                gain = 0.1 / max(entry.power, 1e-3)
                slots[:, i, j] = torch.tensor([entry.first, at, entry.count - 1, 1.0, gain])
        names = ["source", "at", "count"]
        place = {name: slots[i].long().to(device) for i, name in enumerate(names)}
        place |= {"speed": slots[3].float().to(device), "gain": slots[4].float().to(device)}
        sound = audio.speech(store.samples, place, samples)
        ends = [row[-1][0] + row[-1][1].count + audio.RATE // 2 for row in rows]
        contents = torch.tensor(ends, device=device).clamp(max=samples)
        if test.decibels is not None:
            noise = audio.coloured(self.pool, len(rows), samples, generator)
            # Every second window has babble instead.
            talk = audio.babble(store.samples, store.filled, len(rows), samples, generator)
            noise[1::2] = talk[1::2]
            sound = audio.noisy(sound, noise, 0.1, torch.tensor(float(test.decibels)))
        time = torch.arange(samples, device=device)
        return self.mel(sound * (time < contents[:, None]), contents)

    def score(self, model, test, times=False):
        expected, found = [], []
        for mel, texts in self.windows(test):
            ids, _ = greedy(model, mel, times)
            expected += texts
            found += [self.stores[f"{test.voices} {test.split}"].tokenizer.decode(row) for row in ids]
        return rate(expected, found), list(zip(expected, found))

    def long(self, model, kind, split):
        """Windows of many utterances with times: word errors, and errors of the times in ms."""
        store = self.stores[f"{kind} {split}"]
        rng = random.Random(data.SEED)
        rows, row, position = [], [], 0.3
        for entry in store.kinds[kind]:
            length = entry.count / audio.RATE
            if position + length > 29.5 or len(row) == 8:
                rows.append(row)
                row, position = [], rng.uniform(0.1, 0.9)
            row.append((int(position * audio.RATE), entry))
            position += length + rng.uniform(0.3, 2.5)
        rows.append(row)
        plain = Test("", kind, split, 0)
        expected, found, off = [], [], []
        for first in range(0, len(rows), ROWS):
            some = rows[first : first + ROWS]
            ids, _ = greedy(model, self.rendered(store, some, plain, None), True)
            for row, sequence in zip(some, ids):
                expected.append(" ".join(entry.text for _, entry in row))
                found.append(store.tokenizer.decode(sequence))
                times = [(i - tokens.TIME) * tokens.SECONDS for i in sequence if i >= tokens.TIME]
                true = [t for at, e in row for t in (at / audio.RATE, (at + e.count) / audio.RATE)]
                if len(times) == len(true):
                    off += [abs(a - b) for a, b in zip(times, true)]
        return dict(
            windows=len(rows),
            word_errors=rate(expected, found),
            time_error_ms=1000 * float(np.median(off)) if off else None,
            times_complete=len(off) / sum(2 * len(row) for row in rows),
        )

    def empty(self, model, rows=96):
        """Windows of silence and noise: how many give text, and how many the no-speech token."""
        generator = torch.Generator(self.device)
        generator.manual_seed(data.SEED)
        samples = 30 * audio.RATE
        texts = silent = 0
        for first in range(0, rows, 32):
            noise = audio.coloured(self.pool, 32, samples, generator)
            levels = torch.logspace(-4, -1, 32, device=self.device)[:, None]
            levels[0] = 0
            ids, silence = greedy(model, self.mel(noise * levels), True)
            texts += sum(any(i < tokens.TEXT_TOKENS for i in row) for row in ids)
            silent += sum(p > 0.6 for p in silence)
        return dict(windows=rows, with_text=texts, no_speech=silent)


def loaded(path):
    """Samples of a WAV file of 8 or 16 bits."""
    with wave.open(str(path)) as file:
        frames = file.readframes(file.getnframes())
        if file.getsampwidth() == 1:
            return torch.from_numpy((np.frombuffer(frames, np.uint8).astype(np.float32) - 128) / 128)
        return torch.from_numpy(np.frombuffer(frames, "<i2").astype(np.float32) / 32768)


def transcribed(model, path, tokenizer, device):
    samples = loaded(path).to(device)
    padded = audio.pad_or_trim(samples, 30 * audio.RATE)[None]
    mel = audio.Mel(device)(padded, torch.tensor([len(samples)], device=device))
    return [tokenizer.decode(greedy(model, mel, times)[0][0]) for times in (False, True)]


def results(model, examiner, label):
    words = {}
    for test in TESTS:
        words[test.name] = round(examiner.score(model, test)[0], 2)
        print(f"{label}: {test.name}: {words[test.name]} %", flush=True)
    return dict(
        word_errors=words,
        with_times={t.name: round(examiner.score(model, t, True)[0], 2) for t in TESTS},
        long={kind: examiner.long(model, kind, "sentences") for kind in ["espeak", "variant"]},
        empty=examiner.empty(model),
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--ranks", type=pathlib.Path)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cudnn.allow_tf32 = False
    tokenizer = tokens.Tokenizer(args.ranks or tokens.default_ranks())
    with data.pool_of(args.workers) as pool:
        examiner = Examiner(voices_of(pool, TESTS, tokenizer, device), device)
    trained = whisper.Whisper(whisper.Shape()).to(device).eval()
    weights = torch.load(args.dir / "weights.pt", weights_only=True, map_location=device)
    trained.load_state_dict({name: weight.float() for name, weight in weights.items()})
    written = quantized(trained)
    figures = {"trained": results(trained, examiner, "trained")}
    figures["written"] = results(written, examiner, "written")
    samples = pathlib.Path(__file__).parent / "samples"
    figures["samples"] = {
        path.name: transcribed(written, path, tokenizer, device)
        for path in sorted(samples.glob("*.wav"))
    }
    figures["device"] = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    (args.dir / "results.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
