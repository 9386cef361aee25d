"""An open-loop client of completions: requests are sent when they are due, whether others were answered or not.

It reads plain sockets and parses a body after its end, because a client that parses each token takes time from a
server on the same machine.
"""
import asyncio
import json
import re
import time
from dataclasses import dataclass, field

TEXT = re.compile(rb'"text": ?"')
ERROR = re.compile(rb'data: ?\{"error"')


@dataclass
class Outcome:
    """What became of a request. Times are seconds after the moment at which it was due."""

    prompt: int
    shared: int
    answer: int
    status: str = "unfinished"
    sent: float = 0.0
    # the arrival of the events of tokens: (time, events in this read)
    events: list = field(default_factory=list)
    tokens: int = 0
    cached: int | None = None
    end: float | None = None
    detail: str = ""

    @property
    def first(self):
        return self.events[0][0] if self.events else None

    @property
    def token_time(self):
        """The mean time of a token after the first; None for fewer than two."""
        if self.tokens < 2 or len(self.events) < 2:
            return None
        return (self.events[-1][0] - self.events[0][0]) / (self.tokens - 1)

    @property
    def gaps(self):
        """Seconds between the reads that brought tokens."""
        return [after - before for (before, _), (after, _) in zip(self.events, self.events[1:])]


def head(host, port, body, key):
    lines = ["POST /v1/completions HTTP/1.1", f"host: {host}:{port}", "connection: close",
             "content-type: application/json", f"content-length: {len(body)}"]
    if key:
        lines.append(f"authorization: Bearer {key}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def body_of(request, options):
    return json.dumps({
        "prompt": request.prompt, "max_tokens": request.answer, "seed": request.seed, "stream": True,
        "stream_options": {"include_usage": True}, "ignore_eos": True, **options,
    }).encode()


def last_usage(text):
    """The last usage of a stream."""
    for line in reversed(text.split(b"\n")):
        if b'"usage"' in line and line.startswith(b"data: "):
            try:
                usage = json.loads(line[6:]).get("usage")
            except ValueError:
                continue
            if usage:
                return usage
    return {}


async def send(address, request, due, options, key=None):
    """Sends one request, which was due at `due` by the clock `perf_counter`."""
    outcome = Outcome(len(request.prompt), request.shared, request.answer)
    host, port = address
    text, writer = bytearray(), None
    try:
        outcome.sent = time.perf_counter() - due
        reader, writer = await asyncio.open_connection(host, port, limit=1 << 20)
        body = body_of(request, options)
        writer.write(head(host, port, body, key) + body)
        await writer.drain()
        seen = events = 0
        while piece := await reader.read(1 << 16):
            now = time.perf_counter() - due
            text += piece
            # a name that is cut is found with the next read
            found = [match.end() for match in TEXT.finditer(text, seen)]
            seen = found[-1] if found else max(seen, len(text) - 16)
            if found:
                outcome.events.append((now, len(found)))
                events += len(found)
            if request.abandon is not None and events >= max(1, request.abandon):
                outcome.status, outcome.tokens, outcome.end = "abandoned", events, now
                return outcome
    except OSError as error:
        outcome.status, outcome.detail = "failed", f"{type(error).__name__}: {error}"
        return outcome
    finally:
        if writer:
            writer.close()
    status = bytes(text[9:12]).decode(errors="replace")
    if status != "200" or ERROR.search(text) or b"[DONE]" not in text:
        outcome.status, outcome.detail = "failed", bytes(text[:300]).decode(errors="replace")
        return outcome
    usage = last_usage(text)
    outcome.tokens = usage.get("completion_tokens", events)
    outcome.cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    outcome.status, outcome.end = "done", time.perf_counter() - due
    return outcome


async def session(address, turns, start, options, key, outcomes):
    """Sends the requests of a session one after the other; the next is due a pause after the last one's end."""
    due = start + turns.at
    for number, (request, pause) in enumerate(zip(turns.requests, turns.pauses)):
        if number > 0:
            due = time.perf_counter() + pause
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        outcome = Outcome(len(request.prompt), request.shared, request.answer)
        outcomes.append(outcome)
        result = await send(address, request, due, options, key)
        outcome.__dict__.update(result.__dict__)
        if outcome.status in ("failed", "abandoned"):
            return


async def run(address, sessions, options, drain, key=None):
    """The outcomes of all requests, and the seconds from the start to the last answer. `drain` seconds after the
    last arrival the requests that still run are given up."""
    outcomes, start = [], time.perf_counter()
    tasks = [asyncio.create_task(session(address, s, start, options, key, outcomes)) for s in sessions]
    if tasks:
        last = max(s.at for s in sessions)
        _, pending = await asyncio.wait(tasks, timeout=last + drain)
        for task in pending:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result
    return outcomes, time.perf_counter() - start
