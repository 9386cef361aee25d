//! The constraint of one sequence between its tokens.

use pelton_sampling::Sampled;

use super::follower::{Drafted, Follower, Mask, Step, allows};

/// The follower of a sequence's text, or the place where it is awaited.
pub(crate) struct Guide {
    /// `None` while a worker has it.
    follower: Option<Box<Follower>>,
    /// The tokens that may come next.
    mask: Mask,
    /// Tokens that were refused at this place: of those that the mask allows they are left out.
    refused: Vec<u32>,
    /// The tokens that the follower takes at this moment.
    pending: Vec<Sampled>,
    /// Drafted tokens that the constraint allows, which no pass has verified yet.
    drafts: Option<Vec<u32>>,
    /// The tokens that may come after each drafted one.
    draft_masks: Vec<Mask>,
    /// Whether drafted tokens can be followed.
    drafts_allowed: bool,
    /// Whether the constraint has begun: no token that its masks allow is refused.
    begun: bool,
    words: usize,
}

impl Guide {
    /// A guide for masks of a vocabulary of `vocab` tokens.
    pub(crate) fn new(follower: Follower, vocab: usize) -> Self {
        Self {
            drafts_allowed: follower.can_draft(),
            begun: follower.has_begun(),
            follower: Some(Box::new(follower)),
            mask: None,
            refused: Vec::new(),
            pending: Vec::new(),
            drafts: None,
            draft_masks: Vec::new(),
            words: vocab.div_ceil(32),
        }
    }

    /// Whether drafted tokens can be followed.
    pub(crate) fn can_draft(&self) -> bool {
        self.drafts_allowed
    }

    /// Whether the row of the next token can run before its draw: the token before it is never
    /// drawn again.
    pub(super) fn can_run_ahead(&self) -> bool {
        self.begun
    }

    /// Whether the tokens that may come next are not known yet.
    pub(super) fn is_busy(&self) -> bool {
        self.follower.is_none()
    }

    /// The tokens that may come after `drafted` of the drafted tokens; `None` for all.
    pub(super) fn mask_after(&self, drafted: usize) -> Option<&[u32]> {
        match drafted.checked_sub(1) {
            None => self.mask.as_deref(),
            Some(last) => self.draft_masks.get(last)?.as_deref(),
        }
    }

    /// The follower, at the end of its text.
    pub(super) fn take_follower(&mut self) -> Option<Box<Follower>> {
        self.follower.take()
    }

    /// The follower and its first step.
    pub(super) fn start(&mut self) -> Option<(Box<Follower>, Step)> {
        Some((self.follower.take()?, Step::Start))
    }

    /// The follower and the step of sampled tokens, all but the last of which were drafted.
    pub(super) fn push(&mut self, sampled: Vec<Sampled>) -> Option<(Box<Follower>, Step)> {
        let tokens = sampled.iter().filter_map(|sampled| sampled.token).collect();
        self.pending = sampled;
        Some((self.follower.take()?, Step::Tokens(tokens)))
    }

    /// The follower and the step of a draft of at most `most` tokens; `None` if its first token may
    /// not come.
    pub(super) fn draft(&mut self, tokens: Vec<u32>, most: usize) -> Option<(Box<Follower>, Step)> {
        let &first = tokens.first()?;
        if self.mask.as_deref().is_some_and(|mask| !allows(mask, first)) {
            return None;
        }
        Some((self.follower.take()?, Step::Draft { tokens, most }))
    }

    /// Takes the follower back, with the part of a draft that the constraint allows.
    pub(super) fn drafted(&mut self, follower: Box<Follower>, drafted: Drafted) {
        self.drafts_allowed = follower.can_draft();
        self.follower = Some(follower);
        self.draft_masks = drafted.masks;
        self.drafts = Some(drafted.tokens);
    }

    /// The drafted tokens that the constraint allows, once.
    pub(super) fn take_drafts(&mut self) -> Option<Vec<u32>> {
        self.drafts.take()
    }

    /// Takes the follower back, with the mask after its step. Returns the tokens that were pending.
    pub(super) fn taken(&mut self, follower: Box<Follower>, mask: Mask) -> Vec<Sampled> {
        self.moved(follower, mask);
        std::mem::take(&mut self.pending)
    }

    /// Takes the follower back, which refused the last of the pending tokens: it is left out of the
    /// mask. Returns those before it.
    pub(super) fn refused(&mut self, follower: Box<Follower>) -> Vec<Sampled> {
        let mut taken = std::mem::take(&mut self.pending);
        let refused = taken.pop().and_then(|sampled| sampled.token);
        if taken.is_empty() {
            self.follower = Some(follower);
            self.drafts = None;
        } else {
            // the constraint has not begun, so all tokens may come
            self.moved(follower, None);
        }
        self.refused.extend(refused);
        let mut mask = self.mask.take().unwrap_or_else(|| vec![u32::MAX; self.words]);
        for token in &self.refused {
            if let Some(word) = mask.get_mut(*token as usize / 32) {
                *word &= !(1 << (token % 32));
            }
        }
        self.mask = Some(mask);
        taken
    }

    fn moved(&mut self, follower: Box<Follower>, mask: Mask) {
        self.begun = follower.has_begun();
        self.follower = Some(follower);
        self.mask = mask;
        self.refused.clear();
        self.drafts = None;
    }
}
