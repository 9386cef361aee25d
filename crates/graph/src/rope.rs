//! Rotary position embedding: which elements turn together, and how fast.

use pelton_weights::RopeScaling;

use crate::Error;

/// Which two elements of a head are turned as a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// Elements `2i` and `2i + 1`, as in the original Llama code and GGUF's `llama`.
    Interleaved,
    /// Elements `i` and `i + dims / 2`, as in GPT-NeoX.
    Halves,
}

/// The rotation of a head: at position `p`, pair `i` turns by `p · frequencies[i]` radians.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// How elements pair up.
    pub style: RopeStyle,
    /// Radians for each position, one for each pair; elements from `2 · len` on stay as they are.
    pub frequencies: Vec<f32>,
    /// How the frequencies were stretched, for people; empty if they were not.
    pub scaling: &'static str,
}

impl Rope {
    /// The rotation of `dims` elements with base `theta`: pair `i` has the frequency
    /// `theta^(-2i / dims)` (RoFormer, arXiv 2104.09864, section 3.2.2), divided by `divisors[i]`
    /// where the checkpoint carries such a table. That is how GGUF stores the rotary scaling of
    /// Llama 3.1 and later: in the tensor `rope_freqs.weight`.
    pub(crate) fn new(
        style: RopeStyle,
        theta: f32,
        dims: usize,
        scaling: &RopeScaling,
        divisors: Option<&[f32]>,
    ) -> Result<Self, Error> {
        let (stretch, mut label) = match scaling {
            RopeScaling::None => (1.0, ""),
            RopeScaling::Linear { factor } => (*factor, "linear scaling"),
            other => return Err(Error::RopeScaling { found: format!("{other:?}") }),
        };
        if divisors.is_some() {
            label = "llama3 scaling";
        }
        let frequencies = (0..dims / 2)
            .map(|i| {
                let plain = f64::from(theta).powf(-2.0 * i as f64 / dims as f64);
                let divisor = divisors.map_or(1.0, |d| d[i]) * stretch;
                (plain / f64::from(divisor)) as f32
            })
            .collect();
        Ok(Self { style, frequencies, scaling: label })
    }

    /// The positions in a head of the two elements of pair `i`.
    pub fn pair(&self, i: usize) -> (usize, usize) {
        match self.style {
            RopeStyle::Interleaved => (2 * i, 2 * i + 1),
            RopeStyle::Halves => (i, i + self.frequencies.len()),
        }
    }
}
