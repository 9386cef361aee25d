//! What a request is for: text or values.

use std::time::Duration;

use pelton_sampling::{Draw, FixedParams, Penalties, Sampled};

use super::{guide::Guide, host_draw::HostDraw, output::Output, values::Values};
use crate::{
    Error,
    api::{FinishReason, Request, RequestHandle},
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
    pub(super) guide: Option<Guide>,
}

impl DrawOptions {
    /// From a request's options, which are in their ranges.
    pub(crate) fn new(
        request: &Request,
        seed: u64,
        host: Option<HostDraw>,
        guide: Option<Guide>,
    ) -> Self {
        Self {
            host,
            guide,
            params: request.sampling.params(),
            penalties: request.sampling.penalties(),
            bias: request.logit_bias.clone(),
            log_probs: request.log_probs,
            seed,
        }
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
            mask: self.guide.as_ref().and_then(Guide::mask),
            log_probs: self.log_probs,
            ..Draw::GREEDY
        };
        Some(self.host.as_mut()?.draw(logits, tokens, &draw, history))
    }

    /// Whether each token needs the host before the next pass.
    pub(super) fn is_stepwise(&self) -> bool {
        self.host.is_some() || self.guide.is_some()
    }

    /// Whether the constraint does not know yet which tokens may come next.
    pub(super) fn is_guide_busy(&self) -> bool {
        self.guide.as_ref().is_some_and(Guide::is_busy)
    }
}

/// What a request is for, with the callback that receives it.
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

    /// Whether the constraint does not know yet which tokens may come next.
    pub(super) fn is_guide_busy(&self) -> bool {
        matches!(self, Self::Text { draw, .. } if draw.is_guide_busy())
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
