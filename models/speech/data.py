"""Utterances in bulk, and windows of them with Whisper's tokens.

Processes synthesize; the samples of all utterances lie in one tensor on the GPU.
"""

import dataclasses
import itertools
import multiprocessing
import os
import random
import threading

import audio
import grammar
import numpy as np
import tokens
import torch
import voices

SEED = 2026
GAP = 320  # samples of silence between utterances of the store
SLOTS = 16
PER_VOICE = {"espeak": 20, "flite": 10}
VOICES_A_JOB = {"espeak": 40, "flite": 10}
TEST_KINDS = {"known": "espeak", "variant": "variant", "accent": "accent", "slt": "slt"}


@dataclasses.dataclass
class Utterance:
    """Samples `first` to `first + count` of a store, at 16 kHz; `power` is their root mean square."""

    first: int
    count: int
    power: float
    text: str
    tokens: list
    voice: str


def utterances(jobs):
    """Synthesizes pairs of a voice and a text: samples at the voice's rate, one after another."""
    blocks, found, position = [], [], 0
    for voice, text in jobs:
        samples = voice.speak(text)
        if len(samples) == 0:
            continue
        power = float(np.sqrt(np.mean((samples / 32768.0) ** 2)))
        # Blocks of 441 samples at 22,050 Hz are 320 samples at 16 kHz.
        block = 441 if voice.rate == voices.ESPEAK_RATE else 320
        room = -(-len(samples) // block) * block + block * (GAP // 320)
        blocks.append(np.pad(samples, (0, room - len(samples))))
        count = len(samples) * audio.RATE // voice.rate
        found.append((position // block * 320, count, power, text, voice.name))
        position += room
    return np.concatenate(blocks), found


def training_job(job):
    """One job of a pool: a file of samples, its rate and what it has."""
    kind, number, folder = job
    rng = random.Random(f"{SEED} {kind} {number}")
    source = grammar.sentences(rng, "train")
    pairs = [
        (voice, next(source))
        for voice in (voices.draw(rng, kind) for _ in range(VOICES_A_JOB[kind]))
        for _ in range(PER_VOICE[kind])
    ]
    samples, found = utterances(pairs)
    file = os.path.join(folder, f"{kind}-{number}.npy")
    np.save(file, samples)
    return kind, file, found


def test_job(job):
    """Utterances of a test: a kind of voice and a split of the grammar."""
    name, kind, split, count = job
    rng = random.Random(f"{SEED} test {name}")
    source = itertools.islice(grammar.sentences(rng, split), count)
    samples, found = utterances([(voices.draw(rng, kind), text) for text in source])
    return name, kind, samples, found


class Store:
    """All utterances and their samples."""

    def __init__(self, hours, tokenizer, device):
        self.samples = torch.zeros(int(hours * 3600 * audio.RATE), dtype=torch.int16, device=device)
        self.tokenizer = tokenizer
        self.filled = 0
        self.kinds = {"espeak": [], "flite": []}

    def add(self, kind, samples, found):
        """Takes a job's samples; False when the store is full."""
        block = torch.from_numpy(samples).to(self.samples.device)
        if kind not in ("flite", "slt"):
            block = audio.resampled(block.float()).round().clamp(-32768, 32767).short()
        if self.filled + len(block) + 2 > len(self.samples):
            return False
        self.samples[self.filled : self.filled + len(block)] = block
        entries = [
            Utterance(self.filled + first, count, power, text, self.tokenizer.encode(text), voice)
            for first, count, power, text, voice in found
        ]
        self.filled += len(block)
        self.kinds.setdefault(kind, []).extend(entries)
        return True

    def fill(self, pool, hours, folder):
        """Fills the store in the background with `hours` of each kind."""
        seconds = {"espeak": 2.0, "flite": 2.8}
        jobs = []
        for kind, wanted in hours.items():
            each = VOICES_A_JOB[kind] * PER_VOICE[kind] * seconds[kind]
            count = max(int(wanted * 3600 / each), 1)
            # The first quarter of eSpeak comes before Flite, which is slow.
            begin = 0.0 if kind == "espeak" else 0.25
            jobs += [(begin + (1 - begin) * i / count, (kind, i, folder)) for i in range(count)]
        ordered = [job for _, job in sorted(jobs)]

        def work():
            for kind, file, found in pool.imap_unordered(training_job, ordered):
                samples = np.load(file)
                os.remove(file)
                if not self.add(kind, samples, found):
                    break

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread


@dataclasses.dataclass(frozen=True)
class Stage:
    """Windows of a part of the training: samples, most tokens, and whether they are varied."""

    samples: int
    tokens: int
    rows: int
    varied: bool


def pick(rng, store):
    """A run of utterances, often of one voice."""
    kind = "flite" if store.kinds["flite"] and rng.random() < 0.22 else "espeak"
    entries = store.kinds[kind]
    first = rng.randrange(len(entries))
    return entries[first : first + (rng.randint(1, 6) if rng.random() < 0.5 else 1)]


def speed_of(rng, utterance):
    if utterance.voice in voices.FLITE:
        return rng.uniform(0.85, 1.3)
    return rng.uniform(0.88, 1.14) if rng.random() < 0.6 else 1.0


def placed(rng, store, stage):
    """Utterances in a window: tuples of start, samples, speed, utterance.  The last may be cut."""
    limit = stage.samples
    single = rng.random() < 0.4 if stage.varied else True
    if stage.varied and not single:
        limit = int(rng.uniform(0.15, 1.1) * stage.samples)
    onset = rng.choice([0.3, 1.0, 3.0]) if stage.varied else 1.0
    position = int(rng.uniform(0, onset) * audio.RATE)
    longest = rng.choice([0.4, 1.0, 3.0])
    entries, count = [], 0
    queue = []
    while len(entries) < SLOTS:
        queue = queue or list(pick(rng, store))
        utterance = queue.pop(0)
        speed = speed_of(rng, utterance)
        samples = int((utterance.count - 1) / speed)
        end = position + samples
        count += len(utterance.tokens) + 2
        if count > (215 if stage.varied else stage.tokens - 6):
            break
        if end > min(limit, stage.samples):
            if end > stage.samples and position < stage.samples - 6400 and len(entries) > 0:
                entries.append((position, stage.samples - position, speed, utterance))
            if entries or not stage.varied:
                break
            limit = stage.samples
            continue
        entries.append((position, samples, speed, utterance))
        if single:
            break
        position = end + int(rng.uniform(0.1, longest) * audio.RATE)
    return entries


def history(rng, store):
    """Tokens of earlier text, with or without times, behind `<|startofprev|>`."""
    ids, at = [], 0.0
    with_times = rng.random() < 0.5
    for _ in range(rng.randint(1, 4)):
        utterance = pick(rng, store)[0]
        end = at + utterance.count / audio.RATE
        inside = utterance.tokens
        ids += [tokens.time_token(at), *inside, tokens.time_token(end)] if with_times else inside
        at = end + rng.uniform(0.1, 1.0)
    return [tokens.PREVIOUS, *ids[-rng.randint(20, 60) :]]


def window(rng, store, stage):
    """One window of training: slots, tokens with the targets that follow them, the text for CTC."""
    empty = rng.random() < (0.09 if stage.varied else 0.03)
    entries = [] if empty else placed(rng, store, stage)
    times = rng.random() < 0.7
    end = 0
    for position, samples, _, _ in entries:
        end = position + samples
    cut = bool(entries) and end >= stage.samples
    if cut and not times:
        entries.pop()
        position, samples, _, _ = entries[-1]
        end, cut = position + samples, False

    ids, text, last = [], [], len(entries) - 1
    for index, (position, samples, _, utterance) in enumerate(entries):
        start = position / audio.RATE
        if times:
            # Whisper's rules force the first time of a window to 1 s at most.
            ids.append(tokens.time_token(min(start, 1.0) if index == 0 else start))
        if cut and index == last:
            break
        ids += utterance.tokens
        text += utterance.tokens
        if times:
            ids.append(tokens.time_token((position + samples) / audio.RATE))
    if times and not entries:
        ids.append(tokens.TIME)
    prompt = []
    if stage.varied and len(ids) < 150 and rng.random() < 0.2:
        prompt = history(rng, store)
    head = [tokens.START, tokens.ENGLISH, tokens.TRANSCRIBE] + [tokens.NO_TIMESTAMPS] * (not times)
    sequence = [*prompt, *head, *ids, tokens.END]
    targets = sequence[1:] + [-100]
    targets[: len(prompt)] = [-100] * len(prompt)
    if not entries:
        targets[len(prompt)] = tokens.NO_SPEECH
    if not times:
        targets[len(prompt) + 2] = -100  # the caller decides on times

    content = min(end + int(rng.uniform(0.02, 1.5) * audio.RATE), stage.samples)
    if not entries:
        content = int(rng.uniform(0.5, 1.0 if rng.random() < 0.7 else 30) * audio.RATE)
        content = stage.samples if rng.random() < 0.5 else min(content, stage.samples)
    padded = rng.random() < 0.6
    if not padded and rng.random() < 0.5:
        content = stage.samples
    gains = [rng.uniform(0.5, 1.0) / max(u.power, 1e-3) * 0.1 for *_, u in entries]
    if rng.random() < 0.5 and gains:
        gains = [gains[0] * entries[0][3].power / max(u.power, 1e-3) for *_, u in entries]
    powers = [gain * entry[3].power for gain, entry in zip(gains, entries)]
    return dict(
        slots=[
            (u.first, position, samples, speed, gain)
            for gain, (position, samples, speed, u) in zip(gains, entries)
        ],
        sequence=sequence[:-1],
        targets=targets[:-1],
        text=text,
        whole=0.0 if cut else 1.0,
        content=content,
        padded=padded,
        silent=not entries and rng.random() < 0.2,
        power=sum(powers) / len(powers) if powers else 0.05,
    )


def collate(rows, stage):
    """Tensors of windows, as `audio.Studio` and `model.Whisper.losses` take them."""
    count = len(rows)
    slots = np.zeros((5, count, SLOTS))
    slots[1] = 1 << 40
    ids = np.full((count, stage.tokens), tokens.END)
    targets = np.full((count, stage.tokens), -100)
    text = np.zeros((count, stage.tokens), np.int64)
    for i, row in enumerate(rows):
        for j, slot in enumerate(row["slots"]):
            slots[:, i, j] = slot
        length = len(row["sequence"])
        ids[i, :length] = row["sequence"]
        targets[i, :length] = row["targets"]
        text[i, : len(row["text"])] = row["text"]

    def of(name, kind):
        return torch.tensor([row[name] for row in rows], dtype=kind)

    whole = torch.int64
    place = dict(
        source=torch.from_numpy(slots[0]).to(whole),
        at=torch.from_numpy(slots[1]).to(whole),
        count=torch.from_numpy(slots[2]).to(whole),
        speed=torch.from_numpy(slots[3]).float(),
        gain=torch.from_numpy(slots[4]).float(),
        content=of("content", whole),
        padded=of("padded", torch.bool),
        silent=of("silent", torch.bool),
        power=of("power", torch.float32),
    )
    learn = dict(
        ids=torch.from_numpy(ids),
        targets=torch.from_numpy(targets),
        text=torch.from_numpy(text),
        lengths=torch.tensor([len(row["text"]) for row in rows]),
        whole=of("whole", torch.float32),
    )
    return place, learn


def batches(store, stage, seed, device, ahead=6):
    """Batches without end, made by a thread ahead of their use."""
    import queue

    waiting = queue.Queue(ahead)

    def work():
        rng = random.Random(seed)
        while True:
            rows = [window(rng, store, stage) for _ in range(stage.rows)]
            batch = collate(rows, stage)
            if device == "cuda":
                batch = tuple({k: v.pin_memory() for k, v in part.items()} for part in batch)
            waiting.put(batch)

    threading.Thread(target=work, daemon=True).start()

    def moved(name, tensor):
        # The CTC loss reads the lengths on the host.
        return tensor if name == "lengths" else tensor.to(device, non_blocking=True)

    while True:
        batch = waiting.get()
        yield tuple({k: moved(k, v) for k, v in part.items()} for part in batch)


def pool_of(workers):
    return multiprocessing.get_context("fork").Pool(workers)
