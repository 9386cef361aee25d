//! A chat, from its messages to running replies.

use std::time::{Duration, Instant};

use pelton::{
    Constraint,
    chat::{Chat, ChatPrompt, ToolChoice},
};
use serde_json::Value;

use super::{
    batch::Batch,
    constraint::constrain_chat,
    options::{Options, Output},
    pictures,
    reply::ReplyRun,
    tokens::{Context, TokenRun},
};
use crate::{
    error::ApiError,
    input::{Fields, extras},
    models::Served,
};

/// The field that errors about constraints name.
const CONSTRAINT: &str = "response_format";
/// Limit of the time in which the schema is sought that an error is about.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// A chat whose replies are wanted, from any API.
#[derive(Clone, Debug)]
pub(crate) struct ChatRequest {
    pub(crate) chat: Chat,
    pub(crate) options: Options,
    pub(crate) tool_choice: ToolChoice,
    /// Whether one reply may have several tool calls.
    pub(crate) parallel: bool,
    /// Replies.
    pub(crate) n: usize,
    /// The tokens of an earlier conversation, which the chat continues.
    pub(crate) before: Vec<u32>,
}

impl ChatRequest {
    pub(crate) fn new(chat: Chat, options: Options) -> Self {
        Self {
            chat,
            options,
            tool_choice: ToolChoice::Auto,
            parallel: true,
            n: 1,
            before: Vec::new(),
        }
    }

    /// Whether the start takes long: pictures must be decoded, or a constraint must be compiled for
    /// the replies, of the answer or of tool calls.
    pub(crate) fn compiles(&self) -> bool {
        let is_strict = |tool: &Value| tool["function"]["strict"] == true;
        self.options.compiles()
            || self.has_pictures()
            || match self.tool_choice {
                ToolChoice::None => false,
                ToolChoice::Auto => self.chat.tools.iter().any(is_strict),
                // a required call, or a named one
                _ => true,
            }
    }

    /// Takes `tools` of OpenAI's shape and `tool_choice` out of a body.
    pub(crate) fn take_tools(&mut self, fields: &mut Fields) -> Result<(), ApiError> {
        let path = fields.at("tools");
        for (i, tool) in fields.list("tools")?.unwrap_or_default().into_iter().enumerate() {
            let mut one = Fields::of(format!("{path}[{i}]"), tool.clone())?;
            // tools of the provider, such as a web search, are not ours
            if one.string("type")?.is_some_and(|kind| kind != "function") {
                continue;
            }
            let mut function =
                one.object("function")?.ok_or_else(|| one.missing("function", "an object"))?;
            if function.string("name")?.is_none_or(|name| name.is_empty()) {
                return Err(function.missing("name", "the name of the tool"));
            }
            function.string("description")?;
            function.object("parameters")?;
            function.finish(&[extras::TOOL])?;
            one.finish(&[extras::TOOL])?;
            self.chat.tools.push(tool);
        }
        let choice = match fields.take("tool_choice") {
            None => ToolChoice::Auto,
            Some(Value::String(word)) => match word.as_str() {
                "auto" => ToolChoice::Auto,
                "none" => ToolChoice::None,
                "required" | "any" => ToolChoice::Required,
                _ => {
                    let expected = "auto, none, required or a tool";
                    return Err(fields.wrong("tool_choice", &Value::String(word), expected));
                }
            },
            Some(other) => self.named_choice(Fields::of(fields.at("tool_choice"), other)?)?,
        };
        self.set_choice(choice, "tool_choice")?;
        self.parallel = fields.boolean("parallel_tool_calls")?.unwrap_or(true);
        Ok(())
    }

    fn named_choice(&mut self, mut choice: Fields) -> Result<ToolChoice, ApiError> {
        if choice.string("type")?.as_deref() == Some("allowed_tools") {
            let mut inner = match choice.object("allowed_tools")? {
                Some(inner) => inner,
                None => choice,
            };
            let mut names = Vec::new();
            for mut tool in inner.objects("tools")? {
                let function = tool.object("function")?;
                names.extend(function.unwrap_or(tool).string("name")?);
            }
            self.chat.tools.retain(|tool| names.iter().any(|name| tool_name(tool) == Some(name)));
            return match inner.choice("mode", &["auto", "required"])? {
                Some("required") => Ok(ToolChoice::Required),
                _ => Ok(ToolChoice::Auto),
            };
        }
        let inner = choice.object("function")?;
        if inner.is_some() {
            choice.finish(&[])?;
        }
        let mut function = inner.unwrap_or(choice);
        let name = function.string("name")?;
        function.finish(&[])?;
        name.map(ToolChoice::Named).ok_or_else(|| function.missing("name", "the name of a tool"))
    }

    /// Sets which tools are called.
    pub(crate) fn set_choice(&mut self, choice: ToolChoice, path: &str) -> Result<(), ApiError> {
        match &choice {
            ToolChoice::Required if self.chat.tools.is_empty() => {
                let message = format!("{path} asks for a tool call, expected tools");
                return Err(ApiError::field(path, message));
            }
            ToolChoice::Named(name)
                if !self.chat.tools.iter().any(|tool| tool_name(tool) == Some(name)) =>
            {
                let message = format!("{path} names {name:?}, expected one of the tools");
                return Err(ApiError::field(path, message));
            }
            _ => {}
        }
        self.tool_choice = choice;
        Ok(())
    }

    /// Renders the chat. Blocks for as long as that takes.
    pub(crate) fn render(&mut self, served: &Served) -> Result<ChatPrompt, ApiError> {
        self.fetch(served)?;
        let _place = self.place()?;
        self.rendered(served)
    }

    /// Fetches the pictures at addresses, or leaves all out for a model that sees none.
    fn fetch(&mut self, served: &Served) -> Result<(), ApiError> {
        match &served.media {
            Some(media) if served.takes_images() => media.fetch(&mut self.chat),
            _ => pictures::leave_out(&mut self.chat),
        }
    }

    /// A place for pictures, which is held for as long as they are decoded, if there are any.
    fn place(&self) -> Result<Option<pictures::Place>, ApiError> {
        self.has_pictures().then(pictures::place).transpose()
    }

    fn rendered(&self, served: &Served) -> Result<ChatPrompt, ApiError> {
        served.render(&self.chat, &self.tool_choice, self.parallel)
    }

    /// Whether a message has a picture.
    fn has_pictures(&self) -> bool {
        self.chat.messages.iter().any(|message| message.images().next().is_some())
    }

    /// Renders the chat and submits the request of its only reply. Blocks for as long as that
    /// takes.
    pub(crate) fn start(self, context: &Context) -> Result<Vec<ReplyRun>, ApiError> {
        Ok(self.batch(context)?.0)
    }

    /// Renders the chat and submits the requests of its replies, as far as the queue has room for
    /// them. Blocks for as long as that takes.
    pub(crate) fn batch(
        mut self,
        context: &Context,
    ) -> Result<(Vec<ReplyRun>, Batch<ReplyRun>), ApiError> {
        self.fetch(&context.lease)?;
        // until the model has their patches in place of them
        let _place = self.place()?;
        let prompt = self.rendered(&context.lease)?;
        if context.log_prompts {
            tracing::debug!(prompt = prompt.text(), "a chat is rendered");
        }
        let mut encoded = context.lease.encoded(&prompt.prompt)?;
        let mut before = std::mem::take(&mut self.before);
        if !before.is_empty() && encoded.pictured.is_some() {
            let message = "context is there and the chat has a picture, expected one of them";
            return Err(ApiError::field("context", message));
        }
        before.append(&mut encoded.tokens);
        encoded.tokens = before;
        let (count, compiles, context) = (self.n, self.compiles(), context.clone());
        let mut batch = Batch::new(count, compiles, move |i| {
            let options = self.options.of_text(i, &context);
            let options = constrain_chat(options, &prompt, &self.options.output)?;
            let run = TokenRun::start(&context, &encoded, &options);
            let run = run.map_err(|error| self.refused(error, &context))?;
            Ok(ReplyRun::new(run, prompt.parser(), encoded.clone()))
        });
        Ok((batch.submit()?, batch))
    }
}

/// The words for how much a model reasons.
pub(crate) const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// Takes Anthropic's `thinking`, which DeepSeek and GLM have too: whether the model reasons. A
/// limit of its tokens is not kept.
pub(crate) fn thinking(fields: &mut Fields) -> Result<Option<bool>, ApiError> {
    let Some(mut thinking) = fields.object("thinking")? else { return Ok(None) };
    let kind = thinking.choice("type", &["enabled", "adaptive", "disabled"])?;
    let kind = kind.ok_or_else(|| thinking.missing("type", "enabled or disabled"))?;
    thinking.count("budget_tokens", 0)?;
    thinking.finish(&[extras::THINKING])?;
    Ok(Some(kind != "disabled"))
}

/// Sets how much the model reasons: an effort turns reasoning on where a template has a switch, and
/// `none` and `minimal` turn it off.
pub(crate) fn set_effort(chat: &mut Chat, effort: &str) {
    chat.enable_thinking = Some(!matches!(effort, "none" | "minimal"));
    if effort != "none" {
        chat.reasoning_effort = Some(effort.to_owned());
    }
}

impl ChatRequest {
    /// The error about a constraint, in terms of the schema that the client sent.
    fn refused(&self, error: ApiError, context: &Context) -> ApiError {
        if error.param.as_deref() != Some(CONSTRAINT) {
            return error;
        }
        let mut schemas = Vec::new();
        let is_demanded = matches!(self.tool_choice, ToolChoice::Required | ToolChoice::Named(_));
        if let Output::Schema(schema) = &self.options.output
            && !is_demanded
        {
            schemas.push((CONSTRAINT.to_owned(), schema));
        }
        for (i, tool) in self.chat.tools.iter().enumerate() {
            let is_wanted = match &self.tool_choice {
                ToolChoice::None => false,
                ToolChoice::Named(name) => tool_name(tool) == Some(name),
                _ => true,
            };
            if let Some(schema) = tool.pointer("/function/parameters").filter(|_| is_wanted) {
                schemas.push((format!("tools[{i}].function.parameters"), schema));
            }
        }
        let Ok(model) = context.lease.model() else { return error };
        let begun = Instant::now();
        for (param, schema) in schemas {
            // the search takes too long: the error names no schema
            if begun.elapsed() > LOOK_MAX {
                break;
            }
            if let Err(reason) = model.check_constraint(&Constraint::JsonSchema(schema.clone())) {
                return ApiError::field(param, reason.to_string());
            }
        }
        error
    }
}

/// The name of a tool of OpenAI's shape.
pub(crate) fn tool_name(tool: &Value) -> Option<&str> {
    tool.get("function")?.get("name")?.as_str()
}
