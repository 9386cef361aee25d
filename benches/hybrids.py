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


class Scan(NamedTuple):
    """Sizes of selective scans."""
    heads: int
    inner: int
    state: int
    groups: int
    taps: int

    def keys(self):
        return (("ssm.conv_kernel", self.taps), ("ssm.state_size", self.state), ("ssm.group_count", self.groups),
                ("ssm.inner_size", self.inner), ("ssm.time_step_rank", self.heads))


class Hybrid(NamedTuple):
    """A shape, and the layers of it that have attention."""
    shape: Shape
    attention: tuple
    # of the mixture's network that all tokens have
    shared: int = 0
    # of layers without attention; absent for short convolutions
    scan: Scan | None = None
    # layers with a feed-forward network and no mixer, where layers have one of both; the others have a mixer alone
    feed_forward: tuple = ()


GRANITE = Scan(48, 3072, 128, 1, 4)
NEMOTRON = Scan(112, 7168, 128, 8, 4)
# M: a scan, -: a feed-forward network, *: attention (Nemotron-H 4B in the documents of Megatron Bridge)
PATTERN = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"
HYBRIDS = {
    "lfm2-1.2b": Hybrid(
        Shape("lfm2", 16, 2048, 32, 8, 64, 8192, 65536, True, 1e6, 128000,
              keys=(("shortconv.l_cache", 3), ("vocab_size", 65536))),
        (2, 5, 8, 10, 12, 14)),
    "granite-4-h-tiny": Hybrid(
        Shape("granitehybrid", 40, 1536, 12, 4, 128, 512, 100352, True, 1e4, 131072, Experts(64, 6, 512),
              keys=(("vocab_size", 100352), ("attention.scale", 0.0078125), ("embedding_scale", 12.0),
                    ("residual_scale", 0.22), ("logit_scale", 6.0),
                    ("expert_shared_feed_forward_length", 1024), *GRANITE.keys())),
        (5, 15, 25, 35), shared=1024, scan=GRANITE),
    "nemotron-h-4b": Hybrid(
        Shape("nemotron_h", 52, 3072, 32, 8, 128, 12288, 131072, False, 1e4, 8192,
              keys=(("vocab_size", 131072), ("attention.layer_norm_epsilon", 1e-5), *NEMOTRON.keys())),
        tuple(i for i, kind in enumerate(PATTERN) if kind == "*"), scan=NEMOTRON,
        feed_forward=tuple(i for i, kind in enumerate(PATTERN) if kind == "-")),
}


def mixer(hybrid, layer, matrix):
    """Tensors of a recurrent layer's mixer."""
    hidden, scan = hybrid.shape.hidden, hybrid.scan
    if not scan:
        yield matrix("shortconv.in_proj", 3 * hidden, hidden)
        yield f"{layer}shortconv.conv.weight", (hidden, 3), Type.F32
        yield matrix("shortconv.out_proj", hidden, hidden)
        return
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
        if hybrid.feed_forward:
            alone = int(number) in hybrid.feed_forward
            if part == "ffn_norm.weight" or part.startswith("ffn_gate"):
                continue
            if part != "attn_norm.weight" and part.startswith("ffn_") != alone:
                continue

        def matrix(name, rows, cols, layer=layer):
            return f"{layer}{name}.weight", (rows, cols), base

        has_attention = int(number) in hybrid.attention
        if part.startswith("attn_") and part != "attn_norm.weight" and not has_attention:
            if part == "attn_q.weight":
                yield from mixer(hybrid, layer, matrix)
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
        ffn = [hybrid.shape.ffn * (i in hybrid.feed_forward) for i in range(hybrid.shape.layers)]
        models.write(path, hybrid.shape, kind, data, list(tensors(hybrid, kind)), kv_heads=kv,
                     ffn=ffn if hybrid.feed_forward else None)
        print(path)


if __name__ == "__main__":
    main()
