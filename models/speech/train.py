"""Train the speech model on synthetic utterances, which are made during the training.

    python train.py DIR [--minutes M] [--ranks multilingual.tiktoken]

Writes DIR/weights.pt (float16), DIR/loss.json and DIR/loss.svg.  The rate of learning follows
a cosine of the time, so that a training ends when its minutes end.
"""

import argparse
import json
import math
import os
import pathlib
import tempfile
import time

import audio
import data
import evaluate
import model as whisper
import tokens
import torch

WARMUP = 600
CTC = 0.3
QUICK = [
    evaluate.Test("known voices", "espeak", "sentences", 128),
    evaluate.Test("held-out variants", "variant", "sentences", 128),
    evaluate.Test("held-out variants, 10 dB", "variant", "sentences", 128, 10),
]


class Training:
    def __init__(self, args, store, examiner):
        self.args, self.store, self.examiner = args, store, examiner
        self.device = args.device
        torch.manual_seed(data.SEED)
        self.model = whisper.Whisper(args.shape, args.dropout).to(self.device)
        count = sum(p.numel() for p in self.model.parameters())
        print(f"{count} parameters, the CTC head included", flush=True)
        if self.device == "cuda":
            self.model.compile_blocks()
        matrices = [p for p in self.model.parameters() if p.ndim > 1]
        vectors = [p for p in self.model.parameters() if p.ndim <= 1]
        self.optimizer = torch.optim.AdamW(
            [dict(params=matrices, weight_decay=0.01), dict(params=vectors, weight_decay=0.0)],
            lr=args.rate,
            betas=(0.9, 0.98),
            fused=self.device == "cuda",
        )
        self.step = 0
        self.curve, self.checks = [], []

    def rate(self, done):
        return self.args.rate * min(1, (self.step + 1) / WARMUP) * 0.5 * (1 + math.cos(math.pi * done))

    def run(self):
        args = self.args
        self.begin = begin = saved = time.perf_counter()
        stages = [args.short, args.full]
        studio = audio.Studio(self.device, data.SEED)
        feeds = [None, None]
        recent, past, printed = [], None, (begin, 0)
        while (done := (time.perf_counter() - begin) / (args.minutes * 60)) < 1:
            at = int(done >= args.short_share)
            stage = stages[at]
            if feeds[at] is None:
                feeds[at] = data.batches(self.store, stage, f"{data.SEED} {at}", self.device)
            place, learn = next(feeds[at])
            with torch.no_grad():
                mel = studio(self.store.samples, self.store.filled, place, stage.samples)
            for group in self.optimizer.param_groups:
                group["lr"] = self.rate(done)
            with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
                entropy, ctc = self.model.losses(mel, **learn)
            (entropy + CTC * ctc).backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            self.step += 1
            recent.append(torch.stack([entropy.detach(), ctc.detach()]))
            # The step before is waited for, so that the host runs only one step ahead.
            if past is not None and self.device == "cuda":
                past.synchronize()
            if self.device == "cuda":
                past = torch.cuda.Event()
                past.record()
            if self.step % 50 == 0:
                entropy, ctc = torch.stack(recent).mean(0).tolist()
                recent = []
                now = time.perf_counter()
                pace = (now - printed[0]) / (self.step - printed[1])
                printed = (now, self.step)
                self.curve.append((self.step, entropy, ctc))
                if not math.isfinite(entropy):
                    raise SystemExit(f"the loss is {entropy} at step {self.step}")
                if self.step % 250 == 0 or self.step <= 100:
                    print(
                        f"{now - begin:.0f} s, step {self.step}: cross entropy {entropy:.3f}, "
                        f"CTC {ctc:.3f}, {pace * 1e3:.0f} ms a step, "
                        f"{self.store.filled / audio.RATE / 3600:.1f} h",
                        flush=True,
                    )
            if time.perf_counter() - saved > args.check_seconds:
                self.check()
                self.save()
                saved = time.perf_counter()
        self.check()
        self.save()

    def check(self):
        self.model.eval()
        row = {test.name: self.examiner.score(self.model, test) for test in QUICK}
        self.model.train()
        self.checks.append((self.step, {name: wer for name, (wer, _) in row.items()}))
        print(f"step {self.step}: " + ", ".join(f"{n} {w:.2f} %" for n, (w, _) in row.items()))
        print(f"  for example {row[QUICK[2].name][1][:3]}", flush=True)

    def save(self):
        weights = {name: weight.half().cpu() for name, weight in self.model.state_dict().items()}
        torch.save(weights, self.args.dir / "partial.pt")
        os.replace(self.args.dir / "partial.pt", self.args.dir / "weights.pt")
        report = dict(
            seed=data.SEED,
            shape=vars(self.args.shape),
            parameters=sum(w.numel() for w in self.model.recognized().values()),
            steps=self.step,
            seconds=round(time.perf_counter() - self.begin),
            utterances={kind: len(entries) for kind, entries in self.store.kinds.items()},
            hours=round(self.store.filled / audio.RATE / 3600, 1),
            device=torch.cuda.get_device_name() if self.device == "cuda" else "cpu",
            torch=torch.__version__,
            loss=[(s, round(a, 4), round(b, 4)) for s, a, b in self.curve],
            checks=self.checks,
        )
        (self.args.dir / "loss.json").write_text(json.dumps(report))


def draw(curve, checks, target):
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "pelton"
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.5))
    steps = [row[0] for row in curve]
    left.plot(steps, [row[1] for row in curve], linewidth=0.8, label="decoder, nats a token")
    left.plot(steps, [row[2] for row in curve], linewidth=0.8, label="CTC, nats a token")
    left.set(xlabel="step", yscale="log", title="training loss")
    for name in checks[0][1]:
        right.plot([s for s, _ in checks], [row[name] for _, row in checks], marker=".", label=name)
    right.set(xlabel="step", yscale="log", title="word errors in percent")
    for axes in (left, right):
        axes.grid(alpha=0.3, which="both")
        axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--ranks", type=pathlib.Path)
    parser.add_argument("--hours", type=float, nargs=2, default=[150, 20], help="eSpeak NG, Flite")
    parser.add_argument("--rate", type=float, default=1.5e-3, help="peak learning rate")
    parser.add_argument("--dropout", type=float, default=0.05)
    parser.add_argument("--rows", type=int, default=128, help="windows of 30 s a step")
    parser.add_argument("--short-share", type=float, default=0.1, help="part of the time on 8 s")
    parser.add_argument("--check-seconds", type=float, default=110)
    parser.add_argument("--shape", type=int, nargs=4, default=[256, 4, 4, 2])
    parser.add_argument("--workers", type=int, default=max(1, os.cpu_count() - 2))
    args = parser.parse_args()
    args.shape = whisper.Shape(*args.shape)
    args.short = data.Stage(8 * audio.RATE, 64, 2 * args.rows, False)
    args.full = data.Stage(30 * audio.RATE, 256, args.rows, True)
    args.dir.mkdir(parents=True, exist_ok=True)
    tokenizer = tokens.Tokenizer(args.ranks or tokens.default_ranks())
    began = time.perf_counter()
    with data.pool_of(args.workers) as pool, tempfile.TemporaryDirectory() as folder:
        args.device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.backends.cudnn.allow_tf32 = False  # tests are in float32
        stores = evaluate.voices_of(pool, QUICK, tokenizer, args.device)
        store = data.Store(sum(args.hours) * 1.15, tokenizer, args.device)
        store.fill(pool, dict(zip(["espeak", "flite"], args.hours)), folder)
        while not store.kinds["espeak"]:
            time.sleep(0.1)
        print(f"{time.perf_counter() - began:.0f} s to the first utterances", flush=True)
        training = Training(args, store, evaluate.Examiner(stores, args.device))
        training.run()
        draw(training.curve, training.checks, args.dir / "loss.svg")
        pool.terminate()
    print(f"done in {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
