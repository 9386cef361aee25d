//! Scores of pairs of texts.

use std::sync::Arc;

use axum::{Json as Answer, extract::State};
use pelton::{EmbedOptions, Embedding, Prompt, RerankOptions, graph::OutputKind};
use serde_json::{Value, json};

use crate::{
    api::openai::{prompts::check_batch, usage::now},
    app::{App, Caller, Json},
    error::ApiError,
    generate::{self, Context},
    input::{Fields, extras},
    wire::new_id,
};

/// The names of the two texts of a pair.
const NAMES: [(&str, &str); 3] =
    [("text_1", "text_2"), ("data_1", "data_2"), ("queries", "documents")];

/// The two sides of all pairs: one text for all texts of the other side, or as many.
struct Pairs {
    first: Vec<String>,
    second: Vec<String>,
}

impl Pairs {
    fn take(app: &App, fields: &mut Fields) -> Result<Self, ApiError> {
        let mut names = NAMES.into_iter();
        let given = names.find(|&(first, second)| fields.has(first) || fields.has(second));
        let (one, two) = given.unwrap_or(NAMES[0]);
        let mut side = |name| match fields.strings(name) {
            Ok(texts) if texts.is_empty() => {
                Err(fields.missing(name, "a string or a list of strings"))
            }
            texts => texts,
        };
        let (first, second) = (side(one)?, side(two)?);
        if first.len() != 1 && first.len() != second.len() {
            let message = format!(
                "{one} has {} texts and {two} has {}, expected one, or as many",
                first.len(),
                second.len()
            );
            return Err(ApiError::field(one, message));
        }
        check_batch(app, two, second.len())?;
        Ok(Self { first, second })
    }
}

/// The cosine of the angle between two embeddings of length 1.
fn cosine(one: &Embedding, other: &Embedding) -> f32 {
    one.values.iter().zip(&other.values).map(|(a, b)| a * b).sum()
}

/// The scores of all pairs, and their tokens: a reranker reads a pair at once, and embeddings of
/// its texts have a cosine.
async fn scores(
    context: &Context,
    pairs: Pairs,
    is_raw: bool,
) -> Result<(Vec<f32>, usize), ApiError> {
    let Pairs { first, second } = pairs;
    if context.lease.model()?.plan().output == OutputKind::Scores {
        let options = RerankOptions::default().raw(is_raw);
        let all = generate::rerank(context, first, second, options).await?;
        let tokens = all.iter().map(|score| score.tokens).sum();
        return Ok((all.iter().map(|score| score.score).collect(), tokens));
    }
    let count = first.len();
    let texts: Vec<Prompt> = first.into_iter().chain(second).map(Prompt::from).collect();
    let all = generate::embed(context, texts, EmbedOptions::default()).await?;
    if all.iter().any(|one| one.values.len() != one.dimensions) {
        return Err(ApiError::invalid(
            "the model gives each token an embedding, expected one for a text: start the server with \
             --pooling mean, cls or last",
        ));
    }
    let tokens = all.iter().map(|one| one.tokens).sum();
    let (first, second) = all.split_at(count);
    let pairs = second.iter().enumerate();
    Ok((pairs.map(|(i, two)| cosine(&first[i % count], two)).collect(), tokens))
}

/// `POST /score` and `/v1/score`
pub(in crate::api) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Answer<Value>, ApiError> {
    let model = fields.string("model")?;
    let pairs = Pairs::take(&app, &mut fields)?;
    let is_raw = fields.boolean("use_activation")? == Some(false);
    fields.finish(&[extras::ANY, extras::VECTORS])?;
    let lease = app.registry.lease_scorer(model.as_deref()).await?;
    let context = app.context(lease, &caller, None);
    let (scores, tokens) = scores(&context, pairs, is_raw).await?;
    let one = |(index, score)| json!({"index": index, "object": "score", "score": score});
    let data: Vec<Value> = scores.into_iter().enumerate().map(one).collect();
    Ok(Answer(json!({
        "id": new_id("score-"), "object": "list", "created": now(), "model": context.lease.name,
        "data": data, "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    })))
}
