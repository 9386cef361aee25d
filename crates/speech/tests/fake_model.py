"""A model without weights: its logits are a hash of the window and the tokens.

`fake/mod.rs` has the same functions. All values are multiples of a power of two that f32 holds
exactly, so both sides compute the same bits.
"""

import numpy as np
import torch

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
TEXTS = 1000
LANGUAGES = 99
EOT = TEXTS
SOT = EOT + 1
NO_SPEECH = SOT + LANGUAGES + 5
FIRST_TIMESTAMP = NO_SPEECH + 2
VOCAB = FIRST_TIMESTAMP + 1501
POSITIONS = 1500
HEADS = [(0, 0), (1, 1), (1, 3)]


def mix(z):
    """The finalizer of SplitMix64."""
    z &= MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def mix_all(z):
    """`mix` of an array."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


IDS = np.arange(1, VOCAB + 1, dtype=np.uint64) * np.uint64(GOLDEN)


def window_key(seed, first, count):
    return mix(seed * GOLDEN + first * 4096 + count)


def extend(state, token):
    return mix(state ^ ((token + 1) * GOLDEN & MASK))


def row(key, state, tokens):
    """The logits after `tokens`, whose hash is `state`."""
    h = lambda i: mix(state + i * 0xD1342543DE82EF95)
    unit = lambda i, bits, scale: (h(i) >> (64 - bits)) * 2.0**-scale
    logits = -((mix_all(np.uint64(state) ^ IDS) >> np.uint64(41)).astype(np.float64)) * 2.0**-20
    if tokens[-1] == SOT:
        languages = mix_all(np.uint64(key) ^ IDS[SOT + 1 : SOT + 1 + LANGUAGES])
        logits[SOT + 1 : SOT + 1 + LANGUAGES] = (languages >> np.uint64(44)).astype(np.float64) * 2.0**-18
        logits[NO_SPEECH] = 14.0 if key % 5 == 0 else 2.0
    start = len(tokens) - tokens[::-1].index(SOT) if SOT in tokens else 0
    tail = tokens[start:]
    last, texts = None, 0
    for token in tail:
        if token >= FIRST_TIMESTAMP:
            last, texts = token - FIRST_TIMESTAMP, 0
        elif token < EOT:
            texts += 1
    loops = (key >> 16) % 6 == 0
    shift = 9.0 if (key >> 8) % 4 == 0 else 0.0
    for i in range(12):
        logits[h(i) % TEXTS] = 6.0 + unit(i, 20, 18) - shift
    strong = (key >> 24) % TEXTS if loops else h(20) % TEXTS
    logits[strong] = 13.0 + unit(21, 20, 19) - shift
    if texts >= (60 if loops else 3) + h(22) % 10:
        at = (last or 0) + 10 + h(23) % 250
        if at <= 1500:
            logits[FIRST_TIMESTAMP + at] = 15.0 + unit(24, 20, 20) - shift
        else:
            logits[EOT] = 15.5 - shift
    if tail and tail[-1] >= FIRST_TIMESTAMP and len(tail) > 1 and tail[-2] < EOT:
        logits[tail[-1]] = 14.0 + unit(25, 20, 20) - shift
        if last > 1300 or h(26) % 5 == 0:
            logits[EOT] = 15.0 + unit(27, 20, 20) - shift
    if texts >= 5 and h(28) % 14 == 0:
        logits[EOT] = 16.0 + unit(29, 20, 20) - shift
    if h(30) % 6 == 0:
        logits[32] = 16.5 + unit(31, 20, 20) - shift
    return logits.astype(np.float32)


def rows(key, tokens):
    """The logits after each token."""
    state = key
    out = []
    for i, token in enumerate(tokens):
        state = extend(state, token)
        out.append(row(key, state, tokens[: i + 1]))
    return np.stack(out)


def scores(key, tokens, count):
    """Scores of attention, [heads, tokens, positions]."""
    n = len(tokens)
    out = np.zeros((len(HEADS), n, POSITIONS), np.float32)
    positions = np.arange(POSITIONS, dtype=np.int64)
    for h, (layer, head) in enumerate(HEADS):
        state = key ^ (layer * 64 + head)
        for t, token in enumerate(tokens):
            state = extend(state, token)
            centre = t * max(count // 2, 1) // n + state % 20
            noise = mix_all(np.uint64(state) + positions.astype(np.uint64)) >> np.uint64(53)
            near = np.maximum(8.0 - np.abs(positions - centre) / 16.0, -8.0)
            out[h, t] = near + noise.astype(np.float64) * 2.0**-10
    return out


def noise(sample, index):
    """The noise of a draw."""
    key = np.uint64(mix(sample * 1_000_003 + index))
    return ((mix_all(key ^ IDS) >> np.uint64(48)).astype(np.float64) * 2.0**-14).astype(np.float32)


class Block:
    """A layer of the decoder, as far as OpenAI's `timing.py` looks at it."""

    class Attention:
        hook = None

        def register_forward_hook(self, hook):
            self.hook = hook
            return self

        def remove(self):
            self.hook = None

    def __init__(self):
        self.cross_attn = self.Attention()


class Model:
    """What OpenAI's code uses of a `Whisper`."""

    def __init__(self, seed, multilingual=True):
        from whisper.decoding import decode, detect_language
        from whisper.model import ModelDimensions

        self.seed = seed
        self.is_multilingual = multilingual
        self.num_languages = LANGUAGES
        self.dims = ModelDimensions(1, POSITIONS, 2, 1, 1, VOCAB, 448, 2, 4, 2)
        self.device = torch.device("cpu")
        self.alignment_heads = torch.zeros(2, 4, dtype=torch.bool)
        for layer, head in HEADS:
            self.alignment_heads[layer, head] = True
        self.alignment_heads = self.alignment_heads.to_sparse()
        self.decoder = type("Decoder", (), {"blocks": [Block(), Block()]})()
        self.decode = lambda mel, options: decode(self, mel, options)
        self.detect_language = lambda mel, tokenizer=None: detect_language(self, mel, tokenizer)

    def encoder(self, mel):
        out = torch.zeros(mel.shape[0], POSITIONS, 2)
        for i, window in enumerate(mel[:, 0]):
            out[i, 0, 0] = window[0]
            out[i, 0, 1] = (window != 0).sum()
        return out

    def key(self, features):
        return window_key(self.seed, int(features[0, 0]), int(features[0, 1]))

    def logits(self, tokens, features):
        all_rows = [rows(self.key(f), t.tolist()) for f, t in zip(features, tokens)]
        return torch.from_numpy(np.stack(all_rows))

    def __call__(self, mel, tokens):
        features = self.encoder(mel)
        key, count = self.key(features[0]), int(features[0, 0, 1])
        qk = scores(key, tokens[0].tolist(), count)
        for layer, block in enumerate(self.decoder.blocks):
            heads = np.zeros((4, tokens.shape[1], POSITIONS), np.float32)
            for h, (own, head) in enumerate(HEADS):
                if own == layer:
                    heads[head] = qk[h]
            block.cross_attn.hook(None, None, (None, torch.from_numpy(heads)[None]))
        logits = self.logits(tokens, features)
        # most tokens of a text that is given are likely
        state = key
        for i, token in enumerate(tokens[0].tolist()):
            if i > 0 and mix(state) % 8 > 0:
                logits[0, i - 1, token] = 14.0
            state = extend(state, token)
        return logits


class Inference:
    """Runs all tokens in every step."""

    step = 0

    def __init__(self, model, initial):
        self.model, self.initial = model, initial

    def logits(self, tokens, features):
        Inference.step = tokens.shape[-1] - self.initial
        group = len(tokens) // len(features)
        first = Inference.step == 0
        out = np.zeros((len(tokens), tokens.shape[-1] if first else 1, VOCAB), np.float32)
        for i, t in enumerate(tokens.tolist()):
            key = self.model.key(features[i // group])
            state = key
            for at, token in enumerate(t):
                state = extend(state, token)
                # OpenAI's code looks at the logits of the start and at the last ones
                if first and token == SOT or at == len(t) - 1:
                    out[i, at if first else 0] = row(key, state, t[: at + 1])
        return torch.from_numpy(out)

    def rearrange_kv_cache(self, source_indices):
        pass

    def cleanup_caching(self):
        pass


class Categorical:
    """A draw by the noise of the row and the step."""

    def __init__(self, logits):
        self.logits = logits.numpy()

    def sample(self):
        drawn = [np.argmax(r + noise(i, Inference.step)) for i, r in enumerate(self.logits)]
        return torch.tensor(drawn)


def texts():
    """The bytes of the texts: all bytes, then marks, pieces of characters and words."""
    marks = [" -", " '", "...", " (", "。", "，", "¿", " “", "”", "♪♪", " ♪", "([", " \"", "the", " the"]
    marks += ["".join(pair) for pair in zip("日本語中文", "本語中文字")] + [" -- ", "\u00a0a", "'s"]
    out = [bytes([i]) for i in range(256)] + [mark.encode() for mark in marks]
    out += ["語".encode()[:2], "語字".encode()[2:4], "é".encode()[1:] + b"t"]
    seen = set(out)
    i = 0
    while len(out) < TEXTS:
        i += 1
        z = mix(i)
        word = "" if z % 4 == 0 else " "
        for s in range(1 + z // 4 % 3):
            z = mix(z)
            word += "bdfgklmnprstvwz"[z % 15] + "aeiou"[z // 15 % 5]
        word += [".", ",", "", "", "", "?", "n", "r"][z // 75 % 8]
        if word.encode() not in seen:
            seen.add(word.encode())
            out.append(word.encode())
    return out
