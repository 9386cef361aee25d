"""Writes the expectations of `tests/oracle`: OpenAI's decoding rules over the model of fake_model.py.

Needs openai-whisper 20250625 with torch and numba. Takes a few minutes.
"""

import json
import math
import pathlib
import sys

import numpy as np
import tiktoken
import torch
import whisper
import whisper.decoding as decoding
import whisper.timing as timing
import whisper.tokenizer as tokenizers

import fake_model as fake
from fake_model import mix

transcribing = sys.modules["whisper.transcribe"]
OUT = pathlib.Path(__file__).parent / "fixtures"
PATTERN = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def encoding():
    names = list(tokenizers.LANGUAGES)[: fake.LANGUAGES]
    specials = ["<|endoftext|>", "<|startoftranscript|>", *[f"<|{name}|>" for name in names]]
    specials += ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>"]
    specials += ["<|nospeech|>", "<|notimestamps|>", *[f"<|{i * 0.02:.2f}|>" for i in range(1501)]]
    texts = fake.texts()
    return tiktoken.Encoding(
        name="fake",
        explicit_n_vocab=len(texts) + len(specials),
        pat_str=PATTERN,
        mergeable_ranks={text: i for i, text in enumerate(texts)},
        special_tokens={text: len(texts) + i for i, text in enumerate(specials)},
    )


ENCODING = encoding()
ENCODED = {}


class Recorder:
    """The encoding, which keeps what it encoded for the tests in Rust."""

    def __getattr__(self, name):
        return getattr(ENCODING, name)

    def encode(self, text, **options):
        ENCODED[text] = ENCODING.encode(text, **options)
        return ENCODED[text]


def get_tokenizer(multilingual, *, num_languages=99, language=None, task=None):
    if not multilingual:
        language = task = None
    else:
        language, task = language or "en", task or "transcribe"
    return tokenizers.Tokenizer(
        encoding=Recorder(), num_languages=fake.LANGUAGES, language=language, task=task
    )


def mel(frames, full=None):
    out = torch.zeros(1, full or frames + 3000)
    out[0, :frames] = torch.arange(1, frames + 1)
    return out


for module in (decoding, transcribing):
    module.get_tokenizer = get_tokenizer
decoding.PyTorchInference = fake.Inference
decoding.Categorical = fake.Categorical
transcribing.log_mel_spectrogram = lambda audio, n_mels, padding: mel(audio)
assert ENCODING.n_vocab == fake.VOCAB


def write(name, value):
    path = OUT / f"{name}.json"
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(name, path.stat().st_size)


def rounded(value):
    """A number in few digits; NaN and infinities as text."""
    value = float(value)
    return float(f"{value:.9g}") if math.isfinite(value) else str(value)


def fnv(numbers):
    digest = 0xCBF29CE484222325
    for number in numbers:
        for byte in int(number).to_bytes(4, "little"):
            digest = ((digest ^ byte) * 0x100000001B3) & fake.MASK
    return f"{digest:016x}"


def filters():
    """Digests of the banned tokens after 1,000 histories."""
    out = []
    tokenizer = get_tokenizer(True, language="en", task="transcribe")
    for case in range(1000):
        state = mix(case + 77)

        def below(n):
            nonlocal state
            state = mix(state + 1)
            return state % n

        length = below(8) if case % 4 else below(3)
        history, clock = [], 0
        for _ in range(length):
            kind = below(5)
            if kind < 2:
                clock = min(clock + below(120), 1500)
                history.append(fake.FIRST_TIMESTAMP + clock)
            elif kind == 2:
                history.append(fake.FIRST_TIMESTAMP + below(1501))
            else:
                history.append(below(fake.TEXTS + 5))
        prompt = [fake.SOT, fake.SOT + 1, fake.SOT + fake.LANGUAGES + 2]
        blank, stamps, latest = below(2), below(4) > 0, [None, 0, 50, 7][below(4)]
        tokens = torch.tensor([prompt + history])
        state = mix(case)
        logits = torch.from_numpy(fake.row(state, state, prompt + history))[None].clone()
        options = decoding.DecodingOptions(fp16=False)
        task = decoding.DecodingTask.__new__(decoding.DecodingTask)
        task.options, task.tokenizer = options, tokenizer
        applied = []
        if blank:
            applied.append(decoding.SuppressBlank(tokenizer, len(prompt)))
        applied.append(decoding.SuppressTokens(task._get_suppress_tokens()))
        if stamps:
            applied.append(decoding.ApplyTimestampRules(tokenizer, len(prompt), latest))
        for rule in applied:
            rule.apply(logits, tokens)
        banned = torch.isinf(logits[0]).nonzero().flatten().tolist()
        out.append({
            "history": history, "blank": bool(blank), "timestamps": stamps, "latest": latest,
            "banned": fnv(banned),
        })
    write("filters", out)


def result(r, probabilities):
    out = {
        "language": r.language,
        "tokens": r.tokens,
        "text": r.text,
        "logprob": rounded(r.avg_logprob),
        "no_speech": rounded(r.no_speech_prob),
        "ratio": rounded(r.compression_ratio),
    }
    if probabilities and r.language_probs:
        out["languages"] = [rounded(p) for p in r.language_probs.values()]
    return out


def decode_cases():
    prompt = [300, 301, 302, fake.FIRST_TIMESTAMP + 9, 303]
    cases = [
        {}, {}, {}, {"language": "de"}, {"language": "de", "task": "translate"},
        {"sample_len": 7}, {"sample_len": 1}, {"sample_len": 300}, {"without_timestamps": True},
        {"suppress_blank": False}, {"suppress_tokens": ""}, {"suppress_tokens": "13,500,-1"},
        {"suppress_tokens": "400,401"}, {"max_initial_timestamp": None},
        {"max_initial_timestamp": 0.3}, {"prompt": prompt}, {"prompt": list(range(260, 560))},
        {"prompt": " word play "}, {"prefix": [600, 601]}, {"prefix": "the word"},
        {"prefix": [600, 601, 602, 603], "sample_len": 222}, {"prompt": prompt, "prefix": [700]},
        {"temperature": 0.4}, {"temperature": 1.0}, {"temperature": 0.7, "best_of": 3},
        {"temperature": 1.0, "best_of": 5}, {"temperature": 1.0, "best_of": 5, "length_penalty": 0.6},
        {"beam_size": 1}, {"beam_size": 2}, {"beam_size": 5}, {"beam_size": 5}, {"beam_size": 5},
        {"beam_size": 5, "patience": 2.0}, {"beam_size": 5, "patience": 0.5},
        {"beam_size": 3, "patience": 1.5, "length_penalty": 1.0},
        {"beam_size": 5, "length_penalty": 0.0}, {"beam_size": 5, "length_penalty": 0.6},
        {"beam_size": 5, "sample_len": 6}, {"beam_size": 4, "sample_len": 3, "patience": 2.0},
        {"beam_size": 5, "without_timestamps": True, "prompt": prompt},
        {"beam_size": 5, "language": "ja", "prefix": [600]},
    ]
    out = []
    for i, options in enumerate(cases):
        for window in range(3):
            # windows of several kinds: whole, short, of other content
            frames = [3000, 3000, 700][window]
            seed = 1000 + i if window else 7 * i
            model = fake.Model(seed)
            features = torch.zeros(1, 3000)
            features[0, :frames] = torch.arange(1, frames + 1) + 100 * window
            settings = decoding.DecodingOptions(fp16=False, **options)
            found = decoding.decode(model, features, settings)
            out.append({
                "seed": seed, "first": 100 * window, "frames": frames, "options": options,
                "result": result(found, i < 2),
            })
    for i in range(4):
        model = fake.Model(50 + i, multilingual=False)
        options = {"language": "en", **cases[[0, 8, 15, 29][i]]}
        settings = decoding.DecodingOptions(fp16=False, **options)
        found = decoding.decode(model, mel(3000, 3000), settings)
        out.append({
            "seed": 50 + i, "first": 0, "frames": 3000, "options": options, "english": True,
            "result": result(found, False),
        })
    write("decode", out)


def segment(s):
    out = {
        "seek": s["seek"], "start": rounded(s["start"]), "end": rounded(s["end"]), "text": s["text"],
        "tokens": s["tokens"], "temperature": s["temperature"], "logprob": rounded(s["avg_logprob"]),
        "ratio": rounded(s["compression_ratio"]), "no_speech": rounded(s["no_speech_prob"]),
    }
    if "words" in s:
        out["words"] = [
            [w["word"], rounded(w["start"]), rounded(w["end"]), rounded(w["probability"])]
            for w in s["words"]
        ]
    return out


def transcribe_cases():
    words = {"word_timestamps": True}
    cases = [
        (9500, {}), (9500, {"beam_size": 5, "best_of": 5}), (9500, {"beam_size": 3, "patience": 2.0}),
        (3000, {}), (250, {}), (1, {}), (6001, {"temperature": 0.0}), (6001, {"temperature": [0.0, 0.9]}),
        (9500, {"condition_on_previous_text": False}),
        (9500, {"initial_prompt": " the word play"}),
        (9500, {"initial_prompt": "the word play", "carry_initial_prompt": True}),
        (9500, {"initial_prompt": "the word " * 60, "carry_initial_prompt": True}),
        (9500, {"compression_ratio_threshold": None, "logprob_threshold": None}),
        (9500, {"no_speech_threshold": None}), (9500, {"no_speech_threshold": 0.01, "logprob_threshold": None}),
        (9500, {"clip_timestamps": [3.2, 20.0, 41.5]}), (9500, {"clip_timestamps": "10.005,12,50,94.99"}),
        (9500, {"task": "translate", "language": "fr"}), (9500, {"without_timestamps": True}),
        (9500, {"max_initial_timestamp": None, "suppress_tokens": "", "language": "ja"}),
        (9500, words), (9500, {**words, "beam_size": 5, "condition_on_previous_text": False}),
        (9500, {**words, "language": "ja"}), (9500, {**words, "task": "translate"}),
        (7777, {**words, "prepend_punctuations": " -", "append_punctuations": ".,?"}),
        (701, words), (21, words),
        (9000, {**words, "without_timestamps": True, "suppress_blank": False}),
    ]
    cases += [(9500, {**words, "hallucination_silence_threshold": t}) for t in (0.2, 0.5, 1.0, 2.0)]
    cases += [(9500, {**words, "hallucination_silence_threshold": 0.3, "temperature": 0.0})] * 3
    cases += [(9500, {**words, "hallucination_silence_threshold": 0.1, "language": "de"})] * 3
    cases += [(9500, {"multilingual": False}), (5000, {"multilingual": False, **words})]
    out = []
    for i, (frames, options) in enumerate(cases):
        given = dict(options)
        model = fake.Model(i + 1, multilingual=given.pop("multilingual", True))
        found = transcribing.transcribe(model, frames, fp16=False, **given)
        out.append({
            "seed": i + 1, "frames": frames, "options": options, "text": found["text"],
            "language": found["language"], "segments": [segment(s) for s in found["segments"]],
        })
        print(i, frames, options, len(found["segments"]), {s["temperature"] for s in found["segments"]})
    write("transcribe", out[:20])
    write("transcribe_words", out[20:])


def values(case, n, levels):
    """Numbers of few levels, so that costs tie, as multiples of 1/64."""
    z = fake.mix_all(np.uint64(mix(case)) + np.arange(n, dtype=np.uint64))
    return ((z % np.uint64(levels)).astype(np.float64) / 64 - 1).astype(np.float32)


def timings():
    """The paths and medians of OpenAI's own test's sizes."""
    out = {"paths": [], "medians": []}
    sizes = [(10, 20), (32, 16), (123, 1500), (234, 189), (1, 1), (1, 9), (9, 1), (4, 4)]
    for case, (rows, columns) in enumerate(sizes * 3):
        x = values(case, rows * columns, [3, 64, 100_000][case // len(sizes)])
        path = timing.dtw(torch.from_numpy(x.reshape(rows, columns)))
        out["paths"].append([rows, columns, fnv(path[0]), fnv(path[1]), len(path[0])])
    for case, (n, width) in enumerate([(n, w) for n in (1, 2, 3, 4, 7, 100, 1500) for w in (1, 3, 7, 13)]):
        x = values(100 + case, n, 1000)
        y = timing.median_filter(torch.from_numpy(x), width)
        out["medians"].append([n, width, fnv((y.numpy() * 64 + 64).astype(np.int64))])
    write("timing", out)


def vocabulary():
    """The texts of all tokens, and everything that was encoded above."""
    texts = [ENCODING.decode_single_token_bytes(i).hex() for i in range(fake.VOCAB)]
    tokenizer = get_tokenizer(True)
    write("vocabulary", {
        "texts": texts, "encoded": ENCODED, "non_speech": list(tokenizer.non_speech_tokens),
    })


def real_vocabularies():
    """What the derivation of non-speech tokens encodes, in OpenAI's two vocabularies."""
    out = {}
    for name in ("multilingual", "gpt2"):
        original = tokenizers.get_encoding(name)
        encoded = {}

        class Listener:
            special_tokens_set = original.special_tokens_set
            encode_single_token = original.encode_single_token

            def encode(self, text):
                encoded[text] = original.encode(text)
                return encoded[text]

        tokenizer = tokenizers.Tokenizer(encoding=Listener(), num_languages=99)
        out[name] = {"banned": list(tokenizer.non_speech_tokens), "encoded": encoded}
    write("non_speech", out)


torch.set_num_threads(1)
filters()
timings()
decode_cases()
transcribe_cases()
vocabulary()
real_vocabularies()
