//! Pseudo-random tokens, the same in every run.

/// A linear congruential generator with the constants of Knuth's MMIX.
pub(super) struct RandomTokens {
    state: u64,
    vocab: u64,
}

impl RandomTokens {
    /// Tokens below `vocab`; different seeds give different sequences.
    pub(super) fn new(seed: u64, vocab: usize) -> Self {
        Self { state: seed, vocab: vocab.max(1) as u64 }
    }

    /// The next `n` tokens.
    pub(super) fn take(&mut self, n: usize) -> Vec<u32> {
        (0..n).map(|_| self.next()).collect()
    }

    fn next(&mut self) -> u32 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.state >> 33) % self.vocab) as u32
    }
}

/// Prompts of `length` tokens, the first `shared` of which are the same; the token after those
/// differs from prompt to prompt, as far as the vocabulary allows.
pub(super) fn prompts(
    count: usize,
    length: usize,
    shared: usize,
    seed: u64,
    vocab: usize,
) -> Vec<Vec<u32>> {
    let mut random = RandomTokens::new(seed, vocab);
    let prefix = random.take(shared);
    (0..count)
        .map(|stream| {
            let mut prompt = prefix.clone();
            prompt.push((stream % vocab.max(1)) as u32);
            prompt.extend(random.take(length.saturating_sub(prompt.len())));
            prompt
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_share_the_prefix_and_differ_after_it() {
        let prompts = prompts(5, 8, 6, 1, 100);
        for (i, prompt) in prompts.iter().enumerate() {
            assert_eq!((prompt.len(), &prompt[..6]), (8, &prompts[0][..6]));
            assert!(prompt.iter().all(|&token| token < 100));
            for other in &prompts[..i] {
                assert_ne!(prompt[6], other[6]);
            }
        }
    }
}
