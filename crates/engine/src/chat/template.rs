//! The chat template of a model file.

use std::borrow::Cow;
use std::sync::Arc;

use pelton_chat::{Chat, Clock, Format, Limits, Message, Segment, Template, is_tool_name};
use pelton_tokenizer::{Special, TokenType, Tokenizer};
use serde_json::Value;

use super::explain::explained;
use super::pictures::{self, NO_VISION};
use super::prompt::{CallConstraint, ChatPrompt, Parsing, ToolChoice};
use crate::api::Prompt;

/// The chat template of a model: it renders messages, and knows how the model writes reasoning and
/// tool calls.
#[derive(Debug)]
pub struct ChatTemplate {
    tokenizer: Arc<Tokenizer>,
    template: Template,
    format: &'static Format,
    explains_tools: bool,
}

impl ChatTemplate {
    /// Compiles a template for the vocabulary of a model.
    ///
    /// # Errors
    ///
    /// If it is not valid Jinja.
    pub fn new(tokenizer: Arc<Tokenizer>, source: &str) -> Result<Self, pelton_chat::Error> {
        Self::with(tokenizer, source, Clock::Local, Limits::default())
    }

    /// As [`new`](Self::new), with a clock and limits.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with(
        tokenizer: Arc<Tokenizer>,
        source: &str,
        clock: Clock,
        limits: Limits,
    ) -> Result<Self, pelton_chat::Error> {
        let mut template =
            Template::with(source, clock, limits)?.controls(controls(&tokenizer, source))?;
        for (variable, id) in [("bos_token", tokenizer.bos()), ("eos_token", tokenizer.eos())] {
            if let Some(text) = id.and_then(|id| tokenizer.token_text(id)) {
                template = template.token(variable, text);
            }
        }
        let format = Format::detect(source);
        Ok(Self { tokenizer, template, format, explains_tools: false })
    }

    /// Sets the format of reasoning and tool calls, instead of the one that the template shows.
    #[must_use]
    pub fn format(mut self, format: &'static Format) -> Self {
        self.format = format;
        self
    }

    /// Lets a template that writes no tools have some: a system message lists and explains them,
    /// and calls have the format of the Hermes models. Tools that a template writes itself stay as
    /// they are.
    #[must_use]
    pub fn explaining_tools(mut self) -> Self {
        self.explains_tools = true;
        if self.format.calls.is_none()
            && let Some(hermes) = Format::named("hermes")
        {
            self.format = hermes;
        }
        self
    }

    /// Names the text that stands for a picture in the template's prompts: the model takes
    /// pictures.
    ///
    /// # Errors
    ///
    /// If the text is blank.
    pub fn with_images(mut self, placeholder: &str) -> Result<Self, pelton_chat::Error> {
        self.template = self.template.image(placeholder)?;
        Ok(self)
    }

    /// Whether the model takes pictures.
    pub fn takes_images(&self) -> bool {
        self.template.placeholder().is_some()
    }

    /// The format of reasoning and tool calls.
    pub fn output_format(&self) -> &'static Format {
        self.format
    }

    /// The template.
    pub fn template(&self) -> &Template {
        &self.template
    }

    /// The tokens of a rendered chat, with nothing added.
    ///
    /// # Errors
    ///
    /// If the vocabulary has no token for a piece of the text, or it is 4 GiB or longer.
    pub fn encode(&self, segments: &[Segment]) -> Result<Vec<u32>, pelton_tokenizer::Error> {
        encode(&self.tokenizer, segments)
    }

    /// The prompt of a text in which a marker stands for each picture of a message. The tokens that
    /// the model file puts before a text are added.
    ///
    /// # Errors
    ///
    /// If there are more or fewer markers than pictures, a picture cannot be decoded, or the model
    /// takes none.
    pub fn marked(
        &self,
        text: &str,
        marker: &str,
        images: &Message,
    ) -> Result<Prompt, pelton_chat::Error> {
        let Some(placeholder) = self.template.placeholder() else {
            return Err(invalid(NO_VISION.to_owned()));
        };
        let images = pictures::decode(&Chat::new(vec![images.clone()]))?;
        let found = text.matches(marker).count();
        if found != images.len() {
            let count = images.len();
            let expected = format!("expected one for each of {count} pictures");
            return Err(invalid(format!("the text has {found} markers {marker:?}, {expected}")));
        }
        let before =
            self.tokenizer.encode_prompt("").map_err(|error| invalid(error.to_string()))?;
        let before = before.into_iter().filter_map(|id| self.tokenizer.token_text(id));
        let mut segments = vec![Segment::text(before.collect::<String>(), true)];
        for (i, piece) in text.split(marker).enumerate() {
            if let Some(image) = i.checked_sub(1) {
                segments.push(Segment { image: Some(image), ..Segment::text(placeholder, true) });
            }
            segments.push(Segment::text(piece, true));
        }
        segments.retain(|segment| !segment.text.is_empty());
        Ok(Prompt::Segments { segments, images })
    }

    /// Renders a chat; the model decides about calls of its tools.
    ///
    /// # Errors
    ///
    /// As [`prompt_with`](Self::prompt_with).
    pub fn prompt(&self, chat: &Chat) -> Result<ChatPrompt, pelton_chat::Error> {
        self.prompt_with(chat, &ToolChoice::Auto, true)
    }

    /// Renders a chat, and decodes its pictures. `parallel` allows several calls in one answer,
    /// which ends with the first without.
    ///
    /// # Errors
    ///
    /// If a message or a tool is not valid, or the choice names an unknown tool or demands calls of
    /// a format that has none. Also if the template refuses the chat, fails or exceeds its limits,
    /// and if a picture cannot be decoded or the model takes none.
    pub fn prompt_with(
        &self,
        chat: &Chat,
        choice: &ToolChoice,
        parallel: bool,
    ) -> Result<ChatPrompt, pelton_chat::Error> {
        check_tools(&chat.tools)?;
        if !self.takes_images() && chat.messages.iter().any(|one| one.images().next().is_some()) {
            return Err(invalid(NO_VISION.to_owned()));
        }
        let mut shown = Cow::Borrowed(chat);
        if *choice == ToolChoice::None && !chat.tools.is_empty() {
            shown.to_mut().tools.clear();
        }
        if self.explains_tools {
            shown = explained(shown, self.template.capabilities());
        }
        let rendered = self.template.render(&shown)?;
        let images = pictures::decode(chat)?;
        let calls = self.constraint(&chat.tools, choice, parallel)?;
        let tools = match choice {
            ToolChoice::None => Vec::new(),
            _ => chat.tools.clone(),
        };
        let continued = chat
            .continue_final_message
            .then(|| chat.messages.last().and_then(|message| message.text()).unwrap_or_default());
        let tokenizer = Arc::clone(&self.tokenizer);
        let format = self.format;
        let thinks = self.thinks(chat);
        let parsing =
            Parsing { tokenizer, format, tools, parallel, continued, in_reasoning: false, thinks };
        Ok(ChatPrompt::new(rendered.segments, images, calls, parsing))
    }

    /// Whether the model may begin an answer with reasoning that the prompt has not begun: the
    /// template knows of reasoning, and neither it nor the chat turns it off.
    fn thinks(&self, chat: &Chat) -> bool {
        let Some(reasoning) = self.format.reasoning else { return false };
        let set = |key| chat.kwargs.get(key).and_then(Value::as_bool);
        let wanted = set("enable_thinking").or(set("thinking")).or(chat.enable_thinking);
        let capabilities = self.template.capabilities();
        match capabilities.thinking {
            true => wanted.unwrap_or(capabilities.thinks_by_default),
            false => self.template.source().contains(reasoning.close) && wanted.unwrap_or(true),
        }
    }

    /// The grammar of the calls that a choice demands.
    fn constraint(
        &self,
        tools: &[Value],
        choice: &ToolChoice,
        parallel: bool,
    ) -> Result<Option<CallConstraint>, pelton_chat::Error> {
        let named: Vec<Value>;
        let (tools, required) = match choice {
            ToolChoice::None => return Ok(None),
            ToolChoice::Auto => match tools.iter().any(is_strict) {
                true => (tools, false),
                false => return Ok(None),
            },
            ToolChoice::Required => (tools, true),
            ToolChoice::Named(name) => {
                named =
                    tools.iter().filter(|tool| tool_name(tool) == Some(name)).cloned().collect();
                if named.is_empty() {
                    return Err(invalid(format!(
                        "the tool choice names {name:?}, which is no tool"
                    )));
                }
                (&named[..], true)
            }
        };
        if tools.is_empty() {
            return Err(invalid("the tool choice demands a call, but there are no tools".into()));
        }
        match self.format.grammar(tools, parallel)? {
            Some(grammar) => Ok(Some(CallConstraint { grammar, required })),
            None if required => Err(invalid(format!(
                "the tool choice demands a call, but the chat template's format {:?} has none",
                self.format.name
            ))),
            None => Ok(None),
        }
    }
}

/// The texts of the tokens that messages cannot write: control tokens, and those of the
/// user-defined tokens that the template writes, except white space (the rule of transformers).
fn controls(tokenizer: &Tokenizer, source: &str) -> Vec<String> {
    let control = |id: u32| {
        let text = tokenizer.token_text(id)?;
        let is_control = match tokenizer.token_type(id)? {
            TokenType::Control | TokenType::Unknown => true,
            TokenType::UserDefined => !text.trim().is_empty() && source.contains(text),
            _ => false,
        };
        is_control.then(|| text.to_owned())
    };
    let ids = 0..u32::try_from(tokenizer.vocab_size()).unwrap_or(u32::MAX);
    ids.filter_map(control).collect()
}

/// The tokens of a rendered chat: text is encoded across the borders of segments.
pub(crate) fn encode(
    tokenizer: &Tokenizer,
    segments: &[Segment],
) -> Result<Vec<u32>, pelton_tokenizer::Error> {
    let special = |control| if control { Special::Parse } else { Special::Plain };
    let parts: Vec<(&str, Special)> = segments
        .iter()
        .map(|segment| (segment.text.as_str(), special(segment.control_tokens)))
        .collect();
    tokenizer.encode_parts(&parts)
}

fn function(tool: &Value) -> &Value {
    tool.get("function").unwrap_or(tool)
}

fn tool_name(tool: &Value) -> Option<&str> {
    function(tool).get("name")?.as_str()
}

fn is_strict(tool: &Value) -> bool {
    function(tool).get("strict").and_then(Value::as_bool).unwrap_or(false)
}

fn check_tools(tools: &[Value]) -> Result<(), pelton_chat::Error> {
    for (i, tool) in tools.iter().enumerate() {
        let Some(name) = tool_name(tool) else {
            return Err(invalid(format!("tool {i} has no name, expected function.name")));
        };
        if !is_tool_name(name) {
            return Err(invalid(format!(
                "the tool name {name:?} is not valid, expected up to 128 letters, digits and _ - . : /"
            )));
        }
        let parameters = function(tool).get("parameters");
        if parameters.is_some_and(|schema| !schema.is_object() && !schema.is_null()) {
            return Err(invalid(format!("the parameters of the tool {name:?} are not an object")));
        }
    }
    Ok(())
}

fn invalid(reason: String) -> pelton_chat::Error {
    pelton_chat::Error::Invalid(reason)
}
