"""Transcription with the demonstration model, whose samples have known texts."""

import json
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
