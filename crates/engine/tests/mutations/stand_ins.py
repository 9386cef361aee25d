"""How transformers computes the models that none of its classes reads from their directories:
packed weights are expanded, published names become those of a class of the same mathematics,
and nomic-embed-text 2 is the torch code of families_published.py."""

import dataclasses
import json
import pathlib
import types
from typing import Callable

import safetensors.torch
import transformers

import families_packed
from families_moe import Mxfp4
from families_packed import Packed
from families_published import Nomic, NomicMoe, Renamed

MODELS = pathlib.Path(families_packed.__file__).resolve().parent / "models"


@dataclasses.dataclass
class StandIn:
    keys: Callable  # the keys of config.json with their defaults, of a loaded model
    translate: Callable | None = None  # writes tensors, returns config.json for the class
    model: Callable | None = None  # loads the folder
    arguments: dict = dataclasses.field(default_factory=dict)  # of from_pretrained


def all_keys(model):
    return model.config.get_text_config().to_dict()


# GPTQ and AWQ as AutoAWQ and AutoGPTQ read them: the group of an input is its number over the
# group's size, all other keys but these change no value.
def unpack(family, folder, config):
    own = dict(config)
    packed = own.pop("quantization", None) or own.pop("quantization_config")
    if family.method == "awq" and (not packed["zero_point"] or packed["bits"] != 4):
        raise ValueError("AutoAWQ has 4 bits and zero points in this layout")
    tensors = safetensors.torch.load_file(MODELS / family.name / "model.safetensors")
    modules = {n.rpartition(".")[0] for n in tensors if n.endswith(".scales")}
    state = {n: v for n, v in tensors.items()
             if n.rpartition(".")[0] not in modules or n.endswith(".bias")}
    family = dataclasses.replace(family, bits=packed["bits"])
    size, families_packed.GROUP = families_packed.GROUP, packed["group_size"]
    try:
        state |= {f"{m}.weight": family.expanded(tensors, m).contiguous() for m in modules}
    finally:
        families_packed.GROUP = size
    save(folder, state)
    return own


# Keys of the published configurations by those of the class, and keys that published files have
# beyond those of the fixture, with values that change nothing.
GPT_SIZES = dict(n_embd="hidden_size", n_head="num_attention_heads", n_layer="num_hidden_layers",
                 n_positions="max_position_embeddings")
PUBLISHED = {
    "internlm2": (dict(bias="attention_bias"),
                  dict(pretraining_tp=1, rope_scaling=dict(rope_type="linear", factor=1.0),
                       attn_implementation="eager")),
    "exaone3": (dict(num_layers="num_hidden_layers", layer_norm_epsilon="rms_norm_eps",
                     activation_function="hidden_act"),
                dict(attention_bias=False, mlp_bias=False, embed_dropout=0.0)),
    "minicpm": ({}, dict(rope_scaling=dict(rope_type="linear", factor=1.0),
                         attention_bias=False, pretraining_tp=1)),
    "xverse": ({}, {}),
    "orion": (dict(rms_norm_eps="layer_norm_eps"), {}),
    "bailingmoe": (dict(num_experts="num_local_experts",
                        moe_intermediate_size="intermediate_size"), {}),
    "qwen": (dict(seq_length="max_position_embeddings", layer_norm_epsilon="rms_norm_eps"), {}),
    "baichuan": (dict(model_max_length="max_position_embeddings"), {}),
    "baichuan-13b": (dict(model_max_length="max_position_embeddings"), {}),
    "deepseek": (dict(n_routed_experts="num_experts"), {}),
    "codeshell": (GPT_SIZES | dict(num_query_groups="num_key_value_heads",
                                   layer_norm_epsilon="norm_epsilon",
                                   activation_function="hidden_act"), {}),
    "pangu-embedded": (dict(bias="attention_bias"), {}),
    "maincoder": ({}, {}),
    "jais": (GPT_SIZES | dict(n_inner="intermediate_size", layer_norm_epsilon="rms_norm_eps"), {}),
}
# Keys of the published configurations that only these values are computed of.
FIXED = dict(
    no_bias=True, scale_attn_weights=True, moe_layer_freq=1, scoring_func="softmax",
    group_query_attention=True, mup_scale_qk_dot_by_d=True)
INTERNLM2_ROPES = ("linear", "dynamic")


def rename(family, folder, config):
    tensors = safetensors.torch.load_file(MODELS / family.name / "model.safetensors")
    names, extra = PUBLISHED[family.name]
    own = {names.get(k, k): v for k, v in (extra | config).items()}
    own.pop("attn_implementation", None)
    kind = (own.get("rope_scaling") or {}).get("rope_type")
    if kind and family.name != "exaone3" and kind not in INTERNLM2_ROPES:
        raise ValueError("their code has two kinds of scaling")
    if "partial_rotary_factor" in (own.get("rope_scaling") or {}):
        raise ValueError("their code has no such key")
    if family.name == "internlm2":
        head = own["hidden_size"] // own["num_attention_heads"]
        if own.get("head_dim", head) != head:
            raise ValueError("their code has no key of the width of heads")
    if family.name == "minicpm":
        head = own["hidden_size"] // own["num_attention_heads"]
        own |= dict(
            tie_word_embeddings=own.get("tie_word_embeddings", True),
            attention_multiplier=head**-0.5,
            embedding_multiplier=own.pop("scale_emb"),
            residual_multiplier=own.pop("scale_depth") / own["num_hidden_layers"] ** 0.5,
            logits_scaling=own["hidden_size"] / own.pop("dim_model_base"))
    if family.name == "bailingmoe":
        if not own["norm_topk_prob"] or own["norm_head"]:
            raise ValueError("Mixtral has no such key")
        if own["use_bias"] or own["use_qkv_bias"]:
            raise ValueError("tensors lack")
        own["sliding_window"] = None
    if family.name == "orion":
        own |= dict(use_qkv_bias=False, partial_rotary_factor=1.0)
    own |= by_name(family.name, own)
    own |= dict(architectures=[family.model_class.__name__],
                model_type=family.model_class.config_class.model_type)
    tensors = {family.rename(n, True): v for n, v in tensors.items()}
    if family.split:
        tensors = family.split(types.SimpleNamespace(**own), tensors)
    save(folder, {n: v.contiguous() for n, v in tensors.items()})
    return own


def by_name(name, own):
    """Keys of the class that the published ones tell in another way."""
    for key, value in FIXED.items():
        if own.pop(key, value) != value:
            raise ValueError(f"the class has no such {key}")
    if name == "qwen":
        own.pop("use_dynamic_ntk"), own.pop("use_logn_attn")
        if own.pop("kv_channels") != own["hidden_size"] // own["num_attention_heads"]:
            raise ValueError("the class has no such key")
        if own["intermediate_size"] % 2:
            raise ValueError("an odd number of rows")
        return dict(intermediate_size=own["intermediate_size"] // 2, hidden_act="silu",
                    num_key_value_heads=own["num_attention_heads"])
    if name.startswith("baichuan"):
        return dict(num_key_value_heads=own["num_attention_heads"],
                    head_dim=own["hidden_size"] // own["num_attention_heads"])
    if name == "deepseek":
        width = own["moe_intermediate_size"] * own.pop("n_shared_experts")
        if own.pop("attention_bias"):
            raise ValueError("tensors lack")
        return dict(shared_expert_intermediate_size=width, qkv_bias=False,
                    mlp_only_layers=list(range(own.pop("first_k_dense_replace"))))
    if name == "codeshell":
        if own.pop("position_embedding_type") != "rope":
            raise ValueError("the class has no such key")
        return dict(use_bias=True, intermediate_size=4 * own["hidden_size"])
    if name == "jais":
        if own.pop("position_embedding_type") != "alibi":
            raise ValueError("the class has no such key")
        if own.pop("activation_function") != "swiglu":
            raise ValueError("the class has no such key")
        return dict(
            embedding_factor=own.pop("mup_embeddings_scale"),
            logit_factor=own.pop("mup_output_alpha") * own.pop("mup_width_scale"),
            num_key_value_heads=own["num_attention_heads"], attention_bias=True, mlp_bias=True,
            head_dim=own["hidden_size"] // own["num_attention_heads"])
    return {}


def published_keys(family):
    def keys(model):
        return PUBLISHED[family.name][1]

    return keys


# Keys of nomic-embed-text 2's published configuration beyond those of the fixture.
NOMIC = dict(
    expert_choice_router=False, ffn_div=1, max_trained_positions=2048, num_shared_experts=0,
    pad_vocab_size_multiple=64, parallel_block=False, parallel_block_tied_norm=False,
    rotary_scaling_factor=None, router_aux_loss_coef=0.1, scale_attn_by_inverse_layer_idx=False,
    scale_attn_weights=True, use_rms_norm=False, fused_bias_fc=True, dense_seq_output=True)
# What the torch code has alone.
NOMIC_FIXED = dict(
    causal=False, expert_choice_router=False, mlp_fc1_bias=True,
    mlp_fc2_bias=True, num_shared_experts=0, parallel_block=False, prenorm=False,
    qkv_proj_bias=True, rotary_emb_fraction=1.0, rotary_emb_interleaved=False,
    rotary_emb_scale_base=None,
    scale_attn_by_inverse_layer_idx=False, scale_attn_weights=True, use_rms_norm=False)


def nomic(folder):
    config = json.loads((folder / "config.json").read_text())
    for key, value in NOMIC_FIXED.items():
        if config.get(key, value) != value:
            raise ValueError(f"{key} is {config[key]}")
    model = NomicMoe(types.SimpleNamespace(**config)).float().eval()
    model.load_state_dict(safetensors.torch.load_file(folder / "model.safetensors"))
    return model


def save(folder, tensors):
    path = folder / "model.safetensors"
    path.unlink(missing_ok=True)  # a link to the fixture
    safetensors.torch.save_file(tensors, path, {"format": "pt"})


def stand_in(family) -> StandIn | None:
    if isinstance(family, Packed):
        return StandIn(all_keys, translate=unpack)
    if isinstance(family, Mxfp4):
        dequantized = transformers.Mxfp4Config(dequantize=True)
        return StandIn(all_keys, arguments=dict(quantization_config=dequantized))
    if isinstance(family, Nomic):
        return StandIn(lambda model: NOMIC, model=nomic)
    if isinstance(family, Renamed) and family.name in PUBLISHED:
        return StandIn(published_keys(family), translate=rename)
    return None
