//! The effort of a load: the matrices that it applies to, and whether requests run at
//! it or the whole model.

mod buckets;
mod key;
mod thresholds;
mod times;

use std::{path::PathBuf, sync::Arc};

use pelton_graph::{Backend, Effort, EffortForm, Executable, Limits, OutputKind, Plan, Weight};
use pelton_quant::BUCKET;
use pelton_weights::Checkpoint;

pub use self::buckets::BucketFile;
use self::key::key;
use crate::{
    Error, ErrorKind,
    api::{EffortLevel, EffortOptions, EffortUse, LoadOptions},
    session::{effort_of, of_plan},
};

/// A plan that is marked for effort, and its calibration.
pub(super) struct Marked {
    pub(super) plan: Plan,
    pub(super) checkpoint: Arc<Checkpoint>,
    /// The file of the thresholds.
    file: Option<PathBuf>,
    /// Whether the load has measured them.
    is_measured: bool,
}

impl Marked {
    /// A plan as it is.
    pub(super) fn without(plan: Plan, checkpoint: Arc<Checkpoint>) -> Self {
        Self { plan, checkpoint, file: None, is_measured: false }
    }

    /// A plan with its matrices marked for the options, as far as the backend has a form for them.
    /// `built` is the plan before it was fused.
    pub(super) fn new(
        (plan, built): (Plan, Plan),
        mut checkpoint: Checkpoint,
        backend: &dyn Backend,
        options: &EffortOptions,
        load: &LoadOptions,
    ) -> Result<Self, Error> {
        let effort = effort_of(options.level)?;
        let refuse = |option, found: String, expected: &str| {
            Err(Error::Option { option, found, expected: expected.to_owned() })
        };
        if plan.output != OutputKind::Logits {
            return refuse("effort", effort.to_string(), "none, as the model generates no text");
        }
        let mut plan = plan.with_effort(&|form| backend.has_effort(form));
        let none = "none, as no matrix is kept in sorted buckets: that needs weights in F16, BF16 or F32 on the CPU";
        match (options.ranks, &options.buckets) {
            (Some(ranks), _) if !plan.has_form(EffortForm::Bucket) => {
                return refuse("effort.ranks", ranks.to_string(), none);
            }
            (_, Some(file)) if !plan.has_form(EffortForm::Bucket) => {
                return refuse("effort.buckets", file.display().to_string(), none);
            }
            (ranks, file) => {
                if let Some(path) = file {
                    checkpoint.attach_buckets(path, &key("bucket", &plan, &checkpoint))?;
                }
                plan.marks.ranks = ranks.unwrap_or(BUCKET);
                if !(1..=BUCKET).contains(&plan.marks.ranks) {
                    let expected = format!("1 to {BUCKET}");
                    return refuse("effort.ranks", plan.marks.ranks.to_string(), &expected);
                }
            }
        }
        let mut marked = Self::without(plan, Arc::new(checkpoint));
        if marked.plan.has_form(EffortForm::Nested) {
            let Self { plan, checkpoint, .. } = &marked;
            let found = thresholds::of(plan, built, checkpoint, &options.tables, load)?;
            (marked.file, marked.is_measured) = (found.file, found.is_measured);
            marked.plan.marks.table = Some(found.table);
        }
        Ok(marked)
    }
}

/// Loads a plan; if there is too little memory and requests may run the whole model, without its
/// marks. Returns also whether it has its marks.
pub(super) fn load_or_whole<T>(
    plan: Plan,
    backend: &dyn Backend,
    options: &LoadOptions,
    load: impl Fn(&Plan) -> Result<T, Error>,
) -> Result<(Plan, T, bool), Error> {
    let may_be_whole = options.effort.as_ref().is_some_and(|effort| !effort.always);
    match load(&plan) {
        Err(error)
            if may_be_whole
                && backend.effort_bytes(&plan) > 0
                && error.kind() == ErrorKind::OutOfMemory =>
        {
            tracing::warn!(%error, "the weights for efforts below 1 do not fit");
            let plan = plan.without_effort();
            let loaded = load(&plan)?;
            Ok((plan, loaded, false))
        }
        loaded => Ok((plan, loaded?, true)),
    }
}

/// The effort of a loaded model.
pub(super) struct LoadedEffort {
    /// The effort of requests that do not say.
    level: Effort,
    /// How requests below 1 run; `None` of a load without effort.
    of_requests: Option<EffortUse>,
}

impl LoadedEffort {
    /// The effort of a load, whose marks `fit` or not. A load on a GPU times it.
    pub(super) fn new(
        options: &LoadOptions,
        (plan, limits, fits): (&Plan, &Limits, bool),
        (file, is_measured): (Option<PathBuf>, bool),
        executable: &mut dyn Executable,
    ) -> Result<Self, Error> {
        let Some(effort) = &options.effort else {
            return Ok(Self { level: Effort::FULL, of_requests: None });
        };
        let level = effort_of(effort.level)?;
        // on the CPU, where passes do not overlap, efforts are not timed
        let times = match !effort.always && executable.pipeline().depth > 1 && plan.has_effort() {
            true => times::of(executable, plan, limits, level)?,
            false => None,
        };
        let of_requests = match times {
            _ if !fits => EffortUse::TooLittleMemory,
            _ if !plan.has_effort() => EffortUse::NoForm { formats: formats(plan) },
            Some([whole, less]) if less >= whole => EffortUse::Slower { whole, less },
            _ => EffortUse::Runs { thresholds: file, measured: is_measured },
        };
        Ok(Self { level, of_requests: Some(of_requests) })
    }

    /// Whether rows of every effort run the whole model, as it has no second order of its weights.
    #[cfg(feature = "unstable")]
    pub(super) fn has_no_form(&self) -> bool {
        let found = &self.of_requests;
        matches!(found, Some(EffortUse::NoForm { .. } | EffortUse::TooLittleMemory))
    }

    /// How requests below 1 run; `None` of a load without effort.
    pub(super) fn of_requests(&self) -> Option<&EffortUse> {
        self.of_requests.as_ref()
    }

    /// The effort at which a request runs.
    ///
    /// # Errors
    /// If it is out of its range, or below 1 of a load without effort.
    pub(super) fn of(&self, asked: Option<EffortLevel>, plan: &Plan) -> Result<Effort, Error> {
        let effort = asked.map_or(Ok(self.level), effort_of)?;
        match &self.of_requests {
            None | Some(EffortUse::Runs { .. }) => of_plan(effort, plan),
            Some(_) => Ok(Effort::FULL),
        }
    }
}

impl Marked {
    /// The file of the thresholds, and whether the load has measured them.
    pub(super) fn thresholds(&self) -> (Option<PathBuf>, bool) {
        (self.file.clone(), self.is_measured)
    }
}

/// The formats of the matrices that effort would apply to.
fn formats(plan: &Plan) -> String {
    let is_part = |weight: &&Weight| pelton_graph::is_effort_matrix(&weight.name);
    let mut formats: Vec<&str> =
        plan.weights.iter().filter(is_part).map(|weight| weight.dtype.name()).collect();
    formats.sort_unstable();
    formats.dedup();
    formats.join(", ")
}
