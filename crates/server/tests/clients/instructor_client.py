"""All modes of instructor that it has for OpenAI's and Anthropic's clients, against a server whose address is the argument.

Modes that demand neither a call nor a schema by themselves have a field in addition, which makes their outcome certain.
"""

import sys
import warnings
from collections.abc import Iterable

import anthropic
import instructor
import openai
from instructor import Mode
from instructor.v2.core.providers import Provider
from instructor.v2.core.registry import mode_registry
from pydantic import BaseModel, ConfigDict

ADDRESS = sys.argv[1]
MESSAGES = [{"role": "user", "content": "Is it raining in Ulm?"}]
warnings.simplefilter("ignore")


class Rain(BaseModel):
    """Whether it rains."""

    # a small model would go on with properties of its own
    model_config = ConfigDict(extra="forbid")
    rains: bool


class Snow(BaseModel):
    """Whether it snows."""

    model_config = ConfigDict(extra="forbid")
    snows: bool


SCHEMA = Rain.model_json_schema()
CHECKED = {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}
FENCED = 'root ::= "```json\\n{\\"rains\\": " ("true" | "false") "}\\n```"'
OF_OPENAI = {
    "TOOLS": {}, "TOOLS_STRICT": {}, "FUNCTIONS": {}, "JSON_SCHEMA": {}, "JSON_O1": {},
    "JSON": {"structured_outputs": {"json": SCHEMA}}, "MD_JSON": {"grammar": FENCED},
    "PARALLEL_TOOLS": {"tool_choice": "required"}, "RESPONSES_TOOLS": {},
    "RESPONSES_TOOLS_WITH_INBUILT_TOOLS": {"tool_choice": "required"},
}
ANY = {"tool_choice": {"type": "any"}}
OF_ANTHROPIC = {
    "TOOLS": {}, "ANTHROPIC_TOOLS": {}, "ANTHROPIC_REASONING_TOOLS": ANY, "JSON": CHECKED,
    "ANTHROPIC_JSON": CHECKED, "JSON_SCHEMA": CHECKED, "PARALLEL_TOOLS": ANY,
    "ANTHROPIC_PARALLEL_TOOLS": ANY,
}


def check(wrap, client, modes, provider):
    known = {mode.name for mode in Mode if mode_registry.is_registered(provider, mode)}
    assert known == set(modes), f"modes in one list only: {known ^ set(modes)}"
    for name, more in modes.items():
        patched = wrap(client, mode=Mode[name])
        limit = "max_output_tokens" if name.startswith("RESPONSES") else "max_tokens"
        options = dict(
            model="built-in", messages=MESSAGES, max_retries=1,
            extra_body={"temperature": 0} | more, **{limit: 200},
        )
        if "PARALLEL" in name:
            found = list(patched.create(response_model=Iterable[Rain | Snow], **options))
            assert found and all(isinstance(one, (Rain, Snow)) for one in found), (name, found)
            continue
        found = patched.create(response_model=Rain, **options)
        assert isinstance(found, Rain), (name, found)
        if name in ("TOOLS", "JSON_SCHEMA") and provider is Provider.OPENAI:
            parts = list(patched.create_partial(response_model=Rain, **options))
            assert parts[-1].rains == found.rains, (name, parts)


options = dict(api_key="none", max_retries=0)
check(
    instructor.from_openai, openai.OpenAI(base_url=ADDRESS + "/v1", **options), OF_OPENAI,
    Provider.OPENAI,
)
check(
    instructor.from_anthropic, anthropic.Anthropic(base_url=ADDRESS, **options), OF_ANTHROPIC,
    Provider.ANTHROPIC,
)
print("all checks passed")
