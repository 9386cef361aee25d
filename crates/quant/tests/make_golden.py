"""Write the golden blocks of tests/golden/ with the numpy code of the PyPI package `gguf`.

    pip install gguf==0.19.0 numpy==2.4.6
    python3 crates/quant/tests/make_golden.py

Formats that gguf does not have are written by the functions of ggml, of the library that GGML names
(libggml-base.so of llama.cpp); so is IQ4_NL.plain, the blocks of Q4_0.values as keys and values are stored.

For every format NAME: NAME.blocks (stored bytes) and NAME.f32 (the decoded elements).
For the formats with an encoder also NAME.values (f32) and NAME.encoded (the encoded bytes).
All little-endian; the seed is fixed, so the output is reproducible.
"""

import ctypes
import os
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize, quantize

OUT = Path(__file__).parent / "golden"

# Byte offsets of the f16 fields of each block.
HALF_FIELDS = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
    "IQ4_NL": [0],
    "IQ4_XS": [0],
    "MXFP4": [],
    "IQ3_S": [0],
    "IQ3_XXS": [0],
    "IQ2_S": [0],
    "IQ2_XS": [0],
    "IQ2_XXS": [0],
    "IQ1_S": [0],
    "IQ1_M": [],
    "TQ1_0": [52],
    "TQ2_0": [64],
    "NVFP4": [],
}

# Magnitude of the largest code: the scale is the block's extreme (or range) divided by it.
LEVELS = {"Q4_0": 8, "Q4_1": 15, "Q5_0": 16, "Q5_1": 31, "Q8_0": 127}

# Formats whose encoder has no ties of scales to test: values of `other_values`.
OTHER_ENCODERS = {"MXFP4": 32, "TQ1_0": 256, "TQ2_0": 256}

F16_MAX = 65504.0
SPECIAL_HALVES = np.array(
    [0.0, -0.0, F16_MAX, -F16_MAX, 2.0**-24, -(2.0**-24), 2.0**-14, 1.0, np.inf, -np.inf, np.nan],
    dtype=np.float16,
)


def blocks_to_decode(name: str, rng: np.random.Generator) -> np.ndarray:
    """Blocks of random bytes, with likely scales, with special scales, all zeros, all ones."""
    size = GGML_QUANT_SIZES[GGMLQuantizationType[name]][1]
    blocks = rng.integers(0, 256, (8 + 4 + len(SPECIAL_HALVES), size), dtype=np.uint8)
    for field in HALF_FIELDS[name]:
        likely = rng.normal(0, 0.02, 4).astype(np.float16)
        halves = np.concatenate([likely, SPECIAL_HALVES])
        blocks[8:, field : field + 2] = halves.reshape(-1, 1).view(np.uint8)
    if name == "MXFP4":
        blocks[8:14, 0] = [0, 1, 2, 127, 254, 255]
    if name == "NVFP4":
        # subnormal, normal, the two encodings of NaN, and the sign bit
        blocks[8:11, :4] = [[0, 1, 7, 8], [0x77, 0x7E, 0x7F, 0xFF], [0x80, 0x81, 0x88, 0xFE]]
    if name == "IQ1_M":
        # one nibble of the scale in the upper bits of each of four words
        likely = np.concatenate([rng.normal(0, 0.02, 4).astype(np.float16), SPECIAL_HALVES])
        for word in range(4):
            nibbles = likely.view(np.uint16) >> (4 * word) & 15
            at = 48 + 2 * word + 1
            blocks[8:, at] = blocks[8:, at] & 15 | (nibbles << 4).astype(np.uint8)
    return np.concatenate([blocks, np.zeros((1, size), np.uint8), np.full((1, size), 255, np.uint8)])


def values_to_encode(name: str, rng: np.random.Generator) -> np.ndarray:
    """Blocks of 32 values that exercise the encoder of a quantized format."""
    levels = LEVELS[name]
    has_minimum = name.endswith("_1")
    ramp = np.arange(32, dtype=np.float32)
    blocks = []

    for spread in [1e-6, 1e-3, 0.02, 1.0, 50.0, 3000.0]:
        blocks += list(rng.normal(0, spread, (2, 32)))
    blocks += list(np.exp(rng.uniform(-20, 5, (2, 32))) * rng.choice([-1, 1], (2, 32)))
    blocks += [rng.uniform(3, 4, 32), rng.uniform(-4, -3, 32)]

    # Constant, zero of either sign, a single nonzero element.
    blocks += [np.full(32, 0.7), np.full(32, -0.7), np.zeros(32), np.full(32, -0.0)]
    blocks += [(ramp == 9) * 1.0 + 0.0, (ramp == 31) * -1.0 + 0.0]

    # The extreme is negative, positive, or both (the first one decides).
    inner = rng.uniform(-0.9, 0.9, 32)
    for first, second in [(-1, 0.5), (1, -0.5), (-1, 1), (1, -1)]:
        block = inner.copy()
        block[[5, 20]] = first, second
        blocks.append(block)

    # Ties: with scale 1 the codes are halfway between integers, then one f32 off the tie.
    ties = ramp % levels + 0.5
    if has_minimum:
        signed = ties
        signed[[0, 17]] = 0, levels
    else:
        signed = ties * np.where(ramp % 2 == 0, 1, -1)
        signed = np.clip(signed, -levels + 0.5, levels - 1.5)
        signed[17] = -levels
    signed = signed.astype(np.float32)
    blocks += [signed, -signed, signed * 2.0**-9]
    for direction in [-np.inf, np.inf]:
        near = np.nextafter(signed, np.float32(direction))
        near[[0, 17]] = signed[[0, 17]]
        blocks.append(near)
    if has_minimum:
        blocks += [signed - 7, signed + 100]

    # Scales halfway between two f16s, normal and subnormal.
    shape = signed / np.float32(levels)
    for scale in [1 + 2.0**-11, 1 + 3 * 2.0**-11, 2.0**-25, 3 * 2.0**-25, 2.0**-24]:
        blocks.append(shape * np.float32(levels * scale))

    # The largest values of a block; the smallest scale that has a finite reciprocal.
    limit = F16_MAX if has_minimum else F16_MAX * levels
    blocks += [rng.uniform(-1, 1, 32) * limit, shape * np.float32(limit)]
    tiny = rng.uniform(-1, 1, 32).astype(np.float32)
    tiny[3] = -1
    blocks += [tiny * np.float32(levels * 2.0**-127), (ramp + 1) * np.float32(2.0**-121)]
    # Subnormal values next to larger ones.
    blocks.append(np.where(ramp % 2 == 0, tiny * np.float32(2.0**-130), tiny * np.float32(1e-3)))

    return np.array(blocks, dtype=np.float32)


def other_values(length: int, rng: np.random.Generator) -> np.ndarray:
    """Blocks for the encoders of four-bit floats and ternary values."""
    ramp = np.arange(length)
    spreads = [1e-6, 1e-3, 0.02, 1.0, 50.0, 3000.0]
    blocks = [rng.normal(0, spread, length) for spread in spreads]
    blocks += [np.exp(rng.uniform(-20, 5, length)) * rng.choice([-1, 1], length)]
    blocks += [np.full(length, 0.7), np.zeros(length), (ramp == 9) * -1.0]
    # exact values, values halfway between two, and one f32 off those
    exact = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])[ramp % 8] * np.where(ramp % 3, 1, -1)
    halfway = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 6])[ramp % 8] * np.where(ramp % 3, 1, -1)
    ternary = np.array([0, 0.5, -0.5, 1, -1, 0.25])[ramp % 6]
    for block in [exact, halfway, ternary]:
        block = block.astype(np.float32)
        blocks += [block, block * 2.0**-20, np.nextafter(block, np.float32(0))]
    return np.array(blocks, dtype=np.float32)


def float_values(rng: np.random.Generator) -> np.ndarray:
    """Values that exercise rounding to F16 and BF16."""
    halves = np.arange(0, 0x7C00, 61, dtype=np.uint16).view(np.float16).astype(np.float32)
    next_halves = (np.arange(0, 0x7C00, 61, dtype=np.uint16) + 1).view(np.float16).astype(np.float32)
    ties = (halves + next_halves)[np.isfinite(next_halves)] / np.float32(2)
    upper = rng.integers(0, 0x10000, 200, dtype=np.uint32) << np.uint32(16)
    bf16_ties = (upper | np.uint32(0x8000)).view(np.float32)
    named = np.array(
        [0.0, -0.0, F16_MAX, 65519.99, 65520.0, -65520.0, 1e6, 2.0**-24, 2.0**-25, 3 * 2.0**-26]
        + [2.0**-126, 1e-40, -1e-45, 3.4028235e38, -3.4028235e38, 3.39e38, np.inf, -np.inf, np.nan],
        dtype=np.float32,
    )
    bits = rng.integers(0, 2**32, 200, dtype=np.uint32).view(np.float32)
    near = np.concatenate([np.nextafter(ties, np.float32(0)), np.nextafter(ties, np.float32(1e9))])
    return np.concatenate([named, ties, -ties, near, bf16_ties, bits])


def write(name: str, kind: str, array: np.ndarray) -> None:
    (OUT / f"{name}.{kind}").write_bytes(array.tobytes())


def main() -> None:
    OUT.mkdir(exist_ok=True)
    for i, name in enumerate(HALF_FIELDS):
        rng = np.random.default_rng([20240607, i])
        qtype = GGMLQuantizationType[name]
        blocks = blocks_to_decode(name, rng)
        with np.errstate(invalid="ignore", over="ignore"):
            decoded = dequantize(blocks, qtype)
        assert decoded.dtype == np.float32
        write(name, "blocks", blocks)
        write(name, "f32", decoded)
        if name in LEVELS:
            values = values_to_encode(name, rng)
            # A cast of a NaN or of a value out of range is undefined and must not occur.
            with np.errstate(invalid="raise", over="raise"):
                encoded = quantize(values, qtype)
            write(name, "values", values)
            write(name, "encoded", encoded)
        if name in OTHER_ENCODERS:
            values = other_values(OTHER_ENCODERS[name], rng)
            with np.errstate(invalid="raise", over="raise"):
                write(name, "encoded", quantize(values, qtype))
            write(name, "values", values)

    rng = np.random.default_rng([20240607, 100])
    values = float_values(rng)
    for name in ["F16", "BF16"]:
        qtype = GGMLQuantizationType[name]
        with np.errstate(invalid="ignore", over="ignore"):
            encoded = quantize(values, qtype)
            stored = rng.integers(0, 0x10000, 1024, dtype=np.uint16).view(np.uint8)
            decoded = dequantize(stored, qtype)
        write(name, "values", values)
        write(name, "encoded", encoded)
        write(name, "blocks", stored)
        write(name, "f32", decoded)


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def of_ggml(library: ctypes.CDLL) -> None:
    for i, (name, length) in enumerate([("Q2_0", 64), ("Q1_0", 128)]):
        rng = np.random.default_rng([20240607, 200 + i])
        blocks = rng.integers(0, 256, (8 + 4 + len(SPECIAL_HALVES), 18), dtype=np.uint8)
        halves = np.concatenate([rng.normal(0, 0.02, 4).astype(np.float16), SPECIAL_HALVES])
        blocks[8:, :2] = halves.reshape(-1, 1).view(np.uint8)
        blocks = np.concatenate([blocks, np.zeros((1, 18), np.uint8), np.full((1, 18), 255, np.uint8)])
        decoded = np.zeros((len(blocks), length), np.float32)
        size = ctypes.c_int64(decoded.size)
        getattr(library, f"dequantize_row_{name.lower()}")(pointer(blocks), pointer(decoded), size)
        values = other_values(length, rng)
        encoded = np.zeros((len(values), 18), np.uint8)
        size = ctypes.c_int64(values.size)
        getattr(library, f"quantize_row_{name.lower()}_ref")(pointer(values), pointer(encoded), size)
        for kind, array in [("blocks", blocks), ("f32", decoded), ("values", values), ("encoded", encoded)]:
            write(name, kind, array)
    values = np.fromfile(OUT / "Q4_0.values", np.float32)
    blocks = np.zeros((values.size // 32, 18), np.uint8)
    library.quantize_row_iq4_nl_ref(pointer(values), pointer(blocks), ctypes.c_int64(values.size))
    write("IQ4_NL", "plain", blocks)


if __name__ == "__main__":
    main()
    of_ggml(ctypes.CDLL(os.environ["GGML"]))
