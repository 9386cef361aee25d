//! The tokens that a constraint allows at the next draws of one sequence.

use pelton_sampling::Sampled;

use super::text_matcher::{Drafted, Mask, MatcherStep, TextMatcher, allows};

/// The matcher of a sequence's text, or the place where it is awaited.
pub(crate) struct DrawConstraint {
    /// `None` while a worker has it.
    matcher: Option<Box<TextMatcher>>,
    /// The tokens that may come next.
    mask: Mask,
    /// Tokens that were refused at this place. The mask leaves them out.
    refused: Vec<u32>,
    /// The tokens that the matcher takes at this moment.
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

impl DrawConstraint {
    /// A constraint for masks of a vocabulary of `vocab` tokens.
    pub(crate) fn new(matcher: TextMatcher, vocab: usize) -> Self {
        Self {
            drafts_allowed: matcher.can_draft(),
            begun: matcher.has_begun(),
            matcher: Some(Box::new(matcher)),
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
    pub(crate) fn can_run_ahead(&self) -> bool {
        self.begun
    }

    /// Whether the tokens that may come next are not known yet.
    pub(crate) fn is_busy(&self) -> bool {
        self.matcher.is_none()
    }

    /// The tokens that may come after `drafted` of the drafted tokens; `None` for all.
    pub(crate) fn mask_after(&self, drafted: usize) -> Option<&[u32]> {
        match drafted.checked_sub(1) {
            None => self.mask.as_deref(),
            Some(last) => self.draft_masks.get(last)?.as_deref(),
        }
    }

    /// The matcher, at the end of its text.
    pub(crate) fn take_matcher(&mut self) -> Option<Box<TextMatcher>> {
        self.matcher.take()
    }

    /// The matcher and its first step.
    pub(crate) fn start(&mut self) -> Option<(Box<TextMatcher>, MatcherStep)> {
        Some((self.matcher.take()?, MatcherStep::Start))
    }

    /// The matcher and the step of sampled tokens. All but the last were drafted.
    pub(crate) fn push(
        &mut self,
        sampled: Vec<Sampled>,
    ) -> Option<(Box<TextMatcher>, MatcherStep)> {
        let tokens = sampled.iter().filter_map(|sampled| sampled.token).collect();
        self.pending = sampled;
        Some((self.matcher.take()?, MatcherStep::Tokens(tokens)))
    }

    /// The matcher and the step of a draft of at most `most` tokens; `None` if its first token may
    /// not come.
    pub(crate) fn draft(
        &mut self,
        tokens: Vec<u32>,
        most: usize,
    ) -> Option<(Box<TextMatcher>, MatcherStep)> {
        let &first = tokens.first()?;
        if self.mask.as_deref().is_some_and(|mask| !allows(mask, first)) {
            return None;
        }
        Some((self.matcher.take()?, MatcherStep::Draft { tokens, most }))
    }

    /// Takes the matcher back, with the part of a draft that the constraint allows.
    pub(crate) fn drafted(&mut self, matcher: Box<TextMatcher>, drafted: Drafted) {
        self.drafts_allowed = matcher.can_draft();
        self.matcher = Some(matcher);
        self.draft_masks = drafted.masks;
        self.drafts = Some(drafted.tokens);
    }

    /// The drafted tokens that the constraint allows, once.
    pub(crate) fn take_drafts(&mut self) -> Option<Vec<u32>> {
        self.drafts.take()
    }

    /// Takes the matcher back, with the mask after its step. Returns the tokens that were pending.
    pub(crate) fn taken(&mut self, matcher: Box<TextMatcher>, mask: Mask) -> Vec<Sampled> {
        self.moved(matcher, mask);
        std::mem::take(&mut self.pending)
    }

    /// Takes the matcher back, which refused the last of the pending tokens: it is left out of the
    /// mask. Returns those before it.
    pub(crate) fn refused(&mut self, matcher: Box<TextMatcher>) -> Vec<Sampled> {
        let mut taken = std::mem::take(&mut self.pending);
        let refused = taken.pop().and_then(|sampled| sampled.token);
        if taken.is_empty() {
            self.matcher = Some(matcher);
            self.drafts = None;
        } else {
            // the constraint has not begun, so all tokens may come
            self.moved(matcher, None);
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

    fn moved(&mut self, matcher: Box<TextMatcher>, mask: Mask) {
        self.begun = matcher.has_begun();
        self.matcher = Some(matcher);
        self.mask = mask;
        self.refused.clear();
        self.drafts = None;
    }
}
