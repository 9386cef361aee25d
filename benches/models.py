#!/usr/bin/env python3
"""Write model files of real shapes with random weights for benchmarks.

The speed of a model depends on its shape and its format, not on the values of its weights. These
files need no download; the generated text is noise.

usage: models.py FOLDER NAME...
  FOLDER  where to write NAME.gguf
  NAME    SHAPE-TYPE, such as tinyllama-1.1b-Q4_0
needs: pip install gguf numpy
"""
import argparse
from pathlib import Path
from typing import NamedTuple

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type


class Experts(NamedTuple):
    """A mixture of experts in place of each feed-forward network."""
    count: int
    used: int
    ffn: int


class Shape(NamedTuple):
    """Hyper-parameters of published models."""
    arch: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied: bool
    theta: float
    context: int
    experts: Experts | None = None
    # further keys: numbers, or lists of whole ones
    keys: tuple = ()
    # control tokens of pictures
    marks: tuple = ()


SHAPES = {
    # ten times the built-in model
    "synthetic-70m": Shape("llama", 13, 640, 10, 5, 64, 1728, 16384, True, 1e4, 2048),
    # two layers of the next one, for checks of many tokens
    "smollm-2-layers": Shape("llama", 2, 576, 9, 3, 64, 1536, 8192, True, 1e4, 2048),
    "smollm-135m": Shape("llama", 30, 576, 9, 3, 64, 1536, 49152, True, 1e4, 2048),
    "qwen3-0.6b": Shape("qwen3", 28, 1024, 16, 8, 128, 3072, 151936, True, 1e6, 40960),
    "tinyllama-1.1b": Shape("llama", 22, 2048, 32, 4, 64, 5632, 32000, False, 1e4, 2048),
    "llama-3.2-1b": Shape("llama", 16, 2048, 32, 8, 64, 8192, 128256, True, 5e5, 131072),
    "llama-3.1-8b": Shape("llama", 32, 4096, 32, 8, 128, 14336, 128256, False, 5e5, 131072),
    "mistral-7b": Shape("llama", 32, 4096, 32, 8, 128, 14336, 32000, False, 1e4, 32768),
    # the first 8 of those 32 layers: files in F16 are large
    "mistral-8-layers": Shape("llama", 8, 4096, 32, 8, 128, 14336, 32000, False, 1e4, 32768),
    "qwen3-30b-a3b": Shape("qwen3moe", 48, 2048, 32, 4, 128, 6144, 151936, False, 1e6, 40960,
                           Experts(128, 8, 768)),
    # text models of towers (towers.py)
    "qwen2.5-vl-7b": Shape("qwen2vl", 28, 3584, 28, 4, 128, 18944, 152064, False, 1e6, 128000,
                           keys=(("rope.dimension_sections", [16, 24, 24, 0]),),
                           marks=("<|vision_start|>", "<|image_pad|>", "<|vision_end|>")),
    "gemma-3-4b": Shape("gemma3", 34, 2560, 8, 4, 256, 10240, 262208, True, 1e6, 131072,
                        keys=(("attention.sliding_window", 1024),),
                        marks=("<start_of_image>", "<end_of_image>")),
    "smolvlm-256m": Shape("llama", 30, 576, 9, 3, 64, 1536, 49280, False, 1e5, 8192,
                          marks=("\n", "\n\n", "<image>", "<fake_token_around_image>", "<global-img>",
                                 *(f"<row_{row}_col_{column}>" for row in range(1, 7)
                                   for column in range(1, 7)))),
    # the first 8 of those 48 layers, for machines with less memory
    "qwen3-a3b-8-layers": Shape("qwen3moe", 8, 2048, 32, 4, 128, 6144, 151936, False, 1e6, 40960,
                                Experts(128, 8, 768)),
}

# Offsets of the 16-bit scales in a block (ggml-common.h) and their ratios to one scale: minima
# are chosen so that uniformly distributed codes and sub-scales have a mean of 0.
SCALES = {
    Type.Q4_0: {0: 1}, Type.Q4_1: {0: 1, 2: -7.5}, Type.Q5_0: {0: 1}, Type.Q5_1: {0: 1, 2: -15.5},
    Type.Q8_0: {0: 1}, Type.IQ4_NL: {0: 1}, Type.Q2_K: {80: 1, 82: 1.5}, Type.Q3_K: {108: 1},
    Type.Q4_K: {0: 1, 2: 7.5}, Type.Q5_K: {0: 1, 2: 15.5}, Type.Q6_K: {208: 1},
}
TYPES = ["F32", "F16", "Q4_K_M", *(t.name for t in SCALES)]
# Fallback types of llama.cpp's quantizer for rows that are not a multiple of 256 (llama-quant.cpp).
FALLBACK = {Type.Q2_K: Type.IQ4_NL, Type.Q3_K: Type.IQ4_NL, Type.Q4_K: Type.Q5_0,
            Type.Q5_K: Type.Q5_1, Type.Q6_K: Type.Q8_0}


def random_matrix(rng, rows, cols, kind):
    """Weights with mean 0 and standard deviation 1/√cols, so that activations stay near 1."""
    deviation = cols ** -0.5
    if kind in (Type.F32, Type.F16):
        values = rng.standard_normal((rows, cols), dtype=np.float32) * np.float32(deviation)
        return values.astype(np.float16 if kind == Type.F16 else np.float32)
    block_len, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (rows * cols // block_len, block_bytes), dtype=np.uint8)

    def scale(blocks, factor):
        for at, part in SCALES[kind].items():
            blocks[:, at:at + 2] = np.frombuffer(np.float16(factor * part).tobytes(), np.uint8)

    sample = blocks[:1000].copy()
    scale(sample, 1)
    scale(blocks, deviation / gguf.quants.dequantize(sample, kind).std())
    if len(SCALES[kind]) == 1:
        # codes have one more value below 0 than above: scales of both signs have a mean of 0. Otherwise all rows of
        # activations point one way, and all tokens choose the same experts.
        at = next(iter(SCALES[kind])) + 1
        blocks[:, at] |= rng.integers(0, 2, len(blocks), dtype=np.uint8) << 7
    return blocks.reshape(rows, -1)


def tensors(shape, kind):
    """Name, dimensions (outermost first) and type of each tensor."""
    mixed = kind == "Q4_K_M"
    base = Type.Q4_K if mixed else Type[kind]
    better = Type.Q6_K if mixed else base

    def matrix(name, rows, cols, kind=base):
        return f"{name}.weight", (rows, cols), FALLBACK.get(kind, kind) if cols % 256 else kind

    def experts(name, rows, cols, kind=base):
        name, dims, kind = matrix(f"{name}_exps", rows, cols, kind)
        return name, (s.experts.count, *dims), kind

    def vector(name, cols):
        return f"{name}.weight", (cols,), Type.F32

    s = shape
    q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
    yield matrix("token_embd", s.vocab, s.hidden, better if s.tied else base)
    for i in range(s.layers):
        # Q4_K_M has more bits in the first and last eighth of the layers and every third in between
        eighth = s.layers // 8
        outer = i < eighth or i >= 7 * s.layers // 8 or (i - eighth) % 3 == 2
        sensitive = better if outer else base
        layer = f"blk.{i}."
        yield vector(layer + "attn_norm", s.hidden)
        yield matrix(layer + "attn_q", q, s.hidden)
        yield matrix(layer + "attn_k", kv, s.hidden)
        yield matrix(layer + "attn_v", kv, s.hidden, sensitive)
        if s.arch == "qwen2vl":
            for part, rows in (("q", q), ("k", kv), ("v", kv)):
                yield f"{layer}attn_{part}.bias", (rows,), Type.F32
        if s.arch == "gemma3":
            yield vector(layer + "post_attention_norm", s.hidden)
            yield vector(layer + "post_ffw_norm", s.hidden)
        if s.arch in ("qwen3", "qwen3moe", "gemma3"):
            yield vector(layer + "attn_q_norm", s.head_dim)
            yield vector(layer + "attn_k_norm", s.head_dim)
        yield matrix(layer + "attn_output", s.hidden, q)
        yield vector(layer + "ffn_norm", s.hidden)
        if s.experts:
            yield matrix(layer + "ffn_gate_inp", s.experts.count, s.hidden, Type.F32)
            yield experts(layer + "ffn_gate", s.experts.ffn, s.hidden)
            yield experts(layer + "ffn_up", s.experts.ffn, s.hidden)
            yield experts(layer + "ffn_down", s.hidden, s.experts.ffn, sensitive)
            continue
        yield matrix(layer + "ffn_gate", s.ffn, s.hidden)
        yield matrix(layer + "ffn_up", s.ffn, s.hidden)
        yield matrix(layer + "ffn_down", s.hidden, s.ffn, sensitive)
    yield vector("output_norm", s.hidden)
    if not s.tied:
        yield matrix("output", s.vocab, s.hidden, better)


def add_vocabulary(writer, size, marks=()):
    """Control tokens, bytes, and words that occur in no text: texts are encoded byte by byte."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *marks]
    control = gguf.TokenType.CONTROL
    kinds = [gguf.TokenType.UNKNOWN, control, control] + 256 * [gguf.TokenType.BYTE]
    kinds += len(marks) * [control]
    words = [f"▁⟨{i}⟩" for i in range(len(tokens), size)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens + words)
    writer.add_token_scores([0.0] * size)
    writer.add_token_types(kinds + len(words) * [gguf.TokenType.NORMAL])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def random_data():
    """Data of tensors by their names, dimensions and types: random matrices, and vectors of ones."""
    rng = np.random.default_rng(1)

    def data(_, dims, kind):
        *outer, cols = dims
        if not outer:
            return np.ones(cols, np.float32)
        return random_matrix(rng, int(np.prod(outer)), cols, kind)

    return data


def write(path, shape, kind, data=None, every=None, keys=(), kv_heads=None, ffn=None):
    """Write a model. `data(name, dims, kind)` gives a tensor's data, random ones if it is absent;
    `every` replaces the list of tensors, `keys` are more keys of the architecture, and `kv_heads`
    and `ffn` have a number for each layer."""
    data = data or random_data()
    writer = gguf.GGUFWriter(path, shape.arch)
    writer.add_name(f"{path.stem}, random weights")
    writer.add_block_count(shape.layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(ffn or shape.ffn)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(kv_heads or shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(shape.theta)
    writer.add_layer_norm_rms_eps(1e-6 if shape.arch.startswith("qwen3") else 1e-5)
    if shape.experts:
        writer.add_expert_count(shape.experts.count)
        writer.add_expert_used_count(shape.experts.used)
        writer.add_expert_feed_forward_length(shape.experts.ffn)
    for name, value in (*shape.keys, *keys):
        kinds = {list: writer.add_array, float: writer.add_float32}
        add = kinds.get(type(value), writer.add_uint32)
        add(f"{shape.arch}.{name}", value)
    add_vocabulary(writer, shape.vocab, shape.marks)
    add_tensors(writer, list(every or tensors(shape, kind)), data)


def add_tensors(writer, every, data):
    """Write all that was added to a writer, and tensors."""
    # all descriptions before the data, so that only one tensor is in memory at a time
    for name, dims, kind in every:
        block_len, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        size = int(np.prod(dims)) // block_len * block_bytes
        writer.add_tensor_info(name, dims, np.dtype(np.float32), size, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for name, dims, kind in every:
        writer.write_tensor_data(data(name, dims, kind))
    writer.close()


def arguments(about, shapes):
    """The folder of the command line, and each name with its shape and type."""
    text = f"{about}shapes: {', '.join(shapes)}\ntypes: {', '.join(TYPES)}\n"
    ap = argparse.ArgumentParser(description=text, usage=argparse.SUPPRESS,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("folder", type=Path)
    ap.add_argument("names", nargs="+", metavar="NAME")
    a = ap.parse_args()
    names = [(name, *name.rpartition("-")[::2]) for name in a.names]
    for name, shape, kind in names:
        if shape not in shapes or kind not in TYPES:
            ap.error(f"{name} is not SHAPE-TYPE; --help lists both")
    a.folder.mkdir(parents=True, exist_ok=True)
    return a.folder, names


def main():
    folder, names = arguments(__doc__, SHAPES)
    for name, shape, kind in names:
        path = folder / f"{name}.gguf"
        write(path, SHAPES[shape], kind)
        print(path)


if __name__ == "__main__":
    main()
