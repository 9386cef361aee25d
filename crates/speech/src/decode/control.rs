//! The caller's hooks in a decoding.

use std::ops::ControlFlow;

use pelton_sampling::{Draw, FixedParams, Sampler};

/// The place of one draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawKey {
    /// The seed of the options.
    pub seed: u64,
    /// The [`id`](super::Job::id) of the job.
    pub job: u64,
    /// The index of the sample among those of the window.
    pub sample: usize,
    /// The index of the token among the sampled ones.
    pub index: usize,
}

/// The place of a constrained token.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The [`id`](super::Job::id) of the job.
    pub job: u64,
    /// The tokens sampled so far.
    pub sampled: &'a [u32],
}

/// The caller's decisions while windows are decoded. Every method has a default; `()` decides
/// nothing.
pub trait Control {
    /// Called before each pass of the recognizer. [`ControlFlow::Break`] cancels: all hypotheses
    /// are freed, and the call returns [`Error::Cancelled`](crate::Error::Cancelled).
    fn step(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// The tokens that a constraint allows next, as a bit set: token `t` is bit `t % 32` of word
    /// `t / 32`. Tokens beyond its end are banned, timestamps and the end too. Called for each
    /// hypothesis before each token; `None` allows all. A constraint wins over [`suppress_blank`]
    /// and the annotations of [`Suppress`], but not over the rules of timestamps.
    ///
    /// [`suppress_blank`]: super::DecodeOptions::suppress_blank
    /// [`Suppress`]: super::Suppress
    fn allowed(&mut self, place: Place<'_>) -> Option<&[u32]> {
        let _ = place;
        None
    }

    /// Called with the text of each window that is not silent. [`ControlFlow::Break`] refuses it
    /// and cancels, as [`step`](Self::step) does.
    fn decoded(&mut self, place: Place<'_>) -> ControlFlow<()> {
        let _ = place;
        ControlFlow::Continue(())
    }

    /// Draws a token of the softmax of `logits / temperature`; `None` if no logit is a number.
    ///
    /// The default is a counter-based Gumbel draw ([`Draw`]) with the noise of its key.
    fn draw(&mut self, logits: &[f32], temperature: f64, key: DrawKey) -> Option<u32> {
        // a subnormal temperature would become 0 in f32, which is no draw
        let temperature = (temperature as f32).max(1e-3);
        let draw = Draw {
            params: FixedParams::new(temperature, 0, 1.0, 0.0),
            // the job distinguishes windows, its odd factor keeps seeds apart
            seed: key.seed ^ key.job.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            index: (key.sample as u64) << 32 | key.index as u64,
            ..Draw::GREEDY
        };
        Sampler::new().sample(logits, logits.len(), &draw, &[]).token
    }
}

impl Control for () {}
