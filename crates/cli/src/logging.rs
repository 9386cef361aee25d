//! Log lines on standard error, for the targets and levels that `RUST_LOG` lists.

use std::{
    env,
    io::{IsTerminal, stderr},
};

use tracing::subscriber::set_global_default;
use tracing_subscriber::{filter::Targets, fmt, layer::SubscriberExt, registry};

use crate::output::note;

/// Starts logging if `RUST_LOG` is set. A list that cannot be parsed is named in a warning, as the
/// variable may be meant for other programs.
pub(crate) fn start() {
    start_with("", Format::Text);
}

/// As [`start`], with a list for where `RUST_LOG` is not set; an empty one is for no lines.
pub(crate) fn start_with(default: &str, format: Format) {
    let list = env::var("RUST_LOG").ok().filter(|list| !list.is_empty());
    let list = list.unwrap_or_else(|| default.to_owned());
    if list.is_empty() {
        return;
    }
    let targets: Targets = match list.parse() {
        Ok(targets) => targets,
        Err(error) => {
            note!(
                "warning: RUST_LOG is '{}', expected a list such as pelton=debug: {error}",
                list.escape_debug()
            );
            return;
        }
    };
    let plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colour = stderr().is_terminal() && !plain;
    let lines = fmt::layer().with_writer(stderr).with_ansi(colour);
    // fails only if there is a subscriber, and this is the one place that sets it
    let _ = match format {
        Format::Text => set_global_default(registry().with(lines).with(targets)),
        Format::Json => {
            let lines = lines.json().flatten_event(true);
            set_global_default(registry().with(lines).with(targets))
        }
    };
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Text,
    /// An object each
    Json,
}
