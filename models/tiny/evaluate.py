"""Evaluate the tiny model on held-out text, with its weights rounded to Q8_0.

    python evaluate.py HF_DIR

Writes HF_DIR/figures.json and HF_DIR/samples.md.
"""

import json
import math
import pathlib
import random
import re
import sys

import corpus
import torch
from corpus import arithmetic, chats, facts, tasks, thoughts, tools, words
from train import labels
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

SEED = 2026
OPENINGS = """
Once upon a time
Once upon a time, there was a little fox
One day
There was once
Long ago
A long time ago
Mia was a girl who
It was a rainy day
Once there was a bear
Far away
In a land not far from here
Every child
""".strip().splitlines()


def q8_0(weight):
    """Codes of Q8_0: blocks of 32 with a float16 scale and integers from -127 to 127, halves
    away from zero, as in ggml's quantize_row_q8_0_ref."""
    blocks = weight.reshape(-1, 32)
    scale = blocks.abs().amax(1, keepdim=True) / 127
    scaled = torch.where(scale > 0, blocks * (1 / scale), 0.0)
    return scaled.sign() * (scaled.abs() + 0.5).floor(), scale.half()


def round_to_q8_0(weight):
    codes, scale = q8_0(weight)
    return (codes * scale.float()).reshape(weight.shape)


class Subject:
    """The evaluated model."""

    def __init__(self, hf_dir):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.tokenizer = PreTrainedTokenizerFast.from_pretrained(hf_dir, padding_side="left")
        self.end = self.tokenizer.eos_token_id
        self.tokenizer.pad_token = self.tokenizer.eos_token
        model = LlamaForCausalLM.from_pretrained(hf_dir, dtype=torch.float32)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.copy_(round_to_q8_0(parameter))
        self.model = model.to(self.device).eval()

    def encode(self, text):
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def generate(self, prompts, length, to_the_end=False, temperature=None, top_k=0, batch=512):
        """The generated tokens for each prompt; beyond the end token only if requested."""
        results = []
        for at in range(0, len(prompts), batch):
            inputs = self.tokenizer(
                prompts[at : at + batch],
                add_special_tokens=False,
                return_token_type_ids=False,
                padding=True,
                return_tensors="pt",
            ).to(self.device)
            sampling = dict(temperature=temperature, top_k=top_k, top_p=1.0) if temperature else {}
            with torch.no_grad():
                output = self.model.generate(
                    **inputs,
                    max_new_tokens=length,
                    min_new_tokens=length if to_the_end else None,
                    do_sample=bool(temperature),
                    pad_token_id=self.end,
                    eos_token_id=None if to_the_end else self.end,
                    **sampling,
                )
            for row in output[:, inputs["input_ids"].shape[1] :].tolist():
                if not to_the_end and self.end in row:
                    row = row[: row.index(self.end) + 1]
                results.append(row)
        return results

    def answers(self, prompts, length=80):
        rows = self.generate(prompts, length)
        return [self.tokenizer.decode(row, skip_special_tokens=True) for row in rows]

    def nats(self, documents):
        """The sum of the negative log-likelihoods of all tokens after the first, without those
        that open a thought."""
        total, count = 0.0, 0
        for document in documents:
            ids = torch.tensor([self.encode(document)], device=self.device)
            with torch.no_grad():
                logits = self.model(ids[:, :-1], use_cache=False).logits[0]
            expected = labels(ids, self.encode)[0]
            total += torch.nn.functional.cross_entropy(logits, expected, reduction="sum").item()
            count += (expected >= 0).sum().item()
        return total, count


def perplexities(subject):
    """Perplexity of new documents of each kind, per byte of text and per token."""
    special = re.compile("|".join(map(re.escape, corpus.SPECIAL_TOKENS)))
    figures = {}
    for kind in corpus.KINDS:
        rng = random.Random(f"perplexity {SEED} {kind.__name__}")
        documents = [kind(rng) for _ in range(200)]
        nats, tokens = subject.nats(documents)
        size = sum(len(special.sub("", d).encode()) for d in documents)
        figures[kind.__name__] = dict(
            documents=len(documents),
            bytes=size,
            perplexity_per_byte=round(math.exp(nats / size), 4),
            perplexity_per_token=round(math.exp(nats / tokens), 4),
        )
    return figures


def right(subject, cases, shown=12):
    """The accuracy by exact match over (question, answer) cases, and some failures."""
    got = subject.answers([corpus.prompt(asked) for asked, _ in cases])
    wrong = [
        dict(asked=asked, expected=expected, got=answer)
        for (asked, expected), answer in zip(cases, got)
        if answer != expected
    ]
    share = 1 - len(wrong) / len(cases)
    return dict(cases=len(cases), right=round(share, 4), wrong=wrong[:shown])


def extractions(subject):
    rng = random.Random(f"extraction {SEED}")
    return right(subject, [tasks.extraction_question(rng) for _ in range(400)])


def pronouns(subject):
    """Accuracy of the last answer of two-turn chats, given the preceding turns."""
    rng = random.Random(f"pronouns {SEED}")
    prompts, expected = [], []
    while len(prompts) < 300:
        turns = rng.choice([chats.two_people, chats.introduction])(rng)
        *before, (asked, answered) = turns
        if not before:
            continue
        head = corpus.conversation(before)[len(corpus.BEGIN) :]
        prompts.append(corpus.BEGIN + head + corpus.prompt(asked)[len(corpus.BEGIN) :])
        expected.append(answered)
    got = subject.answers(prompts)
    return dict(
        cases=len(prompts),
        right=round(sum(g == e for g, e in zip(got, expected)) / len(prompts), 4),
        wrong=[dict(expected=e, got=g) for g, e in zip(got, expected) if g != e][:12],
    )


def lists(subject):
    """'Name three fruits.': requested length, no repetitions, correct category."""
    cases = [
        (f"Name {tasks.COUNTS[n]} {tasks.plural(category)}.", members, n)
        for category, members in words.CATEGORIES.items()
        for n in range(2, min(5, len(members)) + 1)
    ]
    got = subject.answers([corpus.prompt(asked) for asked, _, _ in cases])
    good = 0
    for (_, members, n), answer in zip(cases, got):
        named = {w.strip().lower() for w in re.split(r",| and ", answer.rstrip("."))}
        good += len(named) == n and named <= {m.lower() for m in members}
    return dict(cases=len(cases), right=round(good / len(cases), 4))


def loops(row, span=12):
    """The count of the most frequent sequence of a given number of tokens."""
    runs = [tuple(row[i : i + span]) for i in range(len(row) - span + 1)]
    return max(map(runs.count, runs), default=0)


def greedy(subject):
    """200 greedy tokens after each opening: up to the end token, and beyond it."""
    prompts = [corpus.BEGIN + opening for opening in OPENINGS]
    stories = subject.generate(prompts, 400)
    past = subject.generate(prompts, 200, to_the_end=True)
    return stories, dict(
        openings=len(prompts),
        ended_within_400_tokens=sum(row[-1] == subject.end for row in stories),
        tokens=sorted(len(row) for row in stories),
        most_repeats_of_12_tokens_in_a_story=max(map(loops, stories)),
        most_repeats_of_12_tokens_in_200=max(map(loops, past)),
    )


def names_in(text):
    known = set(words.GIRLS + words.BOYS)
    return {w for w in re.findall(r"\b[A-Z]\w+", text) if w in known}


def invents_a_name(text):
    """Whether a name in the story is in no list of the corpus."""
    known = set(words.GIRLS + words.BOYS)
    return bool(set(re.findall(r"\b(?:named|called) (\w+)", text)) - known)


def sampled(subject, top_k):
    """Stories at temperature 0.8, sampled from all tokens or the `top_k` most probable."""
    torch.manual_seed(SEED)
    opening = "Once upon a time"
    rows = subject.generate([corpus.BEGIN + opening] * 256, 500, temperature=0.8, top_k=top_k)
    texts = [opening + subject.tokenizer.decode(r, skip_special_tokens=True) for r in rows]
    return texts, dict(
        stories=len(rows),
        ended=round(sum(r[-1] == subject.end for r in rows) / len(rows), 4),
        mean_tokens=round(sum(map(len, rows)) / len(rows), 1),
        last_character_ends_a_sentence=round(
            sum(t.rstrip('"')[-1] in ".!?" for t in texts) / len(texts), 4
        ),
        at_most_two_names=round(sum(len(names_in(t)) <= 2 for t in texts) / len(texts), 4),
        with_an_invented_name=round(sum(map(invents_a_name, texts)) / len(texts), 4),
        different=len(set(texts)),
        most_repeats_of_12_tokens=max(map(loops, rows)),
    )


# Names that are in no list of the corpus.
NAMES = """
Kezia Zachary Quentin Xavier Jessica Phoebe Wilhelm Gwendolyn Ibrahim Björn Christopher
Elizabeth Nathaniel Shanice Giuseppe Françoise Yevgeny Oluwaseun Mohammed Charlotte
Frederick Genevieve Ursula Thaddeus Siobhan Jürgen Zbigniew Ngozi Katarzyna Bartholomew
""".split()


def names(subject):
    """Whether an unseen name is copied into JSON and repeated a turn later."""
    cases = [
        (corpus.prompt(f"Extract name and age as JSON: {name} is 41 years old."),
         f'{{"name": "{name}", "age": 41}}')
        for name in NAMES
    ]
    for name in NAMES:
        before = corpus.conversation([(f"My name is {name}.", f"Nice to meet you, {name}!")])
        asked = corpus.prompt("What is my name?")[len(corpus.BEGIN) :]
        cases.append((before + asked, f"Your name is {name}."))
    got = subject.answers([prompt for prompt, _ in cases])
    wrong = [dict(expected=e, got=g) for (_, e), g in zip(cases, got) if g != e]
    return dict(cases=len(cases), right=round(1 - len(wrong) / len(cases), 4), wrong=wrong[:12])


def compared(prompts, expected, got, shown=12):
    wrong = [dict(expected=e, got=g) for e, g in zip(expected, got) if g != e]
    return dict(cases=len(prompts), right=round(1 - len(wrong) / len(prompts), 4), wrong=wrong[:shown])


def tool_head(listed, tool):
    """A prompt with tools up to the answer to a question that needs one of them."""
    asked = corpus.prompt(tool.asked)[len(corpus.BEGIN) :]
    return f"{corpus.BEGIN}{corpus.SYSTEM}{tools.listed(listed)}{corpus.END}{asked}"


def tool_calls(subject):
    """Calls of one of one to four tools; answers from a result; questions that need no tool."""
    rng = random.Random(f"tools {SEED}")
    calls, results, others = ([], []), ([], []), ([], [])
    for _ in range(400):
        listed = tools.some_tools(rng, rng.randint(1, 4))
        tool = rng.choice(listed)
        head = tool_head(listed, tool)
        calls[0].append(head)
        calls[1].append(tool.call())
        after = f"{corpus.END}{corpus.TOOL}{tool.result}{corpus.END}{corpus.ASSISTANT}"
        results[0].append(head + tool.call() + after)
        results[1].append(tool.answer)
        asked, answered = facts.question(rng)[:2]
        tool.asked = asked
        others[0].append(tool_head(listed, tool))
        others[1].append(answered)
    return {
        name: compared(*cases, subject.answers(cases[0], 120))
        for name, cases in [("calls", calls), ("answers", results), ("no_call", others)]
    }


def thinking(subject):
    """The answer after a thought that the prompt begins."""
    cases = arithmetic.held_out_sums()[:200] + facts.HELD_OUT[:200]
    expected = [answer for _, answer in cases]
    prompts = [corpus.prompt(asked) + "<think>\n" for asked, _ in cases]
    got = [text.rpartition("</think>\n\n")[2] for text in subject.answers(prompts, 120)]
    return compared(prompts, expected, got)


def unasked_thoughts(subject):
    """The probability that an answer begins with a thought though the prompt has none."""
    cases = arithmetic.held_out_sums() + arithmetic.held_out_differences() + facts.HELD_OUT
    first = subject.encode(thoughts.OPENED)[0]
    shares = []
    for asked, _ in cases[::4]:
        ids = torch.tensor([subject.encode(corpus.prompt(asked))], device=subject.device)
        with torch.no_grad():
            shares.append(subject.model(ids).logits[0, -1].softmax(-1)[first].item())
    return dict(cases=len(shares), mean=round(sum(shares) / len(shares), 6), most=round(max(shares), 6))


SHOWN = [
    "Hello!",
    "Who are you?",
    "What is 7 + 8?",
    "Tom has 9 apples and gives away 4. How many apples are left?",
    "What is the capital of France?",
    "What does a cow say?",
    "Name three fruits.",
    "Extract name and age as JSON: Kezia is 41 years old.",
    "Tell me a story about a dragon.",
    "Tell me a story about a girl named Nora who lost a silver key.",
    "Who won the football cup in 1974?",
]


def samples(subject, stories, sampled_texts):
    out = ["# Samples", "", "Written by the model with its weights rounded to Q8_0.", ""]
    out += ["## Greedy, raw prompts", ""]
    for opening, row in zip(OPENINGS[:4], stories):
        text = subject.tokenizer.decode(row, skip_special_tokens=True)
        out += [f"**{opening}**{text}", "", "---", ""]
    out += ["## Temperature 0.8, 'Once upon a time', the first six of the seed", ""]
    for text in sampled_texts[:6]:
        out += [text, "", "---", ""]
    out += ["## Greedy, chat", ""]
    got = subject.answers([corpus.prompt(asked) for asked in SHOWN], 400)
    for asked, answer in zip(SHOWN, got):
        out += [f"> {asked}", "", answer, ""]
    return "\n".join(out)


def main():
    hf_dir = pathlib.Path(sys.argv[1])
    subject = Subject(hf_dir)
    stories, greedy_figures = greedy(subject)
    texts, sampled_figures = sampled(subject, top_k=0)
    _, sampled_of_40 = sampled(subject, top_k=40)
    figures = dict(
        held_out_sums=right(subject, arithmetic.held_out_sums()),
        held_out_differences=right(subject, arithmetic.held_out_differences()),
        facts_in_held_out_wording=right(subject, facts.HELD_OUT),
        json_extraction=extractions(subject),
        second_turn=pronouns(subject),
        unseen_names=names(subject),
        lists=lists(subject),
        tools=tool_calls(subject),
        thinking=thinking(subject),
        unasked_thoughts=unasked_thoughts(subject),
        greedy=greedy_figures,
        sampled=sampled_figures,
        sampled_top_k_40=sampled_of_40,
        perplexity=perplexities(subject),
    )
    (hf_dir / "figures.json").write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
    (hf_dir / "samples.md").write_text(samples(subject, stories, texts))
    print(json.dumps(figures, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
