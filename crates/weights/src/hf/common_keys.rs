//! Keys that most architectures share, and computed values.

use std::collections::BTreeMap;

use super::config::Config;
use super::keys::{Key, array, check, derived, flag, flags, number, size};
use super::rope::{Rope, Scaling};
use crate::{Error, Value, ValueType};

type Computed = Result<Option<Value>, Error>;

/// Keys of every architecture; those of a family are applied afterwards.
pub(super) const COMMON: &[Key] = &[
    derived("block_count", |config, _| some(config.layers)),
    size("context_length", CONTEXT),
    derived("embedding_length", |config, _| some(config.hidden)),
    size("feed_forward_length", &["intermediate_size", "n_inner", "hidden_dim"]).optional(),
    derived("attention.head_count", |config, _| some(config.heads)),
    size("attention.head_count_kv", &["num_key_value_heads", "n_kv_heads"]).optional(),
    derived("attention.causal", |config, _| {
        let causal = config.all.flag(&["is_causal"])?;
        Ok((causal == Some(false)).then(|| false.into()))
    }),
    derived("rope.freq_base", |_, rope| Ok(rope.theta.map(f32_value))),
    derived("rope.freq_base_swa", |_, rope| Ok(rope.local_theta.map(f32_value))),
    derived("rope.dimension_sections", |_, rope| {
        Ok(rope.sections()?.map(|sections| array(ValueType::I32, sections)))
    }),
    derived("rope.scaling.type", scaling_type),
    derived("rope.scaling.factor", |_, rope| {
        Ok(match &rope.scaling {
            Scaling::Linear { factor } => Some(f32_value(*factor)),
            Scaling::Yarn(yarn) => Some(f32_value(yarn.factor)),
            _ => None,
        })
    }),
    derived("rope.scaling.original_context_length", |config, rope| match &rope.scaling {
        Scaling::Yarn(yarn) => some(yarn.original_context),
        Scaling::Long { .. } => some(original_context(config, rope)?),
        _ => Ok(None),
    }),
    derived("rope.scaling.attn_factor", long_attention_factor),
    derived("rope.scaling.yarn_ext_factor", |_, rope| yarn(rope, |yarn| yarn.ext_factor)),
    derived("rope.scaling.yarn_attn_factor", |_, rope| yarn(rope, |yarn| yarn.attn_factor)),
    derived("rope.scaling.yarn_beta_fast", |_, rope| yarn(rope, |yarn| yarn.beta_fast)),
    derived("rope.scaling.yarn_beta_slow", |_, rope| yarn(rope, |yarn| yarn.beta_slow)),
    number("attention.layer_norm_rms_epsilon", &["rms_norm_eps", "norm_eps"]).optional(),
    number("attention.layer_norm_epsilon", LAYER_NORM_EPS).optional(),
    size("expert_count", EXPERTS).optional(),
    size("expert_used_count", &["num_experts_per_tok", "num_experts_per_token", "top_k_experts"])
        .optional(),
    size("expert_group_count", &["n_group"]).optional(),
    size("expert_group_used_count", &["topk_group"]).optional(),
    derived("expert_gating_func", gating),
    size("attention.key_length", &["head_dim"]).optional(),
    size("attention.value_length", &["head_dim"]).optional(),
];

const CONTEXT: &[&str] = &[
    "max_position_embeddings",
    "n_ctx",
    "n_positions",
    "max_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
];
const LAYER_NORM_EPS: &[&str] = &["layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"];

/// Names of the number of routed experts.
pub(super) const EXPERTS: &[&str] = &["num_local_experts", "num_experts", "n_routed_experts"];

/// Width of a routed expert.
pub(super) const EXPERT_WIDTH: Key = size("expert_feed_forward_length", &["moe_intermediate_size"]);

/// Whether the weights of the chosen experts are divided by their sum.
pub(super) const NORMALISED: Key = flag("expert_weights_norm", &["norm_topk_prob"]).optional();

/// Pooling of a classifier: the output of its head is the result.
pub(super) const RANK: Key = derived("pooling_type", |config, _| {
    if config.class.ends_with("ForSequenceClassification") { some(4) } else { Ok(None) }
});

/// Labels of a classifier's outputs. Two dummies are what transformers writes for none.
pub(super) const LABELS: Key = derived("classifier.output_labels", |config, _| {
    const MOST: usize = 1 << 16;
    let Some(labels) = config.all.object("id2label")? else { return Ok(None) };
    let mut by_id = BTreeMap::new();
    for (id, label) in labels.entries() {
        if let (Ok(id), Some(label)) = (id.parse::<u32>(), label.as_str()) {
            by_id.insert(id, label.to_owned());
        }
    }
    let dummies = by_id.len() == 2 && by_id.get(&0).is_some_and(|label| label == "LABEL_0");
    if dummies || by_id.is_empty() || by_id.len() > MOST {
        return Ok(None);
    }
    Ok(Some(array(ValueType::String, by_id.into_values())))
});

/// An integer.
pub(super) fn some(size: usize) -> Computed {
    Ok(Some(Value::from(size as u32)))
}

fn f32_value(number: f64) -> Value {
    Value::from(number as f32)
}

fn yarn(rope: &Rope, field: fn(&super::rope::Yarn) -> Option<f64>) -> Computed {
    match &rope.scaling {
        Scaling::Yarn(yarn) => Ok(field(yarn).map(f32_value)),
        _ => Ok(None),
    }
}

fn scaling_type(_: &Config, rope: &Rope) -> Computed {
    Ok(match &rope.scaling {
        Scaling::Linear { .. } => Some("linear".into()),
        Scaling::Yarn(_) => Some("yarn".into()),
        Scaling::Long { .. } => Some("longrope".into()),
        Scaling::None | Scaling::Llama3(_) | Scaling::Proportional => None,
    })
}

/// `rope.scaling.type` of architectures whose graph has no scaling, or that by factors alone.
pub(super) const UNSCALED: Key = derived("rope.scaling.type", |config, rope| match &rope.scaling {
    Scaling::Linear { .. } | Scaling::Yarn(_) | Scaling::Long { .. } => {
        Err(config.unsupported("rope_type", "a scaling", "default, dynamic or llama3"))
    }
    Scaling::None | Scaling::Llama3(_) | Scaling::Proportional => Ok(Some("none".into())),
});

/// Context length of pre-training; the context length where no other is stated.
pub(super) fn original_context(config: &Config, rope: &Rope) -> Result<usize, Error> {
    match rope.original_context {
        Some(context) => Ok(context),
        None => config.all.required_size(CONTEXT),
    }
}

/// Factor on queries and keys of LongRoPE, √(1 + ln(context / original) / ln(original)).
fn long_attention_factor(config: &Config, rope: &Rope) -> Computed {
    let Scaling::Long { factor, attention_factor, .. } = rope.scaling else { return Ok(None) };
    if let Some(factor) = attention_factor {
        return Ok(Some(f32_value(factor)));
    }
    let original = original_context(config, rope)? as f64;
    let scale = match factor {
        Some(factor) => factor,
        None => config.all.required_size(CONTEXT)? as f64 / original,
    };
    let factor = if scale > 1.0 { (1.0 + scale.ln() / original.ln()).sqrt() } else { 1.0 };
    Ok(factor.is_finite().then(|| f32_value(factor)))
}

fn gating(config: &Config, _: &Rope) -> Computed {
    match config.all.text(&["scoring_func", "score_function", "score_func"])? {
        None => Ok(None),
        Some("softmax") => some(1),
        Some("sigmoid") => some(2),
        Some(other) => Err(config.unsupported("scoring_func", other, "softmax or sigmoid")),
    }
}

/// The rotated dimensions of a head.
pub(super) fn rope_dims(config: &Config, rope: &Rope) -> Computed {
    some(rope.dims(config.head_dim))
}

/// The rotated dimensions of a head, half of it by default.
pub(super) fn half_rope_dims(config: &Config, rope: &Rope) -> Computed {
    some(rope.dims_or(config.head_dim, 0.5))
}

/// The width of a head.
pub(super) fn head_dim(config: &Config, _: &Rope) -> Computed {
    some(config.head_dim)
}

/// As [`head_dim`], of models all of whose dimensions are rotated, whatever the class is told.
pub(super) fn whole_heads(config: &Config, rope: &Rope) -> Computed {
    match rope.partial {
        Some(partial) if partial != 1.0 => {
            Err(config.unsupported("partial_rotary_factor", partial, "1"))
        }
        _ => some(config.head_dim),
    }
}

/// [`whole_heads`] as a check, for architectures whose files have no key of the rotated dimensions.
pub(super) const WHOLE_HEADS: Key = check(|config, rope| whole_heads(config, rope).map(|_| None));

/// Number of key-value heads.
pub(super) fn kv_heads(config: &Config, _: &Rope) -> Computed {
    some(config.kv_heads()?)
}

/// The attention window of models where all layers have one, some of them or none.
pub(super) const WINDOW: Key = derived("attention.sliding_window", |config, _| {
    Ok(windows(config)?.map(|(window, _)| Value::from(window as u32)))
});

/// Which layers have the window of [`WINDOW`], if not all.
pub(super) const WINDOWED: Key = derived("attention.sliding_window_pattern", |config, _| {
    let some = windows(config)?.filter(|(_, windowed)| windowed.contains(&false));
    Ok(some.map(|(_, windowed)| flags(windowed)))
});

/// The window, and which layers have it; `None` if no layer has.
fn windows(config: &Config) -> Result<Option<(usize, Vec<bool>)>, Error> {
    let all = &config.all;
    let switch = all.flag(&["use_sliding_window"])?;
    let window = all.size(&["sliding_window"])?.filter(|window| *window > 0);
    let Some(window) = window.filter(|_| switch != Some(false)) else {
        all.disregard(&["sliding_window", "max_window_layers"]);
        return Ok(None);
    };
    let windowed: Vec<bool> = match config.layer_types()? {
        Some(types) => {
            all.disregard(&["max_window_layers"]);
            types.into_iter().map(|name| name == "sliding_attention").collect()
        }
        // "Layers below it use full attention": the first `max_window_layers` of Qwen.
        None if switch.is_some() || all.size(&["max_window_layers"])?.is_some() => {
            let first = all.size(&["max_window_layers"])?.unwrap_or(0);
            (0..config.layers).map(|layer| layer >= first).collect()
        }
        None => vec![true; config.layers],
    };
    let some = windowed.contains(&true);
    if some && windowed.contains(&false) && !config.class_has("layer_types") {
        let expected = "a window in all layers or in none, as transformers has for this model_type";
        return Err(config.unsupported("layer_types", "a mixture", expected));
    }
    Ok(some.then_some((window, windowed)))
}

/// Which layers have a window, by `layer_types`.
pub(super) fn window_pattern(config: &Config, _: &Rope) -> Computed {
    let Some(types) = config.layer_types()? else { return Ok(None) };
    Ok(Some(flags(types.into_iter().map(|name| name == "sliding_attention"))))
}

/// Which layers have a window, by `layer_types` or with full attention in every fourth.
pub(super) fn window_pattern_of_4(config: &Config, rope: &Rope) -> Computed {
    match window_pattern(config, rope)? {
        Some(pattern) => Ok(Some(pattern)),
        None => Ok(Some(flags((1..=config.layers).map(|layer| !layer.is_multiple_of(4))))),
    }
}

/// The feed-forward width, four times the residual stream by default.
pub(super) fn four_times_hidden(config: &Config, _: &Rope) -> Computed {
    let names = &["intermediate_size", "n_inner", "ffn_hidden_size"];
    match config.all.size(names)? {
        Some(width) => some(width),
        None => some(config.hidden.saturating_mul(4).min(u32::MAX as usize)),
    }
}
