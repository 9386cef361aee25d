//! Scans in parallel with attention: Falcon-H1.

use super::llama::{LLAMA, ROPE_DIMS, VOCAB};
use super::states::{MAMBA, SCAN};
use crate::hf::config::Config;
use crate::hf::family::Family;
use crate::hf::keys::{derived, flag, number};
use crate::hf::names::{ATTENTION, ENDS};
use crate::hf::rope::Rope;
use crate::hf::rules::{Rule, keep};
use crate::{Error, Value};

type Computed = Result<Option<Value>, Error>;

const FALCON: &[Rule] = &[
    keep("input_layernorm", "attn_norm"),
    keep("pre_ff_layernorm", "ffn_norm"),
    keep("feed_forward.gate_proj", "ffn_gate"),
    keep("feed_forward.up_proj", "ffn_up"),
    keep("feed_forward.down_proj", "ffn_down"),
];
const FALCON_ENDS: &[Rule] = &[keep("final_layernorm", "output_norm")];

pub(super) const FAMILIES: &[Family] = &[Family {
    classes: &["FalconH1ForCausalLM"],
    types: &["falcon_h1"],
    architecture: "falcon-h1",
    keys: &[
        SCAN,
        &[
            VOCAB,
            ROPE_DIMS,
            derived("ssm.inner_size", falcon_inner),
            flag("ssm.norm_before_gate", &["mamba_norm_before_gate"]),
            number("embedding_scale", &["embedding_multiplier"]).optional(),
            number("logit_scale", &["lm_head_multiplier"]).optional(),
            number("attention.input_scale", &["attention_in_multiplier"]).optional(),
            number("attention.key_scale", &["key_multiplier"]).optional(),
            number("attention.output_scale", &["attention_out_multiplier"]).optional(),
            number("ssm.input_scale", &["ssm_in_multiplier"]).optional(),
            number("ssm.output_scale", &["ssm_out_multiplier"]).optional(),
            derived("ssm.gate_scale", |config, _| factor(config, "ssm_multipliers", 0, 5)),
            derived("ssm.x_scale", |config, _| factor(config, "ssm_multipliers", 1, 5)),
            derived("ssm.b_scale", |config, _| factor(config, "ssm_multipliers", 2, 5)),
            derived("ssm.c_scale", |config, _| factor(config, "ssm_multipliers", 3, 5)),
            derived("ssm.step_scale", |config, _| factor(config, "ssm_multipliers", 4, 5)),
            derived("feed_forward.gate_scale", |config, _| factor(config, "mlp_multipliers", 0, 2)),
            derived("feed_forward.output_scale", |config, _| {
                factor(config, "mlp_multipliers", 1, 2)
            }),
        ],
    ],
    globals: &[ENDS, FALCON_ENDS],
    blocks: &[ATTENTION, MAMBA, FALCON],
    ..LLAMA
}];

/// Elements of the inputs of all heads of Falcon-H1's scan.
fn falcon_inner(config: &Config, _: &Rope) -> Computed {
    let inner = match config.all.size(&["mamba_d_ssm"])? {
        Some(inner) => {
            config.all.disregard(&["mamba_expand"]);
            inner
        }
        None => config.all.required_size(&["mamba_expand"])?.saturating_mul(config.hidden),
    };
    match config.all.get("mamba_d_head") {
        Some(stated) if stated.as_str() == Some("auto") => {}
        _ => check_inner(config, inner, ["mamba_n_heads", "mamba_d_head"])?,
    }
    Ok(Some(Value::from(inner as u32)))
}

/// Rejects heads that are not `inner` elements together.
fn check_inner(config: &Config, inner: usize, keys: [&str; 2]) -> Result<(), Error> {
    let heads = config.all.required_size(&[keys[0]])?;
    let dim = config.all.required_size(&[keys[1]])?;
    if dim.checked_mul(heads) != Some(inner) || u32::try_from(inner).is_err() {
        let expected = format!("{inner} / {heads}, the inner width per head");
        return Err(config.unsupported(keys[1], dim, &expected));
    }
    Ok(())
}

/// An item of a list of multipliers.
fn factor(config: &Config, key: &str, index: usize, len: usize) -> Computed {
    let Some(all) = config.all.list(key)? else { return Ok(None) };
    match all.get(index).and_then(serde_json::Value::as_f64) {
        Some(factor) if all.len() == len => Ok(Some((factor as f32).into())),
        _ => Err(config.unsupported(key, "another list", &format!("{len} numbers"))),
    }
}
