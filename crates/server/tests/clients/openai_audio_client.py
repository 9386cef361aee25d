"""The client of OpenAI sends the samples of a folder to the server whose address is the first argument."""

import json
import pathlib
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
folder = pathlib.Path(sys.argv[2])
texts = {name: of["text"] for name, of in json.loads((folder / "texts.json").read_text()).items()}


def heard(name, **more):
    with open(folder / name, "rb") as file:
        return client.audio.transcriptions.create(**(dict(model="whisper-1", file=file) | more))


for name, text in texts.items():
    assert heard(name).text == text, name
name, text = next(iter(texts.items()))
found = heard(name)
assert found.usage.type == "duration" and found.usage.seconds > 0.5, found
assert heard(name, response_format="text") == text + "\n"
assert text in heard(name, response_format="srt") and " --> " in heard(name, response_format="srt")
assert heard(name, response_format="vtt").startswith("WEBVTT")

verbose = heard(name, response_format="verbose_json", timestamp_granularities=["segment"], temperature=0)
assert verbose.text == text and verbose.language == "english" and verbose.duration > 0.5, verbose
segment = verbose.segments[0]
assert segment.id == 0 and segment.seek == 0 and segment.end > segment.start, segment
assert segment.text.strip() == text and len(segment.tokens) > 3, segment
assert segment.avg_logprob < 0 < segment.compression_ratio and 0 <= segment.no_speech_prob <= 1, segment

for more in [
    dict(language="en", prompt="Hello.", temperature=0.0),
    dict(chunking_strategy="auto"),
    dict(chunking_strategy={"type": "server_vad", "threshold": 0.4, "silence_duration_ms": 300}),
]:
    events = list(heard(name, stream=True, **more))
    assert events[-1].type == "transcript.text.done" and events[-1].text, events
    deltas = [event.delta for event in events if event.type == "transcript.text.delta"]
    assert "".join(deltas) == events[-1].text and len(deltas) == len(events) - 1, events
assert "".join(deltas) == text, deltas

with open(folder / name, "rb") as file:
    assert client.audio.translations.create(model="whisper-1", file=file).text == text

for wrong, status in [
    (dict(language="klingon"), 400),
    (dict(model="built-in"), 400),
    (dict(file=("x.wav", b"no audio")), 400),
    (dict(response_format="verbose_json", timestamp_granularities=["word"]), 400),
]:
    try:
        heard(name, **wrong)
        raise AssertionError(wrong)
    except openai.APIStatusError as error:
        assert error.status_code == status and error.message, (wrong, error)

print("all checks passed")
