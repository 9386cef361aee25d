"""The tokenizer and the chat format: byte-level BPE of the words of questions and answers.

    python tokens.py HF_DIR

Names of tokens around an image are SmolVLM's.  The pre-tokenizer is Qwen2's, as in the tiny model.
"""

import random
import sys

import pictures
import questions

SEED = 2026
ENTRIES = 1024
CONTEXT = 1024
BEGIN, END = "<|begin|>", "<end_of_utterance>"
SYSTEM, USER, ASSISTANT = "<|system|>", "<|user|>", "<|assistant|>"
FAKE, GLOBAL, IMAGE = "<fake_token_around_image>", "<global-img>", "<image>"
SPECIALS = [BEGIN, END, SYSTEM, USER, ASSISTANT, FAKE, GLOBAL, IMAGE]
IMAGE_TOKENS = 36
EXPANDED = FAKE + GLOBAL + IMAGE * IMAGE_TOKENS + FAKE

CHAT_TEMPLATE = """
{{- bos_token }}
{%- for message in messages %}
    {{- '<|' + message.role + '|>' }}
    {%- if message.content is string %}
        {{- message.content }}
    {%- else %}
        {%- for part in message.content %}
            {{- '<image>' if part.type == 'image' else part.text }}
        {%- endfor %}
    {%- endif %}
    {{- '<end_of_utterance>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>' }}
{%- endif %}
""".strip()

# https://huggingface.co/Qwen/Qwen2-7B/blob/main/tokenizer.json
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def texts():
    rng = random.Random(f"tokens {SEED}")
    for _ in range(40_000):
        _, asked, answered = questions.question(rng, pictures.scene(rng))
        yield asked
        yield answered
    fixed = [text for pair in questions.SMALL_TALK for text in pair]
    yield from (fixed + questions.SYSTEMS + questions.ORDER + [questions.NO_PICTURE]) * 50


def learn():
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(QWEN2), "isolated")
    bytes_of = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_of])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=ENTRIES,
        min_frequency=40,
        special_tokens=SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(), trainer)
    begin = tokenizer.token_to_id(BEGIN)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", pair=f"{BEGIN} $A $B", special_tokens=[(BEGIN, begin)]
    )
    return tokenizer


def main():
    from transformers import PreTrainedTokenizerFast

    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=learn(),
        bos_token=BEGIN,
        eos_token=END,
        clean_up_tokenization_spaces=False,
        model_max_length=CONTEXT,
        chat_template=CHAT_TEMPLATE,
    )
    wrapped.save_pretrained(sys.argv[1])
    print(f"{len(wrapped)} entries")


if __name__ == "__main__":
    main()
