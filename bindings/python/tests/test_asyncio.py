"""Streams in asyncio."""

import asyncio
import gc
import os
import sys
import threading
import time

import pytest

import pelton

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
