"""Train the tiny model, or one of another shape, on the corpus, which is generated during the training.

    python tokenizer.py HF_DIR
    python train.py HF_DIR [--steps N | --minutes M] [--mix MIX] [--layers N ...]

Writes the weights (float16) and their configuration to HF_DIR, next to the tokenizer,
and loss.json and loss.png.  Every row of a batch is new text: one epoch.  Matrices of the
layers are trained by Muon, embeddings and norms by AdamW.
"""

import argparse
import collections
import itertools
import json
import math
import multiprocessing
import os
import pathlib
import random
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the workers run in parallel instead

import corpus
import numpy as np
import torch
from corpus import thoughts
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM

SEED = 2026
CONTEXT = 1024
ROWS = 64
SHARD_ROWS = 512
AHEAD = 48
WARMUP = 300
VALIDATE_EVERY = 250


def causal(module, query, key, value, attention_mask, scaling=None, **_):
    """Attention of complete rows without a mask tensor, so that its kernel has none to read."""
    query, key = query.to(value.dtype), key.to(value.dtype)
    output = functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, scale=scaling, enable_gqa=True
    )
    return output.transpose(1, 2).contiguous(), None


AttentionInterface.register("causal", causal)


def configuration(vocabulary, begin, end, args):
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=args.hidden,
        intermediate_size=args.feed_forward,
        num_hidden_layers=args.layers,
        num_attention_heads=args.heads,
        num_key_value_heads=args.kv_heads,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=1e-5,
        rope_parameters=dict(rope_type="default", rope_theta=1e4),
        tie_word_embeddings=True,
        bos_token_id=begin,
        eos_token_id=end,
        pad_token_id=None,
    )


def shard(job):
    """Rows of CONTEXT + 1 tokens: complete documents, the last one truncated."""
    tokenizer_file, mix, name, rows = job
    tokenizer = Tokenizer.from_file(tokenizer_file)
    rng = random.Random(f"{SEED} {name}")
    table = np.empty((rows, CONTEXT + 1), np.uint16)
    for row in table:
        tokens = []
        while len(tokens) <= CONTEXT:
            tokens += tokenizer.encode(corpus.document(rng, mix), add_special_tokens=False).ids
        row[:] = tokens[: CONTEXT + 1]
    return table


def batches(pool, tokenizer_file, mix, rows, device):
    """Endless batches of token ids, with AHEAD shards prefetched by the workers."""
    jobs = ((tokenizer_file, mix, i, SHARD_ROWS) for i in itertools.count())
    ahead = collections.deque(pool.apply_async(shard, [next(jobs)]) for _ in range(AHEAD))
    while True:
        table = ahead.popleft().get()
        ahead.append(pool.apply_async(shard, [next(jobs)]))
        for at in range(0, SHARD_ROWS - rows + 1, rows):
            ids = torch.from_numpy(table[at : at + rows].astype(np.int64))
            yield ids.to(device, non_blocking=True)


class Loss(torch.nn.Module):
    """The mean cross entropy [nats] of a model's tokens, without those of label -100."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, expected):
        with torch.autocast(ids.device.type, torch.bfloat16):
            logits = self.model(input_ids=ids[:, :-1], use_cache=False).logits
        return functional.cross_entropy(
            logits.float().flatten(0, 1), expected.flatten(), ignore_index=-100
        )


def labels(ids, encode):
    """The tokens to predict, -100 for those that open a thought: the prompt decides on these."""
    mark = encode(corpus.ASSISTANT + thoughts.OPENED)
    found = (ids.unfold(1, len(mark), 1) == torch.tensor(mark, device=ids.device)).all(-1)
    expected = ids[:, 1:].clone()
    for at in range(len(mark) - 1):
        expected[:, at : at + found.shape[1]].masked_fill_(found, -100)
    return expected


def optimizers_of(model):
    layers = [p for p in model.model.layers.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() < 2]
    embeddings = list(model.model.embed_tokens.parameters())
    groups = [dict(params=embeddings, weight_decay=0.1), dict(params=others, weight_decay=0.0)]
    return [
        torch.optim.Muon(layers, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(groups, betas=(0.9, 0.95), fused=True),
    ]


def rate(step, steps, peak):
    """Linear warm-up, then cosine decay to zero."""
    if step < WARMUP:
        return peak * (step + 1) / WARMUP
    done = (step - WARMUP) / max(1, steps - WARMUP)
    return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def train(model, encode, data, held_out, args):
    """Train and return the curves: (step, loss) of training and of held-out rows."""
    loss_of = Loss(model)
    compiled = torch.compile(loss_of) if args.device == "cuda" else loss_of
    optimizers = optimizers_of(model)
    steps, step, start = args.steps, 0, None
    recent, training, validation = [], [], []
    while steps is None or step < steps:
        for group in (g for optimizer in optimizers for g in optimizer.param_groups):
            group["lr"] = rate(step, steps or 1 << 30, args.rate)
        ids = next(data)
        loss = compiled(ids, labels(ids, encode))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        model.zero_grad(set_to_none=True)
        recent.append(loss.detach())
        step += 1
        if step == 50:
            start = time.perf_counter() if loss.item() else None  # item() synchronizes
        if step == WARMUP and steps is None:
            loss.item()
            pace = (time.perf_counter() - start) / (WARMUP - 50)
            steps = int(args.minutes * 60 / pace)
            print(f"{pace * 1e3:.1f} ms a step: {steps} steps", flush=True)
        if len(recent) == 25:
            training.append((step, torch.stack(recent).mean().item()))
            recent = []
            if not math.isfinite(training[-1][1]):
                raise SystemExit(f"the loss is {training[-1][1]} at step {step}")
        if step % VALIDATE_EVERY == 0 or step == steps:
            with torch.no_grad():
                validation.append((step, loss_of(held_out, labels(held_out, encode)).item()))
            print(f"step {step}: held out {validation[-1][1]:.4f}", flush=True)
    return training, validation


def draw(training, validation, target):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), dpi=90)
    axes.plot(*zip(*training), linewidth=0.8, label="training text")
    axes.plot(*zip(*validation), marker=".", label="held-out text")
    axes.set(xlabel="step", ylabel="cross entropy a token (nats)", yscale="log")
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.tight_layout()
    figure.savefig(target)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hf_dir", type=pathlib.Path)
    parser.add_argument("--steps", type=int, help="how many; else as --minutes gives")
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--rows", type=int, default=ROWS, help="rows in a batch")
    parser.add_argument("--mix", choices=corpus.MIXES, default="tiny")
    parser.add_argument("--rate", type=float, default=3e-3, help="peak learning rate")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--feed-forward", type=int, default=768)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--kv-heads", type=int, default=4)
    parser.add_argument("--workers", type=int, default=max(1, os.cpu_count() - 2))
    args = parser.parse_args()
    tokenizer_file = str(args.hf_dir / "tokenizer.json")
    tokenizer = Tokenizer.from_file(tokenizer_file)

    def encode(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    began = time.perf_counter()
    with multiprocessing.get_context("fork").Pool(args.workers) as pool:
        args.device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.manual_seed(SEED)
        torch.set_float32_matmul_precision("high")
        config = configuration(
            tokenizer.get_vocab_size(),
            tokenizer.token_to_id(corpus.BEGIN),
            tokenizer.token_to_id(corpus.END),
            args,
        )
        model = LlamaForCausalLM(config).to(args.device)
        model.set_attn_implementation("causal")
        parameters = sum(p.numel() for p in model.parameters())
        print(f"{parameters} parameters", flush=True)
        held_out = shard((tokenizer_file, args.mix, "held out", args.rows))
        held_out = torch.from_numpy(held_out.astype(np.int64)).to(args.device)
        data = batches(pool, tokenizer_file, args.mix, args.rows, args.device)
        training, validation = train(model, encode, data, held_out, args)
        pool.terminate()

    seconds = time.perf_counter() - began
    model.half().save_pretrained(args.hf_dir)
    steps = validation[-1][0]
    report = dict(
        seed=SEED,
        parameters=parameters,
        steps=steps,
        tokens=steps * args.rows * CONTEXT,
        seconds=round(seconds, 1),
        device=torch.cuda.get_device_name() if args.device == "cuda" else "cpu",
        torch=torch.__version__,
        training=[(s, round(x, 4)) for s, x in training],
        held_out=[(s, round(x, 4)) for s, x in validation],
    )
    (args.hf_dir / "loss.json").write_text(json.dumps(report))
    draw(training, validation, args.hf_dir / "loss.png")
    print(f"{steps} steps in {seconds:.0f} s, held out {validation[-1][1]:.4f}")


if __name__ == "__main__":
    main()
