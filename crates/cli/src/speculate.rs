//! Flags of speculative decoding.

use anyhow::Result;
use pelton::{LoadOptions, SpeculationStats};

use crate::load_flags::DraftFlags;

/// Flags of commands that generate text.
#[derive(clap::Args)]
pub(crate) struct SpeculateArgs {
    #[command(flatten)]
    flags: DraftFlags,
}

impl SpeculateArgs {
    /// Whether a draft model was given.
    pub(crate) fn has_draft(&self) -> bool {
        self.flags.get("draft").is_some()
    }

    /// The options of a load with these flags.
    pub(crate) fn apply(&self, options: LoadOptions) -> Result<LoadOptions> {
        self.flags.apply(options)
    }
}

/// The drafted tokens of a request, for the end of a line; nothing where there are none.
pub(crate) fn summary(stats: &SpeculationStats) -> String {
    if stats.drafted == 0 {
        return String::new();
    }
    let gain = match stats.gain() {
        Some(gain) => format!(", those passes {gain:.2} times as fast"),
        None => String::new(),
    };
    format!("; {} of {} drafted tokens accepted{gain}", stats.accepted, stats.drafted)
}
