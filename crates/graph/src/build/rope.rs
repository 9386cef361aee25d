//! Rotary embeddings from keys and tables.

use pelton_weights::{Keys, MAX_SIZE, Source, interleaves_heads};

use super::options::BuildOptions;
use super::pictures;
use super::sizes::Sizes;
use super::tensors::Tensors;
use crate::{
    Error, Rope, RopeId, RopeStyle,
    arch::RopeRule,
    rope::{Scaling, Yarn},
};

/// The base without the key `rope.freq_base` (RoFormer, arXiv 2104.09864).
const BASE: f32 = 10_000.0;

/// The rotary embeddings of a model, each kept once.
pub(super) struct Ropes<'a> {
    rule: RopeRule,
    keys: Keys<'a>,
    /// Positions that sequences have at most.
    context: usize,
    /// Positions before the context was extended.
    pub(super) original_context: usize,
    scaling: Scaling,
    /// The factor of cosines and sines, but for that of LongRoPE.
    factor: f32,
    /// The axes of pairs, in a model with a vision tower.
    sections: Option<[usize; 3]>,
    pub(super) all: Vec<Rope>,
}

impl<'a> Ropes<'a> {
    pub(super) fn new(
        rule: RopeRule,
        keys: Keys<'a>,
        sizes: &Sizes,
        options: &BuildOptions,
    ) -> Result<Self, Error> {
        let original = keys.opt_size("rope.scaling.original_context_length", MAX_SIZE)?;
        let mut ropes = Self {
            rule,
            keys,
            context: options.context.map_or(sizes.context, |most| most.min(sizes.context)),
            sections: match options.pictures {
                Some(_) => pictures::sections(rule.axes, &keys)?,
                None => None,
            },
            original_context: original.unwrap_or(sizes.context),
            scaling: Scaling::None,
            factor: keys.opt_positive("rope.scaling.attn_factor")?.unwrap_or(1.0),
            all: Vec::new(),
        };
        ropes.scaling = ropes.read_scaling()?;
        if let Scaling::Yarn(yarn) = ropes.scaling {
            ropes.factor *= ropes.yarn_factor(&yarn)?;
        }
        Ok(ropes)
    }

    /// The rotation of heads of `head_dim` elements in windowed (`local`) or other layers.
    pub(super) fn rope(
        &mut self,
        tensors: &mut Tensors<'_>,
        local: bool,
        head_dim: usize,
    ) -> Result<RopeId, Error> {
        let base = self.keys.opt_positive("rope.freq_base")?.unwrap_or(BASE);
        let local_base = self.keys.opt_positive("rope.freq_base_swa")?.or(self.rule.local_base);
        let base = local_base.filter(|_| local).unwrap_or(base);
        let is_of_halves =
            tensors.source() == Source::HuggingFace && interleaves_heads(self.keys.architecture());
        let style = if is_of_halves { RopeStyle::Halves } else { self.rule.style };
        let dims = self.dims(local, head_dim)?;
        let mut rope = match local && !self.rule.local_scaled {
            true => Rope::new(style, base, dims, Scaling::None, None),
            false => self.extended(tensors, style, base, dims)?,
        };
        if let Some(sections) = self.sections {
            rope.axes = pictures::axes(self.rule.axes, sections, dims / 2);
        }
        let known = self.all.iter().position(|known| *known == rope);
        Ok(RopeId(known.unwrap_or_else(|| {
            self.all.push(rope);
            self.all.len() - 1
        })))
    }

    /// The rotated elements of a head.
    fn dims(&self, local: bool, head_dim: usize) -> Result<usize, Error> {
        let (name, local_name) = ("rope.dimension_count", "rope.dimension_count_swa");
        let stated = self.keys.opt_size(name, MAX_SIZE)?;
        let local_stated = self.keys.opt_size(local_name, MAX_SIZE)?;
        let (name, dims) = match local_stated.filter(|_| local) {
            Some(dims) => (local_name, dims),
            None => (name, stated.unwrap_or(head_dim)),
        };
        if dims > head_dim || !dims.is_multiple_of(2) {
            let expected = format!("an even number of at most {head_dim}, the length of a head");
            return Err(self.keys.invalid(name, dims, expected).into());
        }
        Ok(dims)
    }

    /// The rotation with the model's context extension: by a table of divisors, or by a formula.
    fn extended(
        &self,
        tensors: &mut Tensors<'_>,
        style: RopeStyle,
        base: f32,
        dims: usize,
    ) -> Result<Rope, Error> {
        const LONG: &str = "rope_factors_long.weight";
        const SHORT: &str = "rope_factors_short.weight";
        const DIVISORS: &str = "rope_freqs.weight";
        if tensors.has(LONG) || tensors.has(SHORT) {
            let long = divisors_of(tensors, LONG, dims)?;
            let short = divisors_of(tensors, SHORT, dims)?;
            let divisors = if self.is_long() { long } else { short };
            let mut rope = Rope::new(style, base, dims, Scaling::None, Some(&divisors));
            rope.factor = self.long_factor()?;
            rope.scaling = "longrope";
            return Ok(rope);
        }
        let divisors = match tensors.has(DIVISORS) {
            true => Some(divisors_of(tensors, DIVISORS, dims)?),
            false => None,
        };
        let mut rope = Rope::new(style, base, dims, self.scaling, divisors.as_deref());
        rope.factor = self.factor;
        Ok(rope)
    }

    /// Whether sequences may be longer than LongRoPE's short table is meant for.
    fn is_long(&self) -> bool {
        self.context > self.original_context
    }

    /// Positions that the rotations of a model with LongRoPE hold for, given the tables' presence.
    pub(super) fn context(&self) -> Option<usize> {
        let is_short = self.all.iter().any(|rope| rope.scaling == "longrope") && !self.is_long();
        is_short.then_some(self.original_context)
    }

    /// The factor of LongRoPE's cosines and sines (arXiv 2402.13753): that of the file, or
    /// `√(1 + ln(context / original) / ln(original))`.
    fn long_factor(&self) -> Result<f32, Error> {
        if let Some(factor) = self.keys.opt_positive("rope.scaling.attn_factor")? {
            return Ok(factor);
        }
        let context = self.keys.size("context_length", MAX_SIZE)?;
        let original = (self.original_context as f64).max(2.0);
        let extension = (context as f64 / original).max(1.0);
        Ok((1.0 + extension.ln() / original.ln()).sqrt() as f32)
    }

    fn read_scaling(&self) -> Result<Scaling, Error> {
        let keys = &self.keys;
        let type_name = "rope.scaling.type";
        match keys.opt_string(type_name)? {
            Some("none" | "longrope" | "su") => Ok(Scaling::None),
            // a file without a type has a linear extension, or none; old ones have another key
            None => Ok(match keys.opt_positive("rope.scaling.factor")? {
                Some(factor) => linear(factor),
                None => keys.opt_positive("rope.scale_linear")?.map_or(Scaling::None, linear),
            }),
            Some("linear") => Ok(linear(keys.positive("rope.scaling.factor")?)),
            Some("yarn") => Ok(Scaling::Yarn(self.read_yarn()?)),
            Some(other) => {
                let expected = "\"none\", \"linear\", \"yarn\" or \"longrope\"".to_owned();
                Err(keys.invalid(type_name, format!("{other:?}"), expected).into())
            }
        }
    }

    fn read_yarn(&self) -> Result<Yarn, Error> {
        let keys = &self.keys;
        // the bounds that the paper recommends for Llama, which converters omit
        let beta_fast = keys.opt_positive("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0);
        let beta_slow = keys.opt_positive("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0);
        if beta_slow >= beta_fast {
            let expected = format!("less than {beta_fast}, the value of yarn_beta_fast");
            return Err(keys.invalid("rope.scaling.yarn_beta_slow", beta_slow, expected).into());
        }
        Ok(Yarn {
            factor: keys.positive("rope.scaling.factor")?,
            original_context: self.original_context,
            beta_fast,
            beta_slow,
            truncate: self.rule.yarn_truncate,
        })
    }

    /// The factor of YaRN's cosines and sines: that of the file; 1 if the factor of dot products
    /// has it instead (`yarn_log_multiplier`); else `1 + ln(factor) / 10` (section 3.4).
    fn yarn_factor(&self, yarn: &Yarn) -> Result<f32, Error> {
        if let Some(factor) = self.keys.opt_positive("rope.scaling.yarn_attn_factor")? {
            return Ok(factor);
        }
        let stated = self.keys.opt_nonnegative("rope.scaling.yarn_log_multiplier")?;
        Ok(if stated.is_some() { 1.0 } else { magnitude(0.1, yarn.factor) })
    }

    /// The factor of latent attention's queries and of its keys by YaRN, in place of that of
    /// cosines and sines: `1 + multiplier · ln(factor)`.
    pub(super) fn latent_magnitude(&self) -> Result<f32, Error> {
        let stated = self.keys.opt_nonnegative("rope.scaling.yarn_log_multiplier")?;
        Ok(match (self.scaling, stated) {
            (Scaling::Yarn(yarn), Some(multiplier)) => magnitude(multiplier, yarn.factor),
            _ => 1.0,
        })
    }
}

/// A table of the divisors of frequencies `[dims / 2]`.
fn divisors_of(tensors: &mut Tensors<'_>, name: &str, dims: usize) -> Result<Vec<f32>, Error> {
    let divisors = tensors.decode(name, &[dims / 2])?;
    match divisors.iter().find(|divisor| !(divisor.is_finite() && **divisor > 0.0)) {
        None => Ok(divisors),
        Some(found) => Err(Error::Matrix {
            tensor: name.to_owned(),
            what: format!("a divisor of frequencies is {found}, expected a finite number above 0"),
        }),
    }
}

fn linear(factor: f32) -> Scaling {
    if factor == 1.0 { Scaling::None } else { Scaling::Linear { factor } }
}

fn magnitude(multiplier: f32, factor: f32) -> f32 {
    if factor <= 1.0 { 1.0 } else { 1.0 + multiplier * factor.ln() }
}
