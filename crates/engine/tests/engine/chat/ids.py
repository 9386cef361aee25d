"""Token ids of rendered chats by transformers' apply_chat_template, for the test `ids.rs`.

    python ids.py ../../../../../shared/data > ids.json

For each vocabulary, template and context of the test data, the file has the number of the ids and
their hash (FNV-1a, 64 bits, over the ids as four bytes each, the lowest first). Combinations that
transformers refuses are left out, and those with tokens that it adds to a vocabulary. transformers
reads a vocabulary from its GGUF file; the script adds what no key of such files states and the
published tokenizer.json of Phi-3 does: its markers absorb the white space after them.
"""

import datetime
import json
import sys
import warnings
from pathlib import Path

import gguf
from tokenizers import AddedToken
from transformers import AutoTokenizer
from transformers.utils import chat_template_utils

NOW = datetime.datetime(2024, 7, 26, 12, 0)
CONTROL, USER_DEFINED = 3, 4
PHI_3_PLAIN = ("<unk>", "<s>", "<|endoftext|>")


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def fnv(ids):
    hash = 0xCBF29CE484222325
    for id in ids:
        for byte in id.to_bytes(4, "little"):
            hash = (hash ^ byte) * 0x100000001B3 % 2**64
    return f"{hash:016x}"


def load(folder, file):
    tokenizer = AutoTokenizer.from_pretrained(str(folder), gguf_file=file)
    fields = gguf.GGUFReader(str(folder / file)).fields
    texts = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    added = []
    for text, kind in zip(texts, types):
        if kind in (CONTROL, USER_DEFINED):
            strips = "phi-3" in file and text not in PHI_3_PLAIN
            added.append(AddedToken(text, rstrip=strips, normalized=False, special=kind == CONTROL))
    tokenizer.add_tokens(added)
    if any(tokenizer.convert_tokens_to_ids(t.content) != texts.index(t.content) for t in added):
        print(f"transformers reads the special tokens of {file} otherwise", file=sys.stderr)
        return None
    ends = {}
    for name in ("bos", "eos"):
        field = fields.get(f"tokenizer.ggml.{name}_token_id")
        ends[f"{name}_token"] = texts[field.contents()] if field else None
    tokenizer.add_special_tokens({name: text for name, text in ends.items() if text})
    return tokenizer, len(texts)


def main():
    warnings.filterwarnings("ignore")
    chat_template_utils.datetime = Clock
    data = Path(sys.argv[1])
    contexts = json.loads((data / "templates/contexts.json").read_text())
    # the same variations as in ids.rs
    simple, turns = contexts["simple"], contexts["four_turn"]
    contexts["no_thinking"] = {**simple, "enable_thinking": False, "thinking": False}
    contexts["thinking"] = {**simple, "enable_thinking": True, "thinking": True}
    contexts["low_effort"] = {**simple, "reasoning_effort": "low"}
    contexts["continued"] = {
        **turns,
        "messages": turns["messages"] + [{"role": "assistant", "content": "The answer is"}],
        "add_generation_prompt": False,
        "continue_final_message": True,
    }
    rows = []
    for vocabulary in sorted((data / "vocab").glob("*.gguf")):
        if "bert" in vocabulary.name:
            continue
        loaded = load(data / "vocab", vocabulary.name)
        if loaded is None:
            continue
        tokenizer, size = loaded
        for template in sorted((data / "templates").glob("*.jinja")):
            source = template.read_text()
            for name, context in contexts.items():
                chat = {k: v for k, v in context.items() if k not in ("bos_token", "eos_token")}
                messages = chat.pop("messages")
                try:
                    ids = tokenizer.apply_chat_template(
                        messages, chat_template=source, tokenize=True, return_dict=False, **chat)
                except Exception:
                    continue
                if max(ids) >= size:
                    continue
                rows.append([vocabulary.stem.removeprefix("ggml-vocab-"), template.stem, name,
                             len(ids), fnv(ids)])
    print("[")
    print(",\n".join(json.dumps(row) for row in rows))
    print("]")


main()
