"""LangChain's classes for OpenAI against a server whose address is the argument."""

import asyncio
import sys

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from pydantic import BaseModel, ConfigDict

ADDRESS = sys.argv[1] + "/v1"


def chat(**more):
    options = dict(
        base_url=ADDRESS, api_key="none", model="built-in", temperature=0, max_tokens=16, max_retries=0
    )
    return ChatOpenAI(**(options | more))


QUESTION = [SystemMessage("Answer."), HumanMessage("What is 2 plus 3?")]

# chats: whole, streamed, several at once, asynchronous
whole = chat().invoke(QUESTION)
assert whole.content and whole.usage_metadata["output_tokens"] > 0, whole
assert whole.response_metadata["finish_reason"] in ("stop", "length"), whole
parts = list(chat(stream_usage=True).stream(QUESTION))
assert "".join(part.content for part in parts) == whole.content
total = sum((part.usage_metadata or {}).get("total_tokens", 0) for part in parts)
assert total == whole.usage_metadata["total_tokens"], parts
assert [one.content for one in chat().batch([QUESTION] * 3)] == [whole.content] * 3
assert asyncio.run(chat().ainvoke(QUESTION)).content == whole.content

# log-probabilities
scored = chat(logprobs=True, top_logprobs=2, max_tokens=3).invoke(QUESTION)
assert len(scored.response_metadata["logprobs"]["content"]) == 3


# structured output
class Sum(BaseModel):
    """A sum."""

    # a small model would go on with properties of its own
    model_config = ConfigDict(extra="forbid")
    right: bool
    sure: bool


for method in ["json_schema", "function_calling"]:
    found = chat(max_tokens=200).with_structured_output(Sum, method=method).invoke(QUESTION)
    assert isinstance(found, Sum), (method, found)


# tools
class Pair(BaseModel):
    """Two values."""

    model_config = ConfigDict(extra="forbid")
    first: bool
    second: bool


@tool(args_schema=Pair)
def add(first: bool, second: bool) -> int:
    """Adds two values."""
    return first + second


caller = chat(max_tokens=200).bind_tools(
    [add], tool_choice="add", parallel_tool_calls=False, strict=True
)
called = caller.invoke(QUESTION)
[call] = called.tool_calls
assert call["name"] == "add" and set(call["args"]) == {"first", "second"}, called
streamed = None
for part in caller.stream(QUESTION):
    streamed = part if streamed is None else streamed + part
assert streamed.tool_calls[0]["args"] == call["args"], streamed
result = ToolMessage(str(add.invoke(call["args"])), tool_call_id=call["id"])
answer = chat().bind_tools([add]).invoke([*QUESTION, called, result])
assert isinstance(answer, AIMessage)

# the Responses API, completions, embeddings of a model without them
assert chat(use_responses_api=True).invoke(QUESTION).text == whole.content
text = OpenAI(
    base_url=ADDRESS, api_key="none", model="built-in", temperature=0, max_tokens=4, max_retries=0
).invoke("Once upon a time")
assert text
embeddings = OpenAIEmbeddings(
    base_url=ADDRESS, api_key="none", model="built-in", max_retries=0, check_embedding_ctx_length=False
)
try:
    embeddings.embed_query("Once")
except Exception as error:  # a client's own class, by the version
    assert "400" in str(error), error
else:
    raise AssertionError("a model of text has no embeddings")
print("all checks passed")
