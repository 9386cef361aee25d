"""One tool-calling turn with each library for agents: arguments are its name and the address of the
server. Each library demands the call, runs the tool, and sends its result back.
"""

import json
import sys

LIBRARY, ADDRESS = sys.argv[1:3]
QUESTION = "Is it raining in Ulm?"
V1 = ADDRESS + "/v1"
SCHEMA = {
    "type": "object", "properties": {"rains": {"type": "boolean"}}, "required": ["rains"],
    "additionalProperties": False,
}


def litellm():
    import litellm

    function = {"name": "report", "description": "Reports", "parameters": SCHEMA}
    tools = [{"type": "function", "function": function}]
    for model, base in [
        ("openai/built-in", V1), ("hosted_vllm/built-in", V1), ("lm_studio/built-in", V1),
        ("llamafile/built-in", V1), ("anthropic/built-in", ADDRESS),
        ("ollama_chat/built-in", ADDRESS),
    ]:
        messages = [{"role": "user", "content": QUESTION}]
        options = dict(model=model, api_base=base, api_key="none", temperature=0)
        choice = {"type": "function", "function": {"name": "report"}}
        answer = litellm.completion(
            **options, messages=messages, tools=tools, tool_choice=choice, max_tokens=200
        )
        message = answer.choices[0].message
        # Ollama's API has no choice of tools
        if not model.startswith("ollama"):
            [call] = message.tool_calls
            assert isinstance(json.loads(call.function.arguments)["rains"], bool), (model, call)
            messages += [message.model_dump(exclude_none=True),
                         {"role": "tool", "tool_call_id": call.id, "content": "It rains."}]
        parts = list(litellm.completion(
            **options, messages=messages, tools=tools, max_tokens=8, stream=True
        ))
        assert parts[-1].choices[0].finish_reason, (model, parts)


def langchain():
    from langchain_anthropic import ChatAnthropic
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_ollama import ChatOllama
    from langchain_openai import ChatOpenAI
    from pydantic import BaseModel, ConfigDict

    class Rain(BaseModel):
        """Whether it rains."""

        # not all classes send that there is nothing else
        model_config = ConfigDict(json_schema_extra={"additionalProperties": False})
        rains: bool

    @tool(args_schema=Rain)
    def report(rains: bool) -> str:
        """Reports."""
        return f"rain: {rains}"

    options = dict(model="built-in", temperature=0, max_retries=0)
    for chat in [
        ChatOpenAI(base_url=V1, api_key="none", max_tokens=200, **options),
        ChatOpenAI(
            base_url=V1, api_key="none", max_tokens=200, use_responses_api=True, **options
        ),
        ChatAnthropic(base_url=ADDRESS, api_key="none", max_tokens=200, **options),
    ]:
        history = [HumanMessage(QUESTION)]
        called = chat.bind_tools([report], tool_choice="report").invoke(history)
        [call] = called.tool_calls
        assert isinstance(call["args"]["rains"], bool), called
        result = ToolMessage(report.invoke(call["args"]), tool_call_id=call["id"])
        after = chat.bind_tools([report]).invoke([*history, called, result])
        assert after.response_metadata, after
    chat = ChatOllama(base_url=ADDRESS, model="built-in", temperature=0, num_predict=60)
    schema = SCHEMA | {"title": "Rain", "description": "Whether it rains."}
    found = chat.with_structured_output(schema, method="json_schema").invoke(QUESTION)
    assert isinstance(found["rains"], bool), found


def pydantic_ai():
    from pydantic import BaseModel, ConfigDict
    from pydantic_ai import Agent
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider

    class Rain(BaseModel):
        """Whether it rains."""

        model_config = ConfigDict(extra="forbid")
        rains: bool

    provider = OpenAIProvider(base_url=V1, api_key="none")
    other = AnthropicProvider(base_url=ADDRESS, api_key="none")
    for model in [
        OpenAIChatModel("built-in", provider=provider),
        OpenAIResponsesModel("built-in", provider=provider),
        AnthropicModel("built-in", provider=other),
    ]:
        settings = {"temperature": 0, "max_tokens": 200, "parallel_tool_calls": False}
        agent = Agent(model, output_type=Rain, model_settings=settings)
        outcome = agent.run_sync(QUESTION)
        assert isinstance(outcome.output, Rain), outcome
        # the call and its result are in the history of the next turn
        again = agent.run_sync("And now?", message_history=outcome.all_messages())
        assert isinstance(again.output, Rain), again


def instructor():
    import instructor
    import openai
    from pydantic import BaseModel, ConfigDict

    class Rain(BaseModel):
        """Whether it rains."""

        model_config = ConfigDict(extra="forbid")
        rains: bool

    client = openai.OpenAI(base_url=V1, api_key="none", max_retries=0)
    modes = ["TOOLS", "TOOLS_STRICT", "JSON_SCHEMA", "RESPONSES_TOOLS"]
    messages = [{"role": "user", "content": QUESTION}]
    for mode in modes:
        patched = instructor.from_openai(client, mode=instructor.Mode[mode])
        limit = "max_output_tokens" if mode.startswith("RESPONSES") else "max_tokens"
        found = patched.chat.completions.create(
            model="built-in", messages=messages, response_model=Rain, max_retries=1,
            temperature=0, **{limit: 200},
        )
        assert isinstance(found, Rain), (mode, found)
    import anthropic

    client = anthropic.Anthropic(base_url=ADDRESS, api_key="none", max_retries=0)
    patched = instructor.from_anthropic(client, mode=instructor.Mode.ANTHROPIC_TOOLS)
    found = patched.chat.completions.create(
        model="built-in", messages=messages, response_model=Rain, max_tokens=200, max_retries=1,
    )
    assert isinstance(found, Rain), found


{"litellm": litellm, "langchain": langchain, "pydantic_ai": pydantic_ai, "instructor": instructor}[
    LIBRARY
]()
print("all checks passed")
