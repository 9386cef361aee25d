"""Texts of prompts: one, many, and one token at a time."""

import pytest

import pelton

PROMPT = "Once upon a time there was a"
GREEDY = {"temperature": 0, "max_tokens": 24}


def test_a_completion(model):
    completion = model.generate(PROMPT, **GREEDY)
    assert str(completion) == completion.text != ""
    assert len(completion.tokens) == 24 == completion.usage.completion_tokens
    assert completion.finish_reason == "length"
    assert completion.usage.prompt_tokens == len(model.tokenizer.encode(PROMPT))
    assert completion.logprobs is None and completion.prompt_logprobs is None
    assert model.tokenizer.decode(completion.tokens).startswith(completion.text)
    assert repr(completion).startswith("Completion(") and "length" in repr(completion)


def test_ids_are_a_prompt(model):
    ids = model.tokenizer.encode(PROMPT)
    assert model.generate(ids, **GREEDY).text == model.generate(PROMPT, **GREEDY).text


def test_a_list_gives_what_each_prompt_gives_alone(model):
    prompts = [f"The {animal} went to the" for animal in ("cat", "dog", "fox", "bird", "bear")] * 4
    together = model.generate(prompts, **GREEDY)
    alone = {prompt: model.generate(prompt, **GREEDY).text for prompt in set(prompts)}
    assert [one.text for one in together] == [alone[prompt] for prompt in prompts]
    assert model.generate([]) == []
    ids = [model.tokenizer.encode(prompt) for prompt in prompts[:2]]
    assert [one.text for one in model.generate(ids, **GREEDY)] == [one.text for one in together[:2]]


def test_more_prompts_than_the_queue_holds(model):
    # the queue of a model has 1,024 places
    assert len(model.generate([[1, 2]] * 1100, max_tokens=1, temperature=0)) == 1100


def test_a_stream_is_the_completion(model):
    stream = model.stream(PROMPT, **GREEDY)
    assert stream.finish_reason is None
    tokens = list(stream)
    whole = model.generate(PROMPT, **GREEDY)
    assert [token.id for token in tokens] == whole.tokens
    assert "".join(str(token) for token in tokens) == whole.text
    assert stream.finish_reason == "length"
    assert stream.usage.completion_tokens == 24
    assert list(stream) == []


def test_a_seed_repeats_a_text(model):
    first = model.generate(PROMPT, temperature=1.5, max_tokens=20)
    again = model.generate(PROMPT, temperature=1.5, max_tokens=20, seed=first.usage.seed)
    other = model.generate(PROMPT, temperature=1.5, max_tokens=20, seed=first.usage.seed ^ 1)
    assert first.tokens == again.tokens != other.tokens


def test_a_stream_that_is_cancelled_or_dropped(model):
    stream = model.stream(PROMPT, ignore_eos=True)
    next(stream)
    stream.cancel()
    assert len(list(stream)) < 900
    assert stream.finish_reason == "cancelled"
    # all eight places of the model are free again
    for _ in range(20):
        next(model.stream(PROMPT, ignore_eos=True))
    assert model.generate(PROMPT, **GREEDY).finish_reason == "length"


def test_stop_strings_and_ends(model):
    free = model.generate(PROMPT, **GREEDY).text
    word = free.split()[3]
    stopped = model.generate(PROMPT, stop=word, **GREEDY)
    assert stopped.text == free[: free.index(word)]
    assert stopped.finish_reason == "stop"
    assert model.generate(PROMPT, stop=["nothing of it", word], **GREEDY).text == stopped.text


def test_constraints(model):
    import json
    import re

    def text(**constraint):
        return model.generate("Answer: ", max_tokens=60, temperature=0, **constraint).text

    assert re.fullmatch("[1-5] stars?", text(regex="[1-5] stars?"))
    assert text(choices=["maybe \"so\"", "never\n"]) in ["maybe \"so\"", "never\n"]
    assert text(gbnf='root ::= "yes" | "no"') in ["yes", "no"]
    assert text(lark='start: "left" | "right"') in ["left", "right"]
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"]}
    schema["additionalProperties"] = False
    for form in (schema, json.dumps(schema)):
        assert json.loads(text(json_schema=form))["n"] in (1, 2)
    with pytest.raises(pelton.InvalidInputError, match="second constraint"):
        text(regex="a", gbnf='root ::= "a"')
    with pytest.raises(pelton.InvalidInputError):
        text(regex="(")


def test_logprobs(model):
    completion = model.generate(PROMPT, logprobs=3, prompt_logprobs=2, **GREEDY)
    assert [token.id for token in completion.logprobs] == completion.tokens
    for token in completion.logprobs:
        assert token.logprob <= 0 and len(token.top) == 3
        # greedy: the likeliest token is the drawn one
        assert token.top[0] == (token.id, token.logprob)
    first, *rest = completion.prompt_logprobs
    assert first.logprob is None
    assert all(token.logprob < 0 and len(token.top) == 2 for token in rest)
    assert "".join(token.text for token in rest).endswith("a time there was a")


def test_an_effort_needs_a_load_for_it(model):
    with pytest.raises(pelton.PeltonError, match="effort"):
        model.generate(PROMPT, effort=0.5, max_tokens=2)
    dialed = pelton.load(device="cpu", threads=2, effort=True)
    full = dialed.generate(PROMPT, **GREEDY).text
    assert full == dialed.generate(PROMPT, effort=1.0, **GREEDY).text
    assert dialed.generate(PROMPT, effort=0.1, **GREEDY).text != full


def test_a_timeout(model):
    with pytest.raises(pelton.TimedOutError) as raised:
        model.generate(PROMPT, ignore_eos=True, max_tokens=900, timeout=0.02)
    assert isinstance(raised.value, TimeoutError)
