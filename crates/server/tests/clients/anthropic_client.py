"""The client of Anthropic against a server whose address is the argument."""

import sys

import anthropic

client = anthropic.Anthropic(base_url=sys.argv[1], api_key="none", max_retries=0)
OPTIONS = dict(
    model="built-in",
    max_tokens=16,
    messages=[{"role": "user", "content": "What is 2 plus 3?"}],
)
GREEDY = dict(extra_body={"temperature": 0})

message = client.messages.create(**OPTIONS, **GREEDY)
text = message.content[0].text
assert "5" in text, message
assert message.usage.input_tokens + message.usage.cache_read_input_tokens > 0
with client.messages.stream(**OPTIONS, **GREEDY) as stream:
    assert "".join(stream.text_stream) == text
    final = stream.get_final_message()
    assert final.stop_reason == message.stop_reason
    assert final.usage.output_tokens == message.usage.output_tokens

count = client.messages.count_tokens(model="built-in", messages=OPTIONS["messages"])
assert count.input_tokens == (
    message.usage.input_tokens + message.usage.cache_read_input_tokens
), count

stopped = client.messages.create(**OPTIONS, stop_sequences=[text[1:3]], **GREEDY)
assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", text[1:3])

# tools, thinking and a system prompt are accepted
client.messages.create(
    **OPTIONS,
    system="Be short.",
    thinking={"type": "disabled"},
    tools=[{"name": "add", "description": "Adds", "input_schema": {"type": "object"}}],
    tool_choice={"type": "none"},
)

# a turn with a tool, streamed and whole
RAIN = {
    "type": "object", "properties": {"rains": {"type": "boolean"}}, "required": ["rains"],
    "additionalProperties": False,
}
TOOLS = [{"name": "report", "description": "Reports", "input_schema": RAIN}]
demanded = dict(tools=TOOLS, tool_choice={"type": "tool", "name": "report"}, **GREEDY)
with client.messages.stream(**(OPTIONS | {"max_tokens": 200}), **demanded) as stream:
    final = stream.get_final_message()
whole = client.messages.create(**(OPTIONS | {"max_tokens": 200}), **demanded)
[call] = [block for block in final.content if block.type == "tool_use"]
assert final.stop_reason == whole.stop_reason == "tool_use", final
assert isinstance(call.input["rains"], bool) and call.input == whole.content[-1].input, final
result = {"type": "tool_result", "tool_use_id": call.id, "content": "It rains."}
after = client.messages.create(
    model="built-in", max_tokens=8, tools=TOOLS,
    messages=OPTIONS["messages"] + [
        {"role": "assistant", "content": final.content}, {"role": "user", "content": [result]},
    ],
)
assert after.role == "assistant", after

# a call that is cut is no call
LONG = {
    "type": "object",
    "properties": {"command": {"type": "string", "minLength": 60}},
    "required": ["command"],
}
with client.messages.stream(
    **(OPTIONS | {"max_tokens": 30}),
    tools=[{"name": "bash", "input_schema": LONG}],
    tool_choice={"type": "any"},
) as stream:
    final = stream.get_final_message()
assert final.stop_reason == "max_tokens", final
assert all(block.type != "tool_use" for block in final.content), final
assert final.usage.cache_creation.ephemeral_5m_input_tokens == 0, final

[model] = client.models.list().data
assert (model.id, model.type, model.display_name) == ("built-in", "model", "built-in")
assert client.models.retrieve("built-in").created_at == model.created_at

for options, kind in [
    (OPTIONS | {"model": "none"}, anthropic.NotFoundError),
    (OPTIONS | {"extra_body": {"top_k": "many"}}, anthropic.BadRequestError),
    (OPTIONS | {"messages": []}, anthropic.BadRequestError),
]:
    try:
        client.messages.create(**options)
    except kind:
        pass
    else:
        raise AssertionError(f"no {kind}")
print("all checks passed")
