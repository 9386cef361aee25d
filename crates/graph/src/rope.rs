//! Rotary position embedding: the pairs of elements that rotate, and their frequencies.

use pelton_weights::RopeScaling;

use crate::Error;

/// The pairing of the elements of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeStyle {
    /// Elements `2i` and `2i + 1`, as in the original Llama code and GGUF's `llama`.
    Interleaved,
    /// Elements `i` and `i + dims / 2`, as in GPT-NeoX.
    Halves,
}

/// The rotation of a head: at position `p`, pair `i` rotates by `p · frequencies[i]` radians.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// The pairing of elements.
    pub style: RopeStyle,
    /// Radians per position `[pairs]`; elements of a head from `2 · pairs` on are not rotated.
    pub frequencies: Vec<f32>,
    /// The kind of context extension that changed the frequencies, for printed plans; empty if
    /// none did.
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
                let unscaled = f64::from(theta).powf(-2.0 * i as f64 / dims as f64);
                let divisor = divisors.map_or(1.0, |d| d[i]) * stretch;
                (unscaled / f64::from(divisor)) as f32
            })
            .collect();
        Ok(Self { style, frequencies, scaling: label })
    }

    /// The indices in a head of the two elements of pair `i`.
    pub fn pair(&self, i: usize) -> (usize, usize) {
        match self.style {
            RopeStyle::Interleaved => (2 * i, 2 * i + 1),
            RopeStyle::Halves => (i, i + self.frequencies.len()),
        }
    }
}
