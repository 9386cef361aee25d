"""A client of completions over plain sockets, and servers in processes of their own."""
import asyncio
import http.client
import json
import os
import platform
import signal
import socket
import subprocess
import time
from pathlib import Path


class Server:
    """A server on a port, stopped by a signal while others are measured."""

    def __init__(self, name, command, port):
        self.name, self.port = name, port
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            if self.process.poll() is not None:
                raise SystemExit(f"{name} has ended: {' '.join(command)}")
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise SystemExit(f"{name} does not answer")

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def own_threads(self):
        """CPU seconds and slices of the threads that serve connections, from schedstat (Linux)."""
        total = [0.0, 0]
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            if (task / "comm").read_text().startswith("tokio"):
                run, _, slices = (task / "schedstat").read_text().split()
                total = [total[0] + int(run) / 1e9, total[1] + int(slices)]
        return total

    def close(self):
        self.resume()
        self.process.kill()
        self.process.wait()


def stream_quietly(port, prompt, tokens, temperature=0.0):
    """Seconds from the request to its first token and to its end.

    After the first token the client sleeps until 32 KB or the end have come (SO_RCVLOWAT, Linux), so it takes no
    time from the server on machines with few cores.
    """
    body = json.dumps({
        "prompt": prompt, "max_tokens": tokens, "seed": 1, "stream": True, "ignore_eos": True,
        "temperature": temperature, "cache_prompt": False,
    })
    head = (f"POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n")
    with socket.create_connection(("127.0.0.1", port)) as connection:
        begun = time.perf_counter()
        connection.sendall((head + body).encode())
        text = b""
        while b'"text":' not in text:
            text += connection.recv(1 << 16)
        first = time.perf_counter()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 32 << 10)
        while piece := connection.recv(1 << 20):
            text += piece
        last = time.perf_counter()
    assert text.startswith(b"HTTP/1.1 200") and b"[DONE]" in text, text[:500]
    assert b'"finish_reason":"length"' in text, text[-500:]
    return first - begun, last - begun


async def stream(port, prompt, tokens, seed, temperature=1.0):
    """Seconds from the request to its first token and to its end, and the tokens after the first chunk.

    The body is read in large pieces and parsed after its end: a client that parses each token would
    take time from the server.
    """
    body = json.dumps({
        "prompt": prompt, "max_tokens": tokens, "seed": seed, "stream": True, "ignore_eos": True,
        "temperature": temperature, "top_k": 40, "top_p": 0.95, "cache_prompt": False,
    })
    head = (f"POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n")
    begun = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write((head + body).encode())
    await writer.drain()
    pieces, first, last = [], None, None
    while piece := await reader.read(1 << 16):
        now = time.perf_counter()
        pieces.append(piece)
        if b'"text":' in piece:
            first = first or now
            last = now
    writer.close()
    text = b"".join(pieces)
    assert text.startswith(b"HTTP/1.1 200") and b"[DONE]" in text, text[:500]
    assert b'"finish_reason":"length"' in text, text[-500:]
    return first - begun, last - begun


def prompt(length, seed):
    """Token ids of words, which differ by seed from the first on."""
    return [1] + [300 + (seed * 7919 + i * 104729) % 15000 for i in range(length - 1)]


def machine():
    """The CPU and the load of the machine."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        cpu = f"{names[0]}, {len(names)} CPUs"
    return {"cpu": cpu, "load": os.getloadavg()[0], "time": time.strftime("%Y-%m-%d %H:%M:%S")}
