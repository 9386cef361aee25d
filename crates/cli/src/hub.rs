//! Models by name: found on this machine, or downloaded where they are not.

use std::{
    io::{IsTerminal, Write, stderr, stdin},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Result, bail};
use pelton::{Device, DraftSource, LoadOptions, ModelSource};
use pelton_hub::{Cancel, Error, Hub, Model, Part, Plan, Reference, Settings, Token, Towers};

use crate::{
    hints,
    model_budget::ModelBudget,
    names,
    output::{self, Hint, note},
    progress::Progress,
};

/// Bytes above which a command that wants an answer asks before it downloads.
const ASKED: u64 = 100_000_000;

/// Flags of all commands.
#[derive(clap::Args)]
pub(crate) struct HubArgs {
    /// Download nothing: models are those of this machine
    #[arg(long, global = true)]
    offline: bool,
    /// The token of Hugging Face, in place of the environment variable HF_TOKEN. Other users of
    /// this machine see it in the list of processes
    #[arg(long, global = true, value_name = "TOKEN", hide_short_help = true)]
    hf_token: Option<String>,
}

/// Whether `--offline` was given.
static OFFLINE: AtomicBool = AtomicBool::new(false);
/// The token of `--hf-token`.
static TOKEN: OnceLock<String> = OnceLock::new();

/// Sets what the flags say, for all later calls.
pub(crate) fn configure(args: &HubArgs) {
    OFFLINE.store(args.offline, Ordering::Relaxed);
    if let Some(token) = &args.hf_token {
        let _ = TOKEN.set(token.clone());
    }
}

/// The hub of the environment.
pub(crate) fn open() -> Result<Hub> {
    Hub::new(settings()?).map_err(explained)
}

/// The same, where models of repositories come with these vision towers.
pub(crate) fn open_with(towers: Towers) -> Result<Hub> {
    let mut settings = settings()?;
    settings.towers = towers;
    Hub::new(settings).map_err(explained)
}

/// The settings of the environment and of the flags.
pub(crate) fn settings() -> Result<Settings> {
    let mut settings = Settings::from_environment().map_err(explained)?;
    settings.offline |= OFFLINE.load(Ordering::Relaxed);
    if let Some(token) = TOKEN.get() {
        settings.token = Some(Token::new(token).map_err(explained)?);
    }
    Ok(settings)
}

/// Whether a word, which could also be a prompt, names a model: by its form, or because this
/// machine has a model of that name.
pub(crate) fn is_model(word: &str) -> bool {
    let is_found = |reference| open().is_ok_and(|hub| hub.find(&reference, None).is_some());
    names::is_model(word) || names::reference(word).is_some_and(is_found)
}

/// The path of a model: `word` itself if it is a path or the built-in model. Any other word is a
/// name, whose model is found on this machine or downloaded, of several quantizations the one for
/// the memory of `device`. On a terminal a question comes before a large download.
pub(crate) fn local(word: &str, device: Device) -> Result<String> {
    let Some(reference) = names::reference(word) else { return Ok(word.to_owned()) };
    let model = found_or_pulled(&reference, device)?;
    match model.path.into_os_string().into_string() {
        Ok(path) => Ok(path),
        Err(path) => bail!("{} is no UTF-8, expected a path of Unicode", path.display()),
    }
}

/// Options of a load in which a draft model and LoRA adapters are paths, as [`local`] finds them.
pub(crate) fn localized(mut options: LoadOptions, device: Device) -> Result<LoadOptions> {
    if let Some(DraftSource::Model(ModelSource::Path(path))) = &mut options.draft
        && let Some(word) = path.to_str()
    {
        *path = local(word, device)?.into();
    }
    for adapter in &mut options.loras {
        if let Some(word) = adapter.path.to_str() {
            adapter.path = local(word, device)?.into();
        }
    }
    Ok(options)
}

fn found_or_pulled(reference: &Reference, device: Device) -> Result<Model> {
    let hub = open()?;
    let budget = budget(reference, device);
    if let Some(model) = hub.find(reference, budget.as_ref().map(ModelBudget::bytes)) {
        if let Some(reason) = &model.reason {
            say(&model.name, reason, budget.as_ref());
        }
        return Ok(model);
    }
    let plan = plan_within(&hub, reference, budget.as_ref())?;
    let size = plan.missing_bytes();
    if size > ASKED && stdin().is_terminal() && stderr().is_terminal() && !agrees(&plan)? {
        bail!("{} is not on this machine, and was not downloaded", plan.name());
    }
    fetch(&hub, &plan)
}

/// A complete model of this machine.
pub(crate) fn find(hub: &Hub, reference: &Reference) -> Option<Model> {
    let budget = budget(reference, Device::Auto);
    hub.find(reference, budget.as_ref().map(ModelBudget::bytes))
}

/// The memory for a model, where the reference leaves the quantization open.
fn budget(reference: &Reference, device: Device) -> Option<ModelBudget> {
    let is_open = match reference {
        Reference::Repository(wanted) => wanted.part == Part::Any,
        Reference::Short(name) => name.repository().is_some_and(|wanted| wanted.part == Part::Any),
        Reference::Url(_) => false,
    };
    if is_open { ModelBudget::of(device) } else { None }
}

/// Says why these files were chosen, and which memory was counted.
fn say(name: &str, reason: &str, budget: Option<&ModelBudget>) {
    match budget {
        Some(budget) => note!("{name}: {reason}; counted are {budget}"),
        None => note!("{name}: {reason}"),
    }
}

/// Parses the name of a model.
pub(crate) fn reference(word: &str) -> Result<Reference> {
    word.parse().map_err(explained)
}

/// Asks the hub what a name means, and says so.
pub(crate) fn plan(hub: &Hub, reference: &Reference) -> Result<Plan> {
    plan_within(hub, reference, budget(reference, Device::Auto).as_ref())
}

fn plan_within(hub: &Hub, reference: &Reference, budget: Option<&ModelBudget>) -> Result<Plan> {
    let plan = hub.plan(reference, budget.map(ModelBudget::bytes), &Cancel::default());
    let plan = plan.map_err(explained)?;
    if let Some(reason) = plan.reason() {
        say(plan.name(), reason, budget);
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
    let model = model.map_err(explained)?;
    if !model.unverified.is_empty() {
        note!(
            "the host has no hash of {}: only the size was compared",
            model.unverified.join(", ")
        );
    }
    Ok(model)
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

/// An error of the hub, with the next step.
pub(crate) fn explained(error: Error) -> anyhow::Error {
    let hint = match &error {
        Error::Name { .. } => hints::what_a_model_is(),
        Error::Unknown { name, .. } => format!(
            "`pelton pull OWNER/NAME` downloads a model of https://huggingface.co/models; models of `ollama pull \
             {name}` are found too"
        ),
        Error::Offline { name, .. } => {
            format!("`pelton pull {name}` downloads it, without --offline and HF_HUB_OFFLINE")
        }
        Error::Disk { .. } => {
            "`pelton rm NAME` deletes a model, HF_HUB_CACHE names a folder on another disk"
                .to_owned()
        }
        Error::Hash { .. } => "try again; a proxy may change downloads on their way".to_owned(),
        Error::Cancelled | Error::Foreign { .. } => return error.into(),
        Error::Model { .. } => {
            "the file is the same for everybody: tell its owner, or take another one".to_owned()
        }
        Error::Setting { .. } => "change the variable or remove it".to_owned(),
        _ => "the path of a model's file needs no network, and neither do built-in and the models of \
              `pelton list`"
            .to_owned(),
    };
    Hint { error: error.into(), hint }.into()
}
