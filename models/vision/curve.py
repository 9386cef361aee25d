"""Draw the curve of a training: python curve.py loss.json loss.svg"""

import json
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "pelton"
from matplotlib import pyplot  # noqa: E402

report = json.loads(pathlib.Path(sys.argv[1]).read_text())
figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.5))
left.plot(*zip(*report["loss"]), linewidth=0.8)
left.set(xlabel="step", ylabel="loss of answers, nats a token", yscale="log")
for name in report["checks"][0][1]:
    points = [(step, 100 * row[name]) for step, row in report["checks"]]
    _, _, task = name.partition(": ")
    right.plot(*zip(*points), marker=".", label=task or "all tasks")
right.set(xlabel="step", ylabel="correct answers, %")
right.legend()
figure.tight_layout()
figure.savefig(sys.argv[2], metadata={"Date": None})
