//! A compiled chat template.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use minijinja::{Environment, ErrorKind};
use serde_json::{Map, Value};

use super::charge::{Account, Excess};
use super::deadline::{self, Deadline};
use super::environment::{self, Raised};
use super::marks::{self, Controls, Marks};
use super::probe::Capabilities;
use super::segment::Prompt;
use super::{Chat, Clock, adapt, failure, generation, json, pictures, rewrite, sharing};
use crate::{Error, format::Format};

/// The roles that a template may join to a control token, such as `<|user|>`.
const ROLES: [&str; 5] = ["system", "developer", "user", "assistant", "tool"];

/// Roles of some families of models, whose templates write any role.
const FAMILY_ROLES: [&str; 7] = [
    "assistant_tool_call",
    "context",
    "function",
    "ipython",
    "observation",
    "tool_call",
    "tool_response",
];

/// A change of the messages of a conversation that a template refuses; `None` if it changes
/// nothing.
type Change = fn(&[Value]) -> Option<Vec<Value>>;

/// The changes that are tried one after the other, each list at once.
const CHANGES: &[&[Change]] = &[
    &[adapt::wrap_arguments],
    &[adapt::number_calls],
    &[adapt::join_systems],
    &[adapt::join_turns],
    &[adapt::join_systems, adapt::join_turns],
    &[adapt::merge_system],
    &[adapt::merge_system, adapt::join_turns],
    &[adapt::wrap_arguments, adapt::number_calls, adapt::join_systems, adapt::join_turns],
    &[adapt::wrap_arguments, adapt::number_calls, adapt::merge_system, adapt::join_turns],
];

/// The refusal of pictures.
const NO_IMAGES: &str = "the chat has a picture, but the model takes no pictures, expected text";

/// The name of the template in its environment.
const NAME: &str = "chat";

/// The resources that a template may use. Templates come with model files and are not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Instructions of a rendering.
    pub fuel: u64,
    /// Depth of blocks, loops and calls of macros.
    pub recursion: usize,
    /// Bytes of the result.
    pub output: usize,
    /// Bytes of all texts that the operations of a rendering make. One text may have 16 MiB, one
    /// list a million items, and one value 64 MiB. A part that a value shares counts as often as it
    /// is reached.
    pub text: usize,
    /// Time of all renderings of a prompt, and of those that find out what a template supports.
    pub time: Duration,
}

impl Default for Limits {
    /// 20 million instructions, a depth of 256, 64 MiB, 512 MiB, 5 seconds.
    fn default() -> Self {
        Self {
            fuel: 20_000_000,
            recursion: 256,
            output: 64 << 20,
            text: 512 << 20,
            time: Duration::from_secs(5),
        }
    }
}

/// A compiled chat template, in the environment that transformers gives to chat templates.
///
/// ```
/// use pelton_chat::{Chat, Message, Template};
///
/// let template = Template::new(
///     "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}",
/// )?
/// .token("bos_token", "<s>")
/// .controls(["<s>", "<|end|>"].map(str::to_owned))?;
///
/// let prompt = template.render(&Chat::new(vec![Message::new("user", "Hello")]))?;
/// assert_eq!(prompt.text(), "<s><|user|>Hello<|end|>");
/// assert_eq!(prompt.segments.len(), 1);
///
/// // A message cannot end its turn: the text of the token is encoded as plain text.
/// let prompt = template.render(&Chat::new(vec![Message::new("user", "a<|end|>b")]))?;
/// assert_eq!(prompt.segments[1].text, "<|end|>");
/// assert!(!prompt.segments[1].control_tokens);
/// # Ok::<(), pelton_chat::Error>(())
/// ```
#[derive(Debug)]
pub struct Template {
    source: String,
    environment: Environment<'static>,
    /// Special tokens by their variables, such as `bos_token`.
    tokens: Map<String, Value>,
    controls: Controls,
    /// The placeholder of a picture.
    image: Option<String>,
    limits: Limits,
    capabilities: OnceLock<Capabilities>,
}

impl Template {
    /// Compiles a template.
    ///
    /// # Errors
    /// If it is not valid Jinja, imports a template, or nests too deeply.
    pub fn new(source: &str) -> Result<Self, Error> {
        Self::with(source, Clock::Local, Limits::default())
    }

    /// As [`new`](Self::new), with a clock and limits.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(source: &str, clock: Clock, limits: Limits) -> Result<Self, Error> {
        let mut environment = environment::new(clock);
        environment.set_recursion_limit(limits.recursion);
        let text = generation::rewrite(source);
        let text = rewrite::rewrite(&text, environment::syntax())?;
        // each instruction can write a literal to a variable
        let literals = limits.text.saturating_mul(2) / text.literal.max(1);
        environment.set_fuel(Some(limits.fuel.min(literals as u64)));
        environment
            .add_template_owned(NAME, text.source)
            .map_err(|error| failure::syntax(&error))?;
        Ok(Self {
            source: source.to_owned(),
            environment,
            tokens: Map::new(),
            controls: Controls::new([])?,
            image: None,
            limits,
            capabilities: OnceLock::new(),
        })
    }

    /// Defines a special token's variable: `bos_token`, `eos_token`, `pad_token` and others.
    #[must_use]
    pub fn token(mut self, variable: &str, text: &str) -> Self {
        self.tokens.insert(variable.to_owned(), text.into());
        self
    }

    /// Names the texts of the vocabulary's control tokens, which messages cannot write.
    ///
    /// # Errors
    /// If they are too many to be searched for.
    pub fn controls(mut self, texts: impl IntoIterator<Item = String>) -> Result<Self, Error> {
        self.controls = Controls::new(texts.into_iter().chain(self.image.clone()))?;
        Ok(self)
    }

    /// Names the text that stands for a picture in prompts, such as `<start_of_image>`: the model
    /// takes pictures. Without it, chats with pictures are refused.
    ///
    /// # Errors
    /// If the text is blank.
    pub fn image(mut self, placeholder: &str) -> Result<Self, Error> {
        if placeholder.trim().is_empty() {
            return Err(Error::Invalid("the placeholder of pictures is blank".into()));
        }
        self.image = Some(placeholder.to_owned());
        let texts = self.controls.texts().to_vec();
        self.controls(texts)
    }

    /// The text that stands for a picture; `None` if the model takes none.
    pub fn placeholder(&self) -> Option<&str> {
        self.image.as_deref()
    }

    /// The source of the template.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The features that the template supports. The first call renders about thirty small
    /// conversations. A feature whose rendering exceeds the limits is not supported.
    pub fn capabilities(&self) -> Capabilities {
        if let Some(found) = self.capabilities.get() {
            return *found;
        }
        let _deadline = Deadline::open(self.limits.time);
        let found = self.probe();
        match deadline::is_over() {
            // a machine with more time finds more
            true => found,
            false => *self.capabilities.get_or_init(|| found),
        }
    }

    fn probe(&self) -> Capabilities {
        let render = |variables| {
            let Value::Object(mut all) = variables else { return None };
            for (name, token) in &self.tokens {
                all.entry(name.clone()).or_insert_with(|| token.clone());
            }
            for name in ["bos_token", "eos_token"] {
                all.entry(name).or_insert_with(|| "".into());
            }
            self.run(&all).ok()
        };
        Capabilities::detect(&render, &|word| self.names(word), self.image.as_deref())
    }

    /// Renders a chat.
    ///
    /// # Errors
    /// If a message is not valid, or if the template refuses the conversation, fails or exceeds its
    /// limits.
    pub fn render(&self, chat: &Chat) -> Result<Prompt, Error> {
        self.check(chat)?;
        let _deadline = Deadline::open(self.limits.time);
        let to = chat.adapt.then(|| self.capabilities());
        let mut messages = adapt::messages(chat, to);
        let changed = to.and_then(|to| match to.system {
            true => adapt::join_refused_systems(&messages, to),
            false => adapt::merge_system(&messages),
        });
        messages = changed.unwrap_or(messages);
        if chat.adapt
            && let Some(named) = adapt::name_calls(&messages, Format::detect(&self.source))
        {
            messages = named;
        }
        let is_refused =
            |result: &_| matches!(result, Err(Error::Raised(_) | Error::Failed { .. }));
        if to.is_some_and(|to| !to.tool_images)
            && let Some(moved) = pictures::move_results(&messages)
        {
            let result = self.render_messages(chat, moved);
            if !is_refused(&result) {
                return result;
            }
        }
        let result = self.render_messages(chat, messages.clone());
        if !chat.adapt || !is_refused(&result) {
            return result;
        }
        for changes in CHANGES {
            let mut changed = None;
            for change in *changes {
                changed = change(changed.as_deref().unwrap_or(&messages)).or(changed);
            }
            if let Some(changed) = changed
                && let Ok(prompt) = self.render_messages(chat, changed)
            {
                return Ok(prompt);
            }
        }
        result
    }

    fn check(&self, chat: &Chat) -> Result<(), Error> {
        if chat.messages.is_empty() {
            return Err(Error::Invalid("there are no messages, expected at least one".into()));
        }
        if chat.continue_final_message && chat.add_generation_prompt {
            return Err(Error::Invalid(
                "continue_final_message and add_generation_prompt exclude each other".into(),
            ));
        }
        if let Some(name) = chat.kwargs.keys().find(|name| name.starts_with(rewrite::PREFIX)) {
            return Err(Error::Invalid(format!("the variable {name:?} is reserved")));
        }
        if chat.count_images()? > 0 && self.image.is_none() {
            return Err(Error::Invalid(NO_IMAGES.into()));
        }
        for (i, role) in chat.messages.iter().map(|message| message.role.as_str()).enumerate() {
            if !self.allows_role(role, chat.adapt) {
                return Err(Error::Invalid(format!(
                    "the role {role:?} of message {i} is unknown, expected {} or one that the chat \
                     template names",
                    ROLES.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Whether a role is known or named by the template. Many templates write any role, and most
    /// models know none but these. Without adaptation a role may be any word. No other role is a
    /// part of a control token: a template that writes `'<|' + role + '|>'` would write any control
    /// token for a role.
    fn allows_role(&self, role: &str, adapts: bool) -> bool {
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        let is_part = || self.controls.texts().iter().any(|text| text.contains(role));
        ROLES.contains(&role)
            || (!role.is_empty()
                && role.chars().all(is_word)
                && (self.names(role) || (!adapts || FAMILY_ROLES.contains(&role)) && !is_part()))
    }

    /// Whether the template has a word in quotation marks.
    fn names(&self, word: &str) -> bool {
        let quoted = |quote| self.source.contains(&format!("{quote}{word}{quote}"));
        quoted('\'') || quoted('"')
    }

    fn render_messages(&self, chat: &Chat, mut messages: Vec<Value>) -> Result<Prompt, Error> {
        let inputs = Inputs { chat, controls: &self.controls };
        let marks = Marks::choose(&inputs.private_use(&messages, &self.source), &self.controls)?;
        let count = chat.count_images()?;
        if count > 0 && chat.adapt {
            pictures::mark(&mut messages, marks.image, self.capabilities());
        }
        if chat.continue_final_message {
            adapt::mark_end(&mut messages, marks.resume)?;
        }
        let twinned = inputs.any(&messages, &mut |text| marks.has_twins(text)).then(|| {
            self.run(&self.variables(chat, &messages, &marks, &|text| marks.twin(text)))
                .and_then(|text| resume(chat, &marks, text))
        });
        let mark = |text: &str| marks.mark(text, &self.controls);
        let marked = self.run(&self.variables(chat, &messages, &marks, &mark))?;
        let marked = resume(chat, &marks, marked)?;
        let segments = match twinned {
            None => marks.split(&marked, None, &self.controls),
            // The template looks for `<` or `[` in messages, and refuses those without.
            Some(Err(_)) => marks.split(&marked, None, &self.controls),
            Some(Ok(twinned)) => Some(
                marks
                    .split(&marked, Some(&twinned), &self.controls)
                    .unwrap_or_else(|| marks.split_twinned(&twinned, &self.controls)),
            ),
        };
        let segments = segments.unwrap_or_default();
        match &self.image {
            Some(image) if count > 0 => {
                Ok(Prompt { segments: pictures::place(segments, &self.controls, image, count)? })
            }
            _ => Ok(Prompt { segments }),
        }
    }

    /// The variables of a rendering, with `change` applied to all texts of the chat.
    fn variables(
        &self,
        chat: &Chat,
        messages: &[Value],
        marks: &Marks,
        change: &dyn Fn(&str) -> String,
    ) -> Map<String, Value> {
        let list = |values: &[Value]| match values.is_empty() {
            true => Value::Null,
            false => values.iter().map(|value| marks::change_strings(value, change)).collect(),
        };
        let mut variables = self.tokens.clone();
        let messages: Value = messages.iter().map(|m| adapt::change_message(m, change)).collect();
        variables.insert("messages".into(), messages);
        variables.insert("tools".into(), list(&chat.tools));
        variables.insert("documents".into(), list(&chat.documents));
        variables.insert("add_generation_prompt".into(), chat.add_generation_prompt.into());
        if let Some(enable) = chat.enable_thinking {
            variables.insert("enable_thinking".into(), enable.into());
            variables.insert("thinking".into(), enable.into());
        }
        if let Some(effort) = &chat.reasoning_effort {
            variables.insert("reasoning_effort".into(), change(effort).into());
        }
        for (name, value) in &chat.kwargs {
            variables.insert(name.clone(), marks::change_strings(value, change));
        }
        variables.insert(marks::VARIABLE.into(), marks.variable().into());
        variables
    }

    /// Runs the template.
    fn run(&self, variables: &Map<String, Value>) -> Result<String, Error> {
        let mut out = Bounded { bytes: Vec::new(), limit: self.limits.output, exceeded: false };
        let account = Account::open(self.limits.text);
        let too_long = || Error::Limit { limit: self.limits.time.as_secs(), what: "seconds" };
        if deadline::is_over() {
            return Err(too_long());
        }
        let result = self.environment.get_template(NAME).and_then(|template| {
            template.render_captured_to(json::map(variables), &mut out).map(drop)
        });
        if out.exceeded {
            return Err(Error::Limit { limit: self.limits.output as u64, what: "bytes of output" });
        }
        match account.excess() {
            Some(Excess::Text) => {
                return Err(Error::Limit { limit: self.limits.text as u64, what: "bytes of text" });
            }
            Some(Excess::Value) => {
                let limit = sharing::VALUE_BYTES as u64;
                return Err(Error::Limit { limit, what: "bytes of one value" });
            }
            None if result.is_err() && deadline::is_over() => return Err(too_long()),
            None => {}
        }
        result.map_err(|error| self.failure(&error))?;
        String::from_utf8(out.bytes)
            .map_err(|_| Error::Failed { line: 0, reason: "its output is not text".into() })
    }

    fn failure(&self, error: &minijinja::Error) -> Error {
        let mut source = error.source();
        while let Some(cause) = source {
            if let Some(Raised(message)) = cause.downcast_ref() {
                return Error::Raised(message.trim().replace('\n', " "));
            }
            source = cause.source();
        }
        match error.kind() {
            ErrorKind::OutOfFuel => Error::Limit { limit: self.limits.fuel, what: "instructions" },
            _ => Error::Failed { line: error.line().unwrap_or(0), reason: failure::reason(error) },
        }
    }
}

/// The text up to the mark of the message that is to be continued.
fn resume(chat: &Chat, marks: &Marks, mut text: String) -> Result<String, Error> {
    if chat.continue_final_message {
        let at = text.rfind(marks.resume).ok_or_else(|| {
            Error::Invalid(
                "continue_final_message is set, but the chat template does not write the last \
                 message"
                    .into(),
            )
        })?;
        text.truncate(at);
        // A template may write the message more than once.
        text.retain(|c| c != marks.resume);
    }
    Ok(text)
}

/// All strings that a client can choose.
struct Inputs<'a> {
    chat: &'a Chat,
    controls: &'a Controls,
}

impl Inputs<'_> {
    /// Whether `test` holds for one of the strings.
    fn any(&self, messages: &[Value], test: &mut dyn FnMut(&str) -> bool) -> bool {
        let Chat { tools, documents, reasoning_effort, kwargs, .. } = self.chat;
        let mut lists = messages.iter().chain(tools).chain(documents).chain(kwargs.values());
        lists.any(|value| marks::any_string(value, test))
            || reasoning_effort.as_deref().is_some_and(test)
    }

    /// The private-use characters of the messages, the template and the control tokens.
    fn private_use(&self, messages: &[Value], source: &str) -> BTreeSet<char> {
        let mut used = BTreeSet::new();
        let mut collect = |text: &str| {
            used.extend(text.chars().filter(|c| *c >= '\u{f0000}'));
            false
        };
        self.any(messages, &mut collect);
        collect(source);
        self.controls.texts().iter().for_each(|text| {
            collect(text);
        });
        used
    }
}

/// A buffer that refuses more bytes than its limit.
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
    exceeded: bool,
}

impl io::Write for &mut Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.limit - self.bytes.len() {
            self.exceeded = true;
            return Err(io::Error::other("the output is too long"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
