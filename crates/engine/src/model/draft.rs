//! The load of a draft model.

use std::{path::PathBuf, sync::Arc};

use pelton_graph::{Backend, BuildOptions, Effort, Limits, OutputKind, Plan, pages_for};
use pelton_tokenizer::Tokenizer;
use pelton_weights::Checkpoint;

use super::vocabulary::used_tokens;
use crate::{
    Error,
    api::{DraftSource, LoadOptions},
    built_in,
    kv::KvCache,
    schedule::{DraftModel, Resources, Runner},
};

/// The model that a draft model drafts for.
pub(super) struct Target<'a> {
    pub(super) name: &'a str,
    pub(super) plan: &'a Plan,
    pub(super) limits: &'a Limits,
    pub(super) tokenizer: Option<&'a Tokenizer>,
}

/// Loads a draft model; `None` if the model drafts for itself.
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
) -> Result<Option<DraftModel>, Error> {
    let (file, checkpoint) = match source {
        DraftSource::Path(path) => (path.clone(), Checkpoint::open(path)?),
        DraftSource::BuiltIn => (PathBuf::from("built-in"), built_in()?),
        DraftSource::Effort(_) => return Ok(None),
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
    let plan = plan.fuse(&|op, plan| backend.accepts(op, plan));
    let context = target.limits.context.min(plan.context);
    let sequences = target.limits.sequences;
    let pages = pages_for(context).saturating_mul(sequences);
    let limits = Limits {
        context,
        pages: vec![pages; plan.groups.len()],
        tokens: target.limits.tokens.min(plan.vocab),
        snapshots: 0,
        ..target.limits.clone()
    };
    let executable = backend.load(plan.clone(), Arc::new(checkpoint), limits.clone(), progress)?;
    let runner = Runner::new(executable);
    let kv = KvCache::new(&plan.groups, &limits.pages, None, runner.pipeline.phases_agree);
    tracing::info!(draft = %file.display(), ?limits, "the draft model is loaded");
    Ok(Some(DraftModel::new(Resources { runner, kv, limits, plan, loras: Vec::new() })))
}

/// The effort at which a model drafts for itself, if the options say so.
///
/// # Errors
///
/// [`Error::Option`] if it is not above 0 and below 1, or the model has recurrent states.
pub(super) fn own_effort(options: &LoadOptions, plan: &Plan) -> Result<Option<Effort>, Error> {
    let Some(DraftSource::Effort(effort)) = options.draft else { return Ok(None) };
    let refuse = |expected: &str| {
        let (option, found) = ("draft", format!("effort:{effort}"));
        Err(Error::Option { option, found, expected: expected.to_owned() })
    };
    match Effort::new(effort).filter(|effort| !effort.is_full()) {
        None => refuse("an effort above 0 and below 1"),
        Some(_) if !plan.states.is_empty() => refuse("none, as the model has recurrent states"),
        effort => Ok(effort),
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
