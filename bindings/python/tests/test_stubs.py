"""The stubs, compared with the module and read by a type checker."""

import os
import pathlib
import subprocess
import sys
import typing

import pytest

import pelton
from conftest import ROOT

PACKAGE = pathlib.Path(pelton.__file__).parent


def run(*arguments, **keywords):
    environment = os.environ | {"MYPYPATH": str(PACKAGE.parent), "PYTHONPATH": str(PACKAGE.parent)}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, **keywords)


def test_stubs_are_those_of_the_module(tmp_path):
    pytest.importorskip("mypy")
    ignored = tmp_path / "ignored.txt"
    # before 3.12, Python shows no method for the buffer protocol
    ignored.write_text("pelton._pelton.__all__\npelton._pelton.Array.__buffer__\n")
    found = run(
        *("mypy.stubtest", "pelton._pelton", "--allowlist", str(ignored)),
        *("--ignore-unused-allowlist",),
        cwd=tmp_path,
    )
    assert found.returncode == 0, found.stdout + found.stderr


USE = '''
import pelton

model: pelton.Model = pelton.load(context=64)
text: str = model.generate("a", temperature=0.5, max_tokens=3).text
texts: list[str] = [one.text for one in model.generate(["a", "b"], json_schema={"type": "object"})]
ids: list[int] = model.generate([1, 2]).tokens
first: pelton.Token = next(model.stream("a"))
answer: dict[str, object] = model.chat([{"role": "user", "content": "a"}])
chunks: pelton.ChatStream = model.chat("a", stream=True)
score: tuple[float, bool] = model.score("a", "b")
shape: tuple[int, ...] = model.logits([1]).shape
best: list[int] = [one["index"] for one in model.rerank("a", ["b"], top_n=1)]

async def read() -> list[str]:
    other: pelton.Model = await pelton.aload(context=64)
    texts: list[str] = [one.text for one in await other.agenerate(["a"], max_tokens=3)]
    answer: dict[str, object] = await other.achat("a")
    return [token.text async for token in model.astream("a", stop=["b"])]
'''
MISUSE = '''
import pelton

pelton.load().generate("a", warmth=1)
pelton.load().generate("a", temperature="hot")
pelton.load(contexts=5)
pelton.aload(contexts=5)
'''


def test_a_type_checker_knows_the_package(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "use.py").write_text(USE)
    (tmp_path / "misuse.py").write_text(MISUSE)
    found = run("mypy", "--strict", "use.py", cwd=tmp_path)
    assert found.returncode == 0, found.stdout + found.stderr
    found = run("mypy", "--strict", "misuse.py", cwd=tmp_path)
    lines = {int(line.split(":")[1]) for line in found.stdout.splitlines() if ": error:" in line}
    assert lines == {4, 5, 6, 7}, found.stdout + found.stderr


def test_the_package_itself_is_typed():
    pytest.importorskip("mypy")
    files = [str(PACKAGE / name) for name in ("__init__.py", "_aio.py", "_errors.py")]
    found = run("mypy", "--strict", *files, cwd=PACKAGE.parent)
    assert found.returncode == 0, found.stdout + found.stderr


def test_all_options_of_a_load_are_typed():
    import re

    stub = (PACKAGE / "_pelton.pyi").read_text()
    body = stub[stub.index("class _LoadOptions") : stub.index("class _Options")]
    typed = re.findall(r"^    (\w+):", body, re.M)
    assert sorted(["context", *typed]) == sorted(pelton.LOAD_OPTIONS)


def test_all_options_are_typed():
    """The keyword arguments of the stub are the sampling options and those of the source."""
    import re

    stub = (PACKAGE / "_pelton.pyi").read_text()
    body = stub[stub.index("class _Options") : stub.index("@final")]
    typed = set(re.findall(r"^    (\w+):", body, re.M))
    source = (ROOT / "bindings/python/src/options.rs").read_text()
    names = set(re.findall(r'"(\w+)"', source[source.index("const NAMES") :].split("];")[0]))
    assert typed == names | set(pelton.SAMPLING_OPTIONS)
    assert len(names) > 15 and typing.TYPE_CHECKING is False
