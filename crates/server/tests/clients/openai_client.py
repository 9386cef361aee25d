"""The client of OpenAI against a server whose address is the argument."""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
QUESTION = [{"role": "user", "content": "What is 2 plus 3?"}]


def chat(**more):
    options = dict(model="built-in", messages=QUESTION, max_tokens=16, temperature=0)
    return client.chat.completions.create(**(options | more))


# chats, whole and streamed
whole = chat()
text = whole.choices[0].message.content
assert "5" in text, text
chunks = list(chat(stream=True, stream_options={"include_usage": True}))
assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text
assert chunks[-1].usage.total_tokens == whole.usage.total_tokens
with client.chat.completions.stream(
    model="built-in", messages=QUESTION, max_tokens=16, temperature=0
) as stream:
    for _ in stream:
        pass
    assert stream.get_final_completion().choices[0].message.content == text

# log-probabilities
entries = chat(logprobs=True, top_logprobs=3, max_tokens=4).choices[0].logprobs.content
assert len(entries) == 4 and len(entries[0].top_logprobs) == 3
assert bytes(b for entry in entries for b in entry.bytes).decode(errors="replace")
assert all(entry.logprob <= 0 for entry in entries)

# several answers, seeds
several = chat(n=3, temperature=1, seed=5)
assert [choice.index for choice in several.choices] == [0, 1, 2]
again = chat(n=3, temperature=1, seed=5)
assert [c.message.content for c in several.choices] == [c.message.content for c in again.choices]

# completions
completion = client.completions.create(
    model="built-in", prompt=["Once", "The"], max_tokens=4, temperature=0, echo=True, logprobs=2
)
assert completion.choices[1].text.startswith("The")
logprobs = completion.choices[0].logprobs
assert logprobs.token_logprobs[0] is None
assert len(logprobs.tokens) == len(logprobs.text_offset) == len(logprobs.top_logprobs)
parts = client.completions.create(
    model="built-in", prompt="Once", max_tokens=4, temperature=0, stream=True
)
assert "Once" + "".join(part.choices[0].text for part in parts) == completion.choices[0].text

# responses
response = client.responses.create(
    model="built-in", input="What is 2 plus 3?", max_output_tokens=16, temperature=0
)
assert response.output_text == text, response
# it is stored until it is deleted
assert client.responses.retrieve(response.id).model_dump() == response.model_dump()
client.responses.delete(response.id)
try:
    client.responses.retrieve(response.id)
except openai.NotFoundError:
    pass
else:
    raise AssertionError("a deleted response is there")
with client.responses.stream(
    model="built-in", input="What is 2 plus 3?", max_output_tokens=16, temperature=0
) as stream:
    kinds = [event.type for event in stream]
    assert kinds[:2] == ["response.created", "response.in_progress"], kinds
    assert kinds[-1] in ("response.completed", "response.incomplete"), kinds
    assert "response.output_text.done" in kinds

# models
assert [model.id for model in client.models.list()] == ["built-in"]
assert client.models.retrieve("built-in").id == "built-in"

# structured output and tools, if the server has constraints
SCHEMA = {
    "type": "object",
    "properties": {"sum": {"type": "integer"}, "right": {"type": "boolean"}},
    "required": ["sum", "right"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "sum", "schema": SCHEMA, "strict": True}}
try:
    answer = chat(response_format=FORMAT, max_tokens=300)
except openai.BadRequestError as error:
    assert "not wired" in str(error), error
else:
    value = json.loads(answer.choices[0].message.content)
    assert set(value) == {"sum", "right"} and isinstance(value["right"], bool), value
    streamed = "".join(
        c.choices[0].delta.content or ""
        for c in chat(response_format=FORMAT, max_tokens=300, stream=True)
    )
    assert json.loads(streamed) == value
    choice = client.completions.create(
        model="built-in", prompt="I like ", temperature=0,
        extra_body={"structured_outputs": {"choice": ["cats", "dogs"]}},
    )
    assert choice.choices[0].text in ("cats", "dogs"), choice
    # a demanded call
    tool = {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Adds numbers",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "boolean"}},
                "required": ["a"],
                "additionalProperties": False,
            },
        },
    }
    called = chat(tools=[tool], tool_choice="required", parallel_tool_calls=False, max_tokens=300)
    assert called.choices[0].finish_reason == "tool_calls", called
    call = called.choices[0].message.tool_calls[0]
    assert call.function.name == "add" and isinstance(json.loads(call.function.arguments)["a"], bool)
    with client.chat.completions.stream(
        model="built-in", messages=QUESTION, tools=[tool], tool_choice="required",
        parallel_tool_calls=False, max_tokens=300, temperature=0,
    ) as stream:
        for _ in stream:
            pass
        streamed = stream.get_final_completion().choices[0].message.tool_calls[0]
        assert streamed.function.arguments == call.function.arguments
    result = {"role": "tool", "tool_call_id": call.id, "content": "5"}
    history = [*QUESTION, called.choices[0].message.to_dict(), result]
    after = client.chat.completions.create(
        model="built-in", messages=history, tools=[tool], max_tokens=8
    )
    assert after.usage.prompt_tokens > called.usage.prompt_tokens, after
    # a call that is cut is left open
    tool["function"]["parameters"] = {
        "type": "object",
        "properties": {"command": {"type": "string", "minLength": 60}},
        "required": ["command"],
    }
    cut = []
    for seed in range(8):
        with client.chat.completions.stream(
            model="built-in", messages=QUESTION, tools=[tool], tool_choice="required",
            max_tokens=30, seed=seed,
        ) as stream:
            for _ in stream:
                pass
            try:
                completion = stream.get_final_completion()
            except openai.LengthFinishReasonError as error:
                completion = error.completion
            choice = completion.choices[0]
        assert choice.finish_reason == "length", choice
        cut += choice.message.tool_calls or []
    assert cut
    for call in cut:
        try:
            json.loads(call.function.arguments)
        except json.JSONDecodeError:
            pass
        else:
            raise AssertionError(f"a cut call looks complete: {call}")

# errors
for make, kind, param in [
    (lambda: chat(model="none"), openai.NotFoundError, "model"),
    (lambda: chat(temperature="hot"), openai.BadRequestError, "temperature"),
    (lambda: chat(messages=[]), openai.BadRequestError, "messages"),
    (lambda: chat(messages=[{"role": "user", "content": "a " * 5000}]), openai.BadRequestError, None),
]:
    try:
        make()
    except kind as error:
        assert param is None or error.param == param, error
        if param is None:
            assert error.code == "context_length_exceeded", error
    else:
        raise AssertionError(f"no {kind}")

# a client that stops in the middle
stream = chat(stream=True, max_tokens=200)
next(iter(stream))
stream.close()
assert chat().choices[0].message.content == text
print("all checks passed")
