//! The interface of a model that recognizes speech.

use crate::ranked::Ranked;

/// The sizes of a recognizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Values of a frame of features: 80 or 128.
    pub mels: usize,
    /// Positions of an encoded window: 1,500. A window has twice as many frames.
    pub positions: usize,
    /// Greatest number of tokens of a hypothesis: 448.
    pub context: usize,
    /// Tokens of the vocabulary.
    pub vocab: usize,
    /// Greatest number of hypotheses that live at a time.
    pub hypotheses: usize,
    /// Greatest number of encoded windows that live at a time.
    pub windows: usize,
}

/// An encoded window of a recognizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window(pub u32);

/// A hypothesis of a recognizer: tokens over an encoded window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hypothesis(pub u32);

/// Tokens that are appended to a hypothesis.
#[derive(Clone, Copy, Debug)]
pub struct Append<'a> {
    /// The hypothesis.
    pub hypothesis: Hypothesis,
    /// The tokens, at least one.
    pub tokens: &'a [u32],
    /// Ascending indices into `tokens`: those after which the logits are wanted.
    pub wants: &'a [usize],
}

/// The allowed tokens after appends, of which the likeliest are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Filters<'a> {
    /// The allowed tokens of each append `[appends, ⌈vocab / 32⌉]`, as bit sets: token `t` is bit
    /// `t % 32` of word `t / 32`.
    pub masks: &'a [u32],
    /// The first timestamp.
    pub split: u32,
    /// Tokens of each part.
    pub count: usize,
}

/// Scores of the heads whose attention follows the audio, for the times of words.
#[derive(Clone, Debug, PartialEq)]
pub struct Alignment {
    /// Heads.
    pub heads: usize,
    /// Tokens.
    pub tokens: usize,
    /// Positions of the window.
    pub positions: usize,
    /// Scaled products of queries and keys before the softmax, `[heads, tokens, positions]`.
    pub scores: Vec<f32>,
    /// Logits after each token, `[tokens, vocab]`.
    pub logits: Vec<f32>,
}

/// A model that recognizes speech.
///
/// The caller encodes windows, begins hypotheses over them and appends tokens to these. A
/// hypothesis keeps the past of its tokens, so every token runs once. [`fork`](Self::fork) copies a
/// hypothesis for another branch of a beam. Windows and hypotheses are freed by the caller.
pub trait Recognizer {
    /// Why a call failed.
    type Error;

    /// The sizes, constant.
    fn sizes(&self) -> Sizes;

    /// Encodes windows of features `[2 · positions, mels]`, in one batch where memory allows.
    ///
    /// # Errors
    ///
    /// The backend failed, or too many windows live.
    fn encode(&mut self, features: &[&[f32]]) -> Result<Vec<Window>, Self::Error>;

    /// Frees a window. Its hypotheses were freed before.
    fn free_window(&mut self, window: Window);

    /// Begins a hypothesis without tokens over a window.
    ///
    /// # Errors
    ///
    /// The backend failed, or too many hypotheses live.
    fn begin(&mut self, window: Window) -> Result<Hypothesis, Self::Error>;

    /// A new hypothesis with the tokens of another one.
    ///
    /// # Errors
    ///
    /// As for [`begin`](Self::begin).
    fn fork(&mut self, hypothesis: Hypothesis) -> Result<Hypothesis, Self::Error>;

    /// Frees a hypothesis.
    fn free(&mut self, hypothesis: Hypothesis);

    /// Appends tokens to distinct hypotheses, in one batch. Returns the logits `[wants, vocab]` in
    /// the order of the appends and of their wants.
    ///
    /// # Errors
    ///
    /// The backend failed, or a hypothesis would be longer than the context.
    fn append(&mut self, appends: &[Append<'_>]) -> Result<&[f32], Self::Error>;

    /// The most tokens of a part that [`append_ranked`](Self::append_ranked) can rank where the
    /// logits are; 0 if that saves nothing.
    fn ranks(&self) -> usize {
        0
    }

    /// Appends one token to each of some hypotheses that have tokens, and returns the likeliest
    /// allowed next tokens of each, in the order of the appends. Called if [`ranks`](Self::ranks)
    /// is at least the count.
    ///
    /// # Errors
    ///
    /// As for [`append`](Self::append).
    fn append_ranked(
        &mut self,
        appends: &[Append<'_>],
        filters: &Filters<'_>,
    ) -> Result<Vec<Ranked>, Self::Error> {
        let vocab = self.sizes().vocab;
        let logits = self.append(appends)?;
        let masks = filters.masks.chunks(vocab.div_ceil(32));
        let rows = logits.chunks_exact(vocab).zip(masks).map(|(logits, mask)| {
            let allowed = |token: usize| mask[token / 32] >> (token % 32) & 1 == 1;
            let filtered: Vec<f32> = (0..)
                .zip(logits)
                .map(|(token, &logit)| match allowed(token) && !logit.is_nan() {
                    true => logit,
                    false => f32::NEG_INFINITY,
                })
                .collect();
            Ranked::of(&filtered, filters.split, filters.count)
        });
        Ok(rows.collect())
    }

    /// Runs all tokens of a text over a window, for the times of its words.
    ///
    /// # Errors
    ///
    /// As for [`append`](Self::append); or the model has no heads that are known to follow the
    /// audio.
    fn align(&mut self, window: Window, tokens: &[u32]) -> Result<Alignment, Self::Error>;
}
