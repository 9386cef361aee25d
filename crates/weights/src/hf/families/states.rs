//! Layers with a state in place of keys and values, next to attention: LFM2 and Granite 4.

use super::experts::{GRANITE_EXPERTS, SHARED_MLP_WIDTH};
use super::granite::{DENSE_WIDTH, FINETUNED, GRANITE, SHARED_MLP};
use super::llama::{LLAMA, VOCAB};
use crate::hf::common_keys::{EXPERT_WIDTH, NORMALISED, WHOLE_HEADS, some};
use crate::hf::config::Config;
use crate::hf::family::Family;
use crate::hf::keys::{Key, derived, fixed_size, number, size, sizes};
use crate::hf::names::{ATTENTION, ENDS, PRE_NORMS};
use crate::hf::rope::Rope;
use crate::hf::rules::{How, Rule, change, expert, keep, parts};
use crate::hf::transforms::{column, gate_up_experts, scan_norm, scan_skip};
use crate::{Error, Value};

type Computed = Result<Option<Value>, Error>;

const TAPS: Key = size("shortconv.l_cache", &["conv_L_cache"]);
const KV_HEADS: Key = derived("attention.head_count_kv", kv_heads);

/// Attention, short convolutions and norms of LFM2.
const LFM2: &[Rule] = &[
    keep("self_attn.q_proj", "attn_q"),
    keep("self_attn.k_proj", "attn_k"),
    keep("self_attn.v_proj", "attn_v"),
    keep("self_attn.out_proj", "attn_output"),
    keep("self_attn.q_layernorm", "attn_q_norm"),
    keep("self_attn.k_layernorm", "attn_k_norm"),
    keep("conv.in_proj", "shortconv.in_proj"),
    keep("conv.out_proj", "shortconv.out_proj"),
    change("conv.conv", "shortconv.conv", How::Squeeze),
    keep("operator_norm", "attn_norm"),
    keep("ffn_norm", "ffn_norm"),
    keep("feed_forward.w1", "ffn_gate"),
    keep("feed_forward.w2", "ffn_down"),
    keep("feed_forward.w3", "ffn_up"),
];
const LFM2_EXPERTS: &[Rule] = &[
    keep("feed_forward.gate", "ffn_gate_inp"),
    keep("feed_forward.expert_bias", "exp_probs_b.bias"),
    expert("feed_forward.experts.*.w1", "ffn_gate_exps"),
    expert("feed_forward.experts.*.w2", "ffn_down_exps"),
    expert("feed_forward.experts.*.w3", "ffn_up_exps"),
    parts("feed_forward.experts.gate_up_proj", "", gate_up_experts),
    keep("feed_forward.experts.down_proj", "ffn_down_exps.weight"),
];
const LFM2_ENDS: &[Rule] = &[keep("embedding_norm", "token_embd_norm")];

/// Sizes of selective scans, and the bounds of their steps.
pub(super) const SCAN: &[Key] = &[
    size("ssm.conv_kernel", &["mamba_d_conv"]),
    size("ssm.state_size", &["mamba_d_state"]),
    size("ssm.group_count", &["mamba_n_groups"]),
    size("ssm.time_step_rank", &["mamba_n_heads"]),
    derived("ssm.time_step_min", |config, _| bound(config, 0)),
    derived("ssm.time_step_max", |config, _| bound(config, 1)),
];
/// The width of the scans of Granite 4, and the layers that have attention instead.
const HYBRID: &[Key] =
    &[derived("ssm.inner_size", expanded), derived("attention.head_count_kv", kv_heads)];

/// Selective scans of Granite 4.
pub(super) const MAMBA: &[Rule] = &[
    keep("mamba.in_proj", "ssm_in"),
    change("mamba.conv1d", "ssm_conv1d", How::Squeeze),
    change("mamba.A_log", "ssm_a", How::NegExp(Some(column))),
    parts("mamba.D", "", scan_skip),
    keep("mamba.dt_bias", "ssm_dt.bias"),
    parts("mamba.norm.weight", "", scan_norm),
    keep("mamba.out_proj", "ssm_out"),
];

/// Kinds of layers with a selective scan.
const RECURRENT: &[&str] = &["mamba", "linear_attention"];

const GRANITEHYBRID: Family = Family {
    classes: &["GraniteMoeHybridForCausalLM"],
    types: &["granitemoehybrid"],
    layers: RECURRENT,
    architecture: "granitehybrid",
    keys: &[GRANITE, &[DENSE_WIDTH, FINETUNED], SCAN, HYBRID],
    blocks: &[ATTENTION, PRE_NORMS, MAMBA, SHARED_MLP],
    ..LLAMA
};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        needs: "num_local_experts",
        keys: &[GRANITE, &[SHARED_MLP_WIDTH, FINETUNED], SCAN, HYBRID],
        blocks: &[ATTENTION, PRE_NORMS, MAMBA, GRANITE_EXPERTS],
        ..GRANITEHYBRID
    },
    GRANITEHYBRID,
    Family {
        classes: &["Lfm2ForCausalLM", "LFM2ForCausalLM"],
        types: &["lfm2"],
        architecture: "lfm2",
        keys: &[&[
            VOCAB,
            WHOLE_HEADS,
            TAPS,
            KV_HEADS,
            derived("feed_forward_length", adjusted_width),
        ]],
        globals: &[ENDS, LFM2_ENDS],
        blocks: &[LFM2],
        activations: &[],
        ..LLAMA
    },
    Family {
        classes: &["Lfm2MoeForCausalLM"],
        types: &["lfm2_moe"],
        architecture: "lfm2moe",
        keys: &[&[
            VOCAB,
            WHOLE_HEADS,
            TAPS,
            KV_HEADS,
            EXPERT_WIDTH,
            size("leading_dense_block_count", &["num_dense_layers"]),
            fixed_size("expert_gating_func", 2),
            number("expert_weights_scale", &["routed_scaling_factor"]),
            NORMALISED,
        ]],
        globals: &[ENDS, LFM2_ENDS],
        blocks: &[LFM2, LFM2_EXPERTS],
        activations: &[],
        ..LLAMA
    },
];

/// The KV heads of each layer, 0 for convolutions. Older files state in `full_attn_idxs` the layers
/// with attention.
fn kv_heads(config: &Config, _: &Rope) -> Computed {
    let heads = config.kv_heads()?;
    let stated = config.layer_types()?.map(|types| {
        types
            .into_iter()
            .map(|name| name.ends_with("attention") && !RECURRENT.contains(&name))
            .collect::<Vec<_>>()
    });
    let attends = match (stated, config.all.list("full_attn_idxs")?) {
        (Some(attends), _) => {
            config.all.disregard(&["full_attn_idxs"]);
            attends
        }
        (None, Some(indices)) => {
            let listed =
                |layer: usize| indices.iter().any(|index| index.as_u64() == Some(layer as u64));
            (0..config.layers).map(listed).collect()
        }
        (None, None) => vec![true; config.layers],
    };
    Ok(Some(sizes(attends.into_iter().map(|attends| if attends { heads } else { 0 }))))
}

/// Elements of the inputs of all heads of a scan.
fn expanded(config: &Config, _: &Rope) -> Computed {
    let expand = config.all.required_size(&["mamba_expand"])?;
    let heads = config.all.required_size(&["mamba_n_heads"])?;
    let inner = expand.saturating_mul(config.hidden);
    match config.all.get("mamba_d_head") {
        Some(stated) if stated.as_str() != Some("auto") => {
            let dim = config.all.required_size(&["mamba_d_head"])?;
            if dim.checked_mul(heads) != Some(inner) {
                let expected = format!("{inner} / {heads}, the inner width per head");
                return Err(config.unsupported("mamba_d_head", dim, &expected));
            }
        }
        _ => {}
    }
    match u32::try_from(inner) {
        Ok(inner) => Ok(Some(inner.into())),
        Err(_) => Err(config.unsupported("mamba_expand", expand, "a smaller factor")),
    }
}

/// A bound of the steps of a scan; `None` for infinity, which is an object in files.
fn bound(config: &Config, index: usize) -> Computed {
    let key = "time_step_limit";
    let Some(limits) = config.all.list(key)? else { return Ok(None) };
    let limit = limits.get(index).filter(|_| limits.len() == 2);
    match limit.map(|limit| (limit.as_f64(), &limit["__float__"])) {
        Some((Some(limit), _)) => Ok(Some((limit as f32).into())),
        Some((None, name)) if name == "Infinity" && index == 1 => Ok(None),
        _ => Err(config.unsupported(key, "another list", "two numbers")),
    }
}

/// The width of the feed-forward network, which files state before an adjustment.
fn adjusted_width(config: &Config, _: &Rope) -> Computed {
    let stated = config.all.required_size(&["block_ff_dim", "intermediate_size"])?;
    if config.all.flag(&["block_auto_adjust_ff_dim"])? == Some(false) {
        config.all.disregard(&["block_ffn_dim_multiplier", "block_multiple_of"]);
        return some(stated);
    }
    let width = (2.0 * stated as f64 / 3.0) as usize;
    let Some(factor) = config.all.number(&["block_ffn_dim_multiplier"])? else {
        return some(width);
    };
    let multiple = config.all.required_size(&["block_multiple_of"])?;
    let width = (factor * width as f64) as usize;
    match width.div_ceil(multiple).checked_mul(multiple).and_then(|width| u32::try_from(width).ok())
    {
        Some(width) => Ok(Some(width.into())),
        None => Err(config.unsupported("block_ffn_dim_multiplier", factor, "a smaller factor")),
    }
}
