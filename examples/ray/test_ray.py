"""Two replicas on Ray Serve as clients see them: streams, kills, scaling, prefixes.

usage: test_ray.py PELTON
needs: the packages of tests/clients/ray.txt; two cores
"""
import concurrent.futures
import logging
import os
import random
import signal
import sys
import threading
import time

import openai
import ray
from ray import serve

from pelton_ray import Settings, app

PORT = 18777
CLIENTS = 6


def settings(**changes):
    program = os.path.abspath(sys.argv[1])
    return Settings(program=program, serve_args="--device cpu --threads 1 --context 512", num_cpus=0.5,
                    upscale_delay_s=1, downscale_delay_s=3, look_back_period_s=2, target_ongoing_requests=2,
                    **changes)


def deploy(**changes):
    serve.run(app(settings(**changes)), name="pelton", route_prefix="/")


def client():
    return openai.OpenAI(base_url=f"http://127.0.0.1:{PORT}/v1", api_key="-", max_retries=0, timeout=120)


def ask(api, text, tokens=12):
    """A completion, and the processes of its replica: the actor and the server."""
    answer = api.completions.with_raw_response.create(model="built-in", prompt=text, max_tokens=tokens, temperature=0,
                                                      extra_body={"ignore_eos": True})
    return answer.parse(), tuple(int(pid) for pid in answer.headers["x-pelton-pids"].split())


def text_of(number, words=60):
    rng = random.Random(number)
    return f"Document {number}. " + " ".join(rng.choice(["fox", "dog", "sky", "sea", "red", "old"]) for _ in range(words))


def running():
    status = serve.status().applications["pelton"].deployments["pelton"]
    return status.replica_states.get("RUNNING", 0)


def wait(what, ready, seconds=90):
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, f"{what}: not after {seconds} s"
        time.sleep(0.2)


class Load:
    """Clients that send requests one after the other, without retries, until the end."""

    def __init__(self, tokens=12):
        self.stop, self.failures, self.answers, self.tokens = threading.Event(), [], [], tokens
        self.threads = [threading.Thread(target=self.run, args=(n,)) for n in range(CLIENTS)]

    def run(self, number):
        api, rng = client(), random.Random(number)
        while not self.stop.is_set():
            try:
                answer, pids = ask(api, text_of(rng.randrange(10**9)), self.tokens)
                self.answers.append((pids, len(answer.choices[0].text)))
            except openai.OpenAIError as error:
                self.failures.append(repr(error))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()


def both_answer():
    with Load() as load:
        wait("two replicas answer", lambda: len({pids for pids, _ in load.answers}) == 2)
    assert not load.failures, load.failures[:3]
    print(f"both replicas answer: {len(load.answers)} requests")


def chunks_come_apart():
    times = [time.monotonic()]
    stream = client().completions.create(model="built-in", prompt="Once upon a time", max_tokens=400, stream=True,
                                         temperature=0, extra_body={"ignore_eos": True})
    times += [time.monotonic() for _ in stream]
    first, last = times[1] - times[0], times[-1] - times[0]
    apart = sum(b - a > 1e-4 for a, b in zip(times, times[1:]))
    # the server writes tokens together that come within 5 ms
    assert len(times) > 300 and apart >= last / 0.01 and first < last / 2, (len(times), first, last, apart)
    print(f"chunks come apart: {len(times) - 1} in {last:.2f} s, the first after {first:.2f} s")


def heals(which):
    """Kills a process of a replica: the actor of Ray (0) or its server (1)."""
    with Load() as load:
        wait("two replicas answer", lambda: len({pids for pids, _ in load.answers}) == 2)
        victim = load.answers[-1][0]
        before = len(load.answers)
        os.kill(victim[which], signal.SIGKILL)
        wait("another replica answers", lambda: {p for p, _ in load.answers[before:]} - {p for p, _ in load.answers[:before]})
    wait("two replicas run", lambda: running() == 2)
    name = ["actor", "server"][which]
    assert not load.failures, f"{len(load.failures)} of {len(load.answers)} failed: {load.failures[:3]}"
    print(f"kill -9 of the {name}: {len(load.answers) - before} requests until a new replica answered, 0 failed")


def scales():
    deploy(min_replicas=1, max_replicas=2)
    wait("one replica runs", lambda: running() == 1)
    with Load(tokens=200) as load:
        wait("two replicas run", lambda: running() == 2)
        wait("two replicas answer", lambda: len({pids for pids, _ in load.answers[-20:]}) == 2)
    wait("one replica runs", lambda: running() == 1)
    assert not load.failures, load.failures[:3]
    print(f"1, 2, 1 replicas: {len(load.answers)} requests, 0 failed")


def hits(by_prefix):
    serve.delete("pelton")
    deploy(min_replicas=2, max_replicas=2, by_prefix=by_prefix)
    wait("two replicas run", lambda: running() == 2)
    api, rng = client(), random.Random(1)

    def one(_):
        usage = ask(api, text_of(rng.randrange(24), 120) + f" Question {rng.randrange(1000)}:")[0].usage
        return usage.prompt_tokens_details.cached_tokens, usage.prompt_tokens

    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        results = list(pool.map(one, range(150)))
    return sum(hit for hit, _ in results) / sum(all for _, all in results)


def main():
    logging.getLogger("httpx").setLevel(logging.WARNING)
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False,
             runtime_env={"env_vars": {"PYTHONPATH": os.path.dirname(os.path.abspath(__file__))}})
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": PORT})
        deploy(min_replicas=2, max_replicas=2)
        wait("two replicas run", lambda: running() == 2)
        both_answer()
        chunks_come_apart()
        heals(0)
        heals(1)
        scales()
        print("prompt tokens found in a cache: " +
              ", ".join(f"{name} {hits(by):.0%}" for name, by in (("by prefix", True), ("by load", False))))
    finally:
        serve.shutdown()
        ray.shutdown()
    print("all checks passed")


if __name__ == "__main__":
    main()
