"""Write the trained weights as GGUF, with OpenAI's names of tensors.

    python export.py DIR pelton-speech.gguf [--ranks multilingual.tiktoken]

Matrices are Q8_0, convolutions and the decoder's positions F16, vectors F32.  The encoder's
positions are sinusoids, which a reader computes.
"""

import argparse
import pathlib

import gguf
import model as whisper
import numpy as np
import tokens
import torch


def unicode_of_bytes():
    """GPT-2's printable character for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    table = {byte: chr(byte) for byte in plain}
    return table | {byte: chr(256 + i) for i, byte in enumerate(others)}


def write_shape(writer, shape):
    layers = {"encoder": shape.encoder_layers, "decoder": shape.decoder_layers}
    contexts = {"encoder": whisper.POSITIONS, "decoder": whisper.CONTEXT}
    for side, count in layers.items():
        writer.add_uint32(f"whisper.{side}.context_length", contexts[side])
        writer.add_uint32(f"whisper.{side}.embedding_length", shape.width)
        writer.add_uint32(f"whisper.{side}.block_count", count)
        writer.add_uint32(f"whisper.{side}.attention.head_count", shape.heads)
    writer.add_uint32("whisper.encoder.mels_count", whisper.MELS)


def write_tokens(writer, tokenizer):
    table = unicode_of_bytes()

    def shown(text):
        return "".join(table[byte] for byte in text)

    normal, control = gguf.TokenType.NORMAL, gguf.TokenType.CONTROL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*map(shown, tokenizer.texts), *tokens.SPECIALS])
    writer.add_token_types([normal] * tokens.TEXT_TOKENS + [control] * len(tokens.SPECIALS))
    writer.add_token_merges([f"{shown(a)} {shown(b)}" for a, b in tokenizer.merges()])
    writer.add_bos_token_id(tokens.START)
    writer.add_eos_token_id(tokens.END)
    writer.add_add_bos_token(False)


def write_weights(writer, weights):
    q8_0 = gguf.GGMLQuantizationType.Q8_0
    for name, weight in weights.items():
        array = weight.float().numpy()
        if name == "decoder.positional_embedding" or array.ndim == 3:
            writer.add_tensor(name, array.astype(np.float16))
        elif array.ndim == 2:
            writer.add_tensor(name, gguf.quants.quantize(array, q8_0), raw_dtype=q8_0)
        else:
            writer.add_tensor(name, array)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--ranks", type=pathlib.Path)
    args = parser.parse_args()
    weights = torch.load(args.dir / "weights.pt", weights_only=True)
    weights = {name: w for name, w in weights.items() if not name.startswith("ctc.")}
    writer = gguf.GGUFWriter(args.file, "whisper")
    writer.add_name("Pelton speech demonstration")
    writer.add_description("Recognizes synthetic speech of a closed English grammar, not people.")
    writer.add_license("MIT OR Apache-2.0")
    writer.add_languages(["en"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    write_shape(writer, whisper.Shape())
    write_tokens(writer, tokens.Tokenizer(args.ranks or tokens.default_ranks()))
    write_weights(writer, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{args.file}: {args.file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
