//! Models by name: found on this machine, or downloaded where they are not.

use std::{
    fs,
    io::{IsTerminal, Write, stderr, stdin},
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::{Result, bail};
use pelton_hub::{Cancel, Error, Hub, Model, Plan, Reference, Settings};

use crate::{
    hints, names,
    output::{self, Hint, note},
    progress::Progress,
};

/// Bytes above which a command that wants an answer asks before it downloads.
const ASKED: u64 = 100_000_000;
/// The share of the free memory that a model may take: the rest is for its context.
const SHARE: f64 = 0.7;

/// Flags of all commands.
#[derive(clap::Args)]
pub(crate) struct HubArgs {
    /// Download nothing: models are those of this machine
    #[arg(long, global = true)]
    offline: bool,
}

/// Whether `--offline` was given.
static OFFLINE: AtomicBool = AtomicBool::new(false);

/// Sets what the flags say, for all later calls.
pub(crate) fn configure(args: &HubArgs) {
    OFFLINE.store(args.offline, Ordering::Relaxed);
}

/// The hub of the environment.
pub(crate) fn open() -> Result<Hub> {
    let mut settings = Settings::from_environment().map_err(explained)?;
    settings.offline |= OFFLINE.load(Ordering::Relaxed);
    Hub::new(settings).map_err(explained)
}

/// The path of a model: `word` itself, unless it is the name of a model that is elsewhere. Such a model is
/// found on this machine or downloaded; on a terminal a question comes before a large download.
pub(crate) fn local(word: &str) -> Result<String> {
    if !names::is_remote(word) {
        return Ok(word.to_owned());
    }
    let model = found_or_pulled(word)?;
    match model.path.into_os_string().into_string() {
        Ok(path) => Ok(path),
        Err(path) => bail!("{} is no UTF-8, expected a path of Unicode", path.display()),
    }
}

fn found_or_pulled(word: &str) -> Result<Model> {
    let (hub, reference) = (open()?, reference(word)?);
    if let Some(model) = hub.find(&reference, budget()) {
        if let Some(reason) = &model.reason {
            note!("{}: {reason}", model.name);
        }
        return Ok(model);
    }
    let plan = plan(&hub, &reference)?;
    let size = plan.missing_bytes();
    if size > ASKED && stdin().is_terminal() && stderr().is_terminal() && !agrees(&plan)? {
        bail!("{} is not on this machine, and was not downloaded", plan.name());
    }
    fetch(&hub, &plan)
}

/// Parses the name of a model.
pub(crate) fn reference(word: &str) -> Result<Reference> {
    word.parse().map_err(explained)
}

/// Asks the hub what a name means, and says so.
pub(crate) fn plan(hub: &Hub, reference: &Reference) -> Result<Plan> {
    let plan = hub.plan(reference, budget(), &Cancel::default()).map_err(explained)?;
    if let Some(reason) = plan.reason() {
        note!("{}: {reason}", plan.name());
    }
    Ok(plan)
}

/// Downloads what a plan says, with a bar.
pub(crate) fn fetch(hub: &Hub, plan: &Plan) -> Result<Model> {
    let missing = plan.missing_bytes();
    if missing > 0 {
        note!("downloading {}, {}", plan.name(), output::bytes(missing));
    }
    let template =
        "downloading {bar:32} {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left";
    let bar = Progress::new(template, plan.bytes());
    let counter = bar.counter().clone();
    let mut report = |progress: &pelton_hub::Progress| counter.set(progress.done, progress.total);
    let model = hub.fetch(plan, &mut report, &Cancel::default());
    drop(bar);
    model.map_err(explained)
}

/// Asks on a terminal whether a download may begin; Return is a yes.
fn agrees(plan: &Plan) -> Result<bool> {
    let mut err = stderr().lock();
    let size = output::bytes(plan.missing_bytes());
    let _ = write!(err, "{} is not on this machine. Download {size}? [Y/n] ", plan.name());
    let _ = err.flush();
    let mut line = String::new();
    stdin().read_line(&mut line)?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "" | "y" | "yes") && !line.is_empty())
}

/// Bytes of memory for a model, where the system says how many are free.
pub(crate) fn budget() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((kib * 1024.0 * SHARE) as u64)
}

/// An error of the hub, with the next step.
pub(crate) fn explained(error: Error) -> anyhow::Error {
    let hint = match &error {
        Error::Name { .. } => hints::what_a_model_is(),
        Error::Disk { .. } => {
            "`pelton rm NAME` deletes a model, HF_HUB_CACHE names a folder on another disk"
                .to_owned()
        }
        Error::Hash { .. } => "try again; a proxy may change downloads on their way".to_owned(),
        Error::Cancelled | Error::Foreign { .. } => return error.into(),
        Error::Setting { .. } => "change the variable or remove it".to_owned(),
        _ => "`pelton list` shows the models of this machine, which need no network".to_owned(),
    };
    Hint { error: error.into(), hint }.into()
}
