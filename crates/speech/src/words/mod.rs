//! Times of words, as OpenAI's `timing.py`: the path of least cost (dynamic time warping) through
//! the attention of the heads that follow the audio.

mod align;
mod durations;
mod median;
mod path;
mod punctuation;
mod split;
mod timing;

pub use median::median_filter;
pub use path::{Path, warp};

pub(crate) use align::{alignment_tokens, timings};
pub(crate) use durations::{Punctuation, set_words};
pub(crate) use timing::Timing;
