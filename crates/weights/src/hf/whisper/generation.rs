//! Heads and ids of tokens by `generation_config.json`.

use serde_json::Value;

use crate::Error;
use crate::hf::json::{Object, shown};
use crate::whisper::{NO_TIMESTAMPS, START, Sizes, Tokens};

/// The most heads that are read: more than any decoder has of use.
const MAX_HEADS: usize = 1 << 12;

/// Checks that the ids of tokens are those of the vocabulary.
pub(super) fn check_ids(generation: &Object, tokens: &Tokens) -> Result<(), Error> {
    let wrong = |key: &str, found: &Value, text: &str| match tokens.id(text) {
        Some(id) => generation.invalid(key, shown(found), &format!("{id}, the id of {text:?}")),
        None => generation.invalid(key, shown(found), &format!("no id, as {text:?} is no token")),
    };
    let is = |found: &Value, text: &str| {
        found.as_u64().is_some_and(|found| tokens.id(text) == usize::try_from(found).ok())
    };
    for (key, text) in
        [("decoder_start_token_id", START), ("no_timestamps_token_id", NO_TIMESTAMPS)]
    {
        if let Some(found) = generation.get(key)
            && !is(found, text)
        {
            return Err(wrong(key, found, text));
        }
    }
    for (key, framed) in [("lang_to_id", true), ("task_to_id", false)] {
        let Some(object) = generation.object(key)? else { continue };
        for (name, found) in object.entries() {
            let text = if framed { name.clone() } else { format!("<|{name}|>") };
            if !is(found, &text) {
                return Err(wrong(&format!("{key}.{name}"), found, &text));
            }
        }
    }
    Ok(())
}

/// The heads whose attention follows the audio, as pairs of a layer and a head.
pub(super) fn alignment_heads(
    generation: &Object,
    sizes: &Sizes,
) -> Result<Option<Vec<i32>>, Error> {
    const KEY: &str = "alignment_heads";
    let Some(pairs) = generation.list(KEY)? else { return Ok(None) };
    if pairs.len() > MAX_HEADS {
        let found = format!("a list of {}", pairs.len());
        return Err(generation.invalid(KEY, found, &format!("at most {MAX_HEADS} heads")));
    }
    let (layers, heads) = (sizes.decoder.layers, sizes.decoder.heads);
    let mut all = Vec::with_capacity(2 * pairs.len());
    for pair in pairs {
        let below = |value: &Value, limit: usize| {
            value.as_u64().filter(|value| *value < limit as u64).map(|value| value as i32)
        };
        let found = match pair.as_array().map(Vec::as_slice) {
            Some([layer, head]) => below(layer, layers).zip(below(head, heads)),
            _ => None,
        };
        let Some((layer, head)) = found else {
            let expected = format!("pairs of one of {layers} layers and one of {heads} heads");
            return Err(generation.invalid(KEY, shown(pair), &expected));
        };
        all.extend([layer, head]);
    }
    Ok((!all.is_empty()).then_some(all))
}
