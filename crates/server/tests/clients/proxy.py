"""A proxy between a client and a server. It changes requests so that a tool-calling turn has a certain outcome, which the
built-in model does not give by itself. Everything else goes through as it is.
"""

import http.client
import json
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# The answer after the result of a call.
DONE = "pelton-is-done"
# Headers that belong to one connection.
OWN = ("host", "content-length", "connection", "accept-encoding", "transfer-encoding")


def has_result(body):
    """Whether a conversation has the result of a call."""
    text = json.dumps(body.get("messages") or body.get("input"))
    return any(f'"{kind}"' in text for kind in ("tool_result", "function_call_output")) or any(
        message.get("role") == "tool" for message in body.get("messages") or []
    )


def limit(path, body, tokens):
    """Limits the tokens of an answer, which is greedy and has no reasoning."""
    if path == "/api/chat":
        body["options"] = {"temperature": 0, "num_predict": tokens}
        return
    body["temperature"] = 0
    if path.endswith("/messages"):
        body["max_tokens"] = tokens
        body["thinking"] = {"type": "disabled"}
        body.get("output_config", {}).pop("effort", None)
    elif path.endswith("/responses"):
        body["max_output_tokens"] = tokens
        body["reasoning"] = {"effort": "none"}
    else:
        body.pop("max_completion_tokens", None)
        body["max_tokens"] = tokens
        body["reasoning_effort"] = "none"


def demand(path, body, name=None):
    """Demands one call, of the tool with a name if there is one. `/api/chat` has the field too."""
    if path.endswith("/messages"):
        kind = {"type": "any"} if name is None else {"type": "tool", "name": name}
        body["tool_choice"] = kind | {"disable_parallel_tool_use": True}
        return
    body["parallel_tool_calls"] = False
    if name is None:
        body["tool_choice"] = "required"
    elif path.endswith("/responses"):
        body["tool_choice"] = {"type": "function", "name": name}
    else:
        body["tool_choice"] = {"type": "function", "function": {"name": name}}


def finish(path, body, word):
    """Demands an answer of one word, in quotes, and no further call."""
    schema = {"const": word}
    limit(path, body, 40)
    if path.endswith("/messages"):
        body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
        body["tool_choice"] = {"type": "none"}
        return
    body["tool_choice"] = "none"
    if path.endswith("/responses"):
        body["text"] = {"format": {"type": "json_schema", "name": "word", "schema": schema}}
    elif path == "/api/chat":
        body["format"] = schema
    else:
        form = {"name": "word", "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": form}


def turn(path, body, name=None):
    """A turn of an agent: a call of one of its tools, then the answer `DONE`. The word for the request."""
    if has_result(body):
        finish(path, body, DONE)
        return "result"
    limit(path, body, 200)
    if body.get("tools"):
        for tool in body["tools"]:
            tool = tool.get("function", tool)
            schema = tool.get("parameters") or tool.get("input_schema") or {}
            # the built-in model would go on with properties of its own
            schema["additionalProperties"] = False
        demand(path, body, name)
        return "call"
    return None


class Proxy:
    """Passes requests on and streams of answers back. `change` gets the path and the body of each POST; `seen` lists what
    it returns, and `wrong` what went wrong on the way, which a client may hide.
    """

    def __init__(self, address, change=turn):
        self.server = urllib.parse.urlparse(address)
        self.change = change
        self.seen = []
        self.wrong = []
        self.listener = ThreadingHTTPServer(("127.0.0.1", 0), handler(self))
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.listener.server_port}"

    def changed(self, path, body):
        """The body of a request after its change."""
        try:
            parsed = json.loads(body)
            word = self.change(path, parsed)
            if word:
                self.seen.append(word)
            return json.dumps(parsed).encode()
        except Exception as error:
            self.wrong.append(f"{path}: {error!r}")
            return body

    def check(self):
        """Fails unless a call was made, its result was sent, and nothing went wrong."""
        assert not self.wrong, self.wrong
        assert "call" in self.seen and "result" in self.seen, self.seen
        self.seen.clear()


def handler(proxy):
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def forward(self):
            length = int(self.headers.get("content-length") or 0)
            body = self.rfile.read(length)
            path = urllib.parse.urlparse(self.path).path
            if self.command == "POST" and body:
                body = proxy.changed(path, body)
            server = proxy.server
            connection = http.client.HTTPConnection(server.hostname, server.port, timeout=400)
            headers = {k: v for k, v in self.headers.items() if k.lower() not in OWN}
            connection.request(self.command, self.path, body or None, headers)
            answer = connection.getresponse()
            self.send_response(answer.status)
            kind = answer.getheader("content-type")
            if kind:
                self.send_header("content-type", kind)
            self.send_header("connection", "close")
            self.end_headers()
            if answer.status >= 400:
                text = answer.read()
                proxy.wrong.append(f"{self.command} {path}: {answer.status} {text[:500]!r}")
                self.wfile.write(text)
                return
            while chunk := answer.read1(65536):
                self.wfile.write(chunk)
                self.wfile.flush()

        do_GET = do_POST = do_HEAD = do_OPTIONS = do_DELETE = forward

    return Handler
