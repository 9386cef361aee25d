//! Rotary position embedding: the pairs of elements that rotate, and their frequencies.

use std::f64::consts::TAU;

/// The pairing of the elements of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// Elements `2i` and `2i + 1`, as in the original Llama code and GGUF's `llama`.
    Interleaved,
    /// Elements `i` and `i + dims / 2`, as in GPT-NeoX.
    Halves,
    /// `Halves` in each half of the rotated elements: those of one axis in the first, of another in
    /// the second (the tower of Gemma 4). `dims` is a multiple of 4.
    HalvesOfHalves,
}

/// The rotation of a head: at coordinates `at`, pair `i` rotates by `at[axes[i]] · frequencies[i]`
/// radians.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// The pairing of elements.
    pub style: RopeStyle,
    /// Radians per position `[pairs]`; elements of a head from `2 · pairs` on are not rotated.
    pub frequencies: Vec<f32>,
    /// The axis of the [coordinates](crate::Place::at) of each pair `[pairs]`, below 3; empty if
    /// all are the first.
    pub axes: Vec<u8>,
    /// The factor of all cosines and sines: the attention factor of YaRN and LongRoPE, else 1.
    /// Elements that are not rotated have no factor.
    pub factor: f32,
    /// The kind of context extension that changed the frequencies, for printed plans; empty if
    /// none did.
    pub scaling: &'static str,
}

/// A context extension by a formula.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scaling {
    /// None.
    None,
    /// Frequencies are divided by a factor.
    Linear {
        /// The factor.
        factor: f32,
    },
    /// YaRN: low frequencies are divided by a factor.
    Yarn(Yarn),
}

/// The parameters of YaRN (arXiv 2309.00071, section 3.2). Frequencies with more than `beta_fast`
/// turns in the original context stay, those with less than `beta_slow` are divided by `factor`,
/// and those between are blended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Yarn {
    pub(crate) factor: f32,
    pub(crate) original_context: usize,
    pub(crate) beta_fast: f32,
    pub(crate) beta_slow: f32,
    /// Whether the bounds of the blend are rounded outwards to whole pairs.
    pub(crate) truncate: bool,
}

impl Yarn {
    /// The weight of the divided frequency of each of `dims / 2` pairs: a ramp between two pairs.
    fn ramp(&self, theta: f64, dims: usize) -> impl Fn(usize) -> f64 + use<> {
        let pair = |turns: f32| {
            let wavelengths = self.original_context as f64 / (f64::from(turns) * TAU);
            dims as f64 * wavelengths.ln() / (2.0 * theta.ln())
        };
        let (low, high) = (pair(self.beta_fast), pair(self.beta_slow));
        let (low, high) = match self.truncate {
            true => (low.floor(), high.ceil()),
            false => (low, high),
        };
        let (low, high) = (low.max(0.0), high.min(dims as f64 - 1.0));
        let width = if low == high { 0.001 } else { high - low };
        move |i| ((i as f64 - low) / width).clamp(0.0, 1.0)
    }
}

impl Rope {
    /// The rotation of `dims` elements with base `theta`. Pair `i` has the frequency `theta^(-2i /
    /// dims)` (RoFormer, arXiv 2104.09864, section 3.2.2), divided by `divisors[i]` where the
    /// checkpoint carries such a table. GGUF stores so the scaling of Llama 3.1 and later, of
    /// LongRoPE, and the unrotated pairs of Gemma 4.
    pub(crate) fn new(
        style: RopeStyle,
        theta: f32,
        dims: usize,
        scaling: Scaling,
        divisors: Option<&[f32]>,
    ) -> Self {
        let theta = f64::from(theta);
        let scaled: Box<dyn Fn(usize, f64) -> f64> = match scaling {
            Scaling::None => Box::new(|_, f| f),
            Scaling::Linear { factor } => Box::new(move |_, f| f / f64::from(factor)),
            Scaling::Yarn(yarn) => {
                let ramp = yarn.ramp(theta, dims);
                Box::new(move |i, f| ramp(i) * f / f64::from(yarn.factor) + (1.0 - ramp(i)) * f)
            }
        };
        let frequencies = (0..dims / 2).map(|i| {
            let divisor = divisors.and_then(|divisors| divisors.get(i)).map_or(1.0, |&d| d.into());
            (scaled(i, theta.powf(-2.0 * i as f64 / dims as f64)) / divisor) as f32
        });
        let label = match scaling {
            _ if divisors.is_some() => "llama3 scaling",
            Scaling::None => "",
            Scaling::Linear { .. } => "linear scaling",
            Scaling::Yarn(_) => "yarn",
        };
        let frequencies = frequencies.collect();
        Self { style, frequencies, axes: Vec::new(), factor: 1.0, scaling: label }
    }

    /// The coordinate of a row that pair `i` rotates by.
    pub fn coordinate(&self, i: usize, at: [u32; 3]) -> u32 {
        at[self.axes.get(i).copied().unwrap_or(0) as usize]
    }

    /// The indices in a head of the two elements of pair `i`.
    pub fn pair(&self, i: usize) -> (usize, usize) {
        match self.style {
            RopeStyle::Interleaved => (2 * i, 2 * i + 1),
            RopeStyle::Halves => (i, i + self.frequencies.len()),
            RopeStyle::HalvesOfHalves => {
                let half = self.frequencies.len() / 2;
                let first = i / half * 2 * half + i % half;
                (first, first + half)
            }
        }
    }
}
