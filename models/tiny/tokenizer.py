"""Train a tokenizer on the corpus: byte-level BPE, of 4,096 entries for the tiny model.

    python tokenizer.py HF_DIR [--entries N] [--mix MIX]

The pre-tokenizer is Qwen2's, named "qwen2" in llama.cpp and Pelton: words with their
leading space, and single digits, which simplifies arithmetic.
"""

import argparse
import random
import re

import corpus
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

SEED = 2026
DOCUMENTS = 120_000
CONTEXT = 1024

# https://huggingface.co/Qwen/Qwen2-7B/blob/main/tokenizer.json
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def learn(entries, mix):
    rng = random.Random(f"tokenizer {SEED}")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN2), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=entries,
        special_tokens=corpus.SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    mark = re.compile("|".join(map(re.escape, corpus.SPECIAL_TOKENS)))
    texts = (mark.split(corpus.document(rng, mix)) for _ in range(DOCUMENTS))
    tokenizer.train_from_iterator(texts, trainer)
    begin = tokenizer.token_to_id(corpus.BEGIN)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{corpus.BEGIN} $A",
        pair=f"{corpus.BEGIN} $A $B",
        special_tokens=[(corpus.BEGIN, begin)],
    )
    if tokenizer.get_vocab_size() != entries:
        raise SystemExit(f"the corpus gave only {tokenizer.get_vocab_size()} entries")
    return tokenizer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hf_dir")
    parser.add_argument("--entries", type=int, default=4096)
    parser.add_argument("--mix", choices=corpus.MIXES, default="tiny")
    args = parser.parse_args()
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=learn(args.entries, args.mix),
        bos_token=corpus.BEGIN,
        eos_token=corpus.END,
        clean_up_tokenization_spaces=False,
        model_max_length=CONTEXT,
        chat_template=corpus.CHAT_TEMPLATE,
    )
    wrapped.save_pretrained(args.hf_dir)


if __name__ == "__main__":
    main()
