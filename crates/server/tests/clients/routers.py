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
POLICIES = {"vllm-router": ("cache_aware", "kv_aware", "round_robin"), "sglang-router": ("cache_aware", "round_robin")}
CLIENTS = 16
DOCUMENTS = 24
# Requests a second, and the seconds between two ends of replicas: more than the minute after which the routers look again
# at a server that has failed.
RATE = 4
BETWEEN_ENDS = 75
# The pause before a failed request is sent again, as that of OpenAI's client.
PAUSE = 1


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
        self.events, self.replay = free_port(), free_port()
        self.command = [program, "serve", "--device", "cpu", "--threads", "1", "--parallel", "8", "--context", "512",
                        "--metrics-names", "vllm", "--kv-events", f"127.0.0.1:{self.events}",
                        "--kv-events-replay", f"127.0.0.1:{self.replay}"]
        self.port = free_port()
        self.start()

    def start(self):
        command = [*self.command, "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait(self.port, "/health")

    def end(self, by=signal.SIGKILL):
        self.process.send_signal(by)
        self.process.wait()

    def metric(self, name):
        lines = get(self.port, "/metrics")[1].splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"vllm:{name}{{"))


class Router:
    """A router in front of replicas, with its own default pauses and retries."""

    def __init__(self, name, replicas, policy):
        self.port = free_port()
        urls = [f"http://127.0.0.1:{replica.port}" for replica in replicas]
        command = [sys.executable, "-m", *MODULES[name][1], "--worker-urls", *urls, "--policy", policy, "--host", "127.0.0.1",
                   "--port", str(self.port), "--prometheus-port", str(free_port()), "--log-level", "error"]
        if policy == "kv_aware":
            # the router knows from events what each replica has cached
            command += ["--kv-event-block-size", "64", "--kv-event-model", "built-in"]
            for url, replica in zip(urls, replicas):
                command += ["--kv-event-source", f"{url}=tcp://127.0.0.1:{replica.events}",
                            "--kv-event-replay-source", f"{url}=tcp://127.0.0.1:{replica.replay}"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait(self.port, "/health")

    def close(self):
        self.process.kill()
        self.process.wait()


def ask(port, number, rng):
    """Sends a request: even numbers as streams. Its text; an error if it did not end."""
    document = f"Document {rng.randrange(DOCUMENTS)}. " + "The quick brown fox jumps over the lazy dog. " * 16
    body = {"model": "built-in", "prompt": f"{document} Question {number}:", "max_tokens": rng.randint(40, 120),
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


def run(router, replicas, count, rate, victims):
    """Sends `count` requests from several clients, `rate` a second, each again once if it fails. One replica after
    the other is ended and started again: killed, and then asked to end. Every text must be that of a replica alone.
    Returns the requests that failed once and twice."""
    failed, lost, begun = [], [], time.monotonic()

    def client(number):
        time.sleep(max(0, begun + number / rate - time.monotonic()))
        text = None
        for attempt in range(2):
            try:
                text = ask(router.port, number, random.Random(number))
                break
            except (OSError, http.client.HTTPException, ValueError) as error:
                (failed if attempt == 0 else lost).append((number, round(time.monotonic() - begun, 1), repr(error)))
                time.sleep(0 if attempt else PAUSE)
        return number, text

    def killer():
        for kill, victim in enumerate(victims):
            time.sleep(max(0, begun + 10 + kill * BETWEEN_ENDS - time.monotonic()))
            replicas[victim].end(signal.SIGKILL if kill % 2 == 0 else signal.SIGTERM)
            replicas[victim].start()

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
        run(router, replicas, count, 1000, [])
        found, asked = (sum(replica.metric(f"prefix_cache_{kind}_total") for replica in replicas)
                        for kind in ("hits", "queries"))
        return found / asked
    finally:
        router.close()
        for replica in replicas:
            replica.end()


def check(program, name, count):
    replicas = [Replica(program), Replica(program)]
    router = Router(name, replicas, "cache_aware")
    try:
        kills = 1 + int((count / RATE - 20) // BETWEEN_ENDS)
        failed, lost = run(router, replicas, count, RATE, [kill // 2 % 2 for kill in range(kills)])
    finally:
        router.close()
        for replica in replicas:
            replica.end()
    print(f"{name}: {count} requests, {kills} ends of replicas, {len(failed)} sent again, {len(lost)} lost", flush=True)
    if lost:
        raise SystemExit(f"{name} lost {lost[:3]}")
    figures = {policy: hits(program, name, policy, min(count, 200)) for policy in POLICIES[name]}
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
