"""Signals, kills and forks, in processes of their own."""

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no POSIX signals")

START = "import pelton, sys, time\nmodel = pelton.load(device='cpu', threads=2)\n"


def start(code):
    program = subprocess.Popen(
        [sys.executable, "-c", START + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert program.stdout.readline().strip() == "ready", program.stderr.read()
    return program


LONG = "ignore_eos=True, max_tokens=1000"
WAITS = {
    "generate": f"model.generate(['The cat'] * 200, {LONG})",
    "stream": f"[list(model.stream('The cat', {LONG})) for _ in range(200)]",
    "chat": f"[model.chat('Hello', {LONG}) for _ in range(200)]",
    "score": "model.score([[1] * 900] * 500, [[2] * 100] * 500)",
    "asyncio": (
        "import asyncio\n    async def main():\n"
        f"        async for _ in model.astream('The cat', {LONG}): pass\n"
        "    [asyncio.run(main()) for _ in range(200)]"
    ),
}


@pytest.mark.parametrize("name", WAITS)
def test_ctrl_c(name):
    program = start(
        "print('ready', flush=True)\ntry:\n    " + WAITS[name] + "\n"
        "except KeyboardInterrupt:\n"
        "    print(model.generate('The dog', max_tokens=2, temperature=0).finish_reason)\n"
    )
    time.sleep(0.5)
    assert program.poll() is None, program.stderr.read()
    program.send_signal(signal.SIGINT)
    # a wait looks for signals every 50 ms; the rest is the next request and the end of the process
    output, errors = program.communicate(timeout=30)
    assert (output, program.returncode) == ("length\n", 0), errors


def test_ctrl_c_is_quick():
    """The time from the signal to the handler, measured by the process itself."""
    program = start(
        "import os, signal, threading\n"
        "def press():\n"
        "    global pressed\n"
        "    time.sleep(0.3)\n"
        "    pressed = time.monotonic()\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=press).start()\n"
        "print('ready', flush=True)\n"
        "try:\n"
        f"    model.generate(['The cat'] * 200, {LONG})\n"
        "except KeyboardInterrupt:\n"
        "    print(time.monotonic() - pressed)\n"
    )
    output, errors = program.communicate(timeout=60)
    # 50 ms, and what a loaded machine adds
    assert float(output) < 0.5, errors


def test_a_kill_leaves_nothing_behind(tmp_path):
    program = start(f"print('ready', flush=True)\nmodel.generate(['The cat'] * 200, {LONG})")
    program.send_signal(signal.SIGKILL)
    assert program.wait(10) == -signal.SIGKILL
    # another process loads and runs the same model at once
    code = START + "print(model.generate('The cat', max_tokens=2, temperature=0).finish_reason)"
    again = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert again.stdout == "length\n", again.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork():
    code = START + """
import os, warnings
warnings.simplefilter("ignore")
expected = model.generate("The cat", max_tokens=8, temperature=0).text
stream = model.stream("The cat", max_tokens=50, ignore_eos=True)
next(stream)
tokenizer = model.tokenizer
child = os.fork()
if child == 0:
    calls = [
        lambda: model.generate("The cat", max_tokens=2),
        lambda: model.stream("The cat"),
        lambda: model.chat("Hello"),
        lambda: model.score("The", " cat"),
        lambda: model.logits([1]),
        lambda: model.embed("a"),
        lambda: next(stream),
        lambda: tokenizer.encode("a"),
        lambda: repr(model),
    ]
    refused = 0
    for call in calls:
        try:
            call()
        except pelton.ForkedError as error:
            assert "is its child" in str(error), error
            refused += 1
    # the copies are dropped without a wait for threads that are not there
    del model, stream, tokenizer, calls, call
    # a load in the child works
    own = pelton.load(device="cpu", threads=2)
    assert own.generate("The cat", max_tokens=8, temperature=0).text == expected
    print(refused, flush=True)
    sys.exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert len(list(stream)) == 49
print(model.generate("The cat", max_tokens=8, temperature=0).text == expected)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.stdout == "9\nTrue\n", run.stderr


def test_an_exit_with_requests_that_run():
    code = START + "stream = model.stream('The cat', ignore_eos=True)\nnext(stream)\n"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")


def test_multiprocessing_spawn():
    code = """
import multiprocessing, pelton
def work(prompt):
    return pelton.load(device="cpu", threads=1).generate(prompt, max_tokens=4, temperature=0).text
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        texts = pool.map(work, ["The cat", "The cat"])
    print(texts[0] == texts[1] != "")
"""
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(code)
        file.flush()
        run = subprocess.run([sys.executable, file.name], capture_output=True, text=True, timeout=120)
    assert run.stdout == "True\n", run.stderr
