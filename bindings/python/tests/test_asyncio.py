"""Streams and awaitable calls in asyncio."""

import asyncio
import gc
import os
import sys
import threading
import time

import numpy as np
import pytest

import pelton
from conftest import ROOT

GREEDY = {"temperature": 0, "max_tokens": 24}


def test_32_streams(model):
    prompts = [f"The {animal} went" for animal in ("cat", "dog", "fox", "bird")] * 8
    expected = {prompt: model.generate(prompt, **GREEDY).text for prompt in set(prompts)}

    async def read(prompt):
        return "".join([token.text async for token in model.astream(prompt, **GREEDY)])

    async def main():
        return await asyncio.gather(*map(read, prompts))

    assert asyncio.run(main()) == [expected[prompt] for prompt in prompts]


def test_the_loop_goes_on(model):
    """Other tasks run while a stream waits, and between its tokens."""

    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(tick())
        at_tokens = []
        async for _ in model.astream("The cat", ignore_eos=True, max_tokens=40, temperature=0):
            at_tokens.append(ticks)
        task.cancel()
        return at_tokens

    at_tokens = asyncio.run(main())
    assert len(at_tokens) == 40 and at_tokens[-1] > at_tokens[0]


def test_chats_too(model):
    async def main():
        stream = model.chat("What is 2 plus 3?", stream=True, **GREEDY)
        return [chunk async for chunk in stream]

    chunks = asyncio.run(main())
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert "5" in text and chunks[-1]["choices"][0]["finish_reason"] == "stop"


def test_a_task_that_is_cancelled(model):
    async def main():
        seen = []

        async def read():
            async with model.astream("The cat", ignore_eos=True) as stream:
                async for token in stream:
                    seen.append(token)

        task = asyncio.create_task(read())
        while len(seen) < 3:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    # its place in the model is free soon
    begun = time.monotonic()
    model.generate(["The dog"] * 16, temperature=0, max_tokens=2)
    assert time.monotonic() - begun < 30


def test_errors_come_after_the_tokens(model):
    async def main():
        seen = 0
        with pytest.raises(pelton.TimedOutError):
            async for _ in model.astream("The cat", ignore_eos=True, timeout=0.2):
                seen += 1
        return seen

    asyncio.run(main())
    with pytest.raises(TypeError, match="astream"):
        model.astream("The cat", warmth=1)


def test_a_loop_that_was_closed(model):
    """The wakes of a stream whose loop is gone hurt nobody."""

    async def begin():
        stream = model.astream("The cat", ignore_eos=True, max_tokens=60)
        await anext(stream)
        return stream

    stream = asyncio.run(begin())
    assert len(model.generate("The dog", **GREEDY).tokens) == 24
    del stream


@pytest.mark.skipif(sys.platform == "linux", reason="every loop of Linux watches files")
def test_a_loop_that_watches_no_sockets(model):
    """As that of Windows."""

    class Loop(asyncio.SelectorEventLoop):
        def add_reader(self, *_):
            raise NotImplementedError

    async def read(prompt):
        return "".join([token.text async for token in model.astream(prompt, **GREEDY)])

    async def main():
        return await asyncio.gather(*map(read, ["The cat", "The dog"]))

    expected = [model.generate(prompt, **GREEDY).text for prompt in ("The cat", "The dog")]
    with asyncio.Runner(loop_factory=Loop) as runner:
        assert runner.run(main()) == expected
        assert runner.run(main()) == expected


def test_loops_of_several_threads(model):
    expected = model.generate("The cat", **GREEDY).text
    texts = []

    def work():
        async def read():
            return "".join([token.text async for token in model.astream("The cat", **GREEDY)])

        for _ in range(3):
            texts.append(asyncio.run(read()))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == [expected] * 24


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="there is no /proc")
def test_a_loop_leaves_no_file_open(model):
    async def read():
        return [token.id async for token in model.astream("The cat", temperature=0, max_tokens=2)]

    def files():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    asyncio.run(read())
    before = files()
    for _ in range(20):
        asyncio.run(read())
    assert files() <= before


def test_awaited_calls_are_the_others(model, fixtures):
    ids = model.tokenizer.encode("The cat sat on the mat.")
    path = ROOT / "models/speech/samples/greek.wav"

    async def main():
        encoder = await pelton.aload(fixtures / "bert/model.gguf", device="cpu", kv="f32")
        reranker = await pelton.aload(fixtures / "bert-reranker", device="cpu", kv="f32")
        speech = await pelton.aload_speech(device="cpu", threads=2)
        pairs = [
            (await model.agenerate("The cat", **GREEDY), model.generate("The cat", **GREEDY)),
            (await model.achat("Hi", **GREEDY), model.chat("Hi", **GREEDY)),
            (await model.ascore(ids[:3], ids[3:]), model.score(ids[:3], ids[3:])),
            (await model.alogits(ids, last=True), model.logits(ids, last=True)),
            (await encoder.aembed([5, 6]), encoder.embed([5, 6])),
            (await reranker.arerank("abc", ["b", "a"]), reranker.rerank("abc", ["b", "a"])),
            (await speech.atranscribe(path), speech.transcribe(path)),
        ]
        stream = await model.achat("Hi", stream=True, **GREEDY)
        chunks = [chunk async for chunk in stream]
        return pairs, chunks

    def plain(value):
        if isinstance(value, pelton.Array):
            return value.tolist()
        if isinstance(value, dict):
            return value["choices"][0]["message"]
        return getattr(value, "text", value)

    pairs, chunks = asyncio.run(main())
    for awaited, other in pairs:
        assert type(awaited) is type(other) and plain(awaited) == plain(other)
    text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)
    assert text == plain(pairs[1][0])["content"]


def test_64_calls_at_once(model):
    prompts = [f"The {animal} went" for animal in ("cat", "dog", "fox", "bird")]
    expected = [model.generate(prompt, **GREEDY).text for prompt in prompts]

    async def main():
        return await asyncio.gather(*(model.agenerate(one, **GREEDY) for one in prompts * 16))

    assert [one.text for one in asyncio.run(main())] == expected * 16


def test_a_timer_goes_on_during_a_call(model):
    async def main():
        times = [time.monotonic()]

        async def tick():
            while True:
                await asyncio.sleep(0.001)
                times.append(time.monotonic())

        timer = asyncio.create_task(tick())
        await model.agenerate("The cat", ignore_eos=True, max_tokens=400, temperature=0)
        timer.cancel()
        return times

    times = asyncio.run(main())
    longest = max(np.diff(times))
    # a loop that is blocked wakes once, after all of the call
    assert longest < (times[-1] - times[0]) / 3


def seconds(call):
    begun = time.monotonic()
    call()
    return time.monotonic() - begun


async def cancelled(call):
    """A call whose task is cancelled while it runs."""
    task = asyncio.create_task(call)
    await asyncio.sleep(0.1)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_call_frees_its_place():
    one = pelton.load(device="cpu", threads=2, max_concurrent=1)
    long = {"ignore_eos": True, "max_tokens": 900, "temperature": 0}
    whole = seconds(lambda: one.generate("The cat", **long))
    for call in (one.agenerate, one.achat):
        asyncio.run(cancelled(call("The cat", **long)))
        after = seconds(lambda: one.generate("The dog", max_tokens=1))
        assert after < whole / 2, (after, whole)
    prompts = [f"The {number}" for number in range(16)]
    asyncio.run(cancelled(one.agenerate(prompts, **long)))
    assert seconds(lambda: one.generate("The dog", max_tokens=1)) < whole / 2


def test_a_cancelled_transcription_ends():
    speech = pelton.load_speech(device="cpu", threads=2)
    noise = np.random.default_rng(1).normal(scale=0.1, size=16_000 * 480).astype(np.float32)
    whole = seconds(lambda: speech.transcribe(noise, temperatures=[0.0]))
    path = ROOT / "models/speech/samples/greek.wav"
    alone = seconds(lambda: speech.transcribe(path))
    asyncio.run(cancelled(speech.atranscribe(noise, temperatures=[0.0])))
    assert seconds(lambda: speech.transcribe(path)) < alone + whole / 2


def test_a_call_that_takes_too_long(model):
    async def main():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(model.agenerate("The cat", ignore_eos=True), 0.1)

    asyncio.run(main())
    ends = time.monotonic() + 5
    while any(thread.name == "pelton-call" for thread in threading.enumerate()):
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_errors_of_awaited_calls(model):
    async def main():
        with pytest.raises(TypeError, match="warmth"):
            await model.agenerate("The cat", warmth=1)
        with pytest.raises(pelton.TimedOutError):
            await model.agenerate("The cat", ignore_eos=True, timeout=0.1)
        with pytest.raises(FileNotFoundError):
            await pelton.aload("nothing.gguf")

    asyncio.run(main())
