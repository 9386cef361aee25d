"""Transcription with the demonstration model, whose samples have known texts."""

import asyncio
import json
import re
import struct
import threading
import wave

import numpy as np
import pytest

import pelton
from conftest import ROOT

SAMPLES = ROOT / "models/speech/samples"


@pytest.fixture(scope="module")
def speech():
    return pelton.load_speech(device="cpu", threads=2)


@pytest.fixture(scope="module")
def texts():
    return {name: one["text"] for name, one in json.loads((SAMPLES / "texts.json").read_text()).items()}


def samples(path):
    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16000, 1, 1)
        return np.frombuffer(file.readframes(file.getnframes()), "u1").astype(np.float32) / 128 - 1


def test_paths_bytes_and_samples(speech, texts):
    for name, text in list(texts.items())[:3]:
        path = SAMPLES / name
        assert str(speech.transcribe(path)).strip() == text
        assert speech.transcribe(str(path)).text.strip() == text
        assert speech.transcribe(path.read_bytes()).text.strip() == text
        assert speech.transcribe(samples(path)).text.strip() == text


def test_segments(speech, texts):
    transcript = speech.transcribe(SAMPLES / "greek.wav", language="en")
    assert transcript.language == "en"
    (segment,) = transcript.segments
    assert segment.text.strip() == texts["greek.wav"] and 0 <= segment.start < segment.end < 5
    assert segment.words == [] and segment.no_speech_prob < 0.5 and segment.tokens
    assert transcript.to("srt").startswith("1\n00:00:0")
    assert json.loads(transcript.to("json"))["segments"][0]["text"] == segment.text
    assert "Segment(" in repr(segment) and "Transcript(" in repr(transcript)


def test_what_is_refused(speech, tmp_path):
    with pytest.raises(FileNotFoundError):
        speech.transcribe("nothing.wav")
    with pytest.raises(pelton.PeltonError):
        speech.transcribe(b"no audio at all")
    with pytest.raises(TypeError, match="audio is 5"):
        speech.transcribe(5)
    with pytest.raises(pelton.InvalidInputError, match="task"):
        speech.transcribe(SAMPLES / "call.wav", task="sing")
    with pytest.raises(pelton.InvalidInputError):
        speech.transcribe(SAMPLES / "call.wav", language="elvish")
    with pytest.raises(pelton.InvalidInputError, match="no format"):
        speech.transcribe(SAMPLES / "call.wav").to("pdf")
    # the demonstration names no heads that follow the audio
    with pytest.raises(pelton.UnsupportedError, match="times of words"):
        speech.transcribe(SAMPLES / "call.wav", words=True)
    with pytest.raises(pelton.PeltonError, match="speech"):
        pelton.load(ROOT / "models/speech/pelton-speech.gguf", device="cpu")


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """The demonstration with heads that follow the audio, which live audio needs."""
    data = (ROOT / "models/speech/pelton-speech.gguf").read_bytes()
    magic, version, tensors, keys = struct.unpack_from("<IIQQ", data)

    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    heads = [1, 0, 1, 1, 1, 2, 1, 3]
    added = text("whisper.alignment_heads") + struct.pack("<IIQ8i", 9, 5, len(heads), *heads)
    # the data of tensors stays at a multiple of the alignment
    empty = text("test.padding") + struct.pack("<I", 8)
    padding = -(len(added) + len(empty) + 8) % 4096
    added += empty + text(" " * padding)
    path = tmp_path_factory.mktemp("live") / "model.gguf"
    path.write_bytes(struct.pack("<IIQQ", magic, version, tensors, keys + 2) + added + data[24:])
    return pelton.load_speech(path, device="cpu", threads=2)


def test_live_audio(live, texts):
    heard = {}

    def listen(name):
        # a pause after the sentence
        audio = np.concatenate([samples(SAMPLES / name), np.zeros(16000, np.float32)])
        transcript = live.live(language="en", temperatures=[0.0], step=0.3)
        words = []
        for start in range(0, len(audio), 1600):
            words += transcript.push(audio[start : start + 1600])
        before = len(words)
        words += transcript.finish()
        assert transcript.pending == [] and transcript.language == "en"
        heard[name] = words, before

    # each has the model while it computes
    names = ["times.wav", "polish.wav", "greek.wav"]
    threads = [threading.Thread(target=listen, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(heard) == 3
    for name, (words, before) in heard.items():
        assert "".join(word.text for word in words).strip() == texts[name]
        # most of them come before the end of the audio
        assert before >= len(words) / 2, (before, words)
        ends = [time for word in words for time in (word.start, word.end)]
        assert ends == sorted(ends) and 0 <= ends[0] < ends[-1] < 10


def test_live_audio_in_asyncio(live, texts):
    """Pieces that are awaited give the words of `push`, and two listeners share a loop."""

    async def listen(name):
        audio = np.concatenate([samples(SAMPLES / name), np.zeros(16000, np.float32)])
        transcript = live.live(language="en", temperatures=[0.0], step=0.3)
        words = []
        for start in range(0, len(audio), 4800):
            words += await transcript.apush(audio[start : start + 4800])
        words += await transcript.afinish()
        with pytest.raises(pelton.InvalidInputError, match="finished"):
            await transcript.apush(np.zeros(10, np.float32))
        return "".join(word.text for word in words).strip()

    async def both(names):
        return await asyncio.gather(*map(listen, names))

    names = ["times.wav", "greek.wav"]
    assert asyncio.run(both(names)) == [texts[name] for name in names]


@pytest.mark.parametrize("kind", ["<f4", ">f4", ">f8", "<f2", "<i2", ">i2"])
def test_arrays_of_any_order_of_bytes(speech, texts, kind):
    audio = samples(SAMPLES / "polish.wav")
    values = audio * (32768 if kind[1] == "i" else 1)
    found = speech.transcribe(values.astype(kind), temperatures=[0.0])
    assert found.text.strip() == texts["polish.wav"]


def test_arrays_of_other_types_are_named(speech, live):
    for kind in ["<i4", ">u2", "<c8", "|i1"]:
        for call in (speech.transcribe, live.live(language="en").push):
            with pytest.raises(TypeError, match=re.escape(kind)):
                call(np.zeros(1000, kind))
    with pytest.raises(TypeError, match="2 dimensions"):
        speech.transcribe(np.zeros((2, 1000), ">f4"))


def test_what_live_audio_refuses(live, speech):
    transcript = live.live(language="en")
    with pytest.raises(TypeError, match="samples"):
        transcript.push([0.0, 1.0])
    with pytest.raises(TypeError, match="numbers"):
        transcript.push(np.array([0.0, np.nan], np.float32))
    with pytest.raises(TypeError, match="samples"):
        transcript.push(np.zeros((2, 2), np.float32))
    assert transcript.push(np.zeros(10, np.float32)) == [] and transcript.language is None
    transcript.finish()
    for call in (lambda: transcript.push(np.zeros(10, np.float32)), transcript.finish):
        with pytest.raises(pelton.InvalidInputError, match="finished"):
            call()
    with pytest.raises(pelton.InvalidInputError, match="step"):
        live.live(step=0)
    # the demonstration names no heads that follow the audio
    with pytest.raises(pelton.UnsupportedError, match="times of words"):
        speech.live(language="en").push(samples(SAMPLES / "greek.wav"))
