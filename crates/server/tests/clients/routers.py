"""Two replicas behind a router of PyPI: requests while replicas are killed, and hits of shared prefixes.

usage: routers.py PELTON [REQUESTS] [ROUTER ...]
  PELTON    the program
  REQUESTS  in all, 1,000 by default
  ROUTER    vllm-router or sglang-router, by default both; a router that is not installed is skipped
"""
import concurrent.futures
import http.client
import importlib.util
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

MODULES = {"vllm-router": ("vllm_router", ["vllm_router.launch_router"]),
           "sglang-router": ("sglang_router", ["sglang_router.launch_router"])}
CLIENTS = 8
DOCUMENTS = 24


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def get(port, path, timeout=5):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=timeout) as answer:
        return answer.status, answer.read().decode()


def wait(port, path, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if get(port, path)[0] == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"port {port} has no {path} after {seconds} s")


class Replica:
    """A server of the built-in model that can be killed and started again on its port."""

    def __init__(self, program):
        self.command = [program, "serve", "--device", "cpu", "--threads", "1", "--parallel", "8", "--context", "512",
                        "--metrics-names", "vllm"]
        self.port = free_port()
        self.start()

    def start(self):
        command = [*self.command, "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait(self.port, "/health")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def metric(self, name):
        lines = get(self.port, "/metrics")[1].splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"vllm:{name}{{"))


class Router:
    """A router in front of replicas."""

    def __init__(self, name, replicas, policy):
        self.port = free_port()
        urls = [f"http://127.0.0.1:{replica.port}" for replica in replicas]
        command = [sys.executable, "-m", *MODULES[name][1], "--worker-urls", *urls, "--policy", policy, "--host", "127.0.0.1",
                   "--port", str(self.port), "--prometheus-port", str(free_port()), "--log-level", "error",
                   "--health-check-interval-secs", "1", "--health-success-threshold", "1",
                   # a replica that was started again gets requests soon, not after a minute
                   "--cb-timeout-duration-secs", "1", "--cb-success-threshold", "1"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait(self.port, "/health")

    def close(self):
        self.process.kill()
        self.process.wait()


def ask(port, number, rng):
    """Sends a request: even numbers as streams. Its text; an error if it did not end."""
    document = f"Document {rng.randrange(DOCUMENTS)}. " + "The quick brown fox jumps over the lazy dog. " * 16
    body = {"model": "built-in", "prompt": f"{document} Question {number}:", "max_tokens": rng.randint(1, 12),
            "temperature": 0, "ignore_eos": True, "stream": number % 2 == 0}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    if answer.status != 200:
        raise OSError(f"status {answer.status}: {text[:200]}")
    if body["stream"]:
        if not text.rstrip().endswith("data: [DONE]"):
            raise OSError("a stream without its end")
        events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
        if any("error" in event for event in events):
            raise OSError("a stream with an error")
        return "".join(event["choices"][0]["text"] for event in events if event["choices"])
    return json.loads(text)["choices"][0]["text"]


def run(router, replicas, count, kills):
    """Sends `count` requests from several clients, each again once if it fails. Every text must be that of a replica
    alone. Returns the requests that failed once and twice."""
    failed, lost, done = [], [], threading.Semaphore(0)

    def client(number):
        text = None
        for attempt in range(2):
            try:
                text = ask(router.port, number, random.Random(number))
                break
            except (OSError, http.client.HTTPException, ValueError) as error:
                (failed if attempt == 0 else lost).append((number, repr(error)))
                time.sleep(0 if attempt else 2)
        done.release()
        return number, text

    def killer():
        for at, victim in kills:
            while done._value < at:
                time.sleep(0.01)
            replicas[victim].kill()
            replicas[victim].start()
            # the router has seen that it is back
            time.sleep(4)

    thread = threading.Thread(target=killer)
    thread.start()
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        texts = dict(pool.map(client, range(count)))
    thread.join()
    for number in range(0, count, max(1, count // 20)):
        expected = ask(replicas[0].port, number, random.Random(number))
        if texts[number] is not None and texts[number] != expected:
            raise SystemExit(f"request {number} has another text behind the router: {texts[number]!r}, {expected!r}")
    return failed, lost


def hits(program, name, policy, count):
    """The fraction of prompt tokens that were found in a cache, with fresh replicas."""
    replicas = [Replica(program), Replica(program)]
    router = Router(name, replicas, policy)
    try:
        run(router, replicas, count, [])
        found, asked = (sum(replica.metric(f"prefix_cache_{kind}_total") for replica in replicas)
                        for kind in ("hits", "queries"))
        return found / asked
    finally:
        router.close()
        for replica in replicas:
            replica.kill()


def check(program, name, count):
    replicas = [Replica(program), Replica(program)]
    router = Router(name, replicas, "cache_aware")
    try:
        failed, lost = run(router, replicas, count, [(count // 4, 0), (count // 2, 1), (3 * count // 4, 0)])
    finally:
        router.close()
        for replica in replicas:
            replica.kill()
    print(f"{name}: {count} requests, three kills, {len(failed)} sent again, {len(lost)} lost", flush=True)
    if lost:
        raise SystemExit(f"{name} lost {lost[:3]}")
    figures = {policy: hits(program, name, policy, min(count, 200)) for policy in ("cache_aware", "round_robin")}
    print(f"{name}: prompt tokens found in a cache: " +
          ", ".join(f"{policy} {value:.0%}" for policy, value in figures.items()), flush=True)


def main():
    program, *rest = sys.argv[1:]
    count = int(rest.pop(0)) if rest and rest[0].isdigit() else 1000
    for name in rest or MODULES:
        if importlib.util.find_spec(MODULES[name][0]) is None:
            print(f"SKIPPED: {name} is not installed")
            continue
        check(os.path.abspath(program), name, count)
    print("all checks passed")


if __name__ == "__main__":
    main()
