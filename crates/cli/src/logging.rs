//! Log lines on standard error, for the targets and levels that `RUST_LOG` lists.

use std::{
    env, fmt as text,
    fs::File,
    io::{self, IsTerminal, Write, stderr},
    panic,
    path::Path,
    sync::Mutex,
};

use anyhow::{Context, Result};
use pelton_printable::{json, line};
use tracing::{Level, field::Field, subscriber::set_global_default};
use tracing_subscriber::{
    field::MakeExt,
    filter::{ParseError, Targets},
    fmt::{
        self,
        format::{Writer, debug_fn},
    },
    layer::SubscriberExt,
    registry,
};

use crate::output::{NOTES, log_lines, note};

/// Starts logging if `RUST_LOG` is set, or for the targets of a default list. A list that cannot be
/// parsed is named in a warning, as the variable may be meant for other programs.
pub(crate) fn start(default: Option<&str>) {
    match targets() {
        Ok(targets) => {
            if let Some(targets) = targets.or_else(|| default?.parse().ok()) {
                subscribe(targets, Format::Text, None);
            }
        }
        Err(warning) => note!("{warning}"),
    }
}

/// Starts the log of a server, whose notes are lines of it too. `default` is for where `RUST_LOG`
/// has no list. In JSON the log has errors and panics too. A file gets all lines too.
///
/// # Errors
/// If the file cannot be opened.
pub(crate) fn start_serving(default: &str, format: Format, file: Option<&Path>) -> Result<()> {
    let file = file.map(open).transpose()?;
    let is_json = format == Format::Json;
    let (targets, warning) = match targets() {
        Ok(targets) => (targets, None),
        Err(warning) => (None, Some(warning)),
    };
    let targets = targets.or_else(|| default.parse().ok()).unwrap_or_default();
    subscribe(targets.with_target(NOTES, Level::INFO), format, file);
    log_lines(is_json);
    if is_json {
        panic::set_hook(Box::new(|panic| tracing::error!(target: NOTES, "{panic}")));
    }
    if let Some(warning) = warning {
        note!("{warning}");
    }
    Ok(())
}

/// A file of log lines, which keeps the lines that it has.
fn open(path: &Path) -> Result<File> {
    let file = File::options().append(true).create(true).open(path);
    file.with_context(|| format!("--log-file {} could not be opened", path.display()))
}

/// The list in `RUST_LOG`, or a warning about it.
fn targets() -> Result<Option<Targets>, String> {
    let Some(list) = env::var("RUST_LOG").ok().filter(|list| !list.is_empty()) else {
        return Ok(None);
    };
    list.parse().map(Some).map_err(|error: ParseError| {
        let list = list.escape_debug();
        format!("warning: RUST_LOG is '{list}', expected a list such as pelton=debug: {error}")
    })
}

fn subscribe(targets: Targets, format: Format, file: Option<File>) {
    let plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colour = stderr().is_terminal() && !plain;
    // fails only if there is a subscriber, and this is the one place that sets it
    let _ = match format {
        Format::Text => {
            let fields = debug_fn(field).delimited(" ");
            let lines = fmt::layer().fmt_fields(fields).with_ansi(colour).with_writer(stderr);
            let kept = file.map(|file| {
                // layers whose fields have one type share the text of spans, with its colours
                let fields = debug_fn(field).delimited(" ".to_owned());
                fmt::layer().fmt_fields(fields).with_ansi(false).with_writer(Mutex::new(file))
            });
            set_global_default(registry().with(lines).with(kept).with(targets))
        }
        Format::Json => {
            let lines = fmt::layer().json().flatten_event(true);
            let kept = file.map(|file| {
                let lines = fmt::layer().json().flatten_event(true);
                lines.with_writer(Mutex::new(JsonLines(file)))
            });
            let lines = lines.with_writer(|| JsonLines(stderr()));
            set_global_default(registry().with(lines).with(kept).with(targets))
        }
    };
}

/// Writes a field on the line of its event. Values may be of clients, files and hubs, so that they
/// make no line and no control character.
fn field(to: &mut Writer<'_>, field: &Field, value: &dyn text::Debug) -> text::Result {
    let value = format!("{value:?}");
    match field.name() {
        "message" => write!(to, "{}", line(&value)),
        name if to.has_ansi_escapes() => {
            write!(to, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m{}", line(&value))
        }
        name => write!(to, "{name}={}", line(&value)),
    }
}

/// A place for events in JSON, each of which is one write.
struct JsonLines<W>(W);

impl<W: Write> Write for JsonLines<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.write_all(json(&String::from_utf8_lossy(event)).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
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
