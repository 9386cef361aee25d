#!/usr/bin/env python3
"""Write models of real shapes with recurrent layers and random weights, as models.py does.

usage: hybrids.py FOLDER NAME...
  FOLDER  where to write NAME.gguf
  NAME    SHAPE-TYPE, such as lfm2-1.2b-Q4_0
needs: pip install gguf numpy
"""
from typing import NamedTuple

import numpy as np
from gguf import GGMLQuantizationType as Type

import models
from models import Experts, Shape


class Hybrid(NamedTuple):
    """A shape, and the layers of it that have attention."""
    shape: Shape
    attention: tuple
    # of the mixture's network that all tokens have
    shared: int = 0


class Scan(NamedTuple):
    """Sizes of selective scans."""
    heads: int
    inner: int
    state: int
    groups: int
    taps: int


GRANITE = Scan(48, 3072, 128, 1, 4)
HYBRIDS = {
    "lfm2-1.2b": Hybrid(
        Shape("lfm2", 16, 2048, 32, 8, 64, 8192, 65536, True, 1e6, 128000,
              keys=(("shortconv.l_cache", 3), ("vocab_size", 65536))),
        (2, 5, 8, 10, 12, 14)),
    "granite-4-h-tiny": Hybrid(
        Shape("granitehybrid", 40, 1536, 12, 4, 128, 512, 100352, True, 1e4, 131072, Experts(64, 6, 512),
              keys=(("vocab_size", 100352), ("attention.scale", 0.0078125), ("embedding_scale", 12.0),
                    ("residual_scale", 0.22), ("logit_scale", 6.0),
                    ("expert_shared_feed_forward_length", 1024), ("ssm.conv_kernel", GRANITE.taps),
                    ("ssm.state_size", GRANITE.state), ("ssm.group_count", GRANITE.groups),
                    ("ssm.inner_size", GRANITE.inner), ("ssm.time_step_rank", GRANITE.heads))),
        (5, 15, 25, 35), shared=1024),
}


def mixer(shape, layer, matrix):
    """Tensors of a recurrent layer's mixer."""
    hidden = shape.hidden
    if shape.arch == "lfm2":
        yield matrix("shortconv.in_proj", 3 * hidden, hidden)
        yield f"{layer}shortconv.conv.weight", (hidden, 3), Type.F32
        yield matrix("shortconv.out_proj", hidden, hidden)
        return
    scan = GRANITE
    mixed = scan.inner + 2 * scan.groups * scan.state
    yield matrix("ssm_in", scan.inner + mixed + scan.heads, hidden)
    yield f"{layer}ssm_conv1d.weight", (mixed, scan.taps), Type.F32
    yield f"{layer}ssm_conv1d.bias", (mixed,), Type.F32
    yield f"{layer}ssm_dt.bias", (scan.heads,), Type.F32
    for part in ("a", "d"):
        yield f"{layer}ssm_{part}", (scan.heads, 1), Type.F32
    yield f"{layer}ssm_norm.weight", (scan.groups, scan.inner // scan.groups), Type.F32
    yield matrix("ssm_out", hidden, scan.inner)


def tensors(hybrid, kind):
    """The tensors of models.py, with other mixers on layers without attention."""
    shape = hybrid.shape
    base = Type.Q4_K if kind == "Q4_K_M" else Type[kind]
    for name, dims, of in models.tensors(shape, kind):
        if name == "output_norm.weight" and shape.arch == "lfm2":
            name = "token_embd_norm.weight"
        block, number, part = (name.split(".", 2) + ["", ""])[:3]
        if block != "blk":
            yield name, dims, of
            continue
        layer = f"blk.{number}."

        def matrix(name, rows, cols, layer=layer):
            return f"{layer}{name}.weight", (rows, cols), base

        has_attention = int(number) in hybrid.attention
        if part.startswith("attn_") and part != "attn_norm.weight" and not has_attention:
            if part == "attn_q.weight":
                yield from mixer(shape, layer, matrix)
            continue
        yield name, dims, of
        if part == "attn_output.weight" and shape.arch == "lfm2":
            for norm in ("attn_q_norm", "attn_k_norm"):
                yield f"{layer}{norm}.weight", (shape.head_dim,), Type.F32
        if part == "ffn_norm.weight" and hybrid.shared:
            yield matrix("ffn_gate_shexp", hybrid.shared, shape.hidden)
            yield matrix("ffn_up_shexp", hybrid.shared, shape.hidden)
            yield matrix("ffn_down_shexp", shape.hidden, hybrid.shared)


def main():
    folder, names = models.arguments(__doc__, HYBRIDS)
    for name, shape, kind in names:
        hybrid, random = HYBRIDS[shape], models.random_data()

        def data(name, dims, kind, random=random):
            # decays of scans are negative
            return -np.ones(dims, np.float32) if name.endswith("ssm_a") else random(name, dims, kind)

        path = folder / f"{name}.gguf"
        kv = [hybrid.shape.kv_heads * (i in hybrid.attention) for i in range(hybrid.shape.layers)]
        models.write(path, hybrid.shape, kind, data, list(tensors(hybrid, kind)), kv_heads=kv)
        print(path)


if __name__ == "__main__":
    main()
