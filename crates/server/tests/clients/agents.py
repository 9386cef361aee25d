"""Coding agents against a server: arguments are the name of an agent, the path of its program, and the
address of the server.

Between the two stands a proxy, which makes one call of a tool certain: the first request with tools
demands a call of the shell with a command that prints a word, and the next one has the result. All else
goes through as it is.
"""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

AGENT, PROGRAM, ADDRESS = sys.argv[1:4]
SERVER = urllib.parse.urlparse(ADDRESS)
WORD = "pelton-was-here"
COMMAND = "printf %s-%s pelton was-here"
seen = []


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


def shell(tools, name, parameters):
    """Demands a call of the shell; its name."""
    for tool in tools:
        if name(tool).lower() in ("bash", "shell", "exec_command", "shell_command"):
            holder, key = parameters(tool)
            holder[key] = constant(holder[key])
            return name(tool)
    raise AssertionError(f"no shell among {[name(tool) for tool in tools]}")


def change(path, body):
    """Makes a request demand the call, or a short text after it."""
    text = json.dumps(body.get("messages") or body.get("input"))
    tools = [tool for tool in body.get("tools") or [] if tool.get("type") != "namespace"]
    done = any(f'"{kind}"' in text for kind in ("tool_result", "function_call_output")) or any(
        message.get("role") == "tool" for message in body.get("messages") or []
    )
    calls = bool(tools) and not done
    if done and WORD in text:
        seen.append("result")
    body["temperature"] = 0
    limit = 400 if calls else 8
    if path.endswith("/v1/messages"):
        body["max_tokens"] = limit
        body["thinking"] = {"type": "disabled"}
        body.pop("output_config", None)
        if calls:
            name = shell(tools, lambda t: t["name"], lambda t: (t, "input_schema"))
            body["tool_choice"] = {
                "type": "tool", "name": name, "disable_parallel_tool_use": True,
            }
    elif path.endswith("/responses"):
        body["max_output_tokens"] = limit
        body["reasoning"] = {"effort": "none"}
        if calls:
            functions = [tool for tool in tools if tool.get("type") == "function"]
            name = shell(functions, lambda t: t["name"], lambda t: (t, "parameters"))
            body["tool_choice"] = {"type": "function", "name": name}
            body["parallel_tool_calls"] = False
    elif path.endswith("/chat/completions"):
        body.pop("max_completion_tokens", None)
        body["max_tokens"] = limit
        body["reasoning_effort"] = "none"
        if calls:
            name = shell(
                tools, lambda t: t["function"]["name"], lambda t: (t["function"], "parameters")
            )
            body["tool_choice"] = {"type": "function", "function": {"name": name}}
            body["parallel_tool_calls"] = False
    if calls:
        seen.append("call")


class Proxy(BaseHTTPRequestHandler):
    """Passes requests to the server and streams of answers back."""

    def log_message(self, *_):
        pass

    def forward(self):
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length)
        path = urllib.parse.urlparse(self.path).path
        if self.command == "POST" and body:
            try:
                parsed = json.loads(body)
                change(path, parsed)
                body = json.dumps(parsed).encode()
            except Exception as error:  # an agent that hides it would hang
                seen.append(f"proxy: {error!r}")
        connection = http.client.HTTPConnection(SERVER.hostname, SERVER.port, timeout=400)
        names = ("host", "content-length", "connection", "accept-encoding", "transfer-encoding")
        headers = {k: v for k, v in self.headers.items() if k.lower() not in names}
        connection.request(self.command, self.path, body or None, headers)
        answer = connection.getresponse()
        if answer.status >= 400 and self.command == "POST":
            text = answer.read()
            seen.append(f"{path}: {answer.status} {text[:500]!r}")
            self.send_response(answer.status)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(text)
            return
        self.send_response(answer.status)
        self.send_header("content-type", answer.getheader("content-type") or "text/plain")
        self.send_header("connection", "close")
        self.end_headers()
        while chunk := answer.read1(65536):
            self.wfile.write(chunk)
            self.wfile.flush()

    do_GET = do_POST = do_HEAD = forward


proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
threading.Thread(target=proxy.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{proxy.server_port}"
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
print(outcome.stdout[-4000:], outcome.stderr[-4000:], seen)
assert "call" in seen and "result" in seen, "the agent did not send the result of the call"
wrong = [one for one in seen if one not in ("call", "result")]
assert not wrong, wrong
print("all checks passed")
