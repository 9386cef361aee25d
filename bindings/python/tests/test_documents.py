"""The examples of documents run as they are."""

import re

import pelton
import pytest

from conftest import ROOT


def blocks(path):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / path).read_text(), re.M | re.S)


def run(code, monkeypatch):
    monkeypatch.chdir(ROOT)
    # `pelton.load()` without a device would take a GPU
    code = code.replace('pelton.load()', 'pelton.load(device="cpu")')
    exec(compile(code, "<document>", "exec"), {})


def test_the_page_of_the_package(monkeypatch, capsys):
    (block,) = blocks("bindings/python/README.md")
    run(block.replace("pelton.load()  ", 'pelton.load(device="cpu")  '), monkeypatch)
    assert "5" in capsys.readouterr().out


def test_the_document(monkeypatch, capsys):
    first, awaited, speech, *_ = blocks("docs/python.md")
    run(first, monkeypatch)
    assert "5" in capsys.readouterr().out
    run(awaited.replace("aload()", 'aload(device="cpu")'), monkeypatch)
    out = capsys.readouterr().out
    assert "5" in out and "11" in out
    run("import pelton\n" + speech, monkeypatch)
    assert "Robert learned Greek in Oslo." in capsys.readouterr().out


def test_the_page_for_users_of_llama_cpp_python(model, monkeypatch, capsys):
    path = "docs/coming-from-llama-cpp-python.md"
    (block,) = blocks(path)
    run(block, monkeypatch)
    assert "5" in capsys.readouterr().out
    text = (ROOT / path).read_text()
    for owner, name in [(pelton, "pelton"), (model, "model"), (model.tokenizer, r"model\.tokenizer")]:
        names = set(re.findall(rf"\b{name}\.(\w+)", text))
        names -= {"gguf"}
        assert names and all(hasattr(owner, name) for name in names), names


@pytest.mark.parametrize("package", ["langchain_core", "llama_index.core"])
def test_classes_of_other_libraries(package, monkeypatch, capsys):
    pytest.importorskip(package)
    (block,) = [block for block in blocks("docs/python.md") if f"from {package}" in block]
    run(block, monkeypatch)
    answer, chunks = capsys.readouterr().out.split("\n", 1)
    assert "5" in answer and answer.strip() == chunks.strip()
