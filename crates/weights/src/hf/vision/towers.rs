//! The table of vision towers.

use super::config::{Vision, set};
use super::rules::{
    FUSED, Rule, clipped, keep, patches, pixels, planes, plus_one, swapped, thirds,
};
use crate::hf::keys::{Out, flags};
use crate::{Error, Problem};

/// A kind of tower, with what joins it to a text model.
pub(super) struct Tower {
    /// Values of the whole model's `model_type`.
    types: &'static [&'static str],
    /// The tower's own `model_type`, of models that may have several; empty for any.
    vision_type: &'static str,
    /// Its name in GGUF.
    pub(super) projector: &'static str,
    /// The key of that name.
    pub(super) projector_key: &'static str,
    /// The key by which GGUF files tell an activation.
    pub(super) activation_key: Option<&'static str>,
    /// Names of the key of its width.
    pub(super) width: &'static [&'static str],
    /// Whether it has layers.
    pub(super) has_layers: bool,
    /// Start of the names of blocks, before their numbers.
    pub(super) block: &'static str,
    pub(super) blocks: &'static [&'static [Rule]],
    pub(super) globals: &'static [&'static [Rule]],
    /// Starts of the names of tensors that are not used.
    pub(super) unused: &'static [&'static str],
    /// Activations that its plan computes.
    pub(super) activations: &'static [&'static str],
    /// Sets keys beyond those of all towers.
    pub(super) keys: fn(&Vision, &mut Out) -> Result<(), Error>,
}

const SIGLIP_BLOCK: &[Rule] = &[
    keep("layer_norm1", "ln1"),
    keep("layer_norm2", "ln2"),
    keep("self_attn.q_proj", "attn_q"),
    keep("self_attn.k_proj", "attn_k"),
    keep("self_attn.v_proj", "attn_v"),
    keep("self_attn.out_proj", "attn_out"),
    keep("mlp.fc1", "ffn_up"),
    keep("mlp.fc2", "ffn_down"),
];
const SIGLIP_ENDS: &[Rule] = &[
    patches("embeddings.patch_embedding"),
    keep("embeddings.position_embedding", "v.position_embd"),
    keep("post_layernorm", "v.post_ln"),
];

/// SigLIP, the tower of Gemma 3.
const SIGLIP: Tower = Tower {
    types: &["gemma3"],
    vision_type: "siglip_vision_model",
    projector: "gemma3",
    projector_key: "clip.projector_type",
    activation_key: Some("clip.use_gelu"),
    width: &["hidden_size"],
    has_layers: true,
    block: "encoder.layers.",
    blocks: &[SIGLIP_BLOCK],
    globals: &[
        SIGLIP_ENDS,
        &[
            keep("multi_modal_projector.mm_input_projection_weight", "mm.input_projection.weight"),
            plus_one("multi_modal_projector.mm_soft_emb_norm", "mm.soft_emb_norm"),
        ],
    ],
    unused: &["head."],
    activations: &["gelu_pytorch_tanh"],
    keys: |vision, out| {
        vision.set_eps(vision.keys.required_number(&["layer_norm_eps"])?, out);
        let side = vision.side("image_size")? / vision.side("patch_size")?;
        let tokens = vision.model.size(&["mm_tokens_per_image"])?.unwrap_or(256);
        let root = tokens.isqrt();
        if root == 0 || root * root != tokens || !side.is_multiple_of(root) {
            let expected = format!("the square of a divisor of {side}");
            return Err(vision.model.invalid("mm_tokens_per_image", tokens, &expected));
        }
        set(out, "projector.scale_factor", side / root);
        Ok(())
    },
};

const QWEN_ENDS: &[Rule] = &[
    patches("patch_embed.proj"),
    keep("merger.ln_q", "v.post_ln"),
    keep("merger.mlp.0", "mm.0"),
    keep("merger.mlp.2", "mm.2"),
];
const QWEN_BLOCK: &[Rule] =
    &[keep("norm1", "ln1"), keep("norm2", "ln2"), keep("attn.proj", "attn_out")];
/// llama.cpp reads these three as one of Qwen3-VL alone.
const QWEN2_HEADS: &[Rule] = &[thirds("attn.qkv")];

/// A network that makes further embeddings.
pub(super) const DEEPSTACK_RULES: &[Rule] =
    &[keep("norm", "norm"), keep("linear_fc1", "fc1"), keep("linear_fc2", "fc2")];

const QWEN2: Tower = Tower {
    types: &["qwen2_vl"],
    vision_type: "",
    projector: "qwen2vl_merger",
    projector_key: "clip.projector_type",
    activation_key: None,
    width: &["embed_dim"],
    has_layers: true,
    block: "blocks.",
    blocks: &[QWEN_BLOCK, QWEN2_HEADS, &[keep("mlp.fc1", "ffn_up"), keep("mlp.fc2", "ffn_down")]],
    globals: &[QWEN_ENDS],
    unused: &[],
    activations: &["quick_gelu"],
    keys: |vision, out| {
        // the width of the text
        vision.keys.disregard(&["hidden_size"]);
        let width = vision.keys.required_size(&["embed_dim"])?;
        let ratio = vision.keys.required_number(&["mlp_ratio"])?;
        let inner = ratio * width as f64;
        if !(1.0..=f64::from(i32::MAX)).contains(&inner) || inner.fract() != 0.0 {
            return Err(vision.keys.invalid("mlp_ratio", ratio, "a multiple of 1 / embed_dim"));
        }
        set(out, "feed_forward_length", inner as usize);
        qwen2_keys(vision, out)
    },
};

const TOWERS: &[Tower] = &[
    SIGLIP,
    Tower {
        types: &["idefics3", "smolvlm"],
        vision_type: "",
        projector: "idefics3",
        globals: &[SIGLIP_ENDS, &[keep("connector.modality_projection.proj", "mm.model.fc")]],
        keys: |vision, out| {
            vision.set_eps(vision.keys.required_number(&["layer_norm_eps"])?, out);
            let factor = vision.model.size(&["scale_factor"])?.unwrap_or(2);
            set(out, "projector.scale_factor", factor);
            Ok(())
        },
        ..SIGLIP
    },
    Tower {
        types: &["internvl"],
        vision_type: "internvl_vision",
        projector: "internvl",
        block: "encoder.layer.",
        blocks: &[&[
            keep("layernorm_before", "ln1"),
            keep("layernorm_after", "ln2"),
            keep("attention.q_proj", "attn_q"),
            keep("attention.k_proj", "attn_k"),
            keep("attention.v_proj", "attn_v"),
            keep("attention.q_norm", "attn_q_norm"),
            keep("attention.k_norm", "attn_k_norm"),
            keep("attention.projection_layer", "attn_out"),
            keep("lambda_1", "ls1.weight"),
            keep("lambda_2", "ls2.weight"),
            keep("mlp.fc1", "ffn_up"),
            keep("mlp.fc2", "ffn_down"),
        ]],
        globals: &[&[
            patches("embeddings.patch_embeddings.projection"),
            keep("embeddings.cls_token", "v.class_embd"),
            keep("embeddings.position_embeddings", "v.position_embd.weight"),
            keep("layernorm", "v.post_ln"),
            keep("multi_modal_projector.layer_norm", "mm.model.mlp.0"),
            keep("multi_modal_projector.linear_1", "mm.model.mlp.1"),
            keep("multi_modal_projector.linear_2", "mm.model.mlp.3"),
        ]],
        unused: &["embeddings.mask_token"],
        activations: &["gelu"],
        keys: |vision, out| {
            // tensors show these
            vision.keys.disregard(&[
                "attention_bias",
                "layer_scale_init_value",
                "norm_type",
                "use_mask_token",
                "use_mean_pooling",
                "use_qk_norm",
            ]);
            vision.set_eps(vision.keys.required_number(&["layer_norm_eps"])?, out);
            vision.require_model("vision_feature_layer", "-1")?;
            vision.require_model("vision_feature_select_strategy", "\"default\"")?;
            vision.require_model("projector_hidden_act", "\"gelu\"")?;
            let ratio = vision.model.number(&["downsample_ratio"])?.unwrap_or(0.5);
            let factor = (1.0 / ratio).round();
            if !(1.0..=16.0).contains(&factor) || factor * ratio != 1.0 {
                return Err(vision.model.invalid("downsample_ratio", ratio, "0.5, or 1 / n"));
            }
            set(out, "projector.scale_factor", factor as usize);
            Ok(())
        },
        ..SIGLIP
    },
    QWEN2,
    Tower {
        types: &["qwen2_5_vl"],
        projector: "qwen2.5vl_merger",
        activation_key: Some("clip.use_silu"),
        width: &["hidden_size"],
        blocks: &[
            QWEN_BLOCK,
            QWEN2_HEADS,
            &[
                keep("mlp.gate_proj", "ffn_gate"),
                keep("mlp.up_proj", "ffn_up"),
                keep("mlp.down_proj", "ffn_down"),
            ],
        ],
        activations: &["silu"],
        keys: |vision, out| {
            vision.keys.disregard(&["tokens_per_second"]);
            vision.set_size("window_size", &["window_size"], out)?;
            set(out, "n_wa_pattern", full_every(vision)?);
            qwen2_keys(vision, out)
        },
        ..QWEN2
    },
    Tower {
        types: &["qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"],
        projector: "qwen3vl_merger",
        activation_key: Some("clip.use_gelu"),
        width: &["hidden_size"],
        blocks: &[
            QWEN_BLOCK,
            &[keep("attn.qkv", FUSED)],
            &[keep("mlp.linear_fc1", "ffn_up"), keep("mlp.linear_fc2", "ffn_down")],
        ],
        globals: &[&[
            patches("patch_embed.proj"),
            keep("pos_embed", "v.position_embd"),
            keep("merger.norm", "v.post_ln"),
            keep("merger.linear_fc1", "mm.0"),
            keep("merger.linear_fc2", "mm.2"),
        ]],
        activations: &["gelu_pytorch_tanh"],
        keys: |vision, out| {
            let places = vision.keys.required_size(&["num_position_embeddings"])?;
            let side = places.isqrt().saturating_mul(vision.side("patch_size")?);
            set(out, "image_size", side);
            let deep = vision.deepstack()?;
            let layers = 0..vision.keys.required_size(&["depth"])?;
            let is_deep = layers.map(|layer| deep.contains(&layer));
            out.set("clip.vision.is_deepstack_layers", flags(is_deep));
            qwen_keys(vision, out)
        },
        ..QWEN2
    },
    Tower {
        types: &["mistral3", "llava"],
        vision_type: "pixtral",
        projector: "pixtral",
        activation_key: Some("clip.use_silu"),
        block: "transformer.layers.",
        blocks: &[&[
            keep("attention_norm", "ln1"),
            keep("ffn_norm", "ln2"),
            keep("attention.q_proj", "attn_q"),
            keep("attention.k_proj", "attn_k"),
            keep("attention.v_proj", "attn_v"),
            keep("attention.o_proj", "attn_out"),
            keep("feed_forward.gate_proj", "ffn_gate"),
            keep("feed_forward.up_proj", "ffn_up"),
            keep("feed_forward.down_proj", "ffn_down"),
        ]],
        globals: &[&[
            patches("patch_conv"),
            keep("ln_pre", "v.pre_ln"),
            keep("multi_modal_projector.norm", "mm.input_norm"),
            keep("multi_modal_projector.patch_merger.merging_layer", "mm.patch_merger"),
            keep("multi_modal_projector.linear_1", "mm.1"),
            keep("multi_modal_projector.linear_2", "mm.2"),
        ]],
        unused: &[],
        activations: &["silu"],
        keys: |vision, out| {
            vision.keys.disregard(&["head_dim"]);
            vision.require_theta(1e4)?;
            vision.set_eps(1e-5, out);
            vision.require_model("vision_feature_layer", "-1")?;
            vision.require_model("projector_hidden_act", "\"gelu\"")?;
            if vision.model_type == "mistral3" {
                if vision.model.number(&["rms_norm_eps"])? != Some(1e-5) {
                    return Err(vision.model.invalid("rms_norm_eps", "another", "1e-5"));
                }
                let merge = vision.model.required_size(&["spatial_merge_size"])?;
                set(out, "spatial_merge_size", merge);
            }
            Ok(())
        },
        ..SIGLIP
    },
    Tower {
        types: &["gemma4"],
        vision_type: "gemma4_vision",
        projector: "gemma4v",
        projector_key: "clip.vision.projector_type",
        activation_key: None,
        blocks: &[&[
            keep("input_layernorm", "ln1"),
            keep("post_attention_layernorm", "attn_post_norm"),
            keep("pre_feedforward_layernorm", "ln2"),
            keep("post_feedforward_layernorm", "ffn_post_norm"),
            keep("self_attn.q_norm", "attn_q_norm"),
            keep("self_attn.k_norm", "attn_k_norm"),
            clipped("self_attn.q_proj", "attn_q"),
            clipped("self_attn.k_proj", "attn_k"),
            clipped("self_attn.v_proj", "attn_v"),
            clipped("self_attn.o_proj", "attn_out"),
            clipped("mlp.gate_proj", "ffn_gate"),
            clipped("mlp.up_proj", "ffn_up"),
            clipped("mlp.down_proj", "ffn_down"),
        ]],
        globals: &[&[
            pixels("patch_embedder.input_proj"),
            keep("patch_embedder.position_embedding_table", "v.position_embd.weight"),
            keep("std_bias", "v.std_bias"),
            keep("std_scale", "v.std_scale"),
            keep("embed_vision.embedding_projection", "mm.input_projection"),
        ]],
        unused: &[],
        activations: &["gelu_pytorch_tanh"],
        keys: |vision, out| {
            // tensors show these, and the last has no tensors
            vision.keys.disregard(&[
                "max_position_embeddings",
                "position_embedding_size",
                "standardize",
                "use_clipped_linears",
                "default_output_length",
            ]);
            vision.require_theta(100.0)?;
            vision.set_eps(vision.keys.required_number(&["rms_norm_eps"])?, out);
            let heads = vision.keys.required_size(&["num_attention_heads"])?;
            if vision.keys.size(&["num_key_value_heads"])?.is_some_and(|of| of != heads) {
                let expected = format!("{heads}, as many as queries");
                return Err(vision.keys.invalid("num_key_value_heads", "others", &expected));
            }
            vision.set_size("attention.head_dim", &["head_dim"], out)?;
            // any size will do, but llama.cpp requires one
            set(out, "image_size", 224);
            vision.set_size("projector.scale_factor", &["pooling_kernel_size"], out)
        },
        ..SIGLIP
    },
    Tower {
        types: &["gemma4_unified"],
        vision_type: "gemma4_unified_vision",
        projector: "gemma4uv",
        projector_key: "clip.vision.projector_type",
        activation_key: None,
        width: &["mm_embed_dim"],
        has_layers: false,
        blocks: &[],
        globals: &[&[
            planes("patch_ln1", "v.patch_norm.1"),
            planes("patch_dense.weight", "v.patch_embd.weight"),
            keep("patch_dense.bias", "v.patch_embd.bias"),
            keep("patch_ln2", "v.patch_norm.2"),
            swapped("pos_embedding", "v.position_embd.weight"),
            keep("pos_norm", "v.patch_norm.3"),
            keep("embed_vision.embedding_projection", "mm.input_projection"),
        ]],
        unused: &[],
        activations: &[],
        keys: |vision, out| {
            // tensors show the first, the width is that of the text, and the last is a product
            vision.keys.disregard(&["mm_posemb_size", "output_proj_dims", "model_patch_size"]);
            vision.set_eps(vision.keys.required_number(&["rms_norm_eps"])?, out);
            // any size will do, but llama.cpp requires one
            set(out, "image_size", 224);
            vision.set_size("projector.scale_factor", &["pooling_kernel_size"], out)
        },
        ..SIGLIP
    },
];

fn qwen2_keys(vision: &Vision, out: &mut Out) -> Result<(), Error> {
    // any size will do, but llama.cpp requires one
    set(out, "image_size", 560);
    qwen_keys(vision, out)
}

fn qwen_keys(vision: &Vision, out: &mut Out) -> Result<(), Error> {
    // the plan has the frames of a still, and its width is that of the text
    vision.keys.disregard(&["temporal_patch_size", "out_hidden_size"]);
    vision.require_theta(1e4)?;
    vision.set_eps(1e-6, out);
    vision.set_size("spatial_merge_size", &["spatial_merge_size"], out)
}

/// The distance between layers that see the whole picture.
fn full_every(vision: &Vision) -> Result<usize, Error> {
    let name = "fullatt_block_indexes";
    let layers = vision.keys.required_size(&["depth"])?;
    let found = vision.keys.list(name)?.unwrap_or_default();
    let found: Vec<_> = found.iter().filter_map(serde_json::Value::as_u64).collect();
    let every = found.first().map_or(layers as u64 + 1, |first| first + 1);
    let expected: Vec<_> = (1..=layers as u64).filter(|i| i.is_multiple_of(every)).collect();
    if !found.iter().map(|i| i + 1).eq(expected) {
        let shown = format!("{found:?}");
        return Err(vision.keys.invalid(name, shown, "layers at one distance from each other"));
    }
    Ok(every as usize)
}

/// The kind of a model's tower.
pub(super) fn tower_of(vision: &Vision) -> Result<&'static Tower, Error> {
    let is = |tower: &&Tower| {
        tower.types.contains(&vision.model_type.as_str())
            && (tower.vision_type.is_empty() || tower.vision_type == vision.vision_type)
    };
    TOWERS.iter().find(is).ok_or_else(|| {
        let tower = match vision.vision_type.as_str() {
            "" => vision.model_type.clone(),
            own => format!("{own} of {}", vision.model_type),
        };
        vision.model.error(Problem::UnknownTower { tower })
    })
}
