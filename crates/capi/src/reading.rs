//! The reading of a stream: from the events of a request to pieces of the answer.

use std::{sync::Arc, time::Instant};

use pelton::{
    Event, FinishReason, GenerateOptions, Model, PromptToken, RequestHandle, Token,
    chat::{self, Reply, ReplyParser, call_id},
};
use serde_json::{Value, json};

use crate::{
    chat::render,
    fault::Fault,
    queue::{Popped, Queue},
    request::{Input, Values},
    token::Piece,
};

/// The outcome of a wait for the next piece.
pub(crate) enum Next {
    Piece(Piece),
    End,
    TimedOut,
}

/// The state of the reader.
pub(crate) struct Reading {
    handle: RequestHandle,
    /// The parser of the answer to a conversation.
    parser: Option<ReplyParser>,
    /// The parts of that answer so far.
    parts: Vec<chat::Event>,
    /// The text so far.
    text: String,
    prompt: Vec<PromptToken>,
    reason: Option<FinishReason>,
    ended: bool,
    /// The piece whose texts the caller may read.
    pub(crate) current: Option<Piece>,
}

/// Closes the queue when the request's callback is dropped.
struct Sender(Arc<Queue<Event>>);

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Submits a request.
pub(crate) fn start(
    model: &Model,
    values: Values,
) -> Result<(Arc<Queue<Event>>, RequestHandle, Reading), Fault> {
    let Values { input, options } = values;
    let (prompt, options, parser): (_, GenerateOptions, _) = match input {
        None => return Err(Fault::invalid("the request has no prompt, expected one")),
        Some(Input::Prompt(prompt)) => (prompt, options, None),
        Some(Input::Conversation(all)) => {
            let rendered = render(model, &all)?;
            let options = rendered.constrain(options).map_err(pelton::Error::from)?;
            (rendered.prompt.clone(), options, Some(rendered.parser()))
        }
    };
    let queue = Arc::new(Queue::new());
    let sender = Sender(Arc::clone(&queue));
    let handle = model.submit(prompt, options, move |event| {
        sender.0.push(event);
        std::ops::ControlFlow::Continue(())
    })?;
    let reading = Reading {
        handle: handle.clone(),
        parser,
        parts: Vec::new(),
        text: String::new(),
        prompt: Vec::new(),
        reason: None,
        ended: false,
        current: None,
    };
    Ok((queue, handle, reading))
}

impl Reading {
    /// Waits for the next piece until `end`, without one for ever.
    ///
    /// # Errors
    ///
    /// The request has failed. It has ended then.
    pub(crate) fn next(
        &mut self,
        queue: &Queue<Event>,
        end: Option<Instant>,
    ) -> Result<Next, Fault> {
        loop {
            if self.ended {
                return Ok(Next::End);
            }
            match queue.pop(end) {
                Popped::TimedOut => return Ok(Next::TimedOut),
                Popped::Item(Event::Prompt(tokens)) => self.prompt = tokens,
                Popped::Item(Event::Token(token)) => return Ok(Next::Piece(self.piece(&token))),
                Popped::Item(Event::Finished { reason, .. }) => {
                    let reason = self.parser.as_ref().map_or(reason, |one| one.reason(reason));
                    self.ended = true;
                    self.reason = Some(reason);
                    if let Some(rest) = self.rest(reason) {
                        return Ok(Next::Piece(rest));
                    }
                }
                Popped::Item(Event::Failed(error)) => {
                    self.ended = true;
                    return Err(error.into());
                }
                // events of later versions
                Popped::Item(_) => {}
                Popped::Closed => {
                    self.ended = true;
                    return Err(pelton::Error::Stopped.into());
                }
            }
        }
    }

    fn piece(&mut self, token: &Token) -> Piece {
        let (text, reasoning) = match &mut self.parser {
            None => (token.text.clone(), String::new()),
            Some(parser) => {
                let parts = parser.push(token);
                if parser.is_done() {
                    self.handle.cancel();
                }
                self.join(parts)
            }
        };
        self.text.push_str(&text);
        let top = Piece::top(&token.top);
        Piece { id: token.id, text, reasoning, logprob: token.logprob, top }
    }

    /// The texts of new parts.
    fn join(&mut self, parts: Vec<chat::Event>) -> (String, String) {
        let (mut text, mut reasoning) = (String::new(), String::new());
        for part in &parts {
            match part {
                chat::Event::Content(new) => text.push_str(new),
                chat::Event::Reasoning(new) => reasoning.push_str(new),
                // a call that is none is part of the answer
                chat::Event::ToolCallBroken { text: new, .. } => text.push_str(new),
                chat::Event::ToolCallStart { .. }
                | chat::Event::ToolCallArguments { .. }
                | chat::Event::ToolCallEnd { .. } => {}
            }
        }
        self.parts.extend(parts);
        (text, reasoning)
    }

    /// The text that is certain with the end.
    fn rest(&mut self, reason: FinishReason) -> Option<Piece> {
        let parts = self.parser.as_mut()?.finish(reason);
        let (text, reasoning) = self.join(parts);
        self.text.push_str(&text);
        let is_empty = text.is_empty() && reasoning.is_empty();
        (!is_empty).then(|| Piece::end(text, reasoning))
    }

    /// Why the text has ended; `None` while it has not.
    pub(crate) fn finish_reason(&self) -> Option<&'static str> {
        Some(match self.reason? {
            FinishReason::End => "end",
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::Cancelled => "cancelled",
            _ => "other",
        })
    }

    /// The text so far; of a conversation that of the answer.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The answer so far as the message that belongs in the conversation, as JSON.
    pub(crate) fn message(&self) -> String {
        let reply = match self.parser {
            Some(_) => Reply::from_events(self.parts.iter().cloned()),
            None => Reply::from_events([chat::Event::Content(self.text.clone())]),
        };
        let first = self.handle.stats().seed;
        let message = reply.into_message(|index| call_id(first.wrapping_add(index as u64)));
        Value::from(message).to_string()
    }

    /// The tokens of the prompt with their log-probabilities, as JSON.
    pub(crate) fn prompt(&self) -> String {
        let token = |token: &PromptToken| {
            let top: Vec<Value> =
                token.top.iter().map(|one| json!({"id": one.id, "logprob": one.logprob})).collect();
            json!({"id": token.id, "logprob": token.logprob, "top": top})
        };
        Value::Array(self.prompt.iter().map(token).collect()).to_string()
    }
}
