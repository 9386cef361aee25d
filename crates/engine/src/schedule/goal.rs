//! The goal of a request: text or values.

use std::time::Duration;

use pelton_graph::Sample;
use pelton_sampling::{Draw, FixedParams, Penalties, Sampled};

use super::{
    constraint::{DrawConstraint, TextMatcher},
    host_draw::HostDraw,
    output::Output,
    values::Values,
};
use crate::{
    Error,
    api::{FinishReason, GenerateOptions, RequestHandle},
};

/// How the tokens of a sequence are drawn.
pub(crate) struct DrawOptions {
    pub(super) params: Option<FixedParams>,
    pub(super) penalties: Option<Penalties>,
    pub(super) bias: Vec<(u32, f32)>,
    pub(super) log_probs: Option<u8>,
    pub(super) seed: u64,
    /// The chain of samplers, where tokens are drawn on the host.
    pub(super) host: Option<HostDraw>,
    /// The constraint.
    pub(super) constraint: Option<DrawConstraint>,
}

impl DrawOptions {
    /// From a request's options, which are in their ranges.
    pub(crate) fn new(
        options: &GenerateOptions,
        seed: u64,
        host: Option<HostDraw>,
        constraint: Option<DrawConstraint>,
    ) -> Self {
        Self {
            host,
            constraint,
            params: options.sampling.params(),
            penalties: options.sampling.penalties(),
            bias: options.logit_bias.iter().map(|one| (one.token, one.bias)).collect(),
            log_probs: options.logprobs.map(|top| u8::try_from(top).unwrap_or(u8::MAX)),
            seed,
        }
    }

    /// The draw of the token after `position`, in row `row` of a pass, of a sequence whose known
    /// tokens begin with a prompt of `prompt` tokens.
    pub(super) fn sample<'a>(
        &'a self,
        row: usize,
        position: usize,
        prompt: usize,
        tokens: &'a [u32],
    ) -> Sample<'a> {
        // rows after the newest known token have drafted tokens
        let drafted = (position + 1).saturating_sub(tokens.len());
        let draw = Draw {
            params: self.params,
            seed: self.seed,
            index: (position + 1 - prompt) as u64,
            penalties: self.penalties,
            bias: &self.bias,
            mask: self.constraint.as_ref().and_then(|constraint| constraint.mask_after(drafted)),
            log_probs: self.log_probs,
        };
        let (recent, pending) = match self.penalties {
            None => (&[][..], 0),
            Some(penalties) => {
                let history = position + 1;
                let pending = history.saturating_sub(tokens.len()).max(1);
                let known = history - pending;
                let window = (penalties.window as usize).saturating_sub(pending);
                (&tokens[known.saturating_sub(window)..known], pending as u32)
            }
        };
        Sample { row: row as u32, draw, recent, pending }
    }

    /// Draws the token after `position` from the logits `[vocab]` of its row, on the host.
    pub(super) fn on_host(
        &mut self,
        logits: &[f32],
        tokens: usize,
        history: &[u32],
        position: usize,
        prompt: usize,
    ) -> Option<Sampled> {
        let draw = Draw {
            seed: self.seed,
            index: (position + 1 - prompt) as u64,
            bias: &self.bias,
            mask: self.constraint.as_ref().and_then(|constraint| constraint.mask_after(0)),
            log_probs: self.log_probs,
            ..Draw::GREEDY
        };
        Some(self.host.as_mut()?.draw(logits, tokens, &draw, history))
    }

    /// The tokens that may come next; `None` for all.
    pub(super) fn mask(&self) -> Option<&[u32]> {
        self.constraint.as_ref().and_then(|constraint| constraint.mask_after(0))
    }

    /// Whether each token needs the host before the next pass.
    pub(super) fn is_stepwise(&self) -> bool {
        self.host.is_some() || self.constraint.is_some()
    }

    /// Whether the row of the next token can run before the token before it is known to the host,
    /// which draws none and whose mask for the draw comes in time.
    pub(super) fn can_run_ahead(&self) -> bool {
        self.host.is_none() && self.constraint.as_ref().is_some_and(DrawConstraint::can_run_ahead)
    }

    /// Whether the constraint does not know yet which tokens may come next.
    pub(super) fn is_constraint_busy(&self) -> bool {
        self.constraint.as_ref().is_some_and(DrawConstraint::is_busy)
    }
}

/// The goal of a request, with the callback that receives it.
pub(crate) enum Goal {
    /// Generated text.
    Text {
        /// How its tokens are drawn.
        draw: Box<DrawOptions>,
        /// From sampled tokens to events.
        output: Box<Output>,
    },
    /// The results of rows of the prompt.
    Values(Box<Values>),
}

impl Goal {
    pub(crate) fn text(draw: DrawOptions, output: Output) -> Self {
        Self::Text { draw: Box::new(draw), output: Box::new(output) }
    }

    /// Whether a constraint decides which tokens may come.
    pub(super) fn is_constrained(&self) -> bool {
        matches!(self, Self::Text { draw, .. } if draw.constraint.is_some())
    }

    /// Whether the constraint does not know yet which tokens may come next.
    pub(super) fn is_constraint_busy(&self) -> bool {
        matches!(self, Self::Text { draw, .. } if draw.is_constraint_busy())
    }

    /// The matcher of the text's constraint, if no worker has it.
    pub(super) fn take_matcher(&mut self) -> Option<Box<TextMatcher>> {
        match self {
            Self::Text { draw, .. } => draw.constraint.as_mut()?.take_matcher(),
            Self::Values(_) => None,
        }
    }

    /// The request's handle.
    pub(crate) fn handle(&self) -> &RequestHandle {
        match self {
            Self::Text { output, .. } => &output.handle,
            Self::Values(values) => &values.handle,
        }
    }

    /// The time since the submission.
    pub(crate) fn age(&self) -> Duration {
        match self {
            Self::Text { output, .. } => output.age(),
            Self::Values(values) => values.age(),
        }
    }

    /// Ends the request. Without effect after another end.
    pub(crate) fn finish(&mut self, reason: FinishReason) {
        match self {
            Self::Text { output, .. } => output.finish(reason),
            Self::Values(values) => values.finish(reason),
        }
    }

    /// Ends the request with an error. Without effect after another end.
    pub(crate) fn fail(&mut self, error: Error) {
        match self {
            Self::Text { output, .. } => output.fail(error),
            Self::Values(values) => values.fail(error),
        }
    }
}
