"""The client of Ollama against a server whose address is the argument."""

import sys

import ollama
from proxy import DONE, Proxy

client = ollama.Client(host=sys.argv[1])
QUESTION = [{"role": "user", "content": "What is 2 plus 3?"}]
OPTIONS = {"temperature": 0, "num_predict": 16}

answer = client.chat(model="built-in", messages=QUESTION, options=OPTIONS)
text = answer.message.content
assert "5" in text, answer
assert answer.done and answer.eval_count > 0 and answer.prompt_eval_count > 0
parts = list(client.chat(model="built-in", messages=QUESTION, options=OPTIONS, stream=True))
assert "".join(part.message.content for part in parts) == text
assert parts[-1].done_reason == answer.done_reason

whole = client.generate(model="built-in", prompt="Once upon a time", raw=True, options=OPTIONS)
parts = client.generate(
    model="built-in", prompt="Once upon a time", raw=True, options=OPTIONS, stream=True
)
assert "".join(part.response for part in parts) == whole.response

tokens = client.chat(
    model="built-in", messages=QUESTION, logprobs=True, top_logprobs=2, options={"num_predict": 4}
).logprobs
assert len(tokens) == 4 and all(len(token.top_logprobs) == 2 for token in tokens), tokens

assert [model.model for model in client.list().models] == ["built-in"]
assert client.ps().models[0].model == "built-in"
shown = client.show("built-in")
assert "completion" in shown.capabilities and shown.modelinfo["general.architecture"]

# a turn with a tool, whole and streamed: Ollama's API has no choice of tools, so a proxy demands the call
proxy = Proxy(sys.argv[1])
caller = ollama.Client(host=proxy.url)


def report(rains: bool) -> str:
    """Reports whether it rains."""
    return f"rain: {rains}"


for stream in [False, True]:
    messages = [{"role": "user", "content": "Is it raining?"}]
    answer = caller.chat(model="built-in", messages=messages, tools=[report], stream=stream)
    lines = list(answer) if stream else [answer]
    assert lines[-1].done, lines
    [message] = [line.message for line in lines if line.message.tool_calls]
    [call] = message.tool_calls
    assert call.function.name == "report" and isinstance(call.function.arguments["rains"], bool)
    result = {"role": "tool", "tool_name": "report", "content": report(**call.function.arguments)}
    messages += [message, result]
    answer = caller.chat(model="built-in", messages=messages, tools=[report])
    assert answer.done and DONE in answer.message.content, answer
    proxy.check()

for make, status in [
    (lambda: client.chat(model="none", messages=QUESTION), 404),
    (lambda: client.generate(model="built-in", prompt="a", options={"temperature": -1}), 400),
    (lambda: client.pull("llama3"), 501),
    (lambda: client.embed(model="built-in", input="a"), 400),
]:
    try:
        make()
    except ollama.ResponseError as error:
        assert error.status_code == status and error.error, error
    else:
        raise AssertionError(f"no error {status}")
print("all checks passed")
