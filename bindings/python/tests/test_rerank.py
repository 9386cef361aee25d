"""Relevance of documents, compared with transformers and with the program."""

import json
import os
import pathlib
import subprocess

import numpy as np
import pytest

import pelton
from conftest import ROOT

QUERY, DOCUMENTS = "abc", ["cab bac", "b", "a", "b"]


@pytest.fixture(scope="module")
def reranker(fixtures):
    return pelton.load(fixtures / "bert-reranker", device="cpu", threads=2, kv="f32")


def test_scores_are_those_of_transformers(reranker, fixtures):
    expected = np.load(fixtures / "bert-reranker/pair.npy").reshape(-1)
    found = reranker.rerank(QUERY, DOCUMENTS[:2], raw_scores=True)
    assert [one["index"] for one in found] == np.argsort(-expected).tolist()
    for one in found:
        assert set(one) == {"index", "score"}
        assert abs(one["score"] - expected[one["index"]]) < 5e-4
    probabilities = {one["index"]: one["score"] for one in reranker.rerank(QUERY, DOCUMENTS[:2])}
    assert all(abs(probabilities[i] - 1 / (1 + np.exp(-x))) < 5e-4 for i, x in enumerate(expected))


def test_the_most_relevant_come_first(reranker):
    found = reranker.rerank(QUERY, DOCUMENTS, return_documents=True)
    scores = [one["score"] for one in found]
    assert scores == sorted(scores, reverse=True) and len(found) == 4
    assert [one["document"] for one in found] == [DOCUMENTS[one["index"]] for one in found]
    # equal documents keep their order
    order = [one["index"] for one in found]
    assert order.index(1) < order.index(3)
    assert reranker.rerank(QUERY, DOCUMENTS, top_n=2, return_documents=True) == found[:2]
    assert reranker.rerank(QUERY, tuple(DOCUMENTS), top_n=9, return_documents=True) == found
    assert reranker.rerank(QUERY, []) == []


def test_what_is_refused(reranker, model):
    for arguments, message in [
        ((b"abc", ["a"]), "query is b'abc', expected a text; bytes are decoded"),
        ((QUERY, "abc"), "documents is 'abc', expected a list of texts"),
        ((QUERY, [b"a"]), r"documents is \[b'a'\], expected a list of texts"),
    ]:
        with pytest.raises(TypeError, match=message):
            reranker.rerank(*arguments)
    with pytest.raises(TypeError, match="top_n is 0, expected an int from 1"):
        reranker.rerank(QUERY, DOCUMENTS, top_n=0)
    with pytest.raises(pelton.UnsupportedError, match="relevance"):
        model.rerank(QUERY, DOCUMENTS)


def test_the_program_gives_the_same(reranker, fixtures):
    folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    program = folder / "debug/pelton"
    if not program.is_file():
        pytest.skip("pelton is not built")
    found = subprocess.run(
        [program, "rerank", fixtures / "bert-reranker", QUERY, *DOCUMENTS, "--json", "--top", "3"]
        + ["--device", "cpu", "--kv", "f32"],
        capture_output=True,
        check=True,
    )
    theirs = [(one["index"], one["document"], np.float32(one["score"])) for one in json.loads(found.stdout)]
    ours = reranker.rerank(QUERY, DOCUMENTS, top_n=3, return_documents=True)
    assert theirs == [(one["index"], one["document"], np.float32(one["score"])) for one in ours]
