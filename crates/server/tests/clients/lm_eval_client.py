"""lm-evaluation-harness with a local task against a server whose address is the argument. The
log-likelihoods and the flags of greedy continuations are compared with those of the harness's own
`hf` model on the same weights.

`python lm_eval_client.py --make`, with torch and transformers, writes the task and those values.
"""

import json
import os
import pathlib
import sys

os.environ["HF_DATASETS_OFFLINE"] = "1"
FOLDER = pathlib.Path(__file__).parent / "lm_eval"
MODEL = pathlib.Path(__file__).parents[4] / "tests/fixtures/models/qwen3"
TASK = "tiny_choices"
EXPECTED = FOLDER / "expected.json"
TEXTS = ["the cat", "a dog and", "one two three", "under the hill", "hello", "to be or", "12 and", "it was"]


def evaluate(model, arguments):
    """`[log-likelihood, greedy]` of all choices."""
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    os.chdir(FOLDER)  # the task names its file without a folder
    tasks = TaskManager(include_path=str(FOLDER), include_defaults=False)
    results = simple_evaluate(
        model=model, model_args=arguments, tasks=[TASK], task_manager=tasks, log_samples=True,
        bootstrap_iters=0,
    )
    samples = sorted(results["samples"][TASK], key=lambda sample: sample["doc_id"])
    return [[list(one) for one in sample["filtered_resps"]] for sample in samples]


def make():
    """Writes texts with the greedy continuation and others, and the values of `hf`."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    lines = []
    for number, text in enumerate(TEXTS):
        ids = tokenizer(text).input_ids
        order = model(torch.tensor([ids])).logits[0, -1].argsort(descending=True).tolist()
        # texts that the tokenizer splits at the same place
        good = [i for i in order[:300] if tokenizer(text + tokenizer.decode([i])).input_ids == ids + [i]]
        if not good or good[0] != order[0]:
            continue
        chosen = [tokenizer.decode([i]) for i in (good[0], good[1], good[-1])]
        longer = chosen[0] + chosen[1]
        lines.append({"text": text, "choices": [*chosen, longer], "label": number % 4})
    assert len(lines) > 3, lines
    with open(FOLDER / "choices.jsonl", "w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    arguments = {"pretrained": str(MODEL), "dtype": "float32", "device": "cpu"}
    lines = ",\n".join(" " + json.dumps(one) for one in evaluate("hf", arguments))
    EXPECTED.write_text(f"[\n{lines}\n]\n")


def check(address):
    found = evaluate(
        "local-completions",
        {
            "base_url": address + "/v1/completions", "model": "qwen3", "tokenizer_backend": "remote",
            "max_length": 128, "num_concurrent": 2, "max_retries": 1,
        },
    )
    expected = json.loads(EXPECTED.read_text())
    assert len(found) == len(expected) > 3
    greedy = 0
    for ours, theirs in zip(found, expected, strict=True):
        for (value, flag), (wanted, wanted_flag) in zip(ours, theirs, strict=True):
            assert abs(float(value) - float(wanted)) < 1e-3, (ours, theirs)
            assert str(flag) == str(wanted_flag), (ours, theirs)
            greedy += str(flag) == "True"
    assert greedy >= len(expected)
    print("all checks passed")


if sys.argv[1] == "--make":
    make()
else:
    check(sys.argv[1])
