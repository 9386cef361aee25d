"""The class for lm-evaluation-harness, compared with what its `hf` class finds on the same weights.

`make_lm_eval.py` wrote the expected results with transformers.
"""

import json
import math
import pathlib

import pytest

import pelton

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def lm():
    pytest.importorskip("lm_eval")
    from pelton.lm_eval import PeltonLM

    return PeltonLM


def close(found, expected):
    """Equal texts and verdicts; log-likelihoods within 1e-3."""
    if isinstance(expected, list):
        assert len(found) == len(expected), (found, expected)
        return all(close(a, b) for a, b in zip(found, expected, strict=True))
    if isinstance(expected, float):
        # sums of up to 400 tokens
        return math.isclose(found, expected, abs_tol=1e-3, rel_tol=2e-6)
    return found == expected


def test_it_finds_what_transformers_finds(lm, fixtures, tmp_path):
    import lm_eval_tasks

    model = lm(
        fixtures / "llama3",
        device="cpu",
        threads=2,
        kv="f32",
        max_length=lm_eval_tasks.MAX_LENGTH,
    )
    found = lm_eval_tasks.evaluate(model, tmp_path)
    expected = json.loads((HERE / "lm_eval_expected.json").read_text())
    assert found.keys() == expected.keys()
    for name, task in expected.items():
        assert close(found[name]["responses"], task["responses"]), (name, found[name], task)
        for metric, value in task["metrics"].items():
            assert math.isclose(found[name]["metrics"][metric], value, rel_tol=1e-3), (name, metric)


def test_a_loaded_model_and_a_registered_name(lm, model):
    from lm_eval.api.registry import get_model

    assert get_model("pelton") is lm
    wrapped = lm(model)
    assert wrapped.model is model and wrapped.max_length == model.context - 1
    assert wrapped.tok_encode("The cat")[0] == model.tokenizer.bos_id
    assert wrapped.tok_encode("The cat", add_special_tokens=False)[0] != model.tokenizer.bos_id
    chat = wrapped.apply_chat_template([{"role": "user", "content": "What is 2 plus 3?"}])
    assert chat.endswith("<|assistant|>")
    # the beginning of the text is already there
    assert wrapped.tok_encode(chat).count(model.tokenizer.bos_id) == 1
    with pytest.raises(pelton.UnsupportedError):
        wrapped.apply_chat_template([], add_generation_prompt=False)
