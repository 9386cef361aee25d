//! Replies as frames, in the form of each API.

use pelton::chat::Event;
use serde_json::Value;

use super::stream::{Broken, Frames};
use crate::{
    error::ApiError,
    generate::{Piece, ReplyRun},
};

/// How an API writes a reply.
pub(crate) trait Sink {
    /// The frames before the first piece.
    fn begin(&mut self) -> Vec<Value> {
        Vec::new()
    }

    /// The frames of a piece of a reply.
    fn piece(&mut self, piece: Piece, reply: &ReplyRun) -> Result<Vec<Value>, ApiError>;

    /// The last frames of a stream that fails, where the API has a form for them.
    fn fail(&mut self, _error: &ApiError) -> Option<Vec<Value>> {
        None
    }
}

/// Writes a reply to its end.
pub(crate) async fn send<S: Sink>(
    mut reply: ReplyRun,
    mut sink: S,
    frames: &Frames,
) -> Result<S, Broken> {
    let mut next = sink.begin();
    loop {
        for frame in &next {
            frames.data(frame).await?;
        }
        let made = match reply.next().await {
            Ok(Some(piece)) => sink.piece(piece, &reply),
            Ok(None) => return Ok(sink),
            Err(error) => Err(error),
        };
        next = match made {
            Ok(made) => made,
            Err(error) => {
                let last = sink.fail(&error).filter(|_| frames.is_stream());
                let Some(last) = last else { return Err(error.into()) };
                tracing::warn!(%error, "a response fails");
                for frame in &last {
                    frames.data(frame).await?;
                }
                return Ok(sink);
            }
        }
    }
}

/// A part of a reply whose calls are whole.
pub(crate) enum Part {
    Text(String),
    Reasoning(String),
    /// A complete call, whose arguments are an object.
    Call {
        name: String,
        arguments: Value,
    },
}

/// Holds calls back until they are complete, for APIs that have no form for others: a call that is
/// not complete is text.
#[derive(Debug, Default)]
pub(crate) struct WholeCalls {
    name: String,
    arguments: String,
}

impl WholeCalls {
    /// The part that an event completes.
    pub(crate) fn part(&mut self, event: Event) -> Option<Part> {
        match event {
            Event::Content(text) | Event::ToolCallBroken { text, .. } => Some(Part::Text(text)),
            Event::Reasoning(text) => Some(Part::Reasoning(text)),
            Event::ToolCallStart { name, .. } => {
                *self = Self { name, arguments: String::new() };
                None
            }
            Event::ToolCallArguments { delta, .. } => {
                self.arguments.push_str(&delta);
                None
            }
            Event::ToolCallEnd { .. } => {
                let Self { name, arguments } = std::mem::take(self);
                Some(match serde_json::from_str(&arguments) {
                    Ok(arguments) => Part::Call { name, arguments },
                    Err(_) => Part::Text(arguments),
                })
            }
        }
    }
}

/// Adds a part to a whole. Texts and lists become longer, objects have the fields of both, and
/// those elements of a list are the same that have the same `index`.
pub(crate) fn grow(whole: &mut Value, part: &Value) {
    match (whole, part) {
        (_, Value::Null) => {}
        (Value::String(whole), Value::String(part)) => whole.push_str(part),
        (Value::Object(whole), Value::Object(part)) => {
            for (name, part) in part {
                match whole.get_mut(name) {
                    Some(own) => grow(own, part),
                    None => drop(whole.insert(name.clone(), part.clone())),
                }
            }
        }
        (Value::Array(whole), Value::Array(part)) => {
            for one in part {
                let index = one.get("index").and_then(Value::as_u64);
                let place = index.map(|index| {
                    whole.binary_search_by_key(&index, |own| own["index"].as_u64().unwrap_or(0))
                });
                match place {
                    Some(Ok(at)) => grow(&mut whole[at], one),
                    Some(Err(at)) => whole.insert(at, one.clone()),
                    None => whole.push(one.clone()),
                }
            }
        }
        (whole, part) => *whole = part.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As the `accumulate_delta` of OpenAI's client does.
    #[test]
    fn parts_make_a_whole() {
        let mut whole = json!([]);
        for part in [
            json!([{"index": 1, "text": "b", "reason": null}]),
            json!([{"index": 0, "text": "a", "calls": [{"index": 0, "arguments": "{"}]}]),
            json!([{"index": 1, "text": "c", "list": [{"n": 1}], "reason": "stop"}]),
            json!([{"index": 0, "calls": [{"index": 0, "arguments": "}"}]}]),
            json!([{"index": 1, "list": [{"n": 2}]}]),
        ] {
            grow(&mut whole, &part);
        }
        let expected = json!([
            {"index": 0, "text": "a", "calls": [{"index": 0, "arguments": "{}"}]},
            {"index": 1, "text": "bc", "reason": "stop", "list": [{"n": 1}, {"n": 2}]},
        ]);
        assert_eq!(whole, expected);
    }
}
