"""The texts of PyPI's llama-cpp-python on the same file, where prompts have one clear answer."""

import pytest

from conftest import ROOT

PATH = ROOT / "models/tiny/pelton-tiny.gguf"
GREEDY = {"temperature": 0, "max_tokens": 24}
QUESTIONS = [f"What is {a} plus {b}?" for a, b in [(2, 3), (7, 4), (9, 9), (1, 12)]] + [
    "What is 9 minus 4?",
    "What is the capital of France?",
    "What color is the sky?",
]


@pytest.fixture(scope="module")
def llama():
    llama_cpp = pytest.importorskip("llama_cpp")
    return llama_cpp.Llama(str(PATH), n_ctx=512, n_threads=2, verbose=False)


def test_chats(llama, model):
    for question in QUESTIONS:
        messages = [{"role": "user", "content": question}]
        theirs = llama.create_chat_completion(messages, **GREEDY)
        ours = model.chat(messages, **GREEDY)
        for answer in (theirs, ours):
            (choice,) = answer["choices"]
            assert choice["finish_reason"] == "stop"
        text = ours["choices"][0]["message"]["content"]
        assert text == theirs["choices"][0]["message"]["content"].strip(), question
        # both count the prompt of the same template
        assert ours["usage"]["prompt_tokens"] == theirs["usage"]["prompt_tokens"]


def test_streams_of_chats(llama, model):
    def joined(chunks):
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
        assert deltas[0]["role"] == "assistant"
        return "".join(delta.get("content") or "" for delta in deltas)

    messages = [{"role": "user", "content": QUESTIONS[0]}]
    theirs = joined(llama.create_chat_completion(messages, stream=True, **GREEDY))
    assert joined(model.chat(messages, stream=True, **GREEDY)) == theirs.strip()


def test_completions(llama, model):
    # after each of their tokens one next token has nearly all of the probability
    for prompt in ["Once upon a time", "The capital of France is"]:
        theirs = llama.create_completion(prompt, temperature=0, max_tokens=8)
        assert model.generate(prompt, temperature=0, max_tokens=8).text == theirs["choices"][0]["text"]


def test_tokens(llama, model):
    for text in ["Once upon a time, 12 cats", "Grüße, 世界 🙂", "a  b\n\n c\t"]:
        theirs = llama.tokenize(text.encode(), add_bos=True, special=True)
        assert model.tokenizer.encode(text) == theirs
        assert model.tokenizer.decode(theirs[1:]) == llama.detokenize(theirs[1:]).decode()
