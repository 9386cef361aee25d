#!/usr/bin/env python3
"""Write vision towers of real shapes with random weights beside the text models of models.py.

Pelton finds the tower in the folder of a model file, and llama.cpp takes it by --mmproj.

usage: towers.py FOLDER NAME...
  FOLDER  where to write NAME/NAME.gguf and NAME/mmproj-NAME.gguf
  NAME    SHAPE-TYPE, such as gemma-3-4b-Q4_K_M; the type is the text model's, towers are F16
needs: pip install gguf numpy
"""
import argparse
from pathlib import Path
from typing import NamedTuple

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

import models


class Tower(NamedTuple):
    """Hyper-parameters of published towers."""
    projector: str
    layers: int
    hidden: int
    heads: int
    ffn: int
    image: int
    patch: int
    merge: int
    gated: bool
    keys: tuple = ()


TOWERS = {
    "qwen2.5-vl-7b": Tower("qwen2.5vl_merger", 32, 1280, 16, 3420, 560, 14, 2, True,
                           (("vision.n_wa_pattern", 8), ("vision.window_size", 112))),
    "gemma-3-4b": Tower("gemma3", 27, 1152, 16, 4304, 896, 14, 4, False),
    "smolvlm-256m": Tower("idefics3", 12, 768, 12, 3072, 512, 16, 4, False,
                          (("vision.projector.scale_factor", 4),
                           ("vision.preproc_image_size", 2048))),
}


def tensors(tower, width):
    """Name, dimensions (outermost first) and type of each tensor, for text models of this width."""
    t = tower
    qwen, has_bias = t.projector.startswith("qwen"), not t.projector.startswith("qwen")

    def linear(name, rows, cols, bias=True):
        yield f"{name}.weight", (rows, cols), Type.F16
        if bias:
            yield f"{name}.bias", (rows,), Type.F32

    def norm(name, cols=t.hidden, bias=has_bias):
        yield f"{name}.weight", (cols,), Type.F32
        if bias:
            yield f"{name}.bias", (cols,), Type.F32

    patch = (t.hidden, 3, t.patch, t.patch)
    yield "v.patch_embd.weight", patch, Type.F32
    if qwen:
        # of the second frame
        yield "v.patch_embd.weight.1", patch, Type.F32
    else:
        yield "v.patch_embd.bias", (t.hidden,), Type.F32
        yield "v.position_embd.weight", ((t.image // t.patch) ** 2, t.hidden), Type.F32
    for layer in range(t.layers):
        name = f"v.blk.{layer}."
        yield from norm(name + "ln1")
        for part in ("attn_q", "attn_k", "attn_v", "attn_out"):
            yield from linear(name + part, t.hidden, t.hidden)
        yield from norm(name + "ln2")
        if t.gated:
            yield from linear(name + "ffn_gate", t.ffn, t.hidden)
        yield from linear(name + "ffn_up", t.ffn, t.hidden)
        yield from linear(name + "ffn_down", t.hidden, t.ffn)
    yield from norm("v.post_ln")
    folded = t.hidden * t.merge ** 2
    if qwen:
        yield from linear("mm.0", folded, folded)
        yield from linear("mm.2", width, folded)
    elif t.projector == "gemma3":
        yield from norm("mm.soft_emb_norm", bias=False)
        # input-major
        yield from linear("mm.input_projection", t.hidden, width, bias=False)
    else:
        yield from linear("mm.model.fc", width, folded, bias=False)


def write(path, tower, width):
    """Write a tower for text models of this width."""
    writer = gguf.GGUFWriter(path, "clip")
    writer.add_name(f"{path.stem}, random weights")
    writer.add_string("clip.projector_type", tower.projector)
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_bool("clip.use_silu" if tower.gated else "clip.use_gelu", True)
    numbers = {
        "projection_dim": width, "image_size": tower.image, "patch_size": tower.patch,
        "embedding_length": tower.hidden, "feed_forward_length": tower.ffn,
        "block_count": tower.layers, "attention.head_count": tower.heads,
    }
    for name, value in numbers.items():
        writer.add_uint32(f"clip.vision.{name}", value)
    for name, value in tower.keys:
        writer.add_uint32(f"clip.{name}", value)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-6)
    writer.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    writer.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    random = models.random_data()

    def data(name, dims, kind):
        values = random(name, dims, kind)
        return values * np.float32(0) if name.endswith(".bias") else values.reshape(dims)

    models.add_tensors(writer, list(tensors(tower, width)), data)


def main():
    into, names = models.arguments(__doc__, TOWERS)
    for name, shape, kind in names:
        folder = into / name
        folder.mkdir(parents=True, exist_ok=True)
        models.write(folder / f"{name}.gguf", models.SHAPES[shape], kind)
        write(folder / f"mmproj-{name}.gguf", TOWERS[shape], models.SHAPES[shape].hidden)
        print(folder)


if __name__ == "__main__":
    main()
