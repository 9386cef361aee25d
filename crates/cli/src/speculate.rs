//! Flags of speculative decoding.

use std::convert::Infallible;

use pelton::{DraftSource, LoadOptions, Speculation, SpeculationStats};

use crate::model;

/// Flags of commands that generate text.
#[derive(clap::Args)]
pub(crate) struct SpeculateArgs {
    /// Draft tokens and verify several at a time, which changes the speed and never the text. auto, the
    /// default, drafts where that is expected to be faster; off is the default of `bench --streams`;
    /// always drafts
    #[arg(long, value_name = "WHEN")]
    speculate: Option<Speculation>,
    /// Draft tokens by a small model with the same vocabulary: a file, a directory, a name or
    /// built-in. Or by the head in its own file (nextn tensors), the default where there is one: mtp
    #[arg(long, value_name = "MODEL", value_parser = draft)]
    draft: Option<DraftSource>,
}

impl SpeculateArgs {
    /// Whether a draft model was given.
    pub(crate) fn has_draft(&self) -> bool {
        self.draft.is_some()
    }

    /// The options of a load with these flags.
    pub(crate) fn apply(&self, options: LoadOptions) -> LoadOptions {
        let speculation = self.speculate.unwrap_or(options.speculation);
        let options = options.speculation(speculation);
        match &self.draft {
            Some(DraftSource::Model(model)) => options.draft(model.clone()),
            Some(DraftSource::Head) => options.draft_head(),
            _ => options,
        }
    }
}

/// The source of drafts that a flag names.
fn draft(text: &str) -> Result<DraftSource, Infallible> {
    Ok(match text {
        "mtp" => DraftSource::Head,
        model => DraftSource::Model(model::source(model)),
    })
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
