//! Qwen3-Next and Qwen3.5: three layers of linear attention, then one of full attention.

use crate::hf::common_keys::some;
use crate::hf::config::Config;
use crate::hf::family::Family;
use crate::hf::keys::{Key, array, derived, flags, size};
use crate::hf::names::{
    ATTENTION, ENDS, EXPERTS, GATED, PRE_NORMS_BY_PLACE, QK_NORMS, SHARED_EXPERT,
};
use crate::hf::rope::Rope;
use crate::hf::rules::{How, Rule, change, keep, parts};
use crate::hf::transforms::{delta_columns, delta_heads, delta_qkv, delta_qkvz, delta_values};
use crate::{Error, Value, ValueType};

type Computed = Result<Option<Value>, Error>;

const CONV: Key = size("ssm.conv_kernel", &["linear_conv_kernel_dim"]);
const STATE: Key = size("ssm.state_size", &["linear_key_head_dim"]);
const GROUPS: Key = size("ssm.group_count", &["linear_num_key_heads"]);
const RANK: Key = size("ssm.time_step_rank", &["linear_num_value_heads"]);
const INNER: Key = derived("ssm.inner_size", |config, _| {
    let heads = config.all.required_size(&["linear_num_value_heads"])?;
    let width = config.all.required_size(&["linear_value_head_dim"])?;
    match u32::try_from(heads.saturating_mul(width)) {
        Ok(inner) => Ok(Some(inner.into())),
        Err(_) => Err(config.unsupported("linear_value_head_dim", width, "a smaller width")),
    }
});
const RECURRENT: Key = derived("attention.recurrent_layers", |config, _| {
    let Some(types) = config.layer_types()? else { return Ok(None) };
    Ok(Some(flags(types.into_iter().map(|name| name == "linear_attention"))))
});
const INTERVAL: Key = derived("full_attention_interval", |config, _| {
    some(config.all.size(&["full_attention_interval"])?.unwrap_or(4))
});
const ROPE_DIMS: Key =
    derived("rope.dimension_count", |config, rope| some(rope.dims_or(config.head_dim, 0.25)));
const EXPERT_WIDTH: Key = size("expert_feed_forward_length", &["moe_intermediate_size"]);
const SHARED_WIDTH: Key =
    size("expert_shared_feed_forward_length", &["shared_expert_intermediate_size"]);
const SECTIONS: Key = derived("rope.dimension_sections", sections);

/// Linear attention with the value heads in the order of the key heads.
const GROUPED: &[Rule] = &[
    parts("linear_attn.in_proj_qkvz.weight", "", delta_qkvz),
    keep("linear_attn.in_proj_ba", "ssm_ba"),
    change("linear_attn.conv1d", "ssm_conv1d", How::Squeeze),
    change("linear_attn.A_log", "ssm_a", How::NegExp(None)),
    keep("linear_attn.dt_bias", "ssm_dt.bias"),
    keep("linear_attn.norm", "ssm_norm"),
    keep("linear_attn.out_proj", "ssm_out"),
];

/// Linear attention whose value heads GGUF has in another order.
const TILED: &[Rule] = &[
    parts("linear_attn.in_proj_qkv", "attn_qkv", delta_qkv),
    parts("linear_attn.in_proj_z", "attn_gate", delta_values),
    parts("linear_attn.in_proj_a", "ssm_alpha", delta_heads),
    parts("linear_attn.in_proj_b", "ssm_beta", delta_heads),
    parts("linear_attn.conv1d", "ssm_conv1d", delta_qkv),
    change("linear_attn.A_log", "ssm_a", How::NegExp(Some(delta_heads))),
    parts("linear_attn.dt_bias", "ssm_dt.bias", delta_heads),
    keep("linear_attn.norm", "ssm_norm"),
    parts("linear_attn.out_proj", "ssm_out", delta_columns),
];

const NEXT: Family = Family {
    classes: &["Qwen3NextForCausalLM"],
    types: &["qwen3_next"],
    architecture: "qwen3next",
    keys: &[&[
        EXPERT_WIDTH,
        SHARED_WIDTH,
        CONV,
        STATE,
        GROUPS,
        RANK,
        INNER,
        RECURRENT,
        INTERVAL,
        ROPE_DIMS,
    ]],
    globals: &[ENDS],
    blocks: &[ATTENTION, QK_NORMS, PRE_NORMS_BY_PLACE, GROUPED, EXPERTS, SHARED_EXPERT, GATED],
    minus_one: "norm.weight",
    ..Family::DECODER
};

pub(super) const FAMILIES: &[Family] = &[
    NEXT,
    Family {
        classes: &["Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"],
        types: &["qwen3_5_text"],
        architecture: "qwen35",
        keys: &[&[CONV, STATE, GROUPS, RANK, INNER, RECURRENT, INTERVAL, ROPE_DIMS, SECTIONS]],
        blocks: &[ATTENTION, QK_NORMS, PRE_NORMS_BY_PLACE, TILED, GATED],
        ..NEXT
    },
    Family {
        classes: &["Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration"],
        types: &["qwen3_5_moe_text"],
        architecture: "qwen35moe",
        keys: &[&[
            EXPERT_WIDTH,
            SHARED_WIDTH,
            CONV,
            STATE,
            GROUPS,
            RANK,
            INNER,
            RECURRENT,
            INTERVAL,
            ROPE_DIMS,
            SECTIONS,
        ]],
        blocks: &[ATTENTION, QK_NORMS, PRE_NORMS_BY_PLACE, TILED, EXPERTS, SHARED_EXPERT],
        ..NEXT
    },
];

/// Pairs that follow time, height and width; transformers' default where a file omits them.
fn sections(_: &Config, rope: &Rope) -> Computed {
    let sections = rope.sections()?.unwrap_or_else(|| vec![11, 11, 10, 0]);
    Ok(Some(array(ValueType::I32, sections)))
}
