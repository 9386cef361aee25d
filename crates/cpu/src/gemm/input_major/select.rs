//! The choice of a row's live inputs: those of the greatest |x|·‖W‖ (WINA, arXiv 2505.19427).

use crate::isa::Isa;
use crate::simd::{Body, Simd, dispatch};

/// The scratch memory of a choice.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// The bits of each input's score, which is not negative.
    scores: Vec<i32>,
    /// A score above which inputs are live.
    threshold: i32,
    /// Inputs with exactly that score that are live, those of the lowest indices.
    ties: usize,
}

impl Choice {
    /// Scratch memory for rows of up to `cols` inputs.
    pub(super) fn new(cols: usize) -> Self {
        Self { scores: Vec::with_capacity(cols), threshold: 0, ties: 0 }
    }

    /// Chooses `count` inputs of `x` `[cols]`, at least one and at most all, by their scores. The
    /// order of scores is that of their bits, so that NaN counts as the greatest; of equal scores
    /// the lowest indices are chosen. The selection is exact, and the same on every instruction set.
    pub(super) fn choose(&mut self, isa: Isa, x: &[f32], norms: &[f32], count: usize) {
        let count = count.clamp(1, x.len().max(1));
        dispatch(isa, Select { choice: self, x, norms, count });
    }

    /// The live ones of the inputs `32 block ..`, up to 32, a bit for each; `ties` is the number of
    /// live inputs with the threshold's score from these on, and is reduced by those among them.
    #[inline(always)]
    pub(super) fn mask(&self, block: usize, ties: &mut usize) -> u32 {
        let end = self.scores.len().min(32 * block + 32);
        let scores = &self.scores[32 * block..end];
        let (mut above, mut equal) = (0_u32, 0_u32);
        for (i, &score) in scores.iter().enumerate() {
            above |= u32::from(score > self.threshold) << i;
            equal |= u32::from(score == self.threshold) << i;
        }
        while equal != 0 && *ties > 0 {
            above |= equal & equal.wrapping_neg();
            equal &= equal - 1;
            *ties -= 1;
        }
        above
    }

    /// The live inputs with the threshold's score from input `first` on.
    pub(super) fn ties_from(&self, first: usize) -> usize {
        if self.ties == 0 {
            return 0;
        }
        let before = self.scores[..first].iter().filter(|&&score| score == self.threshold).count();
        self.ties.saturating_sub(before)
    }
}

/// The selection, compiled for an instruction set.
struct Select<'a> {
    choice: &'a mut Choice,
    x: &'a [f32],
    norms: &'a [f32],
    count: usize,
}

impl Body for Select<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { choice, x, norms, count } = self;
        choice.scores.clear();
        let score = |(x, norm): (&f32, &f32)| (x * norm).to_bits() as i32 & i32::MAX;
        choice.scores.extend(x.iter().zip(norms).map(score));
        let scores = &choice.scores[..];
        // at least `count` scores are `low` or above, and fewer are `high` or above
        let (mut low, mut high) = (0, i64::from(scores.iter().fold(0, |max, &s| max.max(s))) + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let found = at_least(scores, middle as i32);
            if found == count {
                (choice.threshold, choice.ties) = (middle as i32 - 1, 0);
                return;
            }
            match found > count {
                true => low = middle,
                false => high = middle,
            }
        }
        // `high` can be one above the largest positive number
        let above = i32::try_from(high).map_or(0, |high| at_least(scores, high));
        (choice.threshold, choice.ties) = (low as i32, count - above);
    }
}

/// The number of scores that are `least` or above.
#[inline(always)]
fn at_least(scores: &[i32], least: i32) -> usize {
    scores.iter().map(|&score| i32::from(score >= least)).sum::<i32>() as usize
}

/// The indices of the `count` inputs of `x` that are live, in ascending order.
pub fn live_inputs(isa: Isa, x: &[f32], norms: &[f32], count: usize) -> Vec<usize> {
    let mut choice = Choice::new(x.len());
    choice.choose(isa, x, norms, count);
    let (mut live, mut ties) = (Vec::with_capacity(count), choice.ties);
    for block in 0..x.len().div_ceil(32) {
        let mut mask = choice.mask(block, &mut ties);
        while mask != 0 {
            live.push(32 * block + mask.trailing_zeros() as usize);
            mask &= mask - 1;
        }
    }
    live
}
