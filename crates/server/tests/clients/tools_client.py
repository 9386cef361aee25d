"""Tool-calling turns with libraries for agents, whole and streamed: arguments are the library's name and the address of
the server. The library runs the tool and sends its result back. A proxy demands the call.
"""

import json
import os
import sys

from proxy import DONE, Proxy

LIBRARY = sys.argv[1]
QUESTION = "Is it raining in Ulm?"
proxy = Proxy(sys.argv[2])
ADDRESS = proxy.url
V1 = ADDRESS + "/v1"
SCHEMA = {
    "type": "object", "properties": {"rains": {"type": "boolean"}}, "required": ["rains"],
    "additionalProperties": False,
}


def litellm():
    # its prices are on another server
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    # it changes the schemas that it is given
    function = {"name": "report", "description": "Reports", "parameters": dict(SCHEMA)}
    tools = [{"type": "function", "function": function}]
    form = {"type": "json_schema", "json_schema": {"name": "rain", "schema": SCHEMA}}
    for model, base in [
        ("openai/built-in", V1), ("hosted_vllm/built-in", V1), ("lm_studio/built-in", V1),
        ("llamafile/built-in", V1), ("anthropic/built-in", ADDRESS),
        ("ollama_chat/built-in", ADDRESS),
    ]:
        options = dict(model=model, api_base=base, api_key="none", temperature=0, tools=tools)
        for stream in [False, True]:
            messages = [{"role": "user", "content": QUESTION}]
            answer = litellm.completion(**options, messages=messages, max_tokens=200, stream=stream)
            if stream:
                answer = litellm.stream_chunk_builder(list(answer), messages=messages)
            message = answer.choices[0].message
            [call] = message.tool_calls
            assert answer.choices[0].finish_reason == "tool_calls", (model, answer)
            assert isinstance(json.loads(call.function.arguments)["rains"], bool), (model, call)
            messages += [message.model_dump(exclude_none=True),
                         {"role": "tool", "tool_call_id": call.id, "content": "It rains."}]
            after = litellm.completion(**options, messages=messages, max_tokens=40, stream=stream)
            if stream:
                after = litellm.stream_chunk_builder(list(after), messages=messages)
            [choice] = after.choices
            assert choice.finish_reason == "stop" and DONE in choice.message.content, (model, after)
            proxy.check()
        del options["tools"]
        found = litellm.completion(
            **options, messages=messages[:1], response_format=form, max_tokens=200
        )
        text = found.choices[0].message.content
        assert isinstance(json.loads(text)["rains"], bool), (model, found)


def langchain():
    from langchain_anthropic import ChatAnthropic
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_ollama import ChatOllama
    from langchain_openai import ChatOpenAI

    @tool
    def report(rains: bool) -> str:
        """Reports."""
        return f"rain: {rains}"

    options = dict(model="built-in", temperature=0)
    remote = dict(api_key="none", max_tokens=200, max_retries=0, **options)
    for chat in [
        ChatOpenAI(base_url=V1, **remote),
        ChatOpenAI(base_url=V1, use_responses_api=True, **remote),
        ChatAnthropic(base_url=ADDRESS, **remote),
        ChatOllama(base_url=ADDRESS, num_predict=200, **options),
    ]:
        bound = chat.bind_tools([report])
        for stream in [False, True]:
            history = [HumanMessage(QUESTION)]
            if stream:
                called = None
                for part in bound.stream(history):
                    called = part if called is None else called + part
            else:
                called = bound.invoke(history)
            [call] = called.tool_calls
            assert isinstance(call["args"]["rains"], bool), called
            result = ToolMessage(report.invoke(call["args"]), tool_call_id=call["id"])
            after = bound.invoke([*history, called, result])
            assert DONE in after.text, after
            proxy.check()
        schema = SCHEMA | {"title": "Rain", "description": "Whether it rains."}
        found = chat.with_structured_output(schema, method="json_schema").invoke(QUESTION)
        assert isinstance(found["rains"], bool), found


def pydantic_ai():
    import asyncio

    from pydantic import BaseModel
    from pydantic_ai import Agent, NativeOutput
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    class Rain(BaseModel, extra="forbid"):
        """Whether it rains."""

        rains: bool

    async def streamed(agent):
        async with agent.run_stream(QUESTION) as stream:
            return await stream.get_output()

    provider = OpenAIProvider(base_url=V1, api_key="none")
    other = AnthropicProvider(base_url=ADDRESS, api_key="none")
    settings = {"temperature": 0, "max_tokens": 200}
    for model in [
        OpenAIChatModel("built-in", provider=provider),
        OpenAIResponsesModel("built-in", provider=provider),
        AnthropicModel("built-in", provider=other),
    ]:
        ran = []
        agent = Agent(model, model_settings=settings)

        @agent.tool_plain
        def report(rains: bool) -> str:
            """Reports."""
            ran.append(rains)
            return "It rains."

        outcome = agent.run_sync(QUESTION)
        assert len(ran) == 1 and DONE in outcome.output, outcome
        proxy.check()
        assert DONE in asyncio.run(streamed(agent)) and len(ran) == 2
        proxy.check()
        # An output in the form of a call, and as an answer: over Anthropic's API that is for models that it knows.
        agent = Agent(model, output_type=Rain, model_settings=settings)
        outcome = agent.run_sync(QUESTION)
        assert isinstance(outcome.output, Rain), outcome
        proxy.seen.clear()
        if not isinstance(model, AnthropicModel):
            agent = Agent(model, output_type=NativeOutput(Rain), model_settings=settings)
            assert isinstance(agent.run_sync(QUESTION).output, Rain)


{"litellm": litellm, "langchain": langchain, "pydantic_ai": pydantic_ai}[LIBRARY]()
assert not proxy.wrong, proxy.wrong
print("all checks passed")
