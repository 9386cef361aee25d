"""Open WebUI against a server: arguments are the path of its program and the address of the server. It runs a chat with a
tool over OpenAI's API, and one over Ollama's, through a proxy that makes the call of the tool certain.
"""

import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid

from proxy import DONE, Proxy, turn

PROGRAM, ADDRESS = sys.argv[1:3]
WORD = "pelton-was-here"
TOOL = f'''
class Tools:
    def report_rain(self, rains: bool) -> str:
        """
        Reports whether it rains.
        :param rains: Whether it rains.
        """
        return "{WORD}"
'''

proxy = Proxy(ADDRESS, functools.partial(turn, name="report_rain"))
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
own = f"http://127.0.0.1:{port}"
token = None


def ask(path, body=None):
    """The JSON of Open WebUI's answer; `None` while it does not listen."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(own + path, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{path}: {error.code} {error.read()!r}") from error
    except (urllib.error.URLError, ConnectionError):
        return None


def until(what, seconds=240):
    """Waits for a value."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        assert process.poll() is None, "Open WebUI has ended"
        time.sleep(0.5)
    raise AssertionError(f"nothing after {seconds} s: {proxy.seen} {proxy.wrong}")


def chat(model):
    """A new chat as the page starts one: Open WebUI runs the tool itself."""
    reply = str(uuid.uuid4())
    question = {
        "id": str(uuid.uuid4()), "role": "user", "content": "Is it raining in Ulm?", "parentId": None,
        "childrenIds": [reply], "models": [model], "timestamp": int(time.time()),
    }
    started = ask("/api/chat/completions", {
        "stream": True, "model": model, "messages": [{"role": "user", "content": question["content"]}],
        "params": {"function_calling": "native"}, "tool_ids": ["rain"], "tool_servers": [],
        "features": {}, "session_id": "none", "id": reply, "parent_id": None, "user_message": question,
        "background_tasks": {"title_generation": True, "tags_generation": True},
    })

    def whole():
        found = ask("/api/v1/chats/" + started["chat_id"])
        message = found["chat"]["history"]["messages"].get(reply) or {}
        return message if message.get("done") else None

    message = until(whole)
    assert not message.get("error"), message
    assert WORD in json.dumps(message) and DONE in message["content"], message
    proxy.check()


with tempfile.TemporaryDirectory() as home, open(os.path.join(home, "log"), "w+") as log:
    environment = {
        "PATH": os.environ["PATH"], "HOME": home, "DATA_DIR": home, "NO_PROXY": "*", "OFFLINE_MODE": "True",
        "GLOBAL_LOG_LEVEL": "WARNING",
        "WEBUI_AUTH": "False", "WEBUI_SECRET_KEY": "none" * 8, "RAG_EMBEDDING_ENGINE": "openai",
        "OPENAI_API_BASE_URL": proxy.url + "/v1", "OPENAI_API_KEY": "none", "OLLAMA_BASE_URL": proxy.url,
        "DO_NOT_TRACK": "true", "ANONYMIZED_TELEMETRY": "false", "SCARF_NO_ANALYTICS": "true",
    }
    command = [PROGRAM, "serve", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        command, cwd=home, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
    )
    try:
        until(lambda: ask("/health"))
        # without users, anybody is the administrator
        token = ask("/api/v1/auths/signin", {"email": "", "password": ""})["token"]
        tool = {"id": "rain", "name": "rain", "content": TOOL, "meta": {"description": "Rain"}}
        ask("/api/v1/tools/create", tool)
        # both lists name the same model
        ask("/openai/config/update", {
            "ENABLE_OPENAI_API": True, "OPENAI_API_BASE_URLS": [proxy.url + "/v1"],
            "OPENAI_API_KEYS": ["none"], "OPENAI_API_CONFIGS": {"0": {"prefix_id": "openai"}},
        })
        models = {model["id"]: model["owned_by"] for model in ask("/api/models")["data"]}
        assert models == {"built-in": "ollama", "openai.built-in": "openai"}, models
        for model in models:
            chat(model)
    except BaseException:
        log.seek(0)
        print(log.read()[-4000:])
        print(proxy.seen, proxy.wrong)
        raise
    finally:
        process.terminate()
        process.wait()
print("all checks passed")
