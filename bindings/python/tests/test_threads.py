"""Threads of Python that share a model."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pelton

GREEDY = {"temperature": 0, "max_tokens": 24}


def test_eight_threads_share_a_model(model):
    prompts = [f"The {animal} saw" for animal in ("cat", "dog", "fox", "bird")]
    expected = {prompt: model.generate(prompt, **GREEDY).text for prompt in prompts}
    pair = (model.tokenizer.encode("The cat"), model.tokenizer.encode(" sat", add_special=False))
    score = model.score(*pair)

    def work(number):
        for turn in range(6):
            prompt = prompts[(number + turn) % 4]
            if turn % 3 == 0:
                text = "".join(token.text for token in model.stream(prompt, **GREEDY))
            elif turn % 3 == 1:
                text = model.generate(prompt, **GREEDY).text
            else:
                assert model.score(*pair) == score
                text = expected[prompt]
            assert text == expected[prompt]
        return number

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == list(range(8))


def test_threads_share_a_stream(model):
    """Each token goes to one thread, and all threads see the end."""
    whole = model.generate("The cat", temperature=0, max_tokens=200, ignore_eos=True).tokens
    stream = model.stream("The cat", temperature=0, max_tokens=200, ignore_eos=True)
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda _: [token.id for token in stream], range(4)))
    assert sorted(sum(parts, [])) == sorted(whole)


def test_the_gil_is_free_while_a_thread_waits(model):
    """A thread that counts goes on counting while another one generates, and while one loads."""
    counts, stop = [], threading.Event()

    def count():
        number = 0
        while not stop.is_set():
            number += 1
            counts.append(number)
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        for call in (
            lambda: model.generate("The cat", ignore_eos=True, max_tokens=300, temperature=0),
            lambda: pelton.load(device="cpu"),
        ):
            before, begun = len(counts), time.monotonic()
            call()
            elapsed = time.monotonic() - begun
            # a sleep of a millisecond takes several on a busy machine
            assert len(counts) - before > elapsed * 1000 / 50
    finally:
        stop.set()
        thread.join()


def test_a_free_threaded_interpreter_keeps_its_gil_off():
    if not hasattr(sys, "_is_gil_enabled") or "free-threading" not in sys.version:
        import pytest

        pytest.skip("this is no free-threaded build of Python")
    assert not sys._is_gil_enabled()
