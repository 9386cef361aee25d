"""Train the tiny model on the corpus, which is generated during the training.

    python tokenizer.py HF_DIR
    python train.py HF_DIR [--steps N | --minutes M]

Writes the weights (float16) and their configuration to HF_DIR, next to the tokenizer,
and loss.json and loss.png.  Every row of a batch is new text: one epoch.
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
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

SEED = 2026
CONTEXT = 1024
ROWS = 64
SHARD_ROWS = 512
AHEAD = 48
PEAK_LR = 2e-3
WARMUP = 300
VALIDATE_EVERY = 250


def configuration(vocabulary, begin, end):
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=8,
        num_attention_heads=8,
        num_key_value_heads=4,
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
    tokenizer_file, name, rows = job
    tokenizer = Tokenizer.from_file(tokenizer_file)
    rng = random.Random(f"{SEED} {name}")
    table = np.empty((rows, CONTEXT + 1), np.uint16)
    for row in table:
        tokens = []
        while len(tokens) <= CONTEXT:
            tokens += tokenizer.encode(corpus.document(rng), add_special_tokens=False).ids
        row[:] = tokens[: CONTEXT + 1]
    return table


def batches(pool, tokenizer_file, rows, device):
    """Endless batches of token ids, with AHEAD shards prefetched by the workers."""
    jobs = ((tokenizer_file, i, SHARD_ROWS) for i in itertools.count())
    ahead = collections.deque(pool.apply_async(shard, [next(jobs)]) for _ in range(AHEAD))
    while True:
        table = ahead.popleft().get()
        ahead.append(pool.apply_async(shard, [next(jobs)]))
        for at in range(0, SHARD_ROWS - rows + 1, rows):
            ids = torch.from_numpy(table[at : at + rows].astype(np.int64))
            yield ids.to(device, non_blocking=True)


def loss_of(model, ids):
    with torch.autocast(ids.device.type, torch.bfloat16):
        logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    return functional.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())


def optimizer_of(model):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [dict(params=matrices, weight_decay=0.1), dict(params=vectors, weight_decay=0.0)]
    return torch.optim.AdamW(groups, lr=PEAK_LR, betas=(0.9, 0.95), fused=True)


def rate(step, steps):
    """Linear warm-up, then cosine decay to zero."""
    if step < WARMUP:
        return PEAK_LR * (step + 1) / WARMUP
    done = (step - WARMUP) / max(1, steps - WARMUP)
    return PEAK_LR * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def train(model, data, held_out, args):
    """Train and return the curves: (step, loss) of training and of held-out rows."""
    forward = torch.compile(model) if args.device == "cuda" else model
    optimizer = optimizer_of(model)
    steps, step, start = args.steps, 0, None
    recent, training, validation = [], [], []
    while steps is None or step < steps:
        for group in optimizer.param_groups:
            group["lr"] = rate(step, steps or 1 << 30)
        loss = loss_of(forward, next(data))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
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
                validation.append((step, loss_of(model, held_out).item()))
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
    parser.add_argument("--workers", type=int, default=max(1, os.cpu_count() - 2))
    args = parser.parse_args()
    tokenizer_file = str(args.hf_dir / "tokenizer.json")
    tokenizer = Tokenizer.from_file(tokenizer_file)

    began = time.perf_counter()
    with multiprocessing.get_context("fork").Pool(args.workers) as pool:
        args.device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.manual_seed(SEED)
        torch.set_float32_matmul_precision("high")
        config = configuration(
            tokenizer.get_vocab_size(),
            tokenizer.token_to_id(corpus.BEGIN),
            tokenizer.token_to_id(corpus.END),
        )
        model = LlamaForCausalLM(config).to(args.device)
        parameters = sum(p.numel() for p in model.parameters())
        print(f"{parameters} parameters", flush=True)
        held_out = shard((tokenizer_file, "held out", args.rows))
        held_out = torch.from_numpy(held_out.astype(np.int64)).to(args.device)
        data = batches(pool, tokenizer_file, args.rows, args.device)
        training, validation = train(model, data, held_out, args)
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
