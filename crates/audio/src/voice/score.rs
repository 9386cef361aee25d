//! Scores of frames: voice by a small neural network, `earshot`, and the change of the spectrum.

use super::change::{Change, FRAME};
use earshot::{DefaultPredictor, Detector};

/// The scores of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Score {
    /// Voice, in [0, 1].
    pub(crate) voice: f32,
    /// The change of the spectrum's shape in dB.
    pub(crate) change: f32,
    /// The mean of the squared samples.
    pub(crate) power: f32,
}

/// Cuts samples into frames and scores each one.
pub(crate) struct Scorer {
    detector: Box<Detector<DefaultPredictor>>,
    change: Change,
    pending: Vec<f32>,
}

impl Scorer {
    pub(crate) fn new() -> Self {
        Self { detector: Box::default(), change: Change::new(), pending: Vec::with_capacity(FRAME) }
    }

    /// Calls `each` with the score of every frame that `samples` complete.
    pub(crate) fn push(&mut self, mut samples: &[f32], mut each: impl FnMut(Score)) {
        while !samples.is_empty() {
            let take = samples.len().min(FRAME - self.pending.len());
            let (head, rest) = samples.split_at(take);
            // The network expects values in [-1, 1].
            self.pending
                .extend(head.iter().map(|x| if x.is_nan() { 0.0 } else { x.clamp(-1.0, 1.0) }));
            samples = rest;
            if self.pending.len() == FRAME {
                let voice = self.detector.predict_f32(&self.pending);
                let power = self.pending.iter().map(|x| x * x).sum::<f32>() / FRAME as f32;
                each(Score { voice, change: self.change.frame(&self.pending), power });
                self.pending.clear();
            }
        }
    }

    /// Calls `each` with the score of a last, incomplete frame.
    pub(crate) fn finish(&mut self, each: impl FnMut(Score)) {
        if !self.pending.is_empty() {
            let missing = FRAME - self.pending.len();
            self.push(&[0.0; FRAME][..missing], each);
        }
    }
}
