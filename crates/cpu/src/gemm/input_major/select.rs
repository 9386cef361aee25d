//! The choice of a row's live inputs: those of the greatest |x|·‖W‖ (WINA, arXiv 2505.19427).

/// Bits of the first, the second and the third digit of a score.
const DIGITS: [(u32, usize); 3] = [(20, 1 << 11), (10, 1 << 10), (0, 1 << 10)];

/// The scratch memory of a choice.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    scores: Vec<u32>,
    candidates: Vec<u32>,
    counts: Vec<u32>,
    /// A score above which inputs are live.
    threshold: u32,
    /// Inputs with exactly that score that are live, those of the lowest indices.
    ties: usize,
}

impl Choice {
    /// Scratch memory for rows of up to `cols` inputs.
    pub(super) fn new(cols: usize) -> Self {
        Self {
            scores: Vec::with_capacity(cols),
            candidates: Vec::with_capacity(cols),
            counts: vec![0; 1 << 11],
            threshold: 0,
            ties: 0,
        }
    }

    /// Chooses `count` inputs of `x` `[cols]`, at least one and at most all, by their scores. The
    /// order of scores is that of their bits, so that NaN counts as the greatest; of equal scores
    /// the lowest indices are chosen. Radix selection: exact, and the same everywhere.
    pub(super) fn choose(&mut self, x: &[f32], norms: &[f32], count: usize) {
        self.scores.clear();
        let score = |(x, norm): (&f32, &f32)| (x * norm).to_bits() & 0x7fff_ffff;
        self.scores.extend(x.iter().zip(norms).map(score));
        // among the candidates, which have the digits of `prefix`, the `left` greatest are live
        let (mut left, mut prefix) = (count.clamp(1, x.len().max(1)), 0);
        for (pass, (shift, bins)) in DIGITS.into_iter().enumerate() {
            let counts = &mut self.counts[..bins];
            counts.fill(0);
            let candidates = if pass == 0 { &self.scores } else { &self.candidates };
            for score in candidates {
                counts[(score >> shift) as usize & (bins - 1)] += 1;
            }
            let mut bin = bins - 1;
            while bin > 0 && (counts[bin] as usize) < left {
                left -= counts[bin] as usize;
                bin -= 1;
            }
            prefix |= (bin as u32) << shift;
            let same = |score: &u32| score >> shift == prefix >> shift;
            if pass == 0 {
                self.candidates.clear();
                self.candidates.extend(self.scores.iter().copied().filter(same));
            } else {
                self.candidates.retain(same);
            }
        }
        (self.threshold, self.ties) = (prefix, left);
    }

    /// Calls `visit` with each input, from the first to the last, and whether it is live.
    #[inline(always)]
    pub(super) fn each(&self, mut visit: impl FnMut(usize, bool)) {
        let mut ties = self.ties;
        for (input, &score) in self.scores.iter().enumerate() {
            let is_tie = score == self.threshold && ties > 0;
            ties -= usize::from(is_tie);
            visit(input, is_tie || score > self.threshold);
        }
    }
}

/// The indices of the `count` inputs of `x` that are live, in ascending order.
pub fn live_inputs(x: &[f32], norms: &[f32], count: usize) -> Vec<usize> {
    let mut choice = Choice::new(x.len());
    choice.choose(x, norms, count);
    let mut live = Vec::with_capacity(count);
    choice.each(|input, is_live| {
        if is_live {
            live.push(input);
        }
    });
    live
}
