"""Writes lm_eval_expected.json: what lm-evaluation-harness's `hf` class finds on a tiny model.

    python make_lm_eval.py   # needs lm_eval, torch and transformers
"""

import json
import pathlib
import tempfile

import lm_eval_tasks

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE.parents[2] / "tests/fixtures/models/llama3"


def main():
    from lm_eval.models.huggingface import HFLM

    model = HFLM(
        pretrained=str(MODEL),
        device="cpu",
        dtype="float32",
        batch_size=1,
        max_length=lm_eval_tasks.MAX_LENGTH,
    )
    with tempfile.TemporaryDirectory() as folder:
        results = lm_eval_tasks.evaluate(model, pathlib.Path(folder))
    text = json.dumps(results, indent=1)
    (HERE / "lm_eval_expected.json").write_text(text + "\n")
    print(text[:2000])


if __name__ == "__main__":
    main()
