//! Parameters of rotary position embedding (RoPE) from a file's metadata.

use crate::Error;
use crate::keys::{Keys, MAX_SIZE};

/// Parameters of rotary position embedding (Su et al., 2021, arXiv:2104.09864).
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Base of the frequencies: pair `i` rotates by `theta^(-2i / dims)` radians per position.
    /// Finite and above 0.
    pub theta: f32,
    /// Number of rotated dimensions of a head; even, at most the head's width.
    pub dims: usize,
    /// Scaling of the frequencies for long contexts.
    pub scaling: RopeScaling,
}

/// Scaling of rotary frequencies beyond the context of pre-training.
///
/// Llama 3's scaling is not among these: it is a tensor, `rope_freqs.weight`, of divisors of the
/// pairs' frequencies `[dims / 2]`.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// No scaling.
    None,
    /// Positions are divided by a factor.
    Linear {
        /// Finite and above 0.
        factor: f32,
    },
    /// YaRN (Peng et al., 2023, arXiv:2309.00071): high frequencies are kept, low frequencies are
    /// interpolated, those between are blended. The parameters are those of ggml's `rope_yarn`.
    Yarn {
        /// Interpolation factor of low frequencies. Finite and above 0.
        factor: f32,
        /// Context length of pre-training, in positions.
        original_context: usize,
        /// Weight of the original frequencies in the blend, 0 to 1.
        ext_factor: f32,
        /// Factor on queries and keys, in addition to the paper's `0.1 ln(factor) + 1`. Finite
        /// and above 0.
        attn_factor: f32,
        /// Number of rotations in the original context at and above which a frequency is kept.
        beta_fast: f32,
        /// Number of rotations in the original context below which a frequency is fully
        /// interpolated.
        beta_slow: f32,
    },
}

/// Reads the parameters for heads of width `head_dim`.
pub(crate) fn rope(keys: &Keys<'_>, head_dim: usize) -> Result<Rope, Error> {
    let theta = keys.positive("rope.freq_base")?;
    // "rope.dimension_count: the number of rotary dimensions"; llama.cpp's loader defaults to the
    // whole head.
    let dims = keys.opt_size("rope.dimension_count", MAX_SIZE)?.unwrap_or(head_dim);
    if dims > head_dim || !dims.is_multiple_of(2) {
        let expected = format!("an even number of at most {head_dim}, the length of a head");
        return Err(keys.invalid("rope.dimension_count", dims, expected));
    }
    Ok(Rope { theta, dims, scaling: scaling(keys)? })
}

fn scaling(keys: &Keys<'_>) -> Result<RopeScaling, Error> {
    let type_name = "rope.scaling.type";
    match keys.metadata.opt_string(&keys.key(type_name))? {
        None => unnamed_scaling(keys),
        Some("none") => Ok(RopeScaling::None),
        Some("linear") => Ok(RopeScaling::Linear { factor: keys.positive("rope.scaling.factor")? }),
        Some("yarn") => yarn(keys),
        Some(other) => {
            let expected = "\"none\", \"linear\" or \"yarn\"".to_owned();
            Err(keys.invalid(type_name, format!("{other:?}"), expected))
        }
    }
}

/// Reads the scaling of files without `rope.scaling.type`: older files have `rope.scale_linear`,
/// which the specification still lists. A factor of 1 means no scaling.
fn unnamed_scaling(keys: &Keys<'_>) -> Result<RopeScaling, Error> {
    if let Some(factor) = keys.opt_positive("rope.scaling.factor")?
        && factor != 1.0
    {
        let expected = format!("no factor, since {} is missing", keys.key("rope.scaling.type"));
        return Err(keys.invalid("rope.scaling.factor", factor, expected));
    }
    Ok(match keys.opt_positive("rope.scale_linear")? {
        Some(factor) if factor != 1.0 => RopeScaling::Linear { factor },
        _ => RopeScaling::None,
    })
}

fn yarn(keys: &Keys<'_>) -> Result<RopeScaling, Error> {
    let ext_name = "rope.scaling.yarn_ext_factor";
    let ext_factor = keys.metadata.opt_f32(&keys.key(ext_name))?.unwrap_or(1.0);
    if !(0.0..=1.0).contains(&ext_factor) {
        return Err(keys.invalid(ext_name, ext_factor, "a number from 0 to 1".to_owned()));
    }
    // Defaults of the paper (section 3.2: "we recommend α = 1 and β = 32"), which converters
    // omit.
    let beta_fast = keys.opt_positive("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0);
    let beta_slow = keys.opt_positive("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0);
    if beta_slow >= beta_fast {
        let expected = format!("less than {beta_fast}, the value of yarn_beta_fast");
        return Err(keys.invalid("rope.scaling.yarn_beta_slow", beta_slow, expected));
    }
    Ok(RopeScaling::Yarn {
        factor: keys.positive("rope.scaling.factor")?,
        original_context: keys.size("rope.scaling.original_context_length", MAX_SIZE)?,
        ext_factor,
        attn_factor: keys.opt_positive("rope.scaling.yarn_attn_factor")?.unwrap_or(1.0),
        beta_fast,
        beta_slow,
    })
}
