"""Coding agents against a server: arguments are the name of an agent, the path of its program, and the
address of the server.

A proxy between the two makes one call of a tool certain: the first request with tools demands a call of
the shell with a command that prints a word, and the next one has the result and demands a word as the answer.
"""

import json
import os
import subprocess
import sys
import tempfile

from proxy import DONE, Proxy, demand, finish, has_result, limit

AGENT, PROGRAM, ADDRESS = sys.argv[1:4]
WORD = "pelton-was-here"
COMMAND = "printf %s-%s pelton was-here"


def constant(schema):
    """The schema of the shell's arguments, with one value each that is allowed."""
    given = {"description": "Prints a word", "timeout": 10000, "yield_time_ms": 10000}
    command = "command" if "command" in schema["properties"] else "cmd"
    properties = {command: {"const": COMMAND}}
    if schema["properties"][command].get("type") == "array":
        properties[command] = {"const": ["bash", "-lc", COMMAND]}
    for name in schema.get("required", []):
        if name in given:
            properties[name] = {"const": given[name]}
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required,
            "additionalProperties": False}


def shell(path, tools):
    """Gives the shell among some tools the one command; its name."""
    for tool in tools:
        tool = tool.get("function", tool)
        if tool.get("name", "").lower() in ("bash", "shell", "exec_command", "shell_command"):
            key = "input_schema" if path.endswith("/messages") else "parameters"
            tool[key] = constant(tool[key])
            return tool["name"]
    raise AssertionError(f"no shell among {[tool.get('name') for tool in tools]}")


def change(path, body):
    """Makes a request demand the call, or the answer after it."""
    if has_result(body):
        finish(path, body, DONE)
        return "result" if WORD in json.dumps(body) else None
    functions = [tool for tool in body.get("tools") or [] if tool.get("type") != "namespace"]
    limit(path, body, 400 if functions else 8)
    if functions:
        demand(path, body, shell(path, functions))
        return "call"
    return None


proxy = Proxy(ADDRESS, change)
url = proxy.url
TASK = "Print the word with the shell."

with tempfile.TemporaryDirectory() as home:
    work = os.path.join(home, "work")
    os.mkdir(work)
    environment = {
        "PATH": os.environ["PATH"], "HOME": home, "NO_PROXY": "*", "CI": "1",
        "DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1",
    }
    if AGENT == "claude":
        environment |= {
            "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", "DISABLE_AUTOUPDATER": "1",
            "ANTHROPIC_MODEL": "built-in", "ANTHROPIC_SMALL_FAST_MODEL": "built-in",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_ERROR_REPORTING": "1",
        }
        command = [PROGRAM, "--print", "--tools", "Bash", "--allowedTools", "Bash"]
        command += ["--system-prompt", "Use the shell.", "--strict-mcp-config"]
        command += ["--disable-slash-commands", TASK]
    elif AGENT == "codex":
        settings = {
            "model": "built-in", "model_provider": "pelton", "check_for_update_on_startup": False,
            "analytics.enabled": False, "features.apps": False,
            "model_providers.pelton.name": "Pelton",
            "model_providers.pelton.base_url": url + "/v1",
            "model_providers.pelton.wire_api": "responses",
            "model_providers.pelton.request_max_retries": 0,
            "model_providers.pelton.stream_max_retries": 0,
        }
        command = [PROGRAM, "exec", "--skip-git-repo-check"]
        command += ["--dangerously-bypass-approvals-and-sandbox"]
        for name, value in settings.items():
            command += ["-c", f"{name}={json.dumps(value)}"]
        command += [TASK]
    elif AGENT == "opencode":
        environment |= {
            "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        }
        provider = {
            "npm": "@ai-sdk/openai-compatible", "name": "Pelton",
            "options": {"baseURL": url + "/v1", "apiKey": "none"},
            "models": {"built-in": {"name": "built-in", "tool_call": True,
                                    "limit": {"context": 65536, "output": 512}}},
        }
        configuration = {
            "provider": {"pelton": provider}, "model": "pelton/built-in",
            "small_model": "pelton/built-in", "autoupdate": False, "share": "disabled",
            "permission": {"bash": "allow"}, "tools": {"*": False, "bash": True}, "enabled_providers": ["pelton"],
        }
        with open(os.path.join(work, "opencode.json"), "w") as file:
            json.dump(configuration, file)
        command = [PROGRAM, "run", "--model", "pelton/built-in", TASK]
    else:
        raise AssertionError(f"{AGENT} is no agent, expected claude, codex or opencode")
    outcome = subprocess.run(
        command, cwd=work, env=environment, capture_output=True, text=True, timeout=500,
        stdin=subprocess.DEVNULL,
    )
print(outcome.stdout[-4000:], outcome.stderr[-4000:], proxy.seen, proxy.wrong)
assert outcome.returncode == 0 and DONE in outcome.stdout, outcome.returncode
proxy.check()
print("all checks passed")
