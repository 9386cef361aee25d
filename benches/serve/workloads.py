"""Requests of the load benchmark: when they arrive, how long their prompts and answers are, what they share.

Prompts are token ids, so that their lengths are exact for every server. Equal seeds give equal requests.
"""
import random
from dataclasses import dataclass, field

NAMES = ("chat", "retrieval", "agents")
# ids below are special tokens in most vocabularies
FIRST_ID = 300


@dataclass
class Request:
    """A request of `answer` tokens; the client goes away after `abandon` tokens if that is not None."""

    prompt: list
    answer: int
    seed: int
    abandon: int | None = None
    shared: int = 0


@dataclass
class Session:
    """Requests one after the other. The client pauses `pauses[i]` seconds before request `i`; the first
    arrives `at` seconds after the start of a run."""

    at: float
    requests: list
    pauses: list = field(default_factory=lambda: [0.0])


class Source:
    """Sessions of one workload. `scale` multiplies all lengths, and `vocab` is the number of token ids."""

    def __init__(self, name, seed, scale=1.0, vocab=4000, abandon=0.03):
        self.random = random.Random(f"{name} {seed}")
        self.name, self.scale, self.vocab, self.abandon = name, scale, vocab, abandon
        self.count = 0
        # documents that many requests share: retrieval asks about one of four
        self.documents = [self.ids(self.length(5600)) for _ in range(4)]
        # the system prompt and the tools of all agents
        self.tools = self.ids(self.length(1200))

    def length(self, tokens):
        return max(1, round(tokens * self.scale))

    def between(self, least, most):
        return self.length(self.random.uniform(least, most))

    def ids(self, count):
        first = min(FIRST_ID, self.vocab // 2)
        return [self.random.randrange(first, self.vocab) for _ in range(count)]

    def request(self, prompt, answer, shared=0):
        self.count += 1
        leaves = self.random.random() < self.abandon
        abandon = self.random.randrange(answer) if leaves else None
        return Request(prompt, answer, self.count, abandon, shared)

    def session(self, at):
        """The next session."""
        return getattr(self, self.name)(at)

    def chat(self, at):
        """Prompts of 50 to 600 tokens, answers of 50 to 250."""
        return Session(at, [self.request(self.ids(self.between(50, 600)), self.between(50, 250))])

    def retrieval(self, at):
        """Prompts of 8,000 tokens, of which 5,600 are one of four documents, and answers of 200."""
        document = self.random.choice(self.documents)
        own = self.ids(self.between(1600, 3200))
        return Session(at, [self.request(document + own, self.between(150, 250), len(document))])

    def agents(self, at):
        """Three to six turns on a growing prompt. A turn calls a tool in 20 to 80 tokens, whose result of 50
        to 500 tokens comes after 0.1 to 0.5 seconds; the last turn is an answer of 100 to 300."""
        turns = self.random.randint(3, 6)
        prompt, requests, pauses = self.tools + self.ids(self.between(50, 300)), [], []
        known = len(self.tools)
        for turn in range(turns):
            last = turn + 1 == turns
            answer = self.between(100, 300) if last else self.between(20, 80)
            requests.append(self.request(list(prompt), answer, known))
            pauses.append(self.random.uniform(0.1, 0.5) if turn else 0.0)
            known = len(prompt)
            # the call and its result, as the template renders them again
            prompt = prompt + self.ids(answer) + self.ids(self.between(50, 500))
        return Session(at, requests, pauses)

    def turns(self):
        """The mean number of requests of a session."""
        return 4.5 if self.name == "agents" else 1.0

    def arrivals(self, rate, seconds):
        """Sessions of `seconds` seconds with `rate` requests a second: a Poisson process of which the number is
        given, so that runs of one rate have the same load."""
        count = max(1, round(rate * seconds / self.turns()))
        return [self.session(at) for at in sorted(self.random.uniform(0, seconds) for _ in range(count))]
