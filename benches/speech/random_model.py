#!/usr/bin/env python3
"""Write a Whisper model of a published shape with random weights, as a ggml file of whisper.cpp.

Speed depends on the shape and on the types of the matrices, not on the values. The text is noise.
The vocabulary has the size and the special tokens of the published one; its texts are pairs of bytes.

usage: random_model.py FOLDER NAME...
  FOLDER  where to write NAME.bin
  NAME    tiny, base, small, medium, large-v3 or turbo
needs: pip install numpy
"""
import struct
import sys
from pathlib import Path

import numpy as np

# width, layers of the encoder, layers of the decoder, mels, vocabulary
SHAPES = {
    "tiny": (384, 4, 4, 80, 51865),
    "base": (512, 6, 6, 80, 51865),
    "small": (768, 12, 12, 80, 51865),
    "medium": (1024, 24, 24, 80, 51865),
    "large-v3": (1280, 32, 32, 128, 51866),
    "turbo": (1280, 32, 4, 128, 51866),
}
POSITIONS, CONTEXT, HEAD, BINS, TEXTS = 1500, 448, 64, 201, 50257


def tensors(width, encoder, decoder, mels, vocab):
    """Name and shape of each tensor, outermost dimension first."""
    yield "encoder.positional_embedding", (POSITIONS, width)
    yield "encoder.conv1.weight", (width, mels, 3)
    yield "encoder.conv1.bias", (width, 1)
    yield "encoder.conv2.weight", (width, width, 3)
    yield "encoder.conv2.bias", (width, 1)
    for stack, layers in (("encoder", encoder), ("decoder", decoder)):
        for i in range(layers):
            block = f"{stack}.blocks.{i}"
            for attention in ["attn"] + ["cross_attn"] * (stack == "decoder"):
                for part in ("weight", "bias"):
                    yield f"{block}.{attention}_ln.{part}", (width,)
                for linear in ("query", "key", "value", "out"):
                    yield f"{block}.{attention}.{linear}.weight", (width, width)
                    if linear != "key":
                        yield f"{block}.{attention}.{linear}.bias", (width,)
            for part in ("weight", "bias"):
                yield f"{block}.mlp_ln.{part}", (width,)
            yield f"{block}.mlp.0.weight", (4 * width, width)
            yield f"{block}.mlp.0.bias", (4 * width,)
            yield f"{block}.mlp.2.weight", (width, 4 * width)
            yield f"{block}.mlp.2.bias", (width,)
    for part in ("weight", "bias"):
        yield f"encoder.ln_post.{part}", (width,)
    yield "decoder.positional_embedding", (CONTEXT, width)
    yield "decoder.token_embedding.weight", (vocab, width)
    for part in ("weight", "bias"):
        yield f"decoder.ln.{part}", (width,)


def filters(mels):
    """The filters from a spectrum to Slaney's mel scale, which readers check."""
    per_log = 27 / np.log(6.4)
    edges = np.linspace(0, 15 + np.log(8) * per_log, mels + 2)
    edges = np.where(edges < 15, edges * 200 / 3, 1000 * np.exp((edges - 15) / per_log))
    bins = np.linspace(0, 8000, BINS)[None]
    low, peak, high = (edges[i:mels + i, None] for i in range(3))
    rising, falling = (bins - low) / (peak - low), (high - bins) / (high - peak)
    return np.maximum(np.minimum(rising, falling), 0) * 2 / (high - low)


def values(rng, name, shape):
    """Matrices keep the scale of what they multiply; the logits spread so that some token is clearly best."""
    if name.endswith("_ln.weight") or name.endswith(("ln.weight", "ln_post.weight")):
        return np.ones(shape, np.float32)
    if len(shape) == 1 or shape[-1] == 1:
        return np.zeros(shape, np.float32)
    deviation = {"encoder.positional_embedding": 1.0, "decoder.positional_embedding": 0.1,
                 "decoder.token_embedding.weight": 0.1}.get(name, np.prod(shape[1:]) ** -0.5)
    return rng.standard_normal(shape, dtype=np.float32) * np.float32(deviation)


def write(path, name):
    width, encoder, decoder, mels, vocab = SHAPES[name]
    rng = np.random.default_rng(1)
    texts = [bytes([i]) for i in range(256)]
    texts += [bytes([i >> 8, i & 255]) for i in range(TEXTS - 1 - 256)] + [b""]
    with open(path, "wb") as file:
        file.write(struct.pack("<12i", 0x67676D6C, vocab, POSITIONS, width, width // HEAD, encoder, CONTEXT,
                               width, width // HEAD, decoder, mels, 1))
        file.write(struct.pack("<2i", mels, BINS))
        file.write(filters(mels).astype(np.float32).tobytes())
        file.write(struct.pack("<i", len(texts)))
        for text in texts:
            file.write(struct.pack("<I", len(text)) + text)
        for tensor, shape in tensors(width, encoder, decoder, mels, vocab):
            halves = len(shape) > 1 and shape[-1] > 1 and "positional" not in tensor
            kind = np.float16 if halves else np.float32
            head = struct.pack("<3i", len(shape), len(tensor), int(halves))
            file.write(head + struct.pack(f"<{len(shape)}i", *reversed(shape)) + tensor.encode())
            file.write(values(rng, tensor, shape).astype(kind).tobytes())


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    for name in sys.argv[2:]:
        write(folder / f"{name}.bin", name)
        print(folder / f"{name}.bin", flush=True)


if __name__ == "__main__":
    main()
