"""Write the weights for transformers, and as a pair of GGUF files.

    python export.py HF_DIR pelton-vision.gguf pelton-vision-mmproj.gguf

Matrices are Q8_0, the patch embedding F16, positions and vectors F32.  The names are llama.cpp's.
"""

import argparse
import json
import pathlib

import model as models
import numpy as np
import pictures
import tokens

TOWER_NAMES = {
    "embeddings.patch_embedding": "v.patch_embd",
    "embeddings.position_embedding": "v.position_embd",
    "post_layernorm": "v.post_ln",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.out_proj": "attn_out",
    "layer_norm1": "ln1",
    "layer_norm2": "ln2",
    "mlp.fc1": "ffn_up",
    "mlp.fc2": "ffn_down",
}
TEXT_NAMES = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
LICENCE = "MIT OR Apache-2.0"
DESCRIPTION = "Answers questions about drawn shapes and numbers, not about photographs."


def write_transformers(model, tokenizer_file, hf_dir):
    """Everything of a directory of transformers but the tokenizer."""
    from safetensors.torch import save_file
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    identity = {name: tokenizer.token_to_id(name) for name in tokens.SPECIALS}
    weights = {
        name: weight.detach().half().cpu().contiguous()
        for name, weight in model.named_for_transformers().items()
    }
    partial = hf_dir / "partial.safetensors"
    save_file(weights, partial, metadata={"format": "pt"})
    partial.replace(hf_dir / "model.safetensors")
    processor = dict(
        image_processor_type="Idefics3ImageProcessor",
        processor_class="Idefics3Processor",
        do_convert_rgb=True,
        do_resize=True,
        size=dict(longest_edge=pictures.TILE),
        max_image_size=dict(longest_edge=pictures.TILE),
        resample=1,
        do_image_splitting=True,
        do_rescale=True,
        rescale_factor=1 / 255,
        do_normalize=True,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
        do_pad=True,
    )
    config = models.configuration(tokenizer.get_vocab_size(), identity) | dict(dtype="float16")
    generation = dict(
        bos_token_id=identity[tokens.BEGIN], eos_token_id=identity[tokens.END], do_sample=False
    )
    files = {
        "config.json": config,
        "generation_config.json": generation,
        "preprocessor_config.json": processor,
        "processor_config.json": dict(
            processor_class="Idefics3Processor", image_seq_len=tokens.IMAGE_TOKENS
        ),
    }
    for name, value in files.items():
        (hf_dir / name).write_text(json.dumps(value, indent=2) + "\n")


def renamed(name, names):
    """A tensor's name in GGUF: `layers.2.mlp.fc1.weight` is `blk.2.ffn_up.weight`."""
    part, _, kind = name.rpartition(".")
    if "layers." not in part:
        return f"{names[part]}.{kind}"
    block, _, part = part.partition("layers.")[2].partition(".")
    return f"blk.{block}.{names[part]}.{kind}"


def permuted(array, heads):
    """Rows of a query or key in the order of llama.cpp: pairs of a rotation beside each other."""
    return array.reshape(heads, 2, -1, array.shape[1]).swapaxes(1, 2).reshape(array.shape)


def add_tensor(writer, name, array, exact=False):
    import gguf

    q8_0 = gguf.GGMLQuantizationType.Q8_0
    array = array.astype(np.float32)
    if array.ndim == 4:
        writer.add_tensor(name, array.astype(np.float16))
    elif array.ndim == 2 and not exact:
        writer.add_tensor(name, gguf.quants.quantize(array, q8_0), raw_dtype=q8_0)
    else:
        writer.add_tensor(name, array)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_text(weights, hf_dir, target):
    import gguf

    text = models.TEXT
    writer = gguf.GGUFWriter(target, "llama")
    writer.add_name("Pelton vision demonstration")
    writer.add_description(DESCRIPTION)
    writer.add_license(LICENCE)
    writer.add_languages(["en"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_context_length(tokens.CONTEXT)
    writer.add_embedding_length(text["width"])
    writer.add_block_count(text["layers"])
    writer.add_feed_forward_length(text["feed_forward"])
    writer.add_head_count(text["heads"])
    writer.add_head_count_kv(text["kv_heads"])
    writer.add_key_length(models.HEAD)
    writer.add_value_length(models.HEAD)
    writer.add_rope_dimension_count(models.HEAD)
    writer.add_rope_freq_base(models.THETA)
    writer.add_layer_norm_rms_eps(models.TEXT_EPSILON)
    learned = json.loads((hf_dir / "tokenizer.json").read_text())
    entries = sorted(learned["model"]["vocab"].items(), key=lambda entry: entry[1])
    writer.add_vocab_size(len(entries))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([entry for entry, _ in entries])
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_token_types([control if e in tokens.SPECIALS else normal for e, _ in entries])
    merges = learned["model"]["merges"]
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in merges])
    identity = dict(entries)
    writer.add_bos_token_id(identity[tokens.BEGIN])
    writer.add_eos_token_id(identity[tokens.END])
    writer.add_add_bos_token(True)
    writer.add_chat_template(tokens.CHAT_TEMPLATE)
    for name, array in weights.items():
        if not name.startswith("text_model."):
            continue
        if "q_proj" in name or "k_proj" in name:
            array = permuted(array, text["heads" if "q_proj" in name else "kv_heads"])
        add_tensor(writer, renamed(name.removeprefix("text_model."), TEXT_NAMES), array)
    finish(writer)


def write_tower(weights, target):
    import gguf

    tower = models.TOWER
    writer = gguf.GGUFWriter(target, "clip")
    writer.add_type("mmproj")
    writer.add_name("Pelton vision demonstration")
    writer.add_description(DESCRIPTION)
    writer.add_license(LICENCE)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_clip_has_vision_encoder(True)
    writer.add_clip_projector_type("idefics3")
    writer.add_vision_projection_dim(models.TEXT["width"])
    writer.add_vision_image_size(pictures.TILE)
    writer.add_vision_preproc_image_size(pictures.TILE)
    writer.add_vision_patch_size(models.PATCH)
    writer.add_vision_embedding_length(tower["width"])
    writer.add_vision_feed_forward_length(tower["feed_forward"])
    writer.add_vision_block_count(tower["layers"])
    writer.add_vision_head_count(tower["heads"])
    writer.add_vision_attention_layernorm_eps(models.TOWER_EPSILON)
    writer.add_vision_image_mean([0.5] * 3)
    writer.add_vision_image_std([0.5] * 3)
    writer.add_vision_use_gelu(True)
    writer.add_vision_projector_scale_factor(models.FOLD)
    for name, array in weights.items():
        if name.startswith("vision_model."):
            short = renamed(name.removeprefix("vision_model."), TOWER_NAMES)
            short = short if short.startswith("v.") else f"v.{short}"
            add_tensor(writer, short, array, exact="position_embd" in short)
        elif name.startswith("connector."):
            add_tensor(writer, "mm.model.fc.weight", array)
    finish(writer)


def main():
    from safetensors.numpy import load_file

    parser = argparse.ArgumentParser()
    parser.add_argument("hf_dir", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("tower", type=pathlib.Path)
    args = parser.parse_args()
    weights = load_file(args.hf_dir / "model.safetensors")
    weights = {name.removeprefix("model."): array for name, array in weights.items()}
    write_text(weights, args.hf_dir, args.text)
    write_tower(weights, args.tower)
    for path in (args.text, args.tower):
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
