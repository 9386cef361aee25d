//! A response, made step by step: its items, and the events that say how they grow.

use pelton::{FinishReason, chat::Event};
use serde_json::{Map, Value, json};

use crate::{error::ApiError, wire::new_id};

/// The item that grows.
enum Open {
    Reasoning { id: String, text: String },
    Message { id: String, text: String, log_probs: Vec<Value> },
    Call { id: String, call_id: String, name: String, arguments: String },
}

/// A response that is made step by step.
pub(super) struct Builder {
    response: Value,
    items: Vec<Value>,
    open: Option<Open>,
    frames: Vec<Value>,
    sequence: u64,
    /// Log-probabilities of tokens whose text comes next.
    log_probs: Vec<Value>,
}

impl Builder {
    pub(super) fn new(model: &str, created: u64, echo: Map<String, Value>) -> Self {
        let mut response = json!({
            "id": new_id("resp_"), "object": "response", "created_at": created,
            "status": "in_progress", "error": null, "incomplete_details": null, "model": model,
            "output": [], "usage": null, "previous_response_id": null, "background": false,
        });
        for (name, value) in echo {
            response[name] = value;
        }
        let mut builder = Self {
            response,
            items: Vec::new(),
            open: None,
            frames: Vec::new(),
            sequence: 0,
            log_probs: Vec::new(),
        };
        for name in ["response.created", "response.in_progress"] {
            let response = builder.response.clone();
            builder.push(name, json!({"response": response}));
        }
        builder
    }

    /// The events since the last call.
    pub(super) fn frames(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.frames)
    }

    pub(super) fn log_prob(&mut self, entry: Value) {
        self.log_probs.push(entry);
    }

    fn push(&mut self, name: &'static str, mut event: Value) {
        event["type"] = name.into();
        event["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        self.frames.push(event);
    }

    /// An event of the item that grows.
    fn item(&mut self, name: &'static str, id: &str, mut event: Value) {
        event["item_id"] = id.into();
        event["output_index"] = self.items.len().into();
        self.push(name, event);
    }

    pub(super) fn event(&mut self, event: Event) {
        match event {
            Event::Content(text) => self.text(&text),
            Event::Reasoning(delta) => {
                if !matches!(self.open, Some(Open::Reasoning { .. })) {
                    self.begin(Open::Reasoning { id: new_id("rs_"), text: String::new() });
                }
                let Some(Open::Reasoning { id, text }) = &mut self.open else { return };
                text.push_str(&delta);
                let id = id.clone();
                let event = json!({"content_index": 0, "delta": delta});
                self.item("response.reasoning_text.delta", &id, event);
            }
            Event::ToolCallStart { name, .. } => {
                let (id, call_id) = (new_id("fc_"), new_id("call_"));
                self.begin(Open::Call { id, call_id, name, arguments: String::new() });
            }
            Event::ToolCallArguments { delta, .. } => {
                let Some(Open::Call { id, arguments, .. }) = &mut self.open else { return };
                arguments.push_str(&delta);
                let id = id.clone();
                let event = json!({"delta": delta});
                self.item("response.function_call_arguments.delta", &id, event);
            }
            Event::ToolCallEnd { .. } => self.close("completed"),
            Event::ToolCallBroken { .. } => self.close("incomplete"),
        }
    }

    fn text(&mut self, delta: &str) {
        if !matches!(self.open, Some(Open::Message { .. })) {
            let (id, text, log_probs) = (new_id("msg_"), String::new(), Vec::new());
            self.begin(Open::Message { id, text, log_probs });
        }
        let Some(Open::Message { id, text, log_probs }) = &mut self.open else { return };
        text.push_str(delta);
        let tokens = std::mem::take(&mut self.log_probs);
        log_probs.extend(tokens.iter().cloned());
        let id = id.clone();
        let event = json!({"content_index": 0, "delta": delta, "logprobs": tokens});
        self.item("response.output_text.delta", &id, event);
    }

    /// Begins an item; the one before ends.
    fn begin(&mut self, open: Open) {
        self.close("completed");
        let item = open.item("in_progress");
        let index = self.items.len();
        let event = json!({"output_index": index, "item": item});
        self.push("response.output_item.added", event);
        if let Some((id, part)) = open.part(true) {
            let event = json!({"content_index": 0, "part": part});
            self.item("response.content_part.added", &id, event);
        }
        self.open = Some(open);
    }

    /// Ends the item that grows.
    fn close(&mut self, status: &str) {
        let Some(open) = self.open.take() else { return };
        match &open {
            Open::Reasoning { id, text } => {
                let event = json!({"content_index": 0, "text": text});
                self.item("response.reasoning_text.done", id, event);
            }
            Open::Message { id, text, log_probs } => {
                let event = json!({"content_index": 0, "text": text, "logprobs": log_probs});
                self.item("response.output_text.done", id, event);
            }
            Open::Call { .. } if status != "completed" => {}
            Open::Call { id, name, arguments, .. } => {
                let event = json!({"name": name, "arguments": arguments});
                self.item("response.function_call_arguments.done", id, event);
            }
        }
        if let Some((id, part)) = open.part(false) {
            let event = json!({"content_index": 0, "part": part});
            self.item("response.content_part.done", &id, event);
        }
        let item = open.item(status);
        let event = json!({"output_index": self.items.len(), "item": item});
        self.push("response.output_item.done", event);
        self.items.push(item);
    }

    /// The response as far as it is.
    pub(super) fn response(&self) -> &Value {
        &self.response
    }

    /// Ends the response.
    pub(super) fn end(&mut self, reason: FinishReason, usage: Value) {
        let whole = reason != FinishReason::Length;
        let status = if whole { "completed" } else { "incomplete" };
        self.close(status);
        self.response["status"] = status.into();
        self.response["output"] = self.items.clone().into();
        self.response["usage"] = usage;
        if !whole {
            self.response["incomplete_details"] = json!({"reason": "max_output_tokens"});
        }
        let name = if whole { "response.completed" } else { "response.incomplete" };
        let event = json!({"response": self.response});
        self.push(name, event);
    }

    /// Ends the response with an error.
    pub(super) fn fail(&mut self, error: &ApiError) {
        self.close("incomplete");
        self.response["status"] = "failed".into();
        self.response["output"] = self.items.clone().into();
        self.response["error"] =
            json!({"code": error.code.unwrap_or("server_error"), "message": error.message});
        let event = json!({"response": self.response});
        self.push("response.failed", event);
    }
}

impl Open {
    /// The item as it is now.
    fn item(&self, status: &str) -> Value {
        let part = |open: &Self| match status {
            "in_progress" => json!([]),
            _ => open.part(false).map_or_else(|| json!([]), |(_, part)| json!([part])),
        };
        match self {
            Self::Reasoning { id, .. } => json!({
                "id": id, "type": "reasoning", "summary": [], "content": part(self),
                "encrypted_content": null, "status": status,
            }),
            Self::Message { id, .. } => json!({
                "id": id, "type": "message", "status": status, "role": "assistant",
                "content": part(self),
            }),
            Self::Call { id, call_id, name, arguments } => json!({
                "id": id, "type": "function_call", "status": status, "call_id": call_id,
                "name": name, "arguments": arguments,
            }),
        }
    }

    /// The part of the item, with its identifier; `empty` as it begins.
    fn part(&self, empty: bool) -> Option<(String, Value)> {
        match self {
            Self::Reasoning { id, text } => {
                let text = if empty { "" } else { text };
                Some((id.clone(), json!({"type": "reasoning_text", "text": text})))
            }
            Self::Message { id, text, log_probs } => {
                let text = if empty { "" } else { text };
                let log_probs = if empty { &[][..] } else { log_probs };
                Some((
                    id.clone(),
                    json!({
                        "type": "output_text", "text": text, "annotations": [],
                        "logprobs": log_probs,
                    }),
                ))
            }
            Self::Call { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(frames: &[Value]) -> Vec<&str> {
        let names = frames.iter().filter_map(|frame| frame["type"].as_str());
        names.map(|name| name.trim_start_matches("response.")).collect()
    }

    /// The order of events that the API of OpenAI documents.
    #[test]
    fn order_of_events() {
        let mut builder = Builder::new("m", 0, Map::new());
        builder.event(Event::Reasoning("Hm".into()));
        builder.event(Event::Content("Hi".into()));
        builder.event(Event::ToolCallStart { index: 0, name: "f".into() });
        builder.event(Event::ToolCallArguments { index: 0, delta: "{}".into() });
        builder.event(Event::ToolCallEnd { index: 0 });
        builder.end(FinishReason::End, json!({}));
        let frames = builder.frames();
        let expected = [
            "created",
            "in_progress",
            "output_item.added",
            "content_part.added",
            "reasoning_text.delta",
            "reasoning_text.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "completed",
        ];
        assert_eq!(names(&frames), expected);
        for (i, event) in frames.iter().enumerate() {
            assert_eq!(event["sequence_number"], i);
        }
        let response = builder.response;
        assert_eq!(response["output"][2]["arguments"], "{}");
        assert_eq!(response["status"], "completed");
    }

    /// One terminal event, on errors too.
    #[test]
    fn ends() {
        let mut builder = Builder::new("m", 0, Map::new());
        builder.event(Event::Content("a".into()));
        builder.fail(&ApiError::internal("broken"));
        assert_eq!(names(&builder.frames()).last(), Some(&"failed"));
        assert_eq!(builder.response["output"][0]["content"][0]["text"], "a");
        let mut builder = Builder::new("m", 0, Map::new());
        builder.end(FinishReason::Length, json!({}));
        assert_eq!(names(&builder.frames()), ["created", "in_progress", "incomplete"]);
        // a call that is cut is left open
        let mut builder = Builder::new("m", 0, Map::new());
        builder.event(Event::ToolCallStart { index: 0, name: "f".into() });
        builder.event(Event::ToolCallArguments { index: 0, delta: "{\"a\": 1".into() });
        builder.event(Event::ToolCallBroken { index: 0, text: "f({\"a\": 1".into() });
        builder.end(FinishReason::Length, json!({}));
        assert!(!names(&builder.frames()).contains(&"function_call_arguments.done"));
        let output = &builder.response["output"];
        assert_eq!(output.as_array().unwrap().len(), 1);
        assert_eq!(
            (&output[0]["status"], &output[0]["arguments"]),
            (&json!("incomplete"), &json!("{\"a\": 1"))
        );
    }
}
