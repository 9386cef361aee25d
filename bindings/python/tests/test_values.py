"""Scores, logits and embeddings, compared with those that transformers computed."""

import gc
import math

import numpy as np
import pytest

import pelton


def log_softmax(logits):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


@pytest.fixture(scope="module")
def expected(fixtures):
    folder = fixtures / "llama3"
    ids, logits = np.load(folder / "ids.npy"), np.load(folder / "logits.npy").astype(np.float64)
    return ids.tolist(), logits


def test_logits(tiny, expected):
    ids, logits = expected
    each = tiny.logits(ids)
    assert each.shape == logits.shape and len(each) == len(ids)
    assert np.abs(np.asarray(each) - logits).max() < 1e-3
    last = tiny.logits(ids, last=True)
    assert last.shape == (logits.shape[1],)
    assert np.array_equal(np.asarray(last), np.asarray(each)[-1])


def test_scores(tiny, expected):
    ids, logits = expected
    table = log_softmax(logits)
    contexts, ends, sums = [], [], []
    for start, end in [(1, 2), (5, 40), (40, len(ids)), (1, len(ids))]:
        contexts.append(ids[:start])
        ends.append(ids[start:end])
        rows = table[start - 1 : end - 1]
        is_greedy = (rows.argmax(axis=1) == ids[start:end]).all()
        sums.append((rows[range(end - start), ids[start:end]].sum(), bool(is_greedy)))
    # a continuation that is greedy
    contexts.append(ids[:20])
    ends.append([int(logits[19].argmax())])
    sums.append((table[19].max(), True))
    scores = tiny.score(contexts, ends)
    for (score, is_greedy), (logprob, expects_greedy) in zip(scores, sums, strict=True):
        assert math.isclose(score, logprob, abs_tol=1e-3) and is_greedy is expects_greedy
    assert tiny.score(contexts[0], ends[0]) == scores[0]


def test_scores_of_texts(model):
    ids = model.tokenizer.encode("The cat sat on the mat.")
    context = len(model.tokenizer.encode("The cat sat"))
    by_ids = model.score(ids[:context], ids[context:])
    assert model.score("The cat sat", " on the mat.") == by_ids
    # a space at the end of the context belongs to the continuation
    assert model.score("The cat sat ", "on the mat.") == by_ids
    assert model.score("2 plus 3 is", " 5")[0] < 0


def test_scores_that_are_refused(model):
    for context, continuation in [([], [1]), ([1], []), ("The", [1])]:
        with pytest.raises(pelton.InvalidInputError, match="expected"):
            model.score(context, continuation)
    with pytest.raises(TypeError):
        model.score(["a", "b"], ["c"])


def test_embeddings(fixtures):
    folder = fixtures / "qwen3-embedding"
    embedder = pelton.load(folder / "model.gguf", device="cpu", threads=2, kv="f32")
    ids, lengths = np.load(folder / "ids.npy"), np.load(folder / "lengths.npy")
    expected = np.load(folder / "embedding.npy")
    texts = [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]
    found = np.asarray(embedder.embed(texts))
    assert found.shape == expected.shape and np.abs(found - expected).max() < 1e-3
    one = embedder.embed(texts[1])
    assert one.shape == (expected.shape[1],) and np.abs(np.asarray(one) - expected[1]).max() < 1e-3
    short = np.asarray(embedder.embed(texts, dimensions=8))
    cut = expected[:, :8] / np.linalg.norm(expected[:, :8], axis=1, keepdims=True)
    assert np.abs(short - cut).max() < 1e-3
    tokens = pelton.load(folder / "model.gguf", device="cpu", kv="f32", pooling="none")
    lists = tokens.embed(texts)
    assert [one.shape[0] for one in lists] == lengths.tolist()
    with pytest.raises(pelton.UnsupportedError):
        embedder.generate("a")


def test_a_generator_embeds_nothing(model):
    with pytest.raises(pelton.PeltonError, match="embeddings"):
        model.embed("a")


def test_buffers(tiny, expected):
    array = tiny.logits(expected[0][:9])
    view = memoryview(array)
    assert view.format == "f" and view.shape == array.shape and view.readonly and view.c_contiguous
    assert view.nbytes == array.nbytes == 4 * array.shape[0] * array.shape[1]
    values = np.asarray(array)
    assert not values.flags.writeable and values.dtype == np.float32
    assert values.tolist() == array.tolist() == [array[row].tolist() for row in range(9)]
    assert array[-1][0] == array.tolist()[8][0]
    for index in (9, -10):
        with pytest.raises(IndexError):
            array[index]
    # the memory lives as long as the view
    copy = values.copy()
    del array, view
    gc.collect()
    tiny.logits(expected[0])
    assert np.array_equal(values, copy)


def test_dlpack(tiny, expected):
    array = tiny.logits(expected[0][:9])
    assert array.__dlpack_device__() == (1, 0)
    values = np.from_dlpack(array)
    plain = np.asarray(array)
    assert np.array_equal(values, plain)
    assert np.shares_memory(values, plain) and not values.flags.writeable
    copied = np.from_dlpack(array, copy=True)
    assert np.array_equal(copied, plain) and not np.shares_memory(copied, plain)
    del array, plain
    gc.collect()
    assert values.sum() == copied.sum()


def test_dlpack_without_versions(tiny):
    """A consumer of the first DLPack, which may write, gets a copy."""
    array = tiny.logits([1, 2, 3])
    capsule = array.__dlpack__()
    assert '"dltensor"' in repr(capsule)
    # one that nobody consumes frees its memory
    del capsule
    assert '"dltensor_versioned"' in repr(array.__dlpack__(max_version=(1, 0)))
    with pytest.raises(BufferError, match="read-only"):
        array.__dlpack__(copy=False)
    with pytest.raises(BufferError, match="on the CPU"):
        array.__dlpack__(dl_device=(2, 0))


def test_dlpack_of_torch(tiny):
    torch = pytest.importorskip("torch")
    array = tiny.logits([1, 2, 3])
    assert torch.from_dlpack(array).tolist() == array.tolist()


@pytest.mark.parametrize("kind", ["<u2", ">u2", "<i4", ">i4", "<i8", ">i8"])
def test_arrays_of_token_ids(tiny, kind):
    ids = [1, 2, 100]
    array = np.array(ids, kind)
    expected = tiny.logits(ids).tolist()
    assert tiny.logits(array).tolist() == expected
    tokens = tiny.generate(ids, temperature=0, max_tokens=3).tokens
    assert tiny.generate(array, temperature=0, max_tokens=3).tokens == tokens
    both = tiny.generate([array, array[:2]], temperature=0, max_tokens=3)
    assert [one.tokens for one in both][0] == tokens
    with pytest.raises(TypeError, match="expected a text, a list of token ids"):
        tiny.generate(array.astype(kind[0] + "f4"))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_are_no_text(tiny, model, kind):
    text = kind(b"Hi")
    for call in (
        lambda: model.chat(text),
        lambda: model.chat([{"role": "user", "content": text}]),
        lambda: model.generate("a", stop=text),
        lambda: model.generate("a", json_schema=text),
        lambda: model.generate("a", regex=text),
        lambda: model.generate("a", prediction=text),
        lambda: model.embed(text),
        lambda: model.tokenizer.encode(text),
        lambda: tiny.generate(text),
        lambda: tiny.generate([text]),
        lambda: tiny.logits(text),
        lambda: tiny.score(text, [1]),
        lambda: model.tokenizer.decode(text),
    ):
        with pytest.raises(TypeError, match="bytes are decoded to a text first"):
            call()
