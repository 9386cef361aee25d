"""A subscriber of KV events (PyPI pyzmq, msgpack) that knows from them alone what each prompt finds in the cache.

usage: kv_events_client.py URL EVENTS REPLAY REQUESTS
  URL       the server, whose only model is the built-in one and caches a few pages
  EVENTS    HOST:PORT of the events
  REPLAY    HOST:PORT of past events
  REQUESTS  in all

Random prompts share beginnings and evict each other's pages. After each request the subscriber has as many pages
as the server counts. Each prompt that is sent alone must find exactly what the subscriber expects.
"""
import concurrent.futures
import http.client
import json
import random
import sys
import time
import urllib.parse

import msgpack
import zmq

PAGE = 64
TOPIC = b"kv@pod-7@built-in"


class Tree:
    """The cached pages, as a router keeps them."""

    def __init__(self):
        self.ids = {}
        self.places = {}
        self.seen = set()
        self.stored = self.removed = self.cleared = 0
        # pages that were removed before the newest load, from which on the server counts
        self.before = 0

    def apply(self, event):
        kind, *fields = event
        if kind == "BlockStored":
            ids, parent, tokens, size, lora, medium, lora_name, extra = fields
            assert len(ids) == 1 and size == PAGE == len(tokens) and medium == "GPU", event
            assert lora is None and lora_name is None, event
            assert parent is None or parent in self.places, "a page after one that is not cached"
            assert extra is None or parent is None, event
            place = (parent, tuple(extra[0]) if extra else (), tuple(tokens))
            assert place not in self.ids and ids[0] not in self.places, "a page is stored twice"
            self.ids[place] = ids[0]
            self.places[ids[0]] = place
            self.seen.add(self.path(place))
            self.stored += 1
        elif kind == "BlockRemoved":
            (page,), medium = fields
            assert medium == "GPU"
            assert all(parent != page for parent, *_ in self.ids), "a page with pages after it is removed"
            del self.ids[self.places.pop(page)]
            self.removed += 1
        else:
            assert kind == "AllBlocksCleared" and not fields, event
            self.ids.clear()
            self.places.clear()
            self.cleared += 1
            self.before = self.removed

    def path(self, place):
        parent, extra, tokens = place
        while parent is not None:
            parent, extra, before = self.places[parent]
            tokens = before + tokens
        return extra, tokens

    def hit(self, salt, tokens):
        """Tokens of a prompt that are cached: whole pages, and never the last token."""
        parent, extra, found = None, (salt,) if salt else (), 0
        while found + PAGE < len(tokens):
            parent = self.ids.get((parent, extra, tuple(tokens[found:found + PAGE])))
            if parent is None:
                break
            extra, found = (), found + PAGE
        return found


class Subscriber:
    """Receives events in order. Missed ones are asked for again."""

    def __init__(self, events, replay):
        self.events, self.replay, self.next, self.asked = events, replay, 0, 0
        self.tree = Tree()
        self.context = zmq.Context()
        self.connect()

    def connect(self):
        self.socket = self.context.socket(zmq.SUB)
        self.socket.setsockopt(zmq.HEARTBEAT_IVL, 200)
        self.socket.connect(f"tcp://{self.events}")
        self.socket.setsockopt(zmq.SUBSCRIBE, b"kv@")
        self.socket.setsockopt(zmq.SUBSCRIBE, b"other")

    def disconnect(self):
        self.socket.close(0)

    def batch(self, sequence, payload):
        when, events, rank = msgpack.unpackb(payload)
        assert abs(when - time.time()) < 600 and rank is None
        assert sequence == self.next, (sequence, self.next)
        self.next += 1
        for event in events:
            self.tree.apply(event)

    def ask(self):
        """Applies all past events from the next one on."""
        self.asked += 1
        socket = self.context.socket(zmq.DEALER)
        socket.connect(f"tcp://{self.replay}")
        socket.send_multipart([b"", self.next.to_bytes(8, "big")])
        while True:
            assert socket.poll(10_000), "no past events come"
            empty, sequence, payload = socket.recv_multipart()
            assert empty == b""
            if sequence == b"\xff" * 8:
                assert payload == b""
                break
            self.batch(int.from_bytes(sequence, "big"), payload)
        socket.close(0)

    def receive(self, wait=0):
        """Applies what has come. Whether anything has."""
        any_came = False
        while self.socket.poll(wait):
            topic, sequence, payload = self.socket.recv_multipart()
            assert topic == TOPIC, topic
            sequence = int.from_bytes(sequence, "big")
            if sequence > self.next:
                self.ask()
            if sequence == self.next:
                self.batch(sequence, payload)
            any_came, wait = True, 0
        return any_came


class Server:
    def __init__(self, url):
        self.netloc = urllib.parse.urlsplit(url).netloc

    def send(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.netloc, timeout=60)
        connection.request(method, path, body and json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        assert answer.status == 200, text
        return text

    def complete(self, salt, tokens, answer=1):
        """Completes a prompt. The tokens of it that were cached."""
        body = {"model": "built-in", "prompt": tokens, "max_tokens": answer, "temperature": 0, "ignore_eos": True}
        if salt:
            body["cache_salt"] = salt
        usage = json.loads(self.send("POST", "/v1/completions", body))["usage"]
        return usage["prompt_tokens_details"]["cached_tokens"]

    def pages(self):
        """Pages that are cached, and that were evicted."""
        values = dict(line.rsplit(" ", 1) for line in self.send("GET", "/metrics").splitlines() if line[:1] != "#")
        label = '{model="built-in"}'
        return int(values["pelton_cached_pages" + label]), int(values["pelton_page_evictions_total" + label])


def settle(server, subscriber, asks=False):
    """Waits until the subscriber has as many pages as the server. `asks` lets it ask for past events."""
    tree, end = subscriber.tree, time.monotonic() + 10
    while True:
        if asks:
            subscriber.ask()
        subscriber.receive(20)
        cached, evicted = server.pages()
        if (len(tree.ids), tree.removed - tree.before) == (cached, evicted):
            return
        assert time.monotonic() < end, f"{len(tree.ids)} pages, {tree.removed} removed; {cached} and {evicted}"


def prompts(rng):
    """Random prompts with a salt each: beginnings that many share, and ends."""
    documents = [[rng.randrange(300, 3900) for _ in range(6 * PAGE)] for _ in range(12)]
    while True:
        document = rng.choice(documents)[:rng.randrange(6 * PAGE)]
        own = [rng.randrange(300, 3900) for _ in range(rng.randrange(1, 100))]
        yield rng.choice(["", "", "a", "b"]), document + own


def main():
    url, events, replay, count = *sys.argv[1:4], int(sys.argv[4])
    server, subscriber, rng = Server(url), Subscriber(events, replay), random.Random(11)
    tree, source = subscriber.tree, prompts(rng)
    # the load was before the subscription
    subscriber.ask()
    assert tree.cleared == 1 and not tree.ids
    sent = found = 0
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        while sent < count:
            if rng.random() < 0.2:
                # several at the same time, of which the order is not known
                batch = [next(source) for _ in range(4)]
                list(pool.map(lambda one: server.complete(*one, answer=20), batch))
                sent += len(batch)
                settle(server, subscriber)
            else:
                salt, tokens = next(source)
                expected = tree.hit(salt, tokens)
                hit = server.complete(salt, tokens, rng.randrange(1, 80))
                assert hit == expected, f"a prompt has found {hit} tokens, the subscriber expected {expected}"
                sent, found = sent + 1, found + hit
                settle(server, subscriber)
            if count // 2 <= sent < count // 2 + 4:
                # away for a while
                subscriber.disconnect()
                for _ in range(20):
                    server.complete(*next(source))
                    sent += 1
                subscriber.connect()
                # the newest events can come before its subscription holds
                settle(server, subscriber, asks=True)
    assert found > 0 and tree.removed > count // 10, (found, tree.removed)
    # every prefix that was ever cached, as a prompt
    probes = rng.sample(sorted(tree.seen), min(len(tree.seen), count))
    for extra, tokens in probes:
        salt, prompt = "".join(extra), [*tokens, 299]
        expected = tree.hit(salt, prompt)
        hit = server.complete(salt, prompt)
        assert hit == expected, f"a prompt has found {hit} tokens, the subscriber expected {expected}"
        settle(server, subscriber)
    stored, removed = tree.stored, tree.removed
    server.send("POST", "/models/unload", {"model": "built-in"})
    end = time.monotonic() + 10
    while tree.cleared < 2 and time.monotonic() < end:
        subscriber.receive(20)
    assert tree.cleared == 2 and not tree.ids
    assert server.complete("", [300] * 70) == 0
    settle(server, subscriber)
    assert tree.cleared == 3 and len(tree.ids) == 1
    print(f"{sent} requests, {len(probes)} probes, {stored} pages stored, {removed} removed, "
          f"{subscriber.next} messages, {subscriber.asked} times past ones")
    print("all checks passed")


if __name__ == "__main__":
    main()
