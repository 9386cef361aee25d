"""Keyword arguments: names, types and ranges."""

import os
import re
import shutil
import sys

import pytest

import pelton
from conftest import ROOT


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"warmth": 1}, TypeError, "generate() got an unexpected keyword argument 'warmth'"),
        ({"warmth": None}, TypeError, "unexpected keyword argument 'warmth'"),
        ({"temperature": "hot"}, TypeError, "temperature is 'hot', expected a number"),
        ({"temperature": -1}, ValueError, "temperature is -1, expected a number from 0"),
        ({"top_p": 1.5}, ValueError, "top_p is 1.5, expected a number from 0 to 1"),
        ({"top_k": 1.5}, TypeError, "top_k is 1.5, expected an int"),
        ({"top_k": True}, TypeError, "top_k is True, expected an int"),
        ({"mirostat": 3}, ValueError, "mirostat is 3, expected an integer from 0 to 2"),
        ({"order": ["most"]}, ValueError, "'most' is no sampler"),
        ({"max_tokens": -1}, TypeError, "max_tokens is -1, expected an int from 0"),
        ({"logprobs": 21}, ValueError, "logprobs is 21, expected at most 20"),
        ({"stop": 5}, TypeError, "stop is 5, expected a text or a list of texts"),
        ({"logit_bias": [1]}, TypeError, "logit_bias is [1], expected a dict"),
        ({"timeout": -1}, TypeError, "timeout is -1, expected seconds from 0"),
        ({"speculation": "maybe"}, TypeError, "speculation is 'maybe', expected"),
        ({"json_schema": {"type": {1}}}, TypeError, "json_schema is {1}, expected values of JSON"),
        ({"loras": {"nothing": 1.0}}, ValueError, "nothing"),
    ],
)
def test_what_is_refused(model, options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        model.generate("a", **({"max_tokens": 1} | options))


def test_none_is_as_not_given(model):
    none = dict.fromkeys(pelton.SAMPLING_OPTIONS)
    given = model.generate("The cat", temperature=0, max_tokens=8).text
    assert model.generate("The cat", **(none | {"temperature": 0, "max_tokens": 8})).text == given


def test_options_have_an_effect(model):
    greedy = model.generate("The cat", temperature=0, max_tokens=8)
    forbidden = model.generate(
        "The cat", temperature=0, max_tokens=8, logit_bias={greedy.tokens[0]: float("-inf")}
    )
    assert forbidden.tokens[0] != greedy.tokens[0]
    # the names of llama.cpp are names too
    one = model.generate("The cat", repeat_penalty=50.0, temperature=0, max_tokens=30).tokens
    assert one == model.generate(
        "The cat", repetition_penalty=50.0, temperature=0, max_tokens=30
    ).tokens
    assert len(set(one)) > len(set(model.generate("The cat", temperature=0, max_tokens=30).tokens))


@pytest.mark.parametrize("prompt", [5, None, {"a": 1}, ["a", 5], [1, "a"], [-1], [[1], "a", 2.5]])
def test_prompts_that_are_none(model, prompt):
    with pytest.raises(TypeError, match="expected a text, a list of token ids"):
        model.generate(prompt, max_tokens=1)


def test_prompts_that_are_refused(model):
    with pytest.raises(pelton.InvalidInputError, match="token 99999"):
        model.generate([99999], max_tokens=1)
    with pytest.raises(pelton.TooLongError, match="context") as raised:
        model.generate([1] * (model.context + 1), max_tokens=1)
    assert isinstance(raised.value, ValueError) and isinstance(raised.value, pelton.PeltonError)


def test_loads_that_fail(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing.gguf") as raised:
        pelton.load("nothing.gguf")
    assert isinstance(raised.value, pelton.NotFoundError)
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(pelton.InvalidModelError, match="broken.gguf"):
        pelton.load(broken)
    with pytest.raises(pelton.InvalidInputError, match="warp"):
        pelton.load(device="warp")
    with pytest.raises(pelton.InvalidInputError, match="context is -1, expected a whole number"):
        pelton.load(context=-1)
    with pytest.raises(pelton.InvalidInputError, match="kv is"):
        pelton.load(kv="f64")
    with pytest.raises(TypeError):
        pelton.load(5)


@pytest.mark.parametrize("name", pelton.LOAD_OPTIONS)
def test_all_options_of_a_load_are_read(name):
    with pytest.raises(TypeError, match=rf"^{name} is <object .*>, expected "):
        pelton.load(device="cpu", **{name: object()})


def test_options_of_a_load(fixtures):
    path = fixtures / "llama3/model.gguf"
    none = dict.fromkeys(name for name in pelton.LOAD_OPTIONS if name != "context")
    assert pelton.load(path, "cpu", 64, threads=1, **none).context == 64
    # values of all types; those of devices change nothing on a CPU
    several = {
        "fit_context": False, "max_concurrent": 2, "rows": 128, "loras": [], "kv": "f32",
        "kv_memory": "64M", "gpu_layers": 0, "host_ffn": 0, "stream_from": 64, "split": [],
        "gpu_memory": 1 << 30, "gpu_margin": "1G", "queue_requests": 4, "queue_tokens": 4096,
        "prefill_budget": 0.05, "target_ttft": "500ms", "target_tbt": 1, "speculation": "off",
        "effort": False,
    }
    model = pelton.load(path, "cpu", 64, threads=1, **several)
    plain = pelton.load(path, "cpu", 64, threads=1, kv="f32")
    few = {"max_tokens": 4, "temperature": 0}
    assert model.generate([1, 2], **few).tokens == plain.generate([1, 2], **few).tokens


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"warmth": 1}, TypeError, "load() got an unexpected keyword argument 'warmth'"),
        ({"max_concurrent": 2.0}, TypeError, "max_concurrent is 2.0, expected a whole number from 1"),
        ({"max_concurrent": 0}, ValueError, "max_concurrent is 0, expected a whole number from 1"),
        ({"fit_context": 1}, TypeError, "fit_context is 1, expected true or false"),
        ({"gpu_layers": True}, TypeError, "gpu_layers is True, expected a whole number from 0"),
        ({"gpu_margin": "1GB"}, ValueError, "gpu_margin is '1GB', expected bytes such as"),
        ({"host_ffn": "all"}, ValueError, "host_ffn is 'all', expected auto or a number"),
        ({"split": [3, -1]}, ValueError, "split is -1, expected numbers of layers"),
        ({"target_tbt": -1}, ValueError, "target_tbt is -1, expected seconds"),
        ({"quantize": "q9"}, ValueError, "quantize is 'q9', expected one of F32"),
        ({"speculation": "maybe"}, ValueError, "speculation is 'maybe', expected auto, off or always"),
        ({"effort": 2}, ValueError, "effort is 2, expected a number above 0 and at most 1"),
        ({"loras": ["a.gguf"]}, TypeError, "loras is ['a.gguf'], expected pairs of path and scale"),
    ],
)
def test_options_of_a_load_that_are_refused(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        pelton.load(device="cpu", **options)


def test_names_of_a_hub(tmp_path, monkeypatch):
    """A name is looked for in the cache of huggingface_hub; nothing is downloaded offline."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(pelton.DownloadError, match="owner/name"):
        pelton.load("owner/name")
    with pytest.raises(pelton.InvalidInputError, match="no name of a model"):
        pelton.load("what is this?")
    folder = tmp_path / "models--owner--name"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text("0" * 40)
    snapshot = folder / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    os.symlink(ROOT / "models/tiny/pelton-tiny.gguf", snapshot / "name-Q8_0.gguf")
    assert pelton.load("owner/name", device="cpu").context > 0


def test_the_model_is_described(model):
    assert model.context == 1024 and model.name and "CPU" in model.device.upper()
    assert repr(model).startswith("Model(")
    tokenizer = model.tokenizer
    assert len(tokenizer) == 4096
    ids = tokenizer.encode("The <|end|> cat")
    assert tokenizer.eos_id in ids and tokenizer.eos_id in tokenizer.end_ids
    assert tokenizer.decode(ids, special=True) == tokenizer.decode([tokenizer.bos_id], special=True) + (
        "The <|end|> cat"
    )
    assert tokenizer.encode("The cat", add_special=False) == tokenizer.encode("The cat")[1:]
    assert tokenizer.token_bytes(ids[1]) == b"The" and tokenizer.token_bytes(10**6) is None
    assert "<|assistant|>" in tokenizer.chat_template


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have names of Unicode only")
def test_paths_that_are_no_unicode(fixtures, tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/m\xff.gguf")
    shutil.copy(fixtures / "llama3/model.gguf", path)
    ids = pelton.load(path, device="cpu", threads=1).generate([1, 2, 3], max_tokens=1).tokens
    assert len(ids) == 1
    with pytest.raises(pelton.NotFoundError):
        pelton.load(path + ".gguf", device="cpu")
