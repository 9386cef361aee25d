//! Rotary position embedding: `rope_parameters` since transformers 5, `rope_theta` and
//! `rope_scaling` before.

use super::config::Config;
use super::json::{Object, shown};
use crate::Error;

/// The parameters of layers with full attention, and the base of layers with a window.
#[derive(Debug)]
pub(super) struct Rope {
    parameters: Option<Object>,
    pub(super) theta: Option<f64>,
    /// Base of the frequencies in layers with a window, if it is stated.
    pub(super) local_theta: Option<f64>,
    /// Share of a head's dimensions that are rotated.
    pub(super) partial: Option<f64>,
    /// As `partial`, in layers with a window.
    pub(super) local_partial: Option<f64>,
    /// Context length of pre-training.
    pub(super) original_context: Option<usize>,
    pub(super) scaling: Scaling,
}

/// Values of `model_type` whose layers with a window may rotate a part of a head.
const PARTIAL_WINDOWS: &[&str] = &["laguna", "mimo_v2_flash"];

/// Scaling of frequencies for long contexts.
#[derive(Debug)]
pub(super) enum Scaling {
    None,
    Linear {
        factor: f64,
    },
    Yarn(Yarn),
    /// Frequencies are divided by factors (Meta, Llama 3.1).
    Llama3(Llama3),
    /// Frequencies are divided by one of two lists (Ding et al., 2024, arXiv:2402.13753).
    Long {
        long: Vec<f32>,
        short: Vec<f32>,
        /// The extension, and the factor on queries and keys, where the file states them.
        factor: Option<f64>,
        attention_factor: Option<f64>,
    },
    /// Only the first `partial` of the angles turn (Gemma 4).
    Proportional,
}

/// Parameters of YaRN (Peng et al., 2023, arXiv:2309.00071).
#[derive(Debug)]
pub(super) struct Yarn {
    pub(super) factor: f64,
    pub(super) original_context: usize,
    pub(super) ext_factor: Option<f64>,
    pub(super) attn_factor: Option<f64>,
    pub(super) beta_fast: Option<f64>,
    pub(super) beta_slow: Option<f64>,
    pub(super) mscale_all_dim: Option<f64>,
    /// Whether the bounds of the blend are rounded to whole pairs.
    pub(super) truncate: Option<bool>,
    pub(super) temperature: Option<f64>,
}

#[derive(Debug)]
pub(super) struct Llama3 {
    factor: f64,
    low: f64,
    high: f64,
    original_context: f64,
}

impl Rope {
    pub(super) fn read(config: &Config) -> Result<Self, Error> {
        let all = &config.all;
        let older = all.object("rope_scaling")?;
        let stated = match all.object("rope_parameters")? {
            Some(parameters) => {
                if older.is_some() && all.get("rope_scaling") != all.get("rope_parameters") {
                    let expected = "null, as rope_parameters is there";
                    return Err(all.invalid("rope_scaling", "another object", expected));
                }
                Some(parameters)
            }
            None => older,
        };
        let local = match &stated {
            Some(parameters) => parameters.object("sliding_attention")?,
            None => None,
        };
        let full = match &stated {
            Some(parameters) => parameters.object("full_attention")?,
            None => None,
        };
        if let Some(local) = &local
            && let Some(kind) = local.text(&["rope_type", "type"])?
            && kind != "default"
        {
            return Err(local.invalid("rope_type", kind, "default in layers with a window"));
        }
        if let Some(local) = &local
            && let Some(partial) = local.number(&["partial_rotary_factor"])?
            && partial != 1.0
            && !PARTIAL_WINDOWS.contains(&config.model_type.as_str())
        {
            return Err(local.invalid(
                "partial_rotary_factor",
                partial,
                "1 in layers with a window",
            ));
        }
        let local_partial = match &local {
            Some(local) => local.number(&["partial_rotary_factor"])?,
            None => None,
        };
        let nested = full.is_some();
        let parameters = full.or(stated);

        let own = |names: &[&str]| parameters.as_ref().map(|p| p.number(names)).transpose();
        let theta = match own(&["rope_theta"])?.flatten() {
            // next to it the older keys change nothing, as in transformers
            Some(theta) => {
                all.disregard(&["rope_theta", "rotary_emb_base", "global_rope_theta"]);
                Some(theta)
            }
            None => all.number(&["global_rope_theta", "rotary_emb_base", "rope_theta"])?,
        };
        let local_theta = match &local {
            Some(local) => local.number(&["rope_theta"])?,
            None if nested => None,
            None => all.number(&["local_rope_theta", "rope_local_base_freq", "swa_rope_theta"])?,
        };
        let theta = match own(&["alpha"])?.flatten() {
            Some(alpha) if config.model_type.starts_with("hunyuan_v1") => {
                stretched(config, parameters.as_ref(), theta, alpha)?
            }
            _ => theta,
        };
        for theta in [theta, local_theta].into_iter().flatten() {
            if theta <= 0.0 {
                return Err(all.invalid("rope_theta", theta, "a number above 0"));
            }
        }
        // older names first: defaults have the newest name
        let partial = match own(&["partial_rotary_factor"])?.flatten() {
            Some(partial) => Some(partial),
            None => all.number(&["rotary_pct", "rope_pct", "partial_rotary_factor"])?,
        };
        for partial in [partial, local_partial].into_iter().flatten() {
            if !(partial > 0.0 && partial <= 1.0) {
                let expected = "a number above 0 and at most 1";
                return Err(all.invalid("partial_rotary_factor", partial, expected));
            }
        }
        let original = "original_max_position_embeddings";
        let inner = parameters.as_ref().map(|own| own.size(&[original])).transpose()?.flatten();
        // transformers has this order
        let original_context = all.size(&[original])?.or(inner);
        let mut rope = Self {
            parameters,
            theta,
            local_theta,
            partial,
            local_partial,
            original_context,
            scaling: Scaling::None,
        };
        rope.scaling = rope.scaling(config)?;
        Ok(rope)
    }

    fn scaling(&self, config: &Config) -> Result<Scaling, Error> {
        let Some(own) = &self.parameters else { return Ok(Scaling::None) };
        let positive = |key: &str| -> Result<f64, Error> {
            let value = own.required_number(&[key])?;
            if value > 0.0 { Ok(value) } else { Err(own.invalid(key, value, "a number above 0")) }
        };
        let original = || match self.original_context {
            Some(0) => Err(own.invalid("original_max_position_embeddings", 0, "at least 1")),
            Some(context) => Ok(context),
            // transformers' rule for parameters without it.
            None => config.all.required_size(&["max_position_embeddings"]),
        };
        Ok(match own.text(&["rope_type", "type"])? {
            // "dynamic" changes nothing up to the context length of the configuration; "mrope"
            // only concerns positions in images.
            None | Some("default" | "dynamic" | "mrope") => Scaling::None,
            Some("linear") => Scaling::Linear { factor: positive("factor")? },
            Some("yarn") => Scaling::Yarn(Yarn {
                factor: positive("factor")?,
                original_context: original()?,
                ext_factor: own.number(&["extrapolation_factor"])?,
                attn_factor: yarn_factor(own)?,
                beta_fast: own.number(&["beta_fast"])?,
                beta_slow: own.number(&["beta_slow"])?,
                mscale_all_dim: own.number(&["mscale_all_dim"])?,
                truncate: own.flag(&["truncate"])?,
                temperature: own.number(&["llama_4_scaling_beta"])?,
            }),
            Some("llama3") => Scaling::Llama3(Llama3 {
                factor: positive("factor")?,
                low: positive("low_freq_factor")?,
                high: positive("high_freq_factor")?,
                original_context: original()? as f64,
            }),
            Some("longrope" | "su") => Scaling::Long {
                long: factors(own, "long_factor")?,
                short: factors(own, "short_factor")?,
                factor: own.number(&["factor"])?,
                attention_factor: own.number(&["attention_factor"])?,
            },
            Some("proportional") => Scaling::Proportional,
            Some(other) => {
                let expected = "default, linear, dynamic, yarn, llama3, longrope or proportional";
                return Err(own.invalid("rope_type", other, expected));
            }
        })
    }

    /// Number of rotated dimensions of a head.
    pub(super) fn dims(&self, head_dim: usize) -> usize {
        self.dims_or(head_dim, 1.0)
    }

    /// Number of rotated dimensions of a head, with a default of the share.
    pub(super) fn dims_or(&self, head_dim: usize, partial: f64) -> usize {
        (self.partial.unwrap_or(partial) * head_dim as f64) as usize
    }

    /// `rope.dimension_sections`: the pairs that follow time, height, width and nothing.
    pub(super) fn sections(&self) -> Result<Option<Vec<i32>>, Error> {
        let Some(own) = &self.parameters else { return Ok(None) };
        let Some(list) = own.list("mrope_section")? else { return Ok(None) };
        let section =
            |value: &serde_json::Value| value.as_i64().and_then(|v| i32::try_from(v).ok());
        let mut sections =
            list.iter().take(4).map(section).collect::<Option<Vec<_>>>().ok_or_else(|| {
                own.invalid("mrope_section", "a list of other values", "a list of integers")
            })?;
        sections.resize(4, 0);
        Ok(Some(sections))
    }
}

/// YaRN's factor on queries and keys, if it is stated or not by the rule of the paper; as in
/// transformers' `_compute_yarn_parameters`.
fn yarn_factor(own: &Object) -> Result<Option<f64>, Error> {
    let stated = own.number(&["attention_factor", "attn_factor"])?;
    let factor = own.required_number(&["factor"])?;
    let scale = |mscale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * mscale * factor.ln() + 1.0 };
    let set = |key| Ok::<_, Error>(own.number(&[key])?.filter(|mscale| *mscale != 0.0));
    Ok(stated.or(match (set("mscale")?, set("mscale_all_dim")?) {
        (Some(mscale), Some(all)) => Some(scale(mscale) / scale(all)),
        (None, None) => None,
        _ => Some(scale(1.0)),
    }))
}

fn factors(own: &Object, key: &str) -> Result<Vec<f32>, Error> {
    const MOST: usize = 1 << 16;
    let list = own.list(key)?.ok_or_else(|| own.missing(key, "a list of numbers"))?;
    if list.len() > MOST {
        return Err(own.invalid(key, format!("a list of {}", list.len()), "at most 65536 numbers"));
    }
    list.iter()
        .map(|value| match value.as_f64() {
            Some(factor) if factor > 0.0 && (factor as f32).is_finite() => Ok(factor as f32),
            _ => Err(own.invalid(key, shown(value), "a list of numbers above 0")),
        })
        .collect()
}

/// The base of Hunyuan 1, which its type "dynamic" stretches by a fixed factor at all lengths
/// (`compute_ntk_alpha_rope_parameters` in transformers' `modeling_hunyuan_v1_dense.py`).
fn stretched(
    config: &Config,
    own: Option<&Object>,
    theta: Option<f64>,
    alpha: f64,
) -> Result<Option<f64>, Error> {
    let kind = own.map(|own| own.text(&["rope_type", "type"])).transpose()?.flatten();
    let dims = config.head_dim as f64;
    if kind != Some("dynamic") || alpha == 0.0 {
        return Ok(theta);
    }
    if alpha < 0.0 || dims <= 2.0 {
        return Err(config.unsupported("alpha", alpha, "a number of at least 0"));
    }
    Ok(theta.map(|theta| theta * alpha.powf(dims / (dims - 2.0))))
}

impl Llama3 {
    /// Divisors of the pairs' frequencies `[dims / 2]`; the formula is
    /// `_compute_llama3_parameters` in transformers' `modeling_rope_utils.py`.
    pub(super) fn divisors(&self, theta: f64, dims: usize) -> Vec<f32> {
        (0..dims / 2)
            .map(|pair| {
                let frequency = theta.powf(-2.0 * pair as f64 / dims as f64);
                // Number of rotations of the pair within the context of pre-training.
                let turns = self.original_context * frequency / std::f64::consts::TAU;
                let divisor = if turns > self.high {
                    1.0
                } else if turns < self.low {
                    self.factor
                } else {
                    let smooth = (turns - self.low) / (self.high - self.low);
                    1.0 / ((1.0 - smooth) / self.factor + smooth)
                };
                divisor as f32
            })
            .collect()
    }
}
