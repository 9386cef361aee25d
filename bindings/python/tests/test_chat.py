"""Chats as dicts of OpenAI's API."""

import asyncio
import base64
import json
import pathlib

import pytest

import pelton

SUM = [{"role": "user", "content": "What is 2 plus 3?"}]
WEATHER = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "maxLength": 20}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }
]
GREEDY = {"temperature": 0, "max_tokens": 80}


def joined(chunks):
    """The message of chunks, as a client joins them."""
    message = {"content": "", "tool_calls": []}
    for chunk in chunks:
        assert chunk["object"] == "chat.completion.chunk"
        delta = chunk["choices"][0]["delta"]
        message["content"] += delta.get("content") or ""
        for part in delta.get("tool_calls", []):
            if part["index"] == len(message["tool_calls"]):
                message["tool_calls"].append({"id": part["id"], "function": dict(part["function"])})
            else:
                call = message["tool_calls"][part["index"]]["function"]
                call["arguments"] += part["function"]["arguments"]
    return message


def test_an_answer(model):
    answer = model.chat(SUM, **GREEDY)
    assert answer["object"] == "chat.completion" and answer["model"] == model.name
    (choice,) = answer["choices"]
    assert choice["message"]["role"] == "assistant" and "5" in choice["message"]["content"]
    assert choice["finish_reason"] == "stop" and choice["logprobs"] is None
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert model.chat("What is 2 plus 3?", **GREEDY)["choices"] == answer["choices"]


def test_a_stream_is_the_answer(model):
    chunks = list(model.chat(SUM, stream=True, **GREEDY))
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert chunks[-1]["usage"]["completion_tokens"] > 0
    whole = model.chat(SUM, **GREEDY)["choices"][0]["message"]["content"]
    assert joined(chunks)["content"] == whole


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("choice", ["required", {"function": {"name": "get_weather"}}])
def test_a_tool_is_called(model, stream, choice):
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]
    arguments = {"tool_choice": choice, "parallel_tool_calls": False} | GREEDY
    if stream:
        chunks = list(model.chat(messages, WEATHER, stream=True, **arguments))
        reason, message = chunks[-1]["choices"][0]["finish_reason"], joined(chunks)
    else:
        choice = model.chat(messages, WEATHER, **arguments)["choices"][0]
        reason, message = choice["finish_reason"], choice["message"]
        assert message["content"] is None
    (call,) = message["tool_calls"]
    assert reason == "tool_calls" and call["id"].startswith("call_")
    assert call["function"]["name"] == "get_weather"
    assert json.loads(call["function"]["arguments"]) == {"city": "Paris"}
    messages += [
        {"role": "assistant", "tool_calls": [call | {"type": "function"}]},
        {"role": "tool", "tool_call_id": call["id"], "content": "18 degrees and sunny"},
    ]
    assert "18" in model.chat(messages, WEATHER, **GREEDY)["choices"][0]["message"]["content"]


def test_a_schema(model):
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
    content = model.chat(SUM, json_schema=schema, **GREEDY)["choices"][0]["message"]["content"]
    assert isinstance(json.loads(content)["sum"], int)


def test_thoughts(model):
    message = model.chat(SUM, enable_thinking=True, **GREEDY)["choices"][0]["message"]
    assert message["reasoning_content"] and "5" in message["content"]


def test_logprobs(model):
    chosen = model.chat(SUM, logprobs=2, **GREEDY)["choices"][0]
    tokens = chosen["logprobs"]["content"]
    text = b"".join(bytes(token["bytes"]) for token in tokens).decode()
    assert text.startswith(chosen["message"]["content"])
    assert all(len(token["top_logprobs"]) == 2 for token in tokens)


def test_a_prompt_is_rendered(model):
    rendered = model.render_chat(SUM)
    assert rendered.endswith("<|assistant|>") and "<|user|>What is 2 plus 3?<|end|>" in rendered


@pytest.mark.parametrize(
    ("messages", "tools", "choice", "error"),
    [
        ([{"content": "no role"}], None, None, pelton.InvalidInputError),
        (5, None, None, TypeError),
        (SUM, "get_weather", None, TypeError),
        (SUM, [{"function": {}}], None, pelton.InvalidInputError),
        (SUM, WEATHER, "perhaps", TypeError),
        (SUM, WEATHER, {"function": {"name": "other"}}, pelton.InvalidInputError),
        (SUM, None, "required", pelton.InvalidInputError),
    ],
)
def test_what_is_refused(model, messages, tools, choice, error):
    with pytest.raises(error):
        model.chat(messages, tools, tool_choice=choice, max_tokens=2)


SAMPLES = pathlib.Path(__file__).parents[3] / "models/vision/samples"


@pytest.fixture(scope="module")
def seeing():
    return pelton.load("built-in-vision", "cpu", threads=2)


def samples():
    answers = json.loads((SAMPLES / "answers.json").read_text())
    return [(SAMPLES / one["file"], one["asked"], one["answer"]) for one in answers["pictures"][:16]]


def test_pictures_are_seen(seeing):
    for file, asked, expected in samples():
        whole = seeing.chat(asked, images=[file], **GREEDY)
        assert whole["choices"][0]["message"]["content"] == expected
        assert whole["usage"]["prompt_tokens"] > 36
    file, asked, expected = samples()[12]
    data = file.read_bytes()
    url = "data:image/png;base64," + base64.b64encode(data).decode()
    part = {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
    parts = [{"role": "user", "content": [part, {"type": "text", "text": asked}]}]
    for messages, images in [
        (asked, [data]),
        (asked, [bytearray(data)]),
        (asked, (memoryview(data),)),
        (asked, [str(file)]),
        ([{"role": "user", "content": asked}], [file]),
        (parts, None),
    ]:
        whole = seeing.chat(messages, images=images, **GREEDY)
        assert whole["choices"][0]["message"]["content"] == expected
    streamed = seeing.chat(asked, images=[file], stream=True, **GREEDY)
    assert joined(streamed)["content"] == expected
    awaited = asyncio.run(seeing.achat(asked, images=[file], **GREEDY))
    assert awaited["choices"][0]["message"]["content"] == expected


def test_pictures_that_are_refused(seeing, model, tmp_path):
    file = samples()[0][0]
    large = tmp_path / "large.png"
    with large.open("wb") as out:
        out.truncate(20_000_001)
    for images, error, message in [
        (file.read_bytes(), TypeError, "images is b'.*expected a list of pictures"),
        (str(file), TypeError, "images is '.*expected a list of pictures"),
        ([5], TypeError, "images is 5, expected the bytes of a picture's file or its path"),
        ([tmp_path / "none.png"], FileNotFoundError, "none.png|No such file"),
        ([large], ValueError, "more than 20000000 bytes"),
        ([file] * 17, ValueError, "17 pictures, expected at most 16"),
        ([b"<svg/>"], ValueError, "picture 1"),
    ]:
        with pytest.raises(error, match=message):
            seeing.chat("What?", images=images, **GREEDY)
    with pytest.raises(pelton.InvalidInputError, match="mmproj"):
        model.chat("What?", images=[file], **GREEDY)
    answer = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    with pytest.raises(ValueError, match="expected one of the user as the last message"):
        seeing.chat(answer, images=[file], **GREEDY)
