//! The load of a draft model.

use std::sync::Arc;

use pelton_graph::{Backend, BuildOptions, Limits, OutputKind, Plan, pages_for};
use pelton_tokenizer::Tokenizer;
use pelton_weights::Checkpoint;

use super::super::vocabulary::used_tokens;
use crate::{
    Error,
    api::{DraftSource, LoadOptions, Speculation},
    kv::{PageCache, wanted_context},
    schedule::{DraftModel, Drafter, HeadModel, Resources, Runner},
    sources,
};

/// The most rows of a pass of a head: their hidden states come from the host.
const HEAD_ROWS: usize = 512;

/// The model that a draft model drafts for.
pub(super) struct Target<'a> {
    pub(super) name: &'a str,
    pub(super) plan: &'a Plan,
    pub(super) limits: &'a Limits,
    pub(super) tokenizer: Option<&'a Tokenizer>,
}

/// Loads a draft model; `None` if the head of the model's file drafts.
///
/// # Errors
///
/// [`Error::Draft`] if it or the model cannot speculate, or if their vocabularies differ; otherwise
/// as any load.
pub(super) fn load(
    backend: &dyn Backend,
    source: &DraftSource,
    target: &Target<'_>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Option<Box<dyn Drafter>>, Error> {
    let (file, checkpoint) = match source {
        DraftSource::Model(source) => sources::text(source)?,
        DraftSource::Head => return Ok(None),
    };
    let fail =
        |found: String, expected: String| Err(Error::Draft { file: file.clone(), found, expected });
    if !target.plan.states.is_empty() && target.limits.snapshots == 0 {
        return fail(
            format!(
                "is for {}, which has recurrent states and no memory for snapshots",
                target.name
            ),
            "a model whose rejected tokens can be rolled back".to_owned(),
        );
    }
    let build = BuildOptions { context: Some(target.limits.context), ..BuildOptions::default() };
    let plan = pelton_graph::build_with(&checkpoint, &build)?;
    if plan.output != OutputKind::Logits || plan.whole_sequences || !plan.states.is_empty() {
        let expected = "a model that generates text and has no recurrent states".to_owned();
        return fail("cannot draft".to_owned(), expected);
    }
    let tokenizer = match Tokenizer::from_metadata(checkpoint.metadata()) {
        Ok(tokenizer) => Some(tokenizer),
        Err(pelton_tokenizer::Error::NoVocabulary) => None,
        Err(error) => return Err(error.into()),
    };
    if let Some((found, expected)) = difference(&plan, tokenizer.as_ref(), target) {
        return fail(found, expected);
    }
    let resources = resources(backend, plan, Arc::new(checkpoint), target.limits, progress)?;
    tracing::info!(draft = %file.display(), limits = ?resources.limits, "the draft model is loaded");
    Ok(Some(Box::new(DraftModel::new(resources))))
}

/// Loads a plan that drafts, with the slots of its target and pages for all of them at full length.
fn resources(
    backend: &dyn Backend,
    plan: Plan,
    checkpoint: Arc<Checkpoint>,
    target: &Limits,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Resources, Error> {
    let plan = plan.fuse(&|op, plan| backend.accepts(op, plan));
    let context = target.context.min(plan.context);
    let pages = pages_for(context).saturating_mul(target.sequences);
    let limits = Limits {
        context,
        pages: vec![pages; plan.groups.len()],
        tokens: target.tokens.min(plan.vocab),
        snapshots: 0,
        ..target.clone()
    };
    let executable =
        backend.load(plan.clone(), Arc::clone(&checkpoint), limits.clone(), progress)?;
    checkpoint.check_files()?;
    let runner = Runner::new(executable, checkpoint.files());
    let kv = PageCache::new(&plan.groups, &limits.pages, None, runner.pipeline.phases_agree);
    let (loras, reads_places) = (Vec::new(), plan.has_places());
    Ok(Resources { runner, kv, limits, plan, loras, reads_places, eyes: None })
}

/// The plan of the head of a model's file, if the options let one draft and the file has one.
///
/// # Errors
///
/// If the head's tensors are not whole; [`Error::Option`] if the options demand a head that the
/// file does not have.
pub(super) fn head_plan(
    checkpoint: &Checkpoint,
    options: &LoadOptions,
) -> Result<Option<Plan>, Error> {
    let demanded = match options.draft {
        Some(DraftSource::Head) => true,
        None if options.speculation != Speculation::Off && options.pooling.is_none() => false,
        _ => return Ok(None),
    };
    let build = BuildOptions { context: wanted_context(options), ..BuildOptions::default() };
    let plan = pelton_graph::build_head(checkpoint, &build)?;
    if demanded && plan.is_none() {
        return Err(Error::Option {
            option: "draft",
            found: "mtp".to_owned(),
            expected: format!(
                "another source: {} has no head that predicts further tokens, or none of a known form",
                checkpoint.name()
            ),
        });
    }
    Ok(plan)
}

/// Loads the head of a model's file. One that the options do not demand is left out where the
/// backend cannot load it, as for lack of memory.
///
/// # Errors
///
/// As any load, if the options demand the head.
pub(super) fn load_head(
    backend: &dyn Backend,
    plan: Plan,
    checkpoint: &Arc<Checkpoint>,
    limits: &Limits,
    options: &LoadOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Option<Box<dyn Drafter>>, Error> {
    let rows = limits.rows.min(HEAD_ROWS.max(limits.wants));
    let limits = Limits { rows, ..limits.clone() };
    match resources(backend, plan, Arc::clone(checkpoint), &limits, progress) {
        Ok(resources) => {
            tracing::info!(limits = ?resources.limits, "the head is loaded");
            Ok(Some(Box::new(HeadModel::new(resources))))
        }
        Err(error) if options.draft.is_none() => {
            tracing::warn!(%error, "the head that predicts further tokens is not used");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The first difference of the vocabularies, as what was found and what was expected.
fn difference(
    plan: &Plan,
    tokenizer: Option<&Tokenizer>,
    target: &Target<'_>,
) -> Option<(String, String)> {
    let (draft, model) = match (tokenizer, target.tokenizer) {
        (Some(draft), Some(model)) => (draft, model),
        (None, None) if plan.vocab == target.plan.vocab => return None,
        (None, None) => {
            let expected = format!("the {} of {}", target.plan.vocab, target.name);
            return Some((format!("has {} tokens", plan.vocab), expected));
        }
        (draft, _) => {
            let (found, expected) = match draft {
                Some(_) => ("has a vocabulary", "none"),
                None => ("has no vocabulary", "one"),
            };
            return Some((found.to_owned(), format!("{expected}, as {}", target.name)));
        }
    };
    let (found, expected) = (used_tokens(draft), used_tokens(model));
    if found != expected {
        return Some((
            format!("has a vocabulary of {found} tokens"),
            format!("the {expected} of {}", target.name),
        ));
    }
    let text = |tokenizer: &Tokenizer, id| tokenizer.token_text(id).unwrap_or("").to_owned();
    let differs = |&id: &u32| {
        draft.token_text(id) != model.token_text(id)
            || draft.token_bytes(id) != model.token_bytes(id)
    };
    (0..found as u32).find(differs).map(|id| {
        (
            format!("has {:?} as token {id}", text(draft, id)),
            format!("{:?} as in {}", text(model, id), target.name),
        )
    })
}
