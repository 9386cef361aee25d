//! Rotary position embedding, as a file's metadata describes it.

use crate::Error;
use crate::hyper::{Keys, MAX_SIZE};

/// Rotary position embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// The base of the frequencies: pair `i` turns by `theta^(-2i / dims)` a position. Finite
    /// and above 0.
    pub theta: f32,
    /// How many numbers of a head turn; even, at most the head's length.
    pub dims: usize,
    /// How the frequencies are stretched for long contexts.
    pub scaling: RopeScaling,
}

/// How rotary frequencies are stretched beyond the context of the first training.
///
/// Llama 3's scaling is none of these: it comes as a tensor, `rope_freqs.weight`, by which each
/// pair's frequency is divided.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// Positions are divided by a factor.
    Linear {
        /// Finite and above 0.
        factor: f32,
    },
    /// YaRN (Peng et al., 2023, arXiv:2309.00071): fast pairs are left alone, slow ones
    /// stretched, those between blended. The numbers are those of ggml's `rope_yarn`.
    Yarn {
        /// By how much slow pairs are stretched. Finite and above 0.
        factor: f32,
        /// Positions of the first training.
        original_context: usize,
        /// The weight of unstretched frequencies in the blend, 0 to 1.
        ext_factor: f32,
        /// What queries and keys are multiplied by, beside the `0.1 ln(factor) + 1` that the
        /// paper asks for. Finite and above 0.
        attn_factor: f32,
        /// Turns in the original context from which on a pair is left alone.
        beta_fast: f32,
        /// Turns in the original context below which a pair is stretched in full.
        beta_slow: f32,
    },
}

/// Reads the rotary embedding of heads of length `head_dim`.
pub(crate) fn rope(keys: &Keys<'_>, head_dim: usize) -> Result<Rope, Error> {
    let theta = keys.positive("rope.freq_base")?;
    // "rope.dimension_count: the number of rotary dimensions"; llama.cpp's loader takes a whole
    // head where it is absent.
    let dims = keys.opt_size("rope.dimension_count", MAX_SIZE)?.unwrap_or(head_dim);
    if dims > head_dim || !dims.is_multiple_of(2) {
        let expected = format!("an even number of at most {head_dim}, the length of a head");
        return Err(keys.absurd("rope.dimension_count", dims, expected));
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
            Err(keys.absurd(type_name, format!("{other:?}"), expected))
        }
    }
}

/// Files from before `rope.scaling.type` say `rope.scale_linear`, which the specification still
/// lists. A factor of 1 says nothing.
fn unnamed_scaling(keys: &Keys<'_>) -> Result<RopeScaling, Error> {
    if let Some(factor) = keys.opt_positive("rope.scaling.factor")?
        && factor != 1.0
    {
        let expected = format!("no factor, since {} is missing", keys.key("rope.scaling.type"));
        return Err(keys.absurd("rope.scaling.factor", factor, expected));
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
        return Err(keys.absurd(ext_name, ext_factor, "a number from 0 to 1".to_owned()));
    }
    // The paper's values (section 3.2: "we recommend α = 1 and β = 32"), which converters leave
    // out.
    let beta_fast = keys.opt_positive("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0);
    let beta_slow = keys.opt_positive("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0);
    if beta_slow >= beta_fast {
        let expected = format!("less than {beta_fast}, the fast one");
        return Err(keys.absurd("rope.scaling.yarn_beta_slow", beta_slow, expected));
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
