//! Nemotron-H and Nemotron 3: layers of one branch each.

use super::llama::{LLAMA, VOCAB};
use crate::hf::common_keys::{EXPERT_WIDTH, NORMALISED};
use crate::hf::config::{Config, PATTERN};
use crate::hf::family::Family;
use crate::hf::keys::{Key, check, derived, fixed_size, number, size, sizes};
use crate::hf::names::ENDS;
use crate::hf::rope::Rope;
use crate::hf::rules::{How, Rule, change, expert, keep, parts};
use crate::hf::transforms::{column, scan_norm, scan_skip};
use crate::{Error, Value};

type Computed = Result<Option<Value>, Error>;

const TAPS: Key = size("ssm.conv_kernel", &["mamba_d_conv", "conv_kernel"]);
const STATE: Key = size("ssm.state_size", &["ssm_state_size"]);
const GROUPS: Key = size("ssm.group_count", &["mamba_n_groups", "n_groups"]);
const HEADS: Key = size("ssm.time_step_rank", &["mamba_num_heads"]);
const INNER: Key = derived("ssm.inner_size", inner);
/// transformers bounds steps by this key alone.
const SHORTEST: Key = number("ssm.time_step_min", &["mamba_dt_min", "time_step_min"]).optional();
const LATENT: Key = size("moe_latent_size", &["moe_latent_size"]).optional();
const KV_HEADS: Key = derived("attention.head_count_kv", |config, _| {
    let heads = config.kv_heads()?;
    let heads = |kind| if kind == Kind::Attention { heads } else { 0 };
    Ok(Some(sizes(kinds(config)?.into_iter().map(heads))))
});
const WIDTHS: Key = derived("feed_forward_length", |config, _| {
    let kinds = kinds(config)?;
    if !kinds.contains(&Kind::Experts) {
        config.all.disregard(OF_EXPERTS);
        config.all.size(&["moe_latent_size"])?;
    }
    if !kinds.contains(&Kind::Dense) {
        config.all.disregard(&["intermediate_size"]);
    }
    let mut widths = Vec::new();
    for kind in kinds {
        widths.push(match kind {
            Kind::Dense => config.all.required_size(&["intermediate_size"])?,
            Kind::Experts => config.all.required_size(&["moe_intermediate_size"])?,
            Kind::Attention | Kind::Scan => 0,
        });
    }
    Ok(Some(sizes(widths)))
});
const ACTIVATION: Key = check(check_activation);

/// Keys of experts, which models without any may state.
const OF_EXPERTS: &[&str] = &[
    "moe_intermediate_size",
    "moe_shared_expert_intermediate_size",
    "n_shared_experts",
    "norm_topk_prob",
    "routed_scaling_factor",
];

/// Keys that transformers' class has and does not compute with.
const UNUSED: &[&str] =
    &["expand", "mamba_dt_limit", "mamba_proj_bias", "sliding_window", "time_step_limit"];

/// Branches of all kinds, which have one name.
const MIXERS: &[Rule] = &[
    keep("norm", "attn_norm"),
    keep("mixer.in_proj", "ssm_in"),
    change("mixer.conv1d", "ssm_conv1d", How::Squeeze),
    change("mixer.A_log", "ssm_a", How::NegExp(Some(column))),
    parts("mixer.D", "", scan_skip),
    keep("mixer.dt_bias", "ssm_dt.bias"),
    parts("mixer.norm.weight", "", scan_norm),
    keep("mixer.out_proj", "ssm_out"),
    keep("mixer.q_proj", "attn_q"),
    keep("mixer.k_proj", "attn_k"),
    keep("mixer.v_proj", "attn_v"),
    keep("mixer.o_proj", "attn_output"),
    keep("mixer.up_proj", "ffn_up"),
    keep("mixer.down_proj", "ffn_down"),
];
const EXPERTS: &[Rule] = &[
    keep("mixer.gate", "ffn_gate_inp"),
    keep("mixer.gate.e_score_correction_bias", "exp_probs_b.bias"),
    expert("mixer.experts.*.up_proj", "ffn_up_exps"),
    expert("mixer.experts.*.down_proj", "ffn_down_exps"),
    keep("mixer.experts.up_proj", "ffn_up_exps.weight"),
    keep("mixer.experts.down_proj", "ffn_down_exps.weight"),
    keep("mixer.shared_experts.up_proj", "ffn_up_shexp"),
    keep("mixer.shared_experts.down_proj", "ffn_down_shexp"),
    keep("mixer.fc1_latent_proj", "ffn_latent_down"),
    keep("mixer.fc2_latent_proj", "ffn_latent_up"),
];
const NEMOTRON_ENDS: &[Rule] = &[keep("embeddings", "token_embd"), keep("norm_f", "output_norm")];

const NEMOTRON_H: Family = Family {
    classes: &["NemotronHForCausalLM"],
    types: &["nemotron_h"],
    architecture: "nemotron_h",
    keys: &[&[VOCAB, TAPS, STATE, GROUPS, HEADS, INNER, SHORTEST, KV_HEADS, WIDTHS, ACTIVATION]],
    globals: &[ENDS, NEMOTRON_ENDS],
    blocks: &[MIXERS, EXPERTS],
    prefixes: &["backbone.", "model.", ""],
    unused: &["mtp."],
    ..LLAMA
};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        layers: &["moe", "E"],
        architecture: "nemotron_h_moe",
        keys: &[&[
            VOCAB,
            TAPS,
            STATE,
            GROUPS,
            HEADS,
            INNER,
            SHORTEST,
            KV_HEADS,
            WIDTHS,
            ACTIVATION,
            LATENT,
            EXPERT_WIDTH,
            size("expert_shared_count", &["n_shared_experts"]),
            size("expert_shared_feed_forward_length", &["moe_shared_expert_intermediate_size"]),
            fixed_size("expert_gating_func", 2),
            number("expert_weights_scale", &["routed_scaling_factor"]),
            NORMALISED,
        ]],
        ..NEMOTRON_H
    },
    NEMOTRON_H,
];

/// The branch of a layer.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Scan,
    Attention,
    Dense,
    Experts,
}

/// The branch of each layer, by a list of names or a string of characters.
fn kinds(config: &Config) -> Result<Vec<Kind>, Error> {
    let key = "layers_block_type";
    let names: Vec<&str> = match (config.kinds_of_layers(key)?, config.layer_types()?) {
        (Some(names), _) | (None, Some(names)) => {
            config.all.disregard(&[PATTERN]);
            names
        }
        (None, None) => {
            let pattern = config.all.text(&[PATTERN])?.unwrap_or_default();
            pattern.split("").filter(|name| !name.is_empty()).collect()
        }
    };
    if names.len() != config.layers {
        let (found, expected) = (names.len(), format!("{} kinds of layers", config.layers));
        return Err(config.unsupported(key, found, &expected));
    }
    let kind = |name: &str| match name {
        "mamba" | "linear_attention" | "M" => Ok(Kind::Scan),
        "attention" | "full_attention" | "*" => Ok(Kind::Attention),
        "mlp" | "-" => Ok(Kind::Dense),
        "moe" | "E" => Ok(Kind::Experts),
        other => {
            let expected = "\"linear_attention\", \"full_attention\", \"mlp\" or \"moe\"";
            Err(config.unsupported(key, other, expected))
        }
    };
    names.into_iter().map(kind).collect()
}

/// Elements of the inputs of all heads of a scan.
fn inner(config: &Config, _: &Rope) -> Computed {
    config.all.disregard(UNUSED);
    let heads = config.all.required_size(&["mamba_num_heads"])?;
    let dim = config.all.required_size(&["mamba_head_dim"])?;
    match heads.checked_mul(dim).and_then(|inner| u32::try_from(inner).ok()) {
        Some(inner) => Ok(Some(inner.into())),
        None => Err(config.unsupported("mamba_head_dim", dim, "a smaller width")),
    }
}

/// Rejects other activations than those of the graph.
fn check_activation(config: &Config, _: &Rope) -> Computed {
    for (key, expected) in [("mlp_hidden_act", "relu2"), ("mamba_hidden_act", "silu")] {
        match config.all.text(&[key])? {
            Some(found) if found != expected => {
                return Err(config.unsupported(key, found, expected));
            }
            _ => {}
        }
    }
    Ok(None)
}
