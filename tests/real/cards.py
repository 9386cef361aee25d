#!/usr/bin/env python3
"""Start command lines as model cards print them, with a real model, and ask each a question.

The lines are those of llama.cpp, vLLM, Ollama and whisper.cpp: `llama-server` becomes `pelton serve`, and so on. Names
of models are those of a hub on this machine, which has SmolLM2 135M under each of them.

usage: cards.py PELTON MODELS RECORDING
needs: MODELS as `weights.py` writes them; no Python package
"""
import hashlib
import http.server
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

PROGRAMS = {"llama-server": ["serve"], "llama-cli": ["run"], "vllm serve": ["serve"], "ollama run": ["run"],
            "whisper-cli": ["transcribe"]}

# MODEL, WHISPER, AUDIO, PORT and OUT are replaced.
LINES = [
    "llama-server -hf ggml-org/SmolLM2-135M-Instruct-GGUF --port PORT -ngl 99 -fa -ub 1024 -b 1024 -dt 0.1 --ctx-size 0 "
    "--cache-reuse 256",
    "llama-server -m MODEL --jinja --host 127.0.0.1 --port PORT -ngl 99 -fa on -c 0 --temp 0.7 --top-p 0.8 --top-k 20 "
    "--repeat-penalty 1.05",
    "llama-server --model MODEL --alias qwen3-coder --n-gpu-layers 999 --ctx-size 4096 --threads 2 --threads-batch 2 "
    "--temp 0.7 --top-p 0.8 --top-k 20 --repeat-penalty 1.05 --port PORT --host 127.0.0.1 --parallel 4 --cont-batching "
    "--flash-attn on",
    "llama-server -hf unsloth/SmolLM2-135M-Instruct-GGUF:Q4_1 --jinja --port PORT -ngl 99 --no-context-shift -np 2 "
    "--no-mmap -ctk q8_0 -ctv q8_0 --min-p 0.01 --reasoning-format auto --metrics",
    "llama-cli -hf unsloth/SmolLM2-135M-Instruct-GGUF:Q4_1 --jinja --color -ngl 99 -fa -sm row --temp 0.6 --top-k 20 "
    "--top-p 0.95 --min-p 0 --presence-penalty 1.5 -c 4096 -n 48 --no-context-shift -st "
    "-p 'What is the capital of France?'",
    "llama-cli -m MODEL --threads 2 --ctx-size 2048 --n-gpu-layers 99 --seed 3407 --prio 2 --temp 0.6 --top-p 0.95 "
    "-no-cnv -n 48 -p 'The capital of France is'",
    "vllm serve HuggingFaceTB/SmolLM2-135M-Instruct --enable-auto-tool-choice --tool-call-parser hermes "
    "--gpu-memory-utilization 0.95 --max-model-len 4096 --port PORT",
    "vllm serve MODEL --port PORT --host 127.0.0.1 --dtype bfloat16 --gpu-memory-utilization 0.85 --reasoning-parser qwen3 "
    "--served-model-name Qwen3-32B --max-model-len 2048",
    "ollama run hf.co/bartowski/SmolLM2-135M-Instruct-GGUF:Q4_1 'What is the capital of France?'",
    "whisper-cli -m WHISPER -f AUDIO -l en -t 2 -osrt -of OUT",
]


class Hub(http.server.BaseHTTPRequestHandler):
    """Hugging Face's interface over one file, which each repository has."""
    protocol_version = "HTTP/1.1"
    commit = "0123456789abcdef0123456789abcdef01234567"
    content, sha256 = b"", ""
    file = "SmolLM2-135M-Instruct-Q4_1.gguf"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = self.path.split("?")[0]
        if "/api/models/" in path and "/revision/" in path:
            return self.json({"sha": self.commit})
        if "/api/models/" in path and "/tree/" in path:
            lfs = {"oid": self.sha256, "size": len(self.content)}
            return self.json([{"type": "file", "path": self.file, "size": len(self.content), "oid": "0" * 40, "lfs": lfs}])
        if not path.endswith(self.file):
            self.send_response(404)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        first, last = 0, len(self.content) - 1
        wanted = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted:
            first, last = int(wanted[1]), min(last, int(wanted[2] or last))
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(self.content)}")
        self.send_header("ETag", f'"{self.sha256}"')
        self.send_header("X-Linked-ETag", f'"{self.sha256}"')
        self.send_header("X-Linked-Size", str(len(self.content)))
        self.send_header("X-Repo-Commit", self.commit)
        self.send_header("Content-Length", str(last + 1 - first))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(self.content[first:last + 1])

    def json(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Repo-Commit", self.commit)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def answer_of_server(process, port):
    """The text of a chat, once the server is there."""
    body = {"messages": [{"role": "user", "content": "What is the capital of France?"}], "max_tokens": 32}
    for _ in range(600):
        if process.poll() is not None:
            raise RuntimeError(f"the server ended: {process.stderr.read().decode()}")
        try:
            # 503 while the model is loaded
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60).close()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=60) as models:
                body["model"] = json.load(models)["data"][0]["id"]
            break
        except urllib.error.URLError:
            time.sleep(0.2)
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)["choices"][0]["message"]["content"], body["model"]


def main(pelton, models, recording):
    Hub.content = (models / "smollm2-135m-instruct-q4_1.gguf").read_bytes()
    Hub.sha256 = hashlib.sha256(Hub.content).hexdigest()
    hub = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=hub.serve_forever, daemon=True).start()
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}", "HF_HOME": f"{folder}/hf",
                                    "OLLAMA_MODELS": f"{folder}/ollama"}
        for line in LINES:
            program = next(name for name in PROGRAMS if line.startswith(name + " "))
            port, out = free_port(), f"{folder}/subtitles"
            known = {"MODEL": str(models / "smollm2-135m-instruct-q4_1.gguf"), "AUDIO": str(recording),
                     "WHISPER": str(models / "whisper-tiny.en.bin"), "PORT": str(port), "OUT": out}
            words = [known.get(word, word) for word in shlex.split(line[len(program):])]
            command = [pelton, *PROGRAMS[program], *words]
            process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            name = ""
            try:
                if PROGRAMS[program] == ["serve"]:
                    text, name = answer_of_server(process, port)
                else:
                    text, errors = (part.decode() for part in process.communicate(timeout=300))
                    if process.returncode != 0:
                        raise RuntimeError(errors)
                    if program == "whisper-cli":
                        text = Path(out + ".srt").read_text()
                if not re.search(r"\w{3}", text):
                    raise RuntimeError(f"the answer is {text!r}")
                print(f"ANSWERED {line}\n    {name} {text.strip()[:100]!r}", flush=True)
            except Exception as error:
                failures += 1
                print(f"FAILED {line}\n    {error}", flush=True)
            finally:
                process.kill()
                process.wait()
    print(f"{len(LINES) - failures} of {len(LINES)} lines answered")
    sys.exit(failures > 0)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
