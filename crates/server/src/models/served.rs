//! A loaded model with its chat template.

use std::sync::Arc;

use pelton::{
    Model, Prompt, Sampling,
    chat::{Chat, ChatPrompt, ChatTemplate, Content, Format, Message, ToolChoice},
};

use serde_json::json;

use crate::{config::ModelConfig, error::ApiError};

/// The template of models without one: the texts of all messages, a line each. It has tools in the
/// markers of the Hermes models.
const PLAIN: &str = "\
{%- if tools %}{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}{% endif -%}
{%- for m in messages %}
{%- if m.content is string %}{{ m.content }}{% endif %}
{%- for call in m.tool_calls or [] %}<tool_call>\n{{ call.function | tojson }}\n</tool_call>{% endfor %}
{%- if not loop.last %}{{ '\n' }}{% endif %}
{%- endfor %}";

/// A loaded model with its chat template.
pub(crate) struct Served {
    pub(crate) name: String,
    model: Option<Model>,
    template: Option<Arc<ChatTemplate>>,
    /// Whether the model has a chat template.
    pub(crate) has_template: bool,
    /// The defaults of sampling, those of the model file included.
    pub(crate) sampling: Sampling,
}

impl Served {
    pub(crate) fn new(config: &ModelConfig, model: Model) -> Result<Self, ApiError> {
        let own = match &config.template {
            Some(file) => {
                let source = std::fs::read_to_string(file).map_err(|error| {
                    let file = file.display();
                    ApiError::internal(format!("the chat template {file} cannot be read: {error}"))
                })?;
                Some(Arc::new(model.chat_template_from(&source)?))
            }
            None => match model.chat_template() {
                Ok(template) => Some(Arc::clone(template)),
                Err(pelton::Error::Chat(error)) => {
                    tracing::warn!(model = config.name, %error, "the chat template is not used");
                    None
                }
                Err(_) => None,
            },
        };
        let has_template = own.is_some();
        // a file without a vocabulary answers token ids only
        let template = own.or_else(|| model.chat_template_from(PLAIN).ok().map(Arc::new));
        let template = template.map(|template| with_calls(&model, template)).transpose()?;
        let defaults = model.sampling_defaults();
        for sentence in &defaults.ignored {
            tracing::warn!(model = config.name, sentence, "a default of the file is ignored");
        }
        let (name, sampling) = (config.name.clone(), defaults.sampling);
        Ok(Self { name, model: Some(model), template, has_template, sampling })
    }

    /// Frees the model's memory, after the passes that run. Blocks until then.
    pub(crate) fn close(mut self) {
        drop(self.model.take());
    }

    pub(crate) fn model(&self) -> Result<&Model, ApiError> {
        self.model.as_ref().ok_or_else(|| ApiError::unavailable("the model was unloaded"))
    }

    pub(crate) fn template(&self) -> Result<&ChatTemplate, ApiError> {
        match &self.template {
            Some(template) => Ok(template),
            None => Err(ApiError::invalid("the model has no vocabulary, expected token ids")),
        }
    }

    /// The prompt of a chat. Texts of control tokens in messages are ordinary text.
    pub(crate) fn render(
        &self,
        chat: &Chat,
        choice: &ToolChoice,
        parallel: bool,
    ) -> Result<ChatPrompt, ApiError> {
        // what can never fit is not rendered
        let texts = chat.messages.iter().filter_map(|message| message.content.as_ref());
        self.model()?.check_bytes(texts.map(content_bytes).sum())?;
        let template = self.template()?;
        let mut chat = std::borrow::Cow::Borrowed(chat);
        let capabilities = template.template().capabilities();
        if !chat.tools.is_empty() && *choice != ToolChoice::None && !capabilities.tools {
            explain_tools(chat.to_mut());
        }
        if !capabilities.tool_calls && has_calls(&chat) {
            write_calls(chat.to_mut());
        }
        let mut prompt = template.prompt_with(&chat, choice, parallel)?;
        if !self.has_template {
            prompt.prompt = Prompt::Tokens(self.encode(&prompt.prompt)?);
        }
        Ok(prompt)
    }

    /// The tokens of a prompt.
    pub(crate) fn encode(&self, prompt: &Prompt) -> Result<Vec<u32>, ApiError> {
        let tokenizer = self.model()?.tokenizer()?;
        match prompt {
            Prompt::Text(text) => Ok(tokenizer.encode_prompt(text)?),
            Prompt::Tokens(tokens) => Ok(tokens.clone()),
            Prompt::Segments(segments) => {
                let mut tokens = self.template()?.encode(segments)?;
                if !self.has_template
                    && let Some(&first) = tokenizer.encode_prompt("")?.first()
                {
                    // the token that begins every text
                    tokens.insert(0, first);
                }
                Ok(tokens)
            }
            _ => Err(ApiError::internal("a prompt of an unknown kind")),
        }
    }
}

/// The bytes of a message's text.
fn content_bytes(content: &Content) -> usize {
    match content {
        Content::Text(text) => text.len(),
        Content::Parts(parts) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.map(str::len).sum()
        }
    }
}

/// A template whose format has tool calls: that of the Hermes models, if it has none of its own.
fn with_calls(model: &Model, template: Arc<ChatTemplate>) -> Result<Arc<ChatTemplate>, ApiError> {
    match (template.output_format().calls, Format::named("hermes")) {
        (None, Some(hermes)) => {
            let again = model.chat_template_from(template.template().source())?;
            Ok(Arc::new(again.format(hermes)))
        }
        _ => Ok(template),
    }
}

/// Explains the tools in the system message, for templates that do not write them.
fn explain_tools(chat: &mut Chat) {
    let tools: Vec<String> = chat.tools.iter().map(ToString::to_string).collect();
    let text = format!(
        "You may call these tools, each a JSON object with its name and its parameters:\n{}\n\
         A call is written as <tool_call>\n{{\"name\": NAME, \"arguments\": OBJECT}}\n</tool_call>",
        tools.join("\n")
    );
    match chat.messages.first_mut().filter(|first| first.role == "system") {
        Some(first) => {
            let own = first.text().unwrap_or_default();
            first.content = Some(Content::Text(format!("{own}\n\n{text}")));
        }
        None => chat.messages.insert(0, Message::new("system", text)),
    }
}

/// Whether a message calls tools or is the result of one.
fn has_calls(chat: &Chat) -> bool {
    chat.messages.iter().any(|message| !message.tool_calls.is_empty() || message.role == "tool")
}

/// Writes calls of tools and their results as texts, for templates that do not write them.
fn write_calls(chat: &mut Chat) {
    for message in &mut chat.messages {
        let mut text = message.text().unwrap_or_default();
        if message.role == "tool" {
            message.role = "user".to_owned();
            text = format!("<tool_response>\n{text}\n</tool_response>");
        }
        for call in std::mem::take(&mut message.tool_calls) {
            let call = json!({"name": call.name(), "arguments": call.arguments()});
            text.push_str(&format!("<tool_call>\n{call}\n</tool_call>"));
        }
        message.content = Some(Content::Text(text));
    }
}

impl Drop for Served {
    /// Unloads the model on another thread: it waits for the passes that run.
    fn drop(&mut self) {
        if let Some(model) = self.model.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn_blocking(move || drop(model));
        }
    }
}
