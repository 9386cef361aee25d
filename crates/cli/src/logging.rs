//! Log lines on standard error, for the targets and levels that `RUST_LOG` lists.

use std::{
    env,
    io::{IsTerminal, stderr},
};

use tracing_subscriber::{filter::Targets, fmt, layer::SubscriberExt, registry};

/// Starts logging if `RUST_LOG` is set. A list that cannot be parsed is named in a warning, as the
/// variable may be meant for other programs.
pub(crate) fn start() {
    let Some(list) = env::var("RUST_LOG").ok().filter(|list| !list.is_empty()) else { return };
    let targets: Targets = match list.parse() {
        Ok(targets) => targets,
        Err(error) => {
            eprintln!(
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
    let _ = tracing::subscriber::set_global_default(registry().with(lines).with(targets));
}
