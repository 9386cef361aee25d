#!/usr/bin/env python3
"""Write Whisper models of real shapes with random weights, for pelton, whisper.cpp and faster-whisper.

FOLDER gets for each SIZE (tiny, base, small) the same weights as ggml-SIZE.bin (F16), as
ggml-SIZE-q8_0.bin, and as ct2-SIZE, CTranslate2's directory with int8 weights.

Every window gets text of the same length in all three. The position that a token has in the decoder
dominates its logits, so the text does not repeat itself, and from position TOKENS on the end of the
text is certain. Timestamps and other special tokens have logits of 0, below those of text.

usage: models.py FOLDER [--tokens N] [SIZE...]
needs: pip install numpy faster-whisper
"""
import argparse
import itertools
import json
import string
import struct
from pathlib import Path

import numpy as np

SIZES = {"tiny": (384, 4), "base": (512, 6), "small": (768, 12)}
MELS, POSITIONS, CONTEXT, VOCAB, EOT = 80, 1500, 448, 51865, 50257
LANGUAGES = 99
# of a logit, over the vocabulary: the likeliest token is nearly certain
DEVIATION = 20.0


def texts():
    """50,257 tokens: bytes in the order of GPT-2, then pairs and triples of letters; the last is empty."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    tokens = [bytes([b]) for b in printable + [b for b in range(256) if b not in printable]]
    letters = string.ascii_letters + " "
    for length in (2, 3):
        tokens += ["".join(word).encode() for word in itertools.product(letters, repeat=length)]
    return tokens[: EOT - 1] + [b""]


def specials():
    languages = ["en", *(f"l{i}" for i in range(1, LANGUAGES))]
    names = ["endoftext", "startoftranscript", *languages, "translate", "transcribe", "startoflm",
             "startofprev", "nospeech", "notimestamps"]
    return [f"<|{n}|>" for n in names] + [f"<|{i * 0.02:.2f}|>" for i in range(1501)]


def mel_filters():
    """Triangles between 82 frequencies of Slaney's scale, of equal areas."""
    def hertz(mel):
        return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))
    edges = hertz(np.linspace(0, 45.245640471924965, MELS + 2))
    bins = np.linspace(0, 8000, 201)
    rise = (bins[None] - edges[:-2, None]) / np.diff(edges)[:-1, None]
    fall = (edges[2:, None] - bins[None]) / np.diff(edges)[1:, None]
    height = 2 / (edges[2:] - edges[:-2])
    return np.maximum(0, np.minimum(rise, fall)) * height[:, None]


def weights(width, layers, tokens, rng):
    """The tensors of a model, by OpenAI's names."""
    def matrix(*shape, deviation=None):
        fan_in = int(np.prod(shape[1:]))
        return rng.standard_normal(shape, np.float32) * np.float32(deviation or fan_in**-0.5)

    def norm(name):
        return {f"{name}.weight": np.ones(width, np.float32), f"{name}.bias": matrix(width, deviation=0.02)}

    def attention(name):
        w = {f"{name}.{part}.weight": matrix(width, width) for part in ("query", "key", "value", "out")}
        return w | {f"{name}.{p}.bias": matrix(width, deviation=0.02) for p in ("query", "value", "out")}

    t = np.arange(POSITIONS)[:, None] * np.exp(-np.arange(width // 2) * np.log(1e4) / (width / 2 - 1))
    w = {"encoder.positional_embedding": np.concatenate([np.sin(t), np.cos(t)], 1)}
    w |= {"encoder.conv1.weight": matrix(width, MELS, 3), "encoder.conv1.bias": matrix(width, deviation=0.02),
          "encoder.conv2.weight": matrix(width, width, 3), "encoder.conv2.bias": matrix(width, deviation=0.02)}
    for stack in ("encoder", "decoder"):
        for i in range(layers):
            block = f"{stack}.blocks.{i}"
            for part in ["attn"] + ["cross_attn"] * (stack == "decoder"):
                w |= attention(f"{block}.{part}") | norm(f"{block}.{part}_ln")
            w |= norm(f"{block}.mlp_ln")
            for name, rows, cols in (("mlp.0", 4 * width, width), ("mlp.2", width, 4 * width)):
                w[f"{block}.{name}.weight"] = matrix(rows, cols)
                w[f"{block}.{name}.bias"] = matrix(rows, deviation=0.02)
    w |= norm("encoder.ln_post") | norm("decoder.ln")
    embedding = matrix(VOCAB, width, deviation=DEVIATION * width**-0.5)
    embedding[:, 0] = 0
    embedding[EOT:] = 0
    embedding[EOT, 0] = 1.5 * DEVIATION
    # ten times a token's embedding, or the text would repeat one token
    position = matrix(CONTEXT, width, deviation=10 * DEVIATION * width**-0.5)
    position[:tokens, 0] = -100.0
    position[tokens:, 0] = 1000.0
    w["decoder.token_embedding.weight"] = embedding
    w["decoder.positional_embedding"] = position
    return {name: np.ascontiguousarray(x, np.float32) for name, x in w.items()}


def q8_0(x):
    blocks = x.reshape(-1, 32)
    scale = (np.abs(blocks).max(1) / 127).astype(np.float16)
    inverse = np.divide(1, scale, out=np.zeros(len(scale), np.float32), where=scale > 0, dtype=np.float32)
    codes = np.rint(blocks * inverse[:, None]).clip(-127, 127).astype(np.int8)
    return np.concatenate([scale.view(np.uint8).reshape(-1, 2), codes.view(np.uint8)], 1).tobytes()


def write_ggml(path, tensors, width, layers, quantized):
    heads = width // 64
    with open(path, "wb") as f:
        f.write(struct.pack("<I11i", 0x67676D6C, VOCAB, POSITIONS, width, heads, layers, CONTEXT, width, heads,
                            layers, MELS, 2007 if quantized else 1))
        f.write(struct.pack("<2i", MELS, 201) + mel_filters().astype("<f4").tobytes())
        f.write(struct.pack("<i", EOT))
        for token in texts():
            f.write(struct.pack("<I", len(token)) + token)
        for name, x in tensors.items():
            if "conv" in name and name.endswith("bias"):
                x = x.reshape(-1, 1)
            kept = x.ndim < 2 or "positional" in name or name.endswith("bias")
            kind = 0 if kept else 8 if quantized and x.ndim == 2 else 1
            f.write(struct.pack("<3i", x.ndim, len(name), kind))
            f.write(struct.pack(f"<{x.ndim}i", *reversed(x.shape)) + name.encode())
            f.write({0: lambda: x.tobytes(), 1: lambda: x.astype("<f2").tobytes(), 8: lambda: q8_0(x)}[kind]())


def write_ct2(folder, w, width, layers):
    import tokenizers
    from ctranslate2.specs.whisper_spec import WhisperSpec

    def norm(spec, name):
        spec.gamma, spec.beta = w[f"{name}.weight"], w[f"{name}.bias"]

    def linear(spec, *names):
        spec.weight = np.concatenate([w[f"{n}.weight"] for n in names])
        spec.bias = np.concatenate([w.get(f"{n}.bias", np.zeros(width, np.float32)) for n in names])

    def block(spec, name):
        parts = [f"{name}.attn.{p}" for p in ("query", "key", "value")]
        linear(spec.self_attention.linear[0], *parts)
        linear(spec.self_attention.linear[1], f"{name}.attn.out")
        norm(spec.self_attention.layer_norm, f"{name}.attn_ln")
        linear(spec.ffn.linear_0, f"{name}.mlp.0")
        linear(spec.ffn.linear_1, f"{name}.mlp.2")
        norm(spec.ffn.layer_norm, f"{name}.mlp_ln")

    spec = WhisperSpec(layers, width // 64, layers, width // 64)
    for part in ("conv1", "conv2"):
        conv = getattr(spec.encoder, part)
        conv.weight, conv.bias = w[f"encoder.{part}.weight"], w[f"encoder.{part}.bias"]
    spec.encoder.position_encodings.encodings = w["encoder.positional_embedding"]
    spec.decoder.position_encodings.encodings = w["decoder.positional_embedding"]
    norm(spec.encoder.layer_norm, "encoder.ln_post")
    norm(spec.decoder.layer_norm, "decoder.ln")
    spec.decoder.embeddings.weight = w["decoder.token_embedding.weight"]
    spec.decoder.projection.weight = w["decoder.token_embedding.weight"]
    for i in range(layers):
        block(spec.encoder.layer[i], f"encoder.blocks.{i}")
        name = f"decoder.blocks.{i}"
        block(spec.decoder.layer[i], name)
        cross = spec.decoder.layer[i].attention
        norm(cross.layer_norm, f"{name}.cross_attn_ln")
        linear(cross.linear[0], f"{name}.cross_attn.query")
        linear(cross.linear[1], f"{name}.cross_attn.key", f"{name}.cross_attn.value")
        linear(cross.linear[2], f"{name}.cross_attn.out")
    # tokens as byte-level BPE writes them; the empty one needs a name
    characters = [*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 256 + 68)]
    letter = {token[0]: chr(c) for token, c in zip(texts(), characters)}
    tokens = ["".join(letter[b] for b in token) or "<|empty|>" for token in texts()] + specials()
    assert len(tokens) == VOCAB
    spec.register_vocabulary(tokens)
    spec.config.suppress_ids, spec.config.suppress_ids_begin = [], [220, EOT]
    spec.config.lang_ids = list(range(EOT + 2, EOT + 2 + LANGUAGES))
    spec.config.alignment_heads = [[layers - 1, 0]]
    spec.validate()
    spec.optimize(quantization="int8")
    folder.mkdir(exist_ok=True)
    spec.save(str(folder))
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({t: i for i, t in enumerate(tokens)}, []))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(specials())
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "preprocessor_config.json").write_text(json.dumps({
        "feature_size": MELS, "sampling_rate": 16000, "hop_length": 160, "chunk_length": 30, "n_fft": 400}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokens", type=int, default=104, help="position at which texts end")
    parser.add_argument("sizes", nargs="*", metavar="SIZE", help=f"of {', '.join(SIZES)}; all by default")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for size in args.sizes or SIZES:
        width, layers = SIZES[size]
        tensors = weights(width, layers, args.tokens, np.random.default_rng(1))
        write_ggml(args.folder / f"ggml-{size}.bin", tensors, width, layers, False)
        write_ggml(args.folder / f"ggml-{size}-q8_0.bin", tensors, width, layers, True)
        write_ct2(args.folder / f"ct2-{size}", tensors, width, layers)
        print(f"{size}: {sum(x.size for x in tensors.values()) / 1e6:.0f} million parameters")


if __name__ == "__main__":
    main()
