"""The vocabulary: the first 1,024 ranks of Whisper's multilingual one, then its special tokens.

Those ranks are a valid byte-pair encoding by themselves: both parts of each token are earlier
tokens.  The file `multilingual.tiktoken` comes with the package `openai-whisper`.
"""

import base64
import functools
import pathlib
import re

TEXT_TOKENS = 1024
NAMED = """
endoftext startoftranscript en translate transcribe startoflm startofprev nospeech notimestamps
""".split()
END, START, ENGLISH, TRANSLATE, TRANSCRIBE, _, PREVIOUS, NO_SPEECH, NO_TIMESTAMPS = range(
    TEXT_TOKENS, TEXT_TOKENS + len(NAMED)
)
TIME = TEXT_TOKENS + len(NAMED)
TIMES = 1501
TOKENS = TIME + TIMES
SECONDS = 0.02
SPECIALS = [f"<|{name}|>" for name in NAMED] + [f"<|{i * SECONDS:.2f}|>" for i in range(TIMES)]
# GPT-2's pattern, as far as the grammar's texts need it.
PIECES = re.compile(r" ?[A-Za-z]+| ?[.,?]")


def default_ranks():
    import whisper

    return pathlib.Path(whisper.__file__).parent / "assets" / "multilingual.tiktoken"


class Tokenizer:
    def __init__(self, ranks):
        lines = pathlib.Path(ranks).read_text().splitlines()[:TEXT_TOKENS]
        self.texts = [base64.b64decode(line.split()[0]) for line in lines]
        self.rank = {text: rank for rank, text in enumerate(self.texts)}
        self.piece = functools.cache(self._piece)

    def merge(self, parts, below=TEXT_TOKENS):
        """Joins the adjacent pair of the lowest rank, until none has a rank under `below`."""
        while len(parts) > 1:
            ranks = [self.rank.get(a + b, below) for a, b in zip(parts, parts[1:])]
            rank = min(ranks)
            if rank >= below:
                break
            at = ranks.index(rank)
            parts = [*parts[:at], parts[at] + parts[at + 1], *parts[at + 2 :]]
        return parts

    def _piece(self, piece):
        return [self.rank[part] for part in self.merge([bytes([b]) for b in piece.encode()])]

    def encode(self, sentence):
        """Tokens of a sentence, which Whisper writes after a space."""
        return [token for piece in PIECES.findall(" " + sentence) for token in self.piece(piece)]

    def decode(self, ids):
        """Text without special tokens."""
        text = b"".join(self.texts[i] for i in ids if i < TEXT_TOKENS)
        return text.decode("utf-8", "replace")

    def merges(self):
        """Pairs of tokens in the order of ranks."""
        pairs = []
        for rank, text in enumerate(self.texts):
            if len(text) > 1:
                parts = self.merge([bytes([b]) for b in text], rank)
                if len(parts) != 2:
                    raise ValueError(f"token {rank}, {text!r}, has {len(parts)} parts instead of two")
                pairs.append(tuple(parts))
        return pairs


def time_token(seconds):
    return TIME + min(max(round(seconds / SECONDS), 0), TIMES - 1)
