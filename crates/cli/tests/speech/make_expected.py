"""What OpenAI's `transcribe` makes of generated audio with a random model, for the tests of `pelton transcribe`.

    python make_expected.py

needs openai-whisper 20250625, torch and numba. It writes expected.json next to itself. The weights and
the vocabulary are those of `WhisperSpec::transcribing` in crates/testing/src/whisper.rs, the audio that of
../cli/transcripts.rs, all made from seeds.
"""

import dataclasses
import json
import math
import pathlib
import sys

import numpy as np
import tiktoken
import torch
import whisper
import whisper.decoding as decoding
import whisper.tokenizer as tokenizers
from whisper.model import ModelDimensions, Whisper

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE / "../../../testing/fixtures/speech"))
import make_model as weights  # noqa: E402

transcribing = sys.modules["whisper.transcribe"]
SEED = int(sys.argv[1]) if len(sys.argv) > 1 else 1
LETTERS = "abcdefghijklmnopqrstuvwxyz"
TEXTS = [bytes([i]) for i in range(256)] + [f" {letter}".encode() for letter in LETTERS]
LANGUAGES = list(tokenizers.LANGUAGES)[:4]
SPECIALS = ["<|endoftext|>", "<|startoftranscript|>", *[f"<|{name}|>" for name in LANGUAGES]]
SPECIALS += ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>"]
SPECIALS += ["<|notimestamps|>", *[f"<|{i * 0.02:.2f}|>" for i in range(1501)]]
EOT = len(TEXTS)
VOCAB = EOT + len(SPECIALS)
ENCODING = tiktoken.Encoding(
    name="letters",
    explicit_n_vocab=VOCAB,
    pat_str=r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""",
    mergeable_ranks={text: i for i, text in enumerate(TEXTS)},
    special_tokens={text: EOT + i for i, text in enumerate(SPECIALS)},
)
# the least differences that decided
MARGINS = []


def get_tokenizer(multilingual, *, num_languages=99, language=None, task=None):
    return tokenizers.Tokenizer(
        encoding=ENCODING, num_languages=len(LANGUAGES), language=language or "en", task=task or "transcribe"
    )


class Model(Whisper):
    """A Whisper whose vocabulary is none of OpenAI's."""

    is_multilingual = True
    num_languages = len(LANGUAGES)
    # those of windows, where each has its own
    heard = None

    def decode(self, mel, options):
        if self.heard is not None:
            _, probabilities = self.detect_language(mel)
            best = sorted(probabilities.values())[-2:]
            MARGINS.append(best[1] - best[0])
            self.heard.append(max(probabilities, key=probabilities.get))
            options = dataclasses.replace(options, language=self.heard[-1])
        return decoding.decode(self, mel, options)


def scale(token):
    """Factors of the embedding's rows, by which texts have letters, times and ends."""
    if token < 256 and not chr(token).encode().isalnum() and token != 32:
        return 0.05
    if token == EOT:
        return 1.45
    return 0.42 if token > EOT + 11 else 1.0


def model():
    weights.LAYERS, weights.ALIGNMENT_HEADS = 1, [[0, 0], [0, 1]]
    dims = ModelDimensions(
        n_mels=80, n_audio_ctx=1500, n_audio_state=128, n_audio_head=2, n_audio_layer=1,
        n_vocab=VOCAB, n_text_ctx=448, n_text_state=128, n_text_head=2, n_text_layer=1,
    )
    made = Model(dims)
    state = {}
    for index, (name, shape, mean, deviation) in enumerate(weights.tensors(80, VOCAB)):
        values = weights.uniform(1000 * SEED + index, math.prod(shape), mean, deviation).reshape(shape)
        if name == "decoder.token_embedding.weight":
            values = values * np.array([scale(t) for t in range(VOCAB)], np.float32)[:, None]
        state[name] = torch.from_numpy(values)
    made.load_state_dict(state)
    made.register_buffer("alignment_heads", torch.ones(1, 2).bool().to_sparse(), persistent=False)
    return made.eval()


def audio(seconds):
    """Sawtooth tones of 0.1 s each."""
    i = np.arange(int(seconds * 16000), dtype=np.int64)
    step = i // 1600 * 37 % 101 + 3
    samples = i * step * 8 % 16384 - 8192
    return (samples / 32768).astype(np.float32)


class Watched(decoding.GreedyDecoder):
    """Notes how close the second best token was."""

    def update(self, tokens, logits, sum_logprobs):
        best = torch.topk(logits, 2).values[0]
        MARGINS.append(float(best[0] - best[1]))
        return super().update(tokens, logits, sum_logprobs)


decoding.GreedyDecoder = Watched
for module in (decoding, transcribing):
    module.get_tokenizer = get_tokenizer
rule = decoding.ApplyTimestampRules.apply


def times(self, logits, tokens):
    """Notes how close times were to a text."""
    before = torch.log_softmax(logits.float(), dim=-1)[0]
    split = self.tokenizer.timestamp_begin
    difference = float(before[split:].logsumexp(dim=-1) - before[:split].max())
    if math.isfinite(difference):
        MARGINS.append(abs(difference))
    rule(self, logits, tokens)


decoding.ApplyTimestampRules.apply = times


def run(made, seconds, **options):
    options = dict(language="en", temperature=0.0, fp16=False) | options
    found = whisper.transcribe(made, audio(seconds), **options)
    keep = lambda one: {key: one[key] for key in ("start", "end", "text", "tokens")}
    out = {"language": found["language"], "segments": [keep(one) for one in found["segments"]]}
    if options.get("word_timestamps"):
        out["words"] = [
            [word["word"], word["start"], word["end"]]
            for one in found["segments"]
            for word in one.get("words", [])
        ]
    return out


def main():
    made = model()
    short, long = 8, 40
    cases = {
        "plain": (short, ["--language", "en"], {}),
        "german": (short, ["--language", "German"], dict(language="de")),
        "heard": (short, [], dict(language=None)),
        "translated": (short, ["--language", "de", "--task", "translate"], dict(language="de", task="translate")),
        "prompted": (short, ["--language", "en", "--prompt", "ab cd ef"], dict(initial_prompt="ab cd ef")),
        "conditioned": (long, ["--language", "en"], {}),
        "alone": (long, ["--language", "en", "--no-condition"], dict(condition_on_previous_text=False)),
        "hot": (long, ["--language", "en", "--no-condition", "--hot-words", "gh ij"],
                dict(initial_prompt="gh ij", carry_initial_prompt=True, condition_on_previous_text=False)),
        "beams": (short, ["--language", "en", "--beam", "5"], dict(beam_size=5)),
        "words": (short, ["--language", "en", "--words"], dict(word_timestamps=True)),
        "whole": (95, ["--language", "en", "--prompt", "ab cd ef", "--beam", "5", "--words"],
                  dict(initial_prompt="ab cd ef", beam_size=5, word_timestamps=True)),
    }
    expected = []
    for name, (seconds, flags, options) in cases.items():
        expected.append({"name": name, "seconds": seconds, "flags": flags} | run(made, seconds, **options))
    made.heard = []
    flags = ["--no-condition", "--multilingual"]
    each = run(made, long, language=None, condition_on_previous_text=False)
    expected.append({"name": "multilingual", "seconds": long, "flags": flags} | each)
    languages, made.heard = made.heard, None
    text = lambda one: (one["seconds"], "".join(s["text"] for s in one["segments"]))
    for one in expected:
        print(one["name"], one["language"], len(one["segments"]), text(one)[1][:100].strip())
    live = run(made, 1.5, word_timestamps=True)
    print("live", live["words"])
    tokens = lambda one: (one["seconds"], *(token for part in one["segments"] for token in part["tokens"]))
    distinct = {one["name"]: tokens(one) for one in expected if one["name"] != "heard"}
    good = len(set(distinct.values())) == len(distinct) and len(set(languages)) > 1
    good = good and all(one["segments"] and text(one)[1].strip() for one in expected) and len(live["words"]) > 1
    print("margin", min(MARGINS), "steps", len(MARGINS), "languages", languages, "good", good)
    out = {"seed": SEED, "vocab": VOCAB, "least_margin": min(MARGINS), "cases": expected, "live": live}
    (HERE / "expected.json").write_text(json.dumps(out) + "\n")
    return good and min(MARGINS) > 1e-3


if __name__ == "__main__":
    torch.set_num_threads(1)
    with torch.no_grad():
        sys.exit(0 if main() else 1)
