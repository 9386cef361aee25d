//! Prompts of text between a prefix and a suffix (fill in the middle).

use pelton::tokenizer::Special;

use crate::{error::ApiError, models::Served};

/// The keys of the tokens that mark the parts, with the names that older files have.
const PREFIX: [&str; 2] = ["tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id"];
const SUFFIX: [&str; 2] = ["tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id"];
const MIDDLE: [&str; 2] = ["tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id"];
/// The texts of those tokens in the vocabularies that have them.
const TEXTS: [[&str; 3]; 4] = [
    ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"],
    ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"],
    ["<fim-prefix>", "<fim-suffix>", "<fim-middle>"],
    ["<PRE>", "<SUF>", "<MID>"],
];

/// The tokens of a prompt whose text goes between a prefix and a suffix.
pub(crate) fn infill_prompt(
    served: &Served,
    prefix: &str,
    suffix: &str,
) -> Result<Vec<u32>, ApiError> {
    let model = served.model()?;
    model.check_bytes(prefix.len().saturating_add(suffix.len()))?;
    let tokenizer = model.tokenizer()?;
    let metadata = model.checkpoint().metadata();
    let by_key = |keys: [&str; 2]| keys.iter().find_map(|key| metadata.opt_u32(key).ok().flatten());
    let by_text = |text: &str| match tokenizer.encode(text, Special::Parse).ok()?.as_slice() {
        [id] if tokenizer.token_text(*id) == Some(text) => Some(*id),
        _ => None,
    };
    let named = TEXTS
        .iter()
        .find_map(|[pre, suf, mid]| Some([by_text(pre)?, by_text(suf)?, by_text(mid)?]));
    let keyed = by_key(PREFIX).zip(by_key(SUFFIX)).zip(by_key(MIDDLE));
    let [pre, suf, mid] = match (keyed, named) {
        (Some(((pre, suf), mid)), _) => [pre, suf, mid],
        (None, Some(named)) => named,
        (None, None) => {
            let message = "the model has no tokens for text in the middle, expected one that was \
                           trained for it";
            return Err(ApiError::field("suffix", message));
        }
    };
    let mut tokens = Vec::new();
    tokens.extend(tokenizer.encode_prompt("")?.first());
    tokens.push(pre);
    tokens.extend(tokenizer.encode(prefix, Special::Ignore)?);
    tokens.push(suf);
    tokens.extend(tokenizer.encode(suffix, Special::Ignore)?);
    tokens.push(mid);
    Ok(tokens)
}
