//! The choice of a row's live inputs: those of the greatest |x|·‖W‖ (WINA, arXiv 2505.19427).

use pelton_graph::{Effort, LOWER_HALF};

use crate::isa::Isa;
use crate::simd::{Body, Simd, dispatch};

/// The number of live inputs of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Live {
    /// So many, at least one and at most all.
    Count(usize),
    /// The fewest whose squared scores make up this share of the sum of all, above 0 and below 1.
    /// Squares are whole numbers (`square`), so that every backend has the same sums. All inputs, if a
    /// score is not finite.
    Energy(f64),
}

/// The scratch memory of a choice.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// The bits of each input's score, which is not negative.
    scores: Vec<i32>,
    /// A score above which inputs are live.
    threshold: i32,
    /// Inputs with exactly that score that are live, those of the lowest indices.
    ties: usize,
    /// The sums of the squared scores of each [`bin`].
    sums: Vec<u64>,
    /// The scores of one bin.
    members: Vec<i32>,
}

/// Bins of scores, from the least to the greatest: their exponents and the upper three bits of their
/// fractions.
const BINS: usize = 1 << 11;

/// The bin of a score, by its bits.
const fn bin(score: i32) -> usize {
    score as usize >> 20 & (BINS - 1)
}

/// The square of a score in parts of about 2⁻⁴³ of the square of the greatest, both by their bits.
/// It is the significand's square of 48 bits, shifted by the difference of the exponents. The
/// lowest four bits are left out, so that 64 bits have the sum of 2²⁰ squares.
fn square(score: i32, greatest: i32) -> u64 {
    // subnormal scores have the exponent of the least normal ones, and no implicit bit
    let exponent = |bits: i32| if bits >> 23 == 0 { 1 } else { bits >> 23 };
    let significand = (score & 0x7f_ffff) as u64 | ((score >> 23 > 0) as u64) << 23;
    let shift = 4 + 2 * (exponent(greatest) - exponent(score)) as u32;
    if shift < 48 { (significand * significand) >> shift } else { 0 }
}

/// The part of a sum of squares that inputs without a product may make up.
fn left_out(sum: u64, share: f64) -> u64 {
    let bits = Effort::left_out(share).to_bits();
    // above 2⁻⁵⁴ and at most 1
    let significand = u128::from(bits & 0x7f_ffff | 1 << 23);
    ((u128::from(sum) * significand) >> (150 - (bits >> 23))) as u64
}

impl Choice {
    /// Scratch memory for rows of up to `cols` inputs.
    pub(super) fn new(cols: usize) -> Self {
        let (scores, members) = (Vec::with_capacity(2 * cols), Vec::with_capacity(2 * cols));
        Self { scores, threshold: 0, ties: 0, sums: vec![0; BINS], members }
    }

    /// Bytes that [`new`](Self::new) allocates.
    pub(super) fn bytes(cols: u128) -> u128 {
        16 * cols + (8 * BINS) as u128
    }

    /// Chooses some inputs of `x` `[cols]`, at least one, by their scores. The
    /// order of scores is that of their bits, so that NaN counts as the greatest; of equal scores
    /// the lowest indices are chosen. The selection is exact, and the same on every instruction set.
    ///
    /// `nested` makes two candidates of an input, which `Live` counts: it, with its score, and then
    /// the lower half of its codes, with its score divided by [`LOWER_HALF`]. So a lower half is
    /// never chosen without its input.
    pub(super) fn choose(&mut self, isa: Isa, x: &[f32], norms: &[f32], live: Live, nested: bool) {
        let candidates = if nested { 2 * x.len() } else { x.len() };
        let count = match live {
            Live::Count(count) => count.clamp(1, candidates.max(1)),
            Live::Energy(_) => 0,
        };
        dispatch(isa, Select { choice: self, x, norms, count, nested });
        if let Live::Energy(share) = live {
            self.choose_energy(share);
        }
    }

    /// Chooses the fewest inputs whose squared scores make up a share of the sum of all, at least
    /// one. It adds the sums of bins, from the greatest scores down, and then the scores of the
    /// last bin, one by one.
    fn choose_energy(&mut self, share: f64) {
        let Self { scores, threshold, ties, sums, members } = self;
        let greatest = scores.iter().fold(0, |max, &score| max.max(score));
        // above the greatest score nothing is live, below 0 everything
        (*threshold, *ties) = (-1, 0);
        if !f32::from_bits(greatest as u32).is_finite() {
            return;
        }
        sums.fill(0);
        for &score in &*scores {
            let sum = &mut sums[bin(score)];
            *sum = sum.saturating_add(square(score, greatest));
        }
        let all = sums.iter().fold(0, |all: u64, &sum| all.saturating_add(sum));
        let wanted = all - left_out(all, share);
        if wanted == 0 {
            // every bin would be searched for a score that counts, and no input of zeros has one
            (*threshold, *ties) = (greatest, 1);
            return;
        }
        let mut sum = 0;
        for last in (0..BINS).rev() {
            if sum + sums[last] < wanted {
                sum += sums[last];
                continue;
            }
            members.clear();
            members.extend(scores.iter().filter(|&&score| bin(score) == last));
            members.sort_unstable_by(|a, b| b.cmp(a));
            for &score in &*members {
                let is_new = *ties == 0 || score != *threshold;
                (*threshold, *ties) = (score, if is_new { 1 } else { *ties + 1 });
                sum += square(score, greatest);
                if sum >= wanted {
                    return;
                }
            }
        }
    }

    /// The live ones of the inputs `32 block ..`, up to 32, a bit for each. `ties` is the number of
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
    /// 0 if the scores alone are wanted.
    count: usize,
    nested: bool,
}

impl Body for Select<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { choice, x, norms, count, nested } = self;
        choice.scores.clear();
        let score = |(x, norm): (&f32, &f32)| (x * norm).to_bits() as i32 & i32::MAX;
        choice.scores.extend(x.iter().zip(norms).map(score));
        if nested {
            let lower = |(x, norm): (&f32, &f32)| {
                (x * norm * (1.0 / LOWER_HALF)).to_bits() as i32 & i32::MAX
            };
            choice.scores.extend(x.iter().zip(norms).map(lower));
        }
        if count == 0 {
            return;
        }
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

/// The indices of the inputs of `x` `[cols]` that are live, in ascending order; with `nested` of the
/// candidates, where `cols + i` is the lower half of input `i`.
pub fn live_inputs(isa: Isa, x: &[f32], norms: &[f32], live: Live, nested: bool) -> Vec<usize> {
    let mut choice = Choice::new(x.len());
    choice.choose(isa, x, norms, live, nested);
    let (mut live, mut ties) = (Vec::new(), choice.ties);
    for block in 0..choice.scores.len().div_ceil(32) {
        let mut mask = choice.mask(block, &mut ties);
        while mask != 0 {
            live.push(32 * block + mask.trailing_zeros() as usize);
            mask &= mask - 1;
        }
    }
    live
}
