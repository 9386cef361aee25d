//! The constraint of one sequence between its tokens.

use pelton_sampling::Sampled;

use super::follower::{Follower, Step};

/// The follower of a sequence's text, or the place where it is awaited.
pub(crate) struct Guide {
    /// `None` while a worker has it.
    follower: Option<Box<Follower>>,
    /// The tokens that may come next `[vocab / 32]`; `None` for all.
    mask: Option<Vec<u32>>,
    /// Tokens that were refused at this place: of those that the mask allows they are left out.
    refused: Vec<u32>,
    /// The token that the follower takes at this moment.
    pending: Option<Sampled>,
    words: usize,
}

impl Guide {
    /// A guide for masks of a vocabulary of `vocab` tokens.
    pub(crate) fn new(follower: Follower, vocab: usize) -> Self {
        let words = vocab.div_ceil(32);
        Self {
            follower: Some(Box::new(follower)),
            mask: None,
            refused: Vec::new(),
            pending: None,
            words,
        }
    }

    /// Whether the tokens that may come next are not known yet.
    pub(super) fn is_busy(&self) -> bool {
        self.follower.is_none()
    }

    /// The tokens that may come next `[vocab / 32]`; `None` for all.
    pub(super) fn mask(&self) -> Option<&[u32]> {
        self.mask.as_deref()
    }

    /// The follower and its first step.
    pub(super) fn start(&mut self) -> Option<(Box<Follower>, Step)> {
        Some((self.follower.take()?, Step::Start))
    }

    /// The follower and the step of a sampled token.
    pub(super) fn push(&mut self, sampled: Sampled, token: u32) -> Option<(Box<Follower>, Step)> {
        self.pending = Some(sampled);
        Some((self.follower.take()?, Step::Token(token)))
    }

    /// Takes the follower back, with the mask after its step. Returns the token that was pending.
    pub(super) fn taken(
        &mut self,
        follower: Box<Follower>,
        mask: Option<Vec<u32>>,
    ) -> Option<Sampled> {
        self.follower = Some(follower);
        self.mask = mask;
        self.refused.clear();
        self.pending.take()
    }

    /// Takes the follower back, which refused the pending token: it is left out of the mask.
    pub(super) fn refused(&mut self, follower: Box<Follower>) {
        self.follower = Some(follower);
        self.refused.extend(self.pending.take().and_then(|sampled| sampled.token));
        let mut mask = self.mask.take().unwrap_or_else(|| vec![u32::MAX; self.words]);
        for token in &self.refused {
            if let Some(word) = mask.get_mut(*token as usize / 32) {
                *word &= !(1 << (token % 32));
            }
        }
        self.mask = Some(mask);
    }
}
