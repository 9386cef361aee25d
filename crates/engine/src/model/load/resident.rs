//! A plan whose weights are on its devices, and what drafts for it.

use std::sync::Arc;

use pelton_graph::{Executable, Limits, Plan, Weight};
use pelton_place::{Placement, file_bytes};
use pelton_tokenizer::Tokenizer;
use pelton_weights::Checkpoint;

use super::{
    super::{
        effort::{LoadedEffort, load_or_whole},
        value_plans, vocabulary,
    },
    draft,
    placed::Placed,
};
use crate::{
    Error,
    api::{LoadOptions, Pooling},
    kv,
    placement::Chosen,
    schedule::{Drafter, Runner},
    vision::{Eyes, OpenTower, Vision},
};

/// A loaded plan without caches of sequences.
pub(super) struct Resident {
    pub(super) checkpoint: Arc<Checkpoint>,
    pub(super) plan: Plan,
    pub(super) limits: Limits,
    pub(super) placement: Placement,
    pub(super) runner: Runner,
    /// The name of its device.
    pub(super) device: Arc<str>,
    pub(super) tokenizer: Option<Arc<Tokenizer>>,
    pub(super) pooling: Pooling,
    /// Bytes of the weights, with those of the head.
    pub(super) weight_bytes: u64,
    pub(super) efforts: LoadedEffort,
    /// Whether rejected drafts can be taken back.
    pub(super) rolls_back: bool,
    /// The draft model, or the head.
    pub(super) drafter: Option<Box<dyn Drafter>>,
    /// The vision tower.
    pub(super) sight: Option<(Vision, Eyes)>,
}

/// The plan of the head of a file, and its bytes next to the model's.
#[derive(Default)]
struct Head {
    plan: Option<Plan>,
    weights: u64,
    caches: u64,
}

impl Head {
    fn new(plan: &Plan, checkpoint: &Checkpoint, options: &LoadOptions) -> Result<Self, Error> {
        if !plan.entry.is_empty() || plan.exit.is_empty() {
            // no hidden states are kept for it
            return Ok(Self::default());
        }
        let Some(head) = draft::head_plan(checkpoint, options)? else { return Ok(Self::default()) };
        let own = head.weights.iter().filter(|weight| !plan.weights.contains(weight));
        let bytes = |weight: &Weight| weight.dtype.bytes_of(weight.len()).unwrap_or(0) as u64;
        let (weights, caches) = (own.map(bytes).sum(), kv::full_length_bytes(options, &head));
        Ok(Self { plan: Some(head), weights, caches })
    }
}

impl Resident {
    pub(super) fn new(placed: Placed, options: &LoadOptions) -> Result<Self, Error> {
        let Placed { checkpoint, plan, devices, thresholds, tower } = placed;
        let tokenizer = tokenizer(&checkpoint)?;
        let tokens = tokenizer.as_deref().map_or(plan.vocab, vocabulary::used_tokens);
        let head = Head::new(&plan, &checkpoint, options)?;
        let of_tower = tower.as_ref().map_or(0, OpenTower::weight_bytes);
        let weight_bytes = file_bytes(&plan) + head.weights + of_tower;
        let seeing = tower.as_ref().map_or(Ok(0), |tower| tower.needs(devices.last.as_ref()))?;
        let pooling = value_plans::pooling(&plan, options)?;
        let sizes = (tokens, head.weights + head.caches + seeing);
        let load = |plan: &Plan| load(&devices, plan, &checkpoint, sizes, options);
        let (plan, (limits, placement, mut executable), fits) =
            load_or_whole(plan, devices.backend.as_ref(), options, load)?;
        let marks = (&plan, &limits, fits);
        let efforts = LoadedEffort::new(options, marks, thresholds, &mut *executable)?;
        // weights of a file that was cut meanwhile are zeros
        checkpoint.check_files()?;
        let runner = Runner::new(executable, checkpoint.files());
        tracing::info!(pipeline = ?runner.pipeline, "the model is loaded");
        // a recurrent state is rolled back to a snapshot
        let rolls_back = plan.states.is_empty() || limits.snapshots > 0;
        let mut resident = Self {
            device: devices.backend.name().into(),
            checkpoint,
            plan,
            limits,
            placement,
            runner,
            tokenizer,
            pooling,
            weight_bytes,
            efforts,
            rolls_back,
            drafter: None,
            sight: None,
        };
        resident.load_drafter(&devices, head.plan, options)?;
        resident.load_tower(&devices, tower.as_ref(), options)?;
        Ok(resident)
    }

    /// Loads the vision tower, on the device of the output.
    fn load_tower(
        &mut self,
        devices: &Chosen,
        tower: Option<&OpenTower>,
        options: &LoadOptions,
    ) -> Result<(), Error> {
        if let (Some(tower), Some(tokenizer)) = (tower, self.tokenizer.as_deref()) {
            let text = (&self.plan, &self.limits);
            self.sight = Some(tower.load(devices.last.as_ref(), text, tokenizer, options)?);
        }
        Ok(())
    }

    /// Loads the draft model or the head, on the device of the output. The options
    /// never let both draft.
    fn load_drafter(
        &mut self,
        devices: &Chosen,
        head: Option<Plan>,
        options: &LoadOptions,
    ) -> Result<(), Error> {
        let progress = &mut |done, total| options.report(done, total);
        let (last, limits) = (devices.last.as_ref(), &self.limits);
        let target = draft::Target {
            name: self.checkpoint.name(),
            plan: &self.plan,
            limits,
            tokenizer: self.tokenizer.as_deref(),
        };
        if let Some(source) = &options.draft {
            self.drafter = draft::load(last, source, &target, progress)?;
        }
        if let Some(plan) = head.filter(|_| self.rolls_back) {
            self.drafter =
                draft::load_head(last, plan, &self.checkpoint, limits, options, progress)?;
        }
        Ok(())
    }
}

/// The vocabulary of a file, if it has one.
fn tokenizer(checkpoint: &Checkpoint) -> Result<Option<Arc<Tokenizer>>, Error> {
    match Tokenizer::from_metadata(checkpoint.metadata()) {
        Ok(tokenizer) => Ok(Some(Arc::new(tokenizer))),
        Err(pelton_tokenizer::Error::NoVocabulary) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Loads the weights of a plan. `tokens` are in use, and `reserved` bytes are for a head.
fn load(
    devices: &Chosen,
    plan: &Plan,
    checkpoint: &Arc<Checkpoint>,
    (tokens, reserved): (usize, u64),
    options: &LoadOptions,
) -> Result<(Limits, Placement, Box<dyn Executable>), Error> {
    let limits = devices.limits(plan, tokens, options, reserved)?;
    let mut table = devices.table(plan, &limits, options)?;
    tracing::info!(%table, steps = plan.steps.len(), ?limits, "the plan and the devices are chosen");
    let progress = &mut |done, total| options.report(done, total);
    let checkpoint = Arc::clone(checkpoint);
    let executable = devices.backend.load(plan.clone(), checkpoint, limits.clone(), progress)?;
    table.stream_from = executable.pipeline().streams;
    Ok((limits, table, executable))
}
