"""Train the model on pictures that are drawn during the training.

    python train.py HF_DIR --seconds N

HF_DIR has the tokenizer.  Writes the weights (float16) with their configuration, and loss.json.
Matrices of the layers are trained by Muon, the others by AdamW.  The rate of learning depends on
the time that is left, so that the training ends in time.
"""

import argparse
import json
import math
import multiprocessing
import os
import pathlib
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the workers run in parallel instead

import data
import evaluate
import export
import model as models
import tokens
import torch
from tokenizers import Tokenizer
from torch.nn import functional

WARMUP = 300
QUICK = [("one question", None, "trained"), ("one question", "number", "trained")] + [
    ("one question", task, "trained") for task in ("count_shape", "neighbour", "describe")
]


class Loss(torch.nn.Module):
    """The mean cross entropy [nats] of the tokens of answers."""

    def __init__(self, model, device):
        super().__init__()
        self.model, self.device = model, device

    def forward(self, pixels, ids, marks):
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            logits = self.model(pixels, ids)
        expected = ids[..., 1:].masked_fill(marks[..., 1:] == 0, -100)
        return functional.cross_entropy(
            logits[..., :-1, :].float().flatten(0, 2), expected.flatten(), ignore_index=-100
        )


def optimizers_of(model):
    matrices, tables, vectors = [], [], []
    for name, parameter in model.named_parameters():
        if "layers." in name and parameter.dim() == 2:
            matrices.append(parameter)
        else:
            (tables if parameter.dim() > 1 else vectors).append(parameter)
    groups = [dict(params=tables, weight_decay=0.05), dict(params=vectors, weight_decay=0.0)]
    return [
        torch.optim.Muon(matrices, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(groups, betas=(0.9, 0.95)),
    ]


class Training:
    def __init__(self, args, pool):
        self.args, self.pool = args, pool
        self.device = args.device
        torch.manual_seed(data.SEED)
        torch.set_float32_matmul_precision("high")
        tokenizer = Tokenizer.from_file(str(args.file))
        self.entries = tokenizer.get_vocab_size()
        self.model = models.Seer(self.entries, tokenizer.token_to_id(tokens.IMAGE)).to(self.device)
        self.parameters = sum(p.numel() for p in self.model.parameters())
        print(f"{self.parameters} parameters, {self.entries} tokens", flush=True)
        self.store = data.Store(pool, args.file, args.room, self.device, args.ahead)
        self.eager = Loss(self.model, self.device)
        self.loss_of = torch.compile(self.eager) if self.device == "cuda" else self.eager
        self.optimizers = optimizers_of(self.model)
        self.curve, self.checks, self.step = [], [], 0

    def compiled(self, batch):
        """The first loss: without the compiler if that fails."""
        try:
            self.loss_of(*batch).backward()
        except Exception as error:  # a compiler's errors have no common class
            print(f"not compiled: {type(error).__name__}: {str(error)[:300]}", flush=True)
            self.loss_of = self.eager
        self.model.zero_grad(set_to_none=True)

    def rate(self, done):
        warm = min(1.0, (self.step + 1) / WARMUP)
        return self.args.rate * warm * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))

    def run(self):
        args = self.args
        self.store.fill(4, wait=True)
        self.compiled(self.store.batch(args.pictures, args.rows))
        begin = checked = time.perf_counter()
        end = args.began + args.seconds
        print(f"{begin - args.began:.0f} s to the first step", flush=True)
        recent, past = [], None
        while time.perf_counter() < end and (args.steps is None or self.step < args.steps):
            done = (time.perf_counter() - begin) / (end - begin)
            for group in (g for o in self.optimizers for g in o.param_groups):
                group["lr"] = self.rate(done if args.steps is None else self.step / args.steps)
            self.store.fill(args.take)
            loss = self.loss_of(*self.store.batch(args.pictures, args.rows))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            for optimizer in self.optimizers:
                optimizer.step()
            self.model.zero_grad(set_to_none=True)
            recent.append(loss.detach())
            self.step += 1
            # The step before is waited for, so that the host runs only one step ahead.
            if past is not None:
                past.synchronize()
            if self.device == "cuda":
                past = torch.cuda.Event()
                past.record()
            if len(recent) == args.shown:
                self.curve.append((self.step, torch.stack(recent).mean().item()))
                recent = []
                if not math.isfinite(self.curve[-1][1]):
                    raise SystemExit(f"the loss is {self.curve[-1][1]} at step {self.step}")
                if self.step % (4 * args.shown) == 0:
                    now = time.perf_counter()
                    print(
                        f"{now - args.began:.0f} s, step {self.step}: {self.curve[-1][1]:.4f}, "
                        f"{(now - begin) / self.step * 1e3:.0f} ms a step, {self.store.drawn} drawn",
                        flush=True,
                    )
            if time.perf_counter() - checked > args.check_seconds:
                self.check()
                self.save()
                checked = time.perf_counter()
        self.check()
        self.save()

    def check(self):
        self.model.eval()
        found = evaluate.score(self.model, self.pool, str(self.args.file), QUICK, 200)
        self.model.train()
        row = {name: figure["share"] for name, figure in found.items()}
        self.checks.append((self.step, row))
        print(f"step {self.step}: {row}", flush=True)

    def save(self):
        export.write_transformers(self.model, self.args.file, self.args.hf_dir)
        report = dict(
            seed=data.SEED,
            parameters=self.parameters,
            steps=self.step,
            seconds=round(time.perf_counter() - self.args.began),
            pictures_a_step=self.args.pictures,
            conversations_a_step=self.args.pictures * self.args.rows,
            drawn=self.store.drawn,
            device=torch.cuda.get_device_name() if self.device == "cuda" else "cpu",
            torch=torch.__version__,
            loss=[(step, round(loss, 4)) for step, loss in self.curve],
            checks=self.checks,
        )
        (self.args.hf_dir / "loss.json").write_text(json.dumps(report))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hf_dir", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=420, help="from the start of the program")
    parser.add_argument("--steps", type=int, help="at most")
    parser.add_argument("--pictures", type=int, default=512, help="in a step")
    parser.add_argument("--rows", type=int, default=3, help="conversations a picture in a step")
    parser.add_argument("--room", type=int, default=1_500_000, help="pictures on the device")
    parser.add_argument("--rate", type=float, default=2e-3, help="peak learning rate")
    parser.add_argument("--ahead", type=int, default=64, help="shards asked for")
    parser.add_argument("--take", type=int, default=3, help="shards taken in a step, at most")
    parser.add_argument("--shown", type=int, default=50, help="steps a point of the curve")
    parser.add_argument("--check-seconds", type=float, default=90)
    parser.add_argument("--workers", type=int, default=max(1, os.cpu_count() - 1))
    args = parser.parse_args()
    args.began = time.perf_counter()
    args.file = args.hf_dir / "tokenizer.json"
    with multiprocessing.get_context("fork").Pool(args.workers) as pool:
        args.device = "cuda" if torch.cuda.is_available() else "cpu"
        Training(args, pool).run()
        pool.terminate()


if __name__ == "__main__":
    main()
