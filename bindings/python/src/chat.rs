//! Conversations, as OpenAI's API has them.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use pelton::{
    Event, FinishReason, GenerateOptions, Stats,
    chat::{self, Chat, ChatPrompt, Message, Reply, ReplyParser, ToolChoice, call_id},
};
use pyo3::{prelude::*, types::PyString};
use serde_json::{Map, Value, json};

use crate::{
    arguments::{self, get, wrong},
    bell::Bell,
    completion::reason_word,
    error::Failure,
    inbox::Wakes,
    json,
    request::{Request, Step},
    stream::{Drained, asynchronous, drain},
};

/// The arguments of a chat.
pub(crate) struct ChatArguments {
    pub(crate) chat: Chat,
    choice: ToolChoice,
    pub(crate) parallel: bool,
}

impl ChatArguments {
    pub(crate) fn new(
        messages: &Bound<'_, PyAny>,
        tools: Option<&Bound<'_, PyAny>>,
        choice: Option<&Bound<'_, PyAny>>,
        kwargs: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = messages.py();
        let list = match messages.is_instance_of::<PyString>() {
            true => vec![Message::new("user", messages.extract::<String>()?)],
            false => {
                let Value::Array(list) = json::from_python("messages", messages)? else {
                    return Err(wrong("messages", messages, "a text or a list of messages"));
                };
                let read = list.into_iter().map(serde_json::from_value::<Message>);
                read.collect::<Result<_, _>>().map_err(|error| {
                    Failure::input(format!("messages are not valid: {error}")).raise(py)
                })?
            }
        };
        let mut chat = Chat::new(list);
        if let Some(tools) = tools {
            let Value::Array(list) = json::from_python("tools", tools)? else {
                return Err(wrong("tools", tools, "a list of tools"));
            };
            chat.tools = list;
        }
        if let Some(kwargs) = kwargs {
            let Value::Object(map) = json::from_python("template_kwargs", kwargs)? else {
                return Err(wrong("template_kwargs", kwargs, "a dict"));
            };
            chat.kwargs = map;
        }
        let choice = choice.map_or(Ok(ToolChoice::Auto), tool_choice)?;
        Ok(Self { chat, choice, parallel: true })
    }

    /// Puts pictures before the text of the last message.
    pub(crate) fn attach(&mut self, py: Python<'_>, images: &Bound<'_, PyAny>) -> PyResult<()> {
        let attached = self.chat.attach_images(arguments::images(images)?);
        attached.map_err(|error| Failure::from(pelton::Error::from(error)).raise(py))
    }

    /// Renders the chat.
    pub(crate) fn prompt(&self, model: &pelton::Model) -> Result<ChatPrompt, Failure> {
        let template = model.chat_template()?;
        Ok(template.prompt_with(&self.chat, &self.choice, self.parallel)?)
    }
}

/// A word, or `{"type": "function", "function": {"name": …}}`.
fn tool_choice(value: &Bound<'_, PyAny>) -> PyResult<ToolChoice> {
    const EXPECTED: &str = "'auto', 'none', 'required' or a dict with the name of a function";
    if value.is_instance_of::<PyString>() {
        return match get::<String>("tool_choice", value, EXPECTED)?.as_str() {
            "auto" => Ok(ToolChoice::Auto),
            "none" => Ok(ToolChoice::None),
            "required" => Ok(ToolChoice::Required),
            _ => Err(wrong("tool_choice", value, EXPECTED)),
        };
    }
    let choice = json::from_python("tool_choice", value)?;
    match choice.pointer("/function/name").and_then(Value::as_str) {
        Some(name) => Ok(ToolChoice::Named(name.to_owned())),
        None => Err(wrong("tool_choice", value, EXPECTED)),
    }
}

/// Answers a chat: a dict, or a stream of dicts.
pub(crate) fn chat<'py>(
    py: Python<'py>,
    model: &pelton::Model,
    arguments: ChatArguments,
    options: GenerateOptions,
    streams: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let wakes = if streams { Wakes::Each } else { Wakes::Last };
    let begun = py.detach(|| -> Result<ChatStream, Failure> {
        let prompt = arguments.prompt(model)?;
        let logprobs = options.logprobs.is_some();
        let options = prompt.constrain(options)?;
        let request = Request::submit(model, prompt.prompt.clone(), options, wakes)?;
        Ok(ChatStream::new(model, request, prompt.parser(), logprobs))
    });
    let stream = begun.map_err(|failure| failure.raise(py))?;
    if streams {
        return Ok(Bound::new(py, stream)?.into_any());
    }
    let answer = stream.whole(py)?;
    json::to_python(py, &answer)
}

/// The chunks of one answer as an iterator, for `for` and for `async for`. Its deletion
/// cancels the request.
#[pyclass(frozen, module = "pelton")]
pub(crate) struct ChatStream {
    request: Request,
    model: String,
    created: u64,
    logprobs: Option<TokenTexts>,
    state: Mutex<State>,
}

/// The model, for the texts of tokens of log-probabilities.
struct TokenTexts(crate::process::Owned<pelton::Model>);

struct State {
    parser: ReplyParser,
    chunks: VecDeque<Value>,
    /// Log-probabilities of tokens whose text comes next.
    tokens: Vec<Value>,
    called: bool,
    ended: bool,
    reason: Option<FinishReason>,
    /// The error, after the chunks before it.
    failure: Option<Failure>,
}

impl ChatStream {
    fn new(model: &pelton::Model, request: Request, parser: ReplyParser, logprobs: bool) -> Self {
        let time = SystemTime::now().duration_since(UNIX_EPOCH);
        let texts = || TokenTexts(crate::process::Owned::new(model.clone()));
        let stream = Self {
            request,
            model: model.summary().name,
            created: time.map_or(0, |time| time.as_secs()),
            logprobs: logprobs.then(texts),
            state: Mutex::new(State {
                parser,
                chunks: VecDeque::new(),
                tokens: Vec::new(),
                called: false,
                ended: false,
                reason: None,
                failure: None,
            }),
        };
        let first = json!({"role": "assistant", "content": ""});
        let chunk = stream.chunk(&mut Vec::new(), first, None);
        stream.lock().chunks.push_back(chunk);
        stream
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn head(&self, object: &str, choice: Value) -> Value {
        let id = format!("chatcmpl-{:016x}", self.request.stats().seed);
        json!({
            "id": id, "object": object, "created": self.created, "model": self.model,
            "choices": [choice],
        })
    }

    fn chunk(&self, tokens: &mut Vec<Value>, delta: Value, reason: Option<&str>) -> Value {
        let logprobs = logprobs_of(std::mem::take(tokens));
        let choice =
            json!({"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": reason});
        self.head("chat.completion.chunk", choice)
    }

    /// The identifier of a call, which the seed decides.
    fn call_id(&self, index: usize) -> String {
        format!("call_{}", call_id(self.request.stats().seed.wrapping_add(index as u64)))
    }

    /// The part of a message that an event is.
    fn delta(&self, event: chat::Event) -> Option<Value> {
        let call = |index: usize, mut call: Value| {
            call["index"] = index.into();
            Some(json!({"tool_calls": [call]}))
        };
        match event {
            chat::Event::Content(text) => Some(json!({"content": text})),
            chat::Event::Reasoning(text) => Some(json!({"reasoning_content": text})),
            chat::Event::ToolCallStart { index, name } => {
                let function = json!({"name": name, "arguments": ""});
                let id = self.call_id(index);
                call(index, json!({"id": id, "type": "function", "function": function}))
            }
            chat::Event::ToolCallArguments { index, delta } => {
                call(index, json!({"function": {"arguments": delta}}))
            }
            chat::Event::ToolCallEnd { .. } | chat::Event::ToolCallBroken { .. } => None,
        }
    }

    /// The log-probabilities of a token as OpenAI has them.
    fn token_value(&self, token: &pelton::Token) -> Option<Value> {
        let model = self.logprobs.as_ref()?.0.get().ok()?;
        let tokenizer = model.tokenizer().ok()?;
        let one = |id: u32, logprob: f32| {
            let bytes = tokenizer.token_bytes(id).unwrap_or_default();
            json!({"token": String::from_utf8_lossy(bytes), "logprob": logprob, "bytes": bytes})
        };
        let mut value = one(token.id, token.logprob?);
        value["top_logprobs"] = token.top.iter().map(|top| one(top.id, top.logprob)).collect();
        Some(value)
    }

    fn step(&self) -> Step<Value> {
        let mut state = self.lock();
        let state = &mut *state;
        loop {
            if let Some(chunk) = state.chunks.pop_front() {
                return Step::Item(chunk);
            }
            if state.ended {
                return state.failure.take().map_or(Step::End, Step::Failed);
            }
            match self.request.inbox.take() {
                Ok(Event::Token(token)) => {
                    state.tokens.extend(self.token_value(&token));
                    let events = state.parser.push(&token);
                    self.push(state, events);
                    if state.parser.is_done() {
                        self.request.handle.cancel();
                    }
                }
                Ok(Event::Finished { reason, stats }) => {
                    let reason = state.parser.reason(reason);
                    let events = state.parser.finish(reason);
                    self.push(state, events);
                    (state.ended, state.reason) = (true, Some(reason));
                    let word = finish_reason(reason, state.called);
                    let mut last = self.chunk(&mut state.tokens, json!({}), Some(word));
                    last["usage"] =
                        usage(&state.parser.stats(stats.clone()), state.parser.reasoning_tokens());
                    state.chunks.push_back(last);
                }
                Ok(Event::Failed(error)) => {
                    (state.ended, state.failure) = (true, Some(error.into()));
                }
                Ok(_) => {}
                Err(false) => return Step::Pending,
                Err(true) => {
                    (state.ended, state.failure) = (true, Some(pelton::Error::Stopped.into()));
                }
            }
        }
    }

    fn push(&self, state: &mut State, events: Vec<chat::Event>) {
        for event in events {
            state.called |= matches!(event, chat::Event::ToolCallStart { .. });
            if let Some(delta) = self.delta(event) {
                let chunk = self.chunk(&mut state.tokens, delta, None);
                state.chunks.push_back(chunk);
            }
        }
    }

    /// Waits for the whole answer.
    fn whole(&self, py: Python<'_>) -> PyResult<Value> {
        let finished = self.request.finish(py)?;
        let stats = self.request.stats();
        Ok(py.detach(|| {
            let mut state = self.lock();
            let reason = finished.reason.unwrap_or(FinishReason::Cancelled);
            let mut events = Vec::new();
            let mut tokens = Vec::new();
            for token in &finished.tokens {
                tokens.extend(self.token_value(token));
                events.extend(state.parser.push(token));
            }
            let reason = state.parser.reason(reason);
            events.extend(state.parser.finish(reason));
            let reply = Reply::from_events(events);
            let word = finish_reason(reason, !reply.tool_calls.is_empty());
            let choice = json!({
                "index": 0, "message": self.message(reply), "logprobs": logprobs_of(tokens),
                "finish_reason": word,
            });
            let mut answer = self.head("chat.completion", choice);
            answer["usage"] =
                usage(&state.parser.stats(stats.clone()), state.parser.reasoning_tokens());
            answer
        }))
    }

    fn message(&self, reply: Reply) -> Value {
        let mut message = Map::new();
        message.insert("role".into(), "assistant".into());
        let is_silent = reply.content.is_empty() && !reply.tool_calls.is_empty();
        let content = if is_silent { Value::Null } else { reply.content.into() };
        message.insert("content".into(), content);
        if !reply.reasoning.is_empty() {
            message.insert("reasoning_content".into(), reply.reasoning.into());
        }
        let calls = reply.tool_calls.into_iter().enumerate().map(|(index, call)| {
            let function = json!({"name": call.name, "arguments": call.arguments});
            json!({"id": self.call_id(index), "type": "function", "function": function})
        });
        let calls: Vec<Value> = calls.collect();
        if !calls.is_empty() {
            message.insert("tool_calls".into(), calls.into());
        }
        message.into()
    }
}

fn logprobs_of(tokens: Vec<Value>) -> Value {
    match tokens.is_empty() {
        true => Value::Null,
        false => json!({"content": tokens}),
    }
}

fn finish_reason(reason: FinishReason, called: bool) -> &'static str {
    match reason {
        FinishReason::End | FinishReason::Stop if called => "tool_calls",
        reason => reason_word(reason),
    }
}

fn usage(stats: &Stats, reasoning: usize) -> Value {
    let (prompt, generated) = (stats.prompt_tokens, stats.generated_tokens);
    json!({
        "prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated,
        "prompt_tokens_details": {"cached_tokens": stats.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    })
}

#[pymethods]
impl ChatStream {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let chunk = self.request.next(py, || self.step())?;
        chunk.map(|chunk| json::to_python(py, &chunk)).transpose()
    }

    fn __aiter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        asynchronous(slf.as_any())
    }

    /// Cancels the request. Chunks that have come can still be read.
    fn cancel(&self) {
        self.request.handle.cancel();
    }

    /// Why the answer ended, or None.
    #[getter]
    fn finish_reason(&self) -> Option<&'static str> {
        let state = self.lock();
        state.reason.map(|reason| finish_reason(reason, state.called))
    }

    fn _drain<'py>(&self, py: Python<'py>) -> PyResult<Drained<Bound<'py, PyAny>>> {
        let (chunks, ended, error) = drain(py, &self.request, || self.step())?;
        let chunks = chunks.iter().map(|chunk| json::to_python(py, chunk));
        Ok((chunks.collect::<PyResult<_>>()?, ended, error))
    }

    fn _connect(&self, bell: &Bell, key: u64) {
        self.request.inbox.set_wake(bell.wake(key));
    }

    fn __repr__(&self) -> String {
        format!("ChatStream({:?}, finish_reason={:?})", self.model, self.finish_reason())
    }
}
