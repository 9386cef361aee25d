//! Plans whose results are values of texts: their pooling, and the norm that requests apply.

use pelton_graph::{Norm, NormKind, Op, OutputKind, Plan, Pooling as PoolOp, PoolingType};
use pelton_weights::{Checkpoint, Keys};

use crate::{
    Error,
    api::{LoadOptions, Pooling},
};

/// The pooling that a plan is built with.
pub(super) fn pooling_type(pooling: Pooling) -> PoolingType {
    match pooling {
        Pooling::None => PoolingType::None,
        Pooling::Mean => PoolingType::Mean,
        Pooling::Cls => PoolingType::First,
        Pooling::Last => PoolingType::Last,
    }
}

/// The pooling of a plan's embeddings: that of its op, or if it has none, the one of the options.
///
/// # Errors
///
/// [`Error::Option`] if the options name another than the plan's.
pub(super) fn pooling(plan: &Plan, options: &LoadOptions) -> Result<Pooling, Error> {
    let op = plan.steps.iter().find_map(|step| match step.op {
        Op::Pool(PoolOp::Mean) => Some(Pooling::Mean),
        Op::Pool(PoolOp::First) => Some(Pooling::Cls),
        Op::Pool(PoolOp::Last) => Some(Pooling::Last),
        _ => None,
    });
    let fail = |found: Pooling, expected: String| {
        let found = found.to_string();
        Err(Error::Option { option: "pooling", found, expected })
    };
    match (options.pooling, op) {
        (Some(asked), _) if plan.output != OutputKind::Embedding => {
            fail(asked, "none, as the model computes no embeddings".to_owned())
        }
        (Some(asked), Some(op)) if asked != op => fail(asked, format!("{op}, that of the plan")),
        (_, Some(op)) => Ok(op),
        (Some(asked), None) => Ok(asked),
        (None, None) if plan.whole_sequences => Ok(Pooling::None),
        (None, None) => Ok(Pooling::Last),
    }
}

/// Refuses an encoder of embeddings whose pooling neither the file nor the options state.
pub(super) fn check_pooling(
    checkpoint: &Checkpoint,
    plan: &Plan,
    options: &LoadOptions,
) -> Result<(), Error> {
    let is_encoder = plan.output == OutputKind::Embedding && plan.whole_sequences;
    let states_one = Keys::new(checkpoint.metadata())
        .is_ok_and(|keys| keys.metadata().get(&keys.key("pooling_type")).is_some());
    if !is_encoder || states_one || options.pooling.is_some() {
        return Ok(());
    }
    // llama.cpp gives each token a vector then, sentence-transformers a text the mean
    Err(Error::Option {
        option: "pooling",
        found: format!("not given, and {} states none", checkpoint.name()),
        expected: "mean (which sentence-transformers takes then), cls, last or none".to_owned(),
    })
}

/// The plan without a norm of length 1 as its last step: the requests say whether embeddings are
/// normalized, and cut them first.
pub(super) fn without_norm(mut plan: Plan) -> Plan {
    if plan.output == OutputKind::Embedding
        && let Some(step) = plan.steps.last()
        && let Op::Norm(Norm { kind: NormKind::L2, weight: None, bias: None, eps: _ }) = step.op
        && step.outputs == [plan.logits]
    {
        plan.logits = step.inputs[0];
        plan.steps.pop();
    }
    plan
}

/// Refuses a plan that a model of text cannot run: that of a model which recognizes speech.
pub(super) fn refuse_speech(checkpoint: &Checkpoint, plan: &Plan) -> Result<(), Error> {
    match plan.encoder {
        None => Ok(()),
        Some(_) => Err(Error::Output {
            file: checkpoint.name().to_owned(),
            found: "the text of speech, by `load_speech` or `pelton transcribe`",
            expected: "logits of tokens, embeddings or relevance scores",
        }),
    }
}
