//! Live transcription: words that stay, while the audio grows.
//!
//! The whole buffer is transcribed again and again. A word is committed once two transcripts in
//! succession agree on it and on all words before it. This is LocalAgreement-2 (Liu et al., arXiv
//! 2005.11185; Macháček et al., arXiv 2307.14743). The buffer is cut at the ends of committed
//! segments.

mod agreement;
mod live;

pub use agreement::Agreement;
pub use live::{Stream, Update};
