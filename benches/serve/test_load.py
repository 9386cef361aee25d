#!/usr/bin/env python3
"""Tests of the load benchmark: a server with known times, and arithmetic of known distributions.

usage: python3 -m unittest discover -s benches/serve
"""
import asyncio
import json
import statistics
import sys
import unittest
import xml.etree.ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import plot_load  # noqa: E402
from goodput import figures, quantile  # noqa: E402
from open_loop import run  # noqa: E402
from workloads import NAMES, Request, Session, Source  # noqa: E402


async def scripted(reader, writer):
    """Answers after the milliseconds that the first id of the prompt says, then a token each 20 ms; two ids mean
    an answer of 503."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(l.split(b":")[1]) for l in head.split(b"\r\n") if l.lower().startswith(b"content-length"))
    body = json.loads(await reader.readexactly(length))
    if len(body["prompt"]) == 2:
        writer.write(b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\n\r\n{}")
    else:
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n:\n\n")
        try:
            await asyncio.sleep(body["prompt"][0] / 1e3)
        except asyncio.CancelledError:
            return writer.close()
        for number in range(body["max_tokens"]):
            event = {"choices": [{"text": f"t{number}", "finish_reason": None}]}
            # a name in two writes is one token
            data = b"data: " + json.dumps(event).encode() + b"\n\n"
            cut = data.index(b'"text') + 3
            try:
                writer.write(data[:cut])
                await writer.drain()
                writer.write(data[cut:])
                await writer.drain()
            except ConnectionError:
                return
            await asyncio.sleep(0.02)
        usage = {"choices": [], "usage": {"completion_tokens": body["max_tokens"],
                                          "prompt_tokens_details": {"cached_tokens": 1}}}
        writer.write(b"data: " + json.dumps(usage).encode() + b"\n\ndata: [DONE]\n\n")
    writer.close()


def outcomes(sessions, drain=10.0):
    """What becomes of sessions at the scripted server."""
    async def main():
        server = await asyncio.start_server(scripted, "127.0.0.1", 0)
        async with server:
            return await run(server.sockets[0].getsockname()[:2], sessions, {}, drain)
    return asyncio.run(main())


class Client(unittest.TestCase):
    def test_times_of_a_server_with_known_times(self):
        sessions = [Session(0.0, [Request([100], 5, 1)]), Session(0.05, [Request([1500], 2, 2)]),
                    Session(0.0, [Request([0, 0], 5, 3)]), Session(0.0, [Request([100], 50, 4, abandon=3)]),
                    Session(0.0, [Request([5], 1, 5), Request([5], 1, 6)], [0.0, 0.2])]
        all, elapsed = outcomes(sessions)
        by = {(o.answer, o.status): o for o in all}
        self.assertEqual(sorted(o.status for o in all), ["abandoned", "done", "done", "done", "done", "failed"])
        first = by[5, "done"]
        # a busy machine may add to the times, nothing shortens them
        self.assertTrue(0.1 <= first.first < 1, first.first)
        self.assertTrue(0.02 <= first.token_time < 0.5, first.token_time)
        self.assertEqual((first.tokens, sum(n for _, n in first.events), first.cached), (5, 5, 1))
        self.assertTrue(1.5 <= by[2, "done"].first < 3)
        self.assertLess(by[50, "abandoned"].tokens, 50)
        self.assertGreater(elapsed, 1.55)
        result = figures(all, 1.0, elapsed, ttft=1.2, tbt=0.5)
        # the two short ones and the first; the second is late
        self.assertEqual((result["good_requests"], result["outcomes"]["failed"]), (3, 1))

    def test_requests_that_do_not_end_are_given_up(self):
        all, elapsed = outcomes([Session(0.0, [Request([20], 1, 1)]), Session(0.0, [Request([60_000], 1, 2)])], 0.5)
        self.assertEqual([o.status for o in all], ["done", "unfinished"])
        self.assertLess(elapsed, 10)
        result = figures(all, 1.0, elapsed, 5, 1)
        self.assertIsNone(result["first_token_seconds"]["p99"])
        self.assertEqual(result["good_requests"], 1)


class Workloads(unittest.TestCase):
    def test_arrivals_are_a_poisson_process(self):
        sessions = Source("chat", 1).arrivals(50, 400)
        waits = [b.at - a.at for a, b in zip(sessions, sessions[1:])]
        # mean and deviation of an exponential distribution are equal
        self.assertAlmostEqual(statistics.mean(waits), 0.02, delta=0.001)
        self.assertAlmostEqual(statistics.stdev(waits), 0.02, delta=0.001)

    def test_lengths_and_shared_prefixes(self):
        source = Source("retrieval", 1)
        requests = [r for s in source.arrivals(5, 20) for r in s.requests]
        lengths = [len(r.prompt) for r in requests]
        self.assertAlmostEqual(statistics.mean(lengths), 8000, delta=200)
        self.assertAlmostEqual(statistics.mean(r.shared / len(r.prompt) for r in requests), 0.7, delta=0.02)
        self.assertEqual(len({tuple(r.prompt[:r.shared]) for r in requests}), 4)
        for session in Source("agents", 1).arrivals(20, 20):
            for before, after in zip(session.requests, session.requests[1:]):
                self.assertEqual(before.prompt, after.prompt[:after.shared])
        self.assertEqual({name: Source(name, 7).session(0).requests[0].prompt[:3] for name in NAMES},
                         {name: Source(name, 7).session(0).requests[0].prompt[:3] for name in NAMES})


class Figures(unittest.TestCase):
    def test_quantiles_are_of_the_nearest_rank(self):
        # the worked example of the definition: ranks 1, 2, 2, 3 and 5 of five values
        values = [50, 15, 40, 20, 35]
        self.assertEqual([quantile(values, q) for q in (0.05, 0.3, 0.4, 0.5, 1)], [15, 20, 20, 35, 50])
        self.assertIsNone(quantile([], 0.5))

    def test_a_plot_is_an_svg_with_a_line_for_each_server(self):
        quantities = {"p50": 0.1, "p90": 0.2, "p99": None, "max": None, "count": 1}
        point = {"good_per_second": 1.0, "first_token_seconds": quantities, "longest_gap_seconds": quantities}
        points = [point | {"workload": "chat", "rate": rate, "server": server} for rate in (1, 2) for server in "ab"]
        root = xml.etree.ElementTree.fromstring(plot_load.draw({"points": points}))
        lines = [e for e in root if e.tag.endswith("polyline") and "stroke-dasharray" not in e.attrib]
        self.assertEqual(len(lines), 6)


if __name__ == "__main__":
    unittest.main()
