"""Transcribe the samples with OpenAI's code and the weights of a GGUF file.

    python verify.py pelton-speech.gguf results.json

`whisper.transcribe` runs with its own rules and this model's vocabulary.  Its texts must equal
those of `evaluate.py` in results.json.
"""

import argparse
import json
import pathlib
import sys

import gguf
import tiktoken
import tokens
import torch
import whisper
from evaluate import loaded
from whisper.tokenizer import Tokenizer


def fields(reader):
    def number(name):
        return reader.fields[f"whisper.{name}"].contents()

    return whisper.ModelDimensions(
        n_mels=number("encoder.mels_count"),
        n_audio_ctx=number("encoder.context_length"),
        n_audio_state=number("encoder.embedding_length"),
        n_audio_head=number("encoder.attention.head_count"),
        n_audio_layer=number("encoder.block_count"),
        n_vocab=len(reader.fields["tokenizer.ggml.tokens"].data),
        n_text_ctx=number("decoder.context_length"),
        n_text_state=number("decoder.embedding_length"),
        n_text_head=number("decoder.attention.head_count"),
        n_text_layer=number("decoder.block_count"),
    )


def model_of(path):
    reader = gguf.GGUFReader(path)
    model = whisper.model.Whisper(fields(reader))
    weights = {
        tensor.name: torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type)).float()
        for tensor in reader.tensors
    }
    missing, unknown = model.load_state_dict(weights, strict=False)
    if unknown or missing != ["encoder.positional_embedding"]:
        raise SystemExit(f"the file lacks {missing} and has unknown tensors {unknown}")
    return model.eval()


def vocabulary(ranks):
    texts = tokens.Tokenizer(ranks).texts
    encoding = tiktoken.Encoding(
        "speech",
        pat_str=r" ?[A-Za-z]+| ?[^\sA-Za-z]+|\s+",
        mergeable_ranks={text: rank for rank, text in enumerate(texts)},
        special_tokens={name: tokens.END + i for i, name in enumerate(tokens.SPECIALS)},
    )
    return Tokenizer(encoding, num_languages=1, language="en", task="transcribe")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("results", type=pathlib.Path)
    args = parser.parse_args()
    tokenizer = vocabulary(tokens.default_ranks())
    for module in ["whisper.decoding", "whisper.transcribe"]:
        sys.modules[module].get_tokenizer = lambda *_, **__: tokenizer
    model = model_of(args.file)
    expected = json.loads(args.results.read_text())["samples"]
    folder = pathlib.Path(__file__).parent / "samples"
    wrong = 0
    for name, texts in expected.items():
        found = model.transcribe(loaded(folder / name), language="en", fp16=False)
        times = [(round(s["start"], 2), round(s["end"], 2)) for s in found["segments"]]
        print(f"{name}: {found['text']!r} {times}", flush=True)
        wrong += found["text"] != texts[1]
    if wrong:
        raise SystemExit(f"{wrong} texts differ from {args.results}")


if __name__ == "__main__":
    main()
