//! A loaded model: one of text with its chat template, or one that recognizes speech.

use std::sync::Arc;

use pelton::{
    Model, Prompt, Sampling, Status,
    chat::{Chat, ChatPrompt, ChatTemplate, Content, ToolChoice},
    graph::OutputKind,
};

use serde_json::Value;

use super::{Encoded, listener::Listener, replicas::Replicas};
use crate::{config::ModelConfig, defaults::Defaults, error::ApiError, media::Media};

/// The template of models without one: the texts of all messages, a line each.
const PLAIN: &str = "\
{%- for m in messages %}
{%- if m.content is string %}{{ m.content }}{% endif %}
{%- if not loop.last %}{{ '\n' }}{% endif %}
{%- endfor %}";

/// The kind of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It generates text.
    Text,
    /// It gives embeddings of texts.
    Embedding,
    /// It gives scores of texts.
    Scores,
    /// It recognizes speech.
    Speech,
}

impl Kind {
    /// The word for it in lists.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Embedding => "embedding",
            Self::Scores => "scores",
            Self::Speech => "speech",
        }
    }

    /// The kinds of models that answer a request for this one, the best first. An embedding scores
    /// too; the others have an error that says what they do.
    pub(super) fn nearest(self) -> &'static [Self] {
        match self {
            Self::Text => &[Self::Text, Self::Embedding, Self::Scores],
            Self::Embedding => &[Self::Embedding, Self::Text, Self::Scores],
            Self::Scores => &[Self::Scores, Self::Embedding, Self::Text],
            Self::Speech => &[Self::Speech],
        }
    }
}

/// A loaded model: one of text with its chat template, or one that recognizes speech.
pub(crate) struct Served {
    pub(crate) name: String,
    /// `None` for one that recognizes speech, and after the unload.
    replicas: Option<Replicas>,
    listener: Option<Listener>,
    template: Option<ChatTemplate>,
    /// Whether the model has a chat template.
    pub(crate) has_template: bool,
    /// The defaults of sampling, those of the model file included.
    pub(crate) sampling: Sampling,
    /// Options of requests that do not set them.
    pub(crate) defaults: Arc<Defaults>,
    /// The client of pictures at addresses; `None` for a speech model.
    pub(crate) media: Option<Arc<Media>>,
}

impl Served {
    /// The key of the software, of the devices and of the layers on each; `None` for a speech
    /// model.
    pub(crate) fn fingerprint(&self) -> Option<String> {
        self.model().ok().map(|model| model.placement().fingerprint())
    }

    pub(crate) fn new(
        config: &ModelConfig,
        replicas: Replicas,
        defaults: &Arc<Defaults>,
        media: &Arc<Media>,
    ) -> Result<Self, ApiError> {
        let model = replicas.first();
        let own = match (&config.template_source, &config.template) {
            (Some(source), _) => Some(model.chat_template_from(source)?),
            (None, Some(file)) => {
                let source = std::fs::read_to_string(file).map_err(|error| {
                    let file = file.display();
                    ApiError::internal(format!("the chat template {file} cannot be read: {error}"))
                })?;
                Some(model.chat_template_from(&source)?)
            }
            (None, None) => {
                match model.tokenizer().ok().and_then(|tokenizer| tokenizer.chat_template()) {
                    Some(source) => match model.chat_template_from(source) {
                        Ok(template) => Some(template),
                        Err(error) => {
                            tracing::warn!(model = config.name, %error, "the chat template is not used");
                            None
                        }
                    },
                    None => None,
                }
            }
        };
        let has_template = own.is_some();
        // a file without a vocabulary answers token ids only
        let template = own.or_else(|| model.chat_template_from(PLAIN).ok());
        let template = template.map(ChatTemplate::explaining_tools);
        let of_files = model.sampling_defaults();
        for sentence in &of_files.ignored {
            tracing::warn!(model = config.name, sentence, "a default of the file is ignored");
        }
        let (name, sampling) = (config.name.clone(), defaults.over(of_files.sampling));
        let (defaults, media) = (Arc::clone(defaults), Some(Arc::clone(media)));
        let replicas = Some(replicas);
        Ok(Self {
            name,
            replicas,
            listener: None,
            template,
            has_template,
            sampling,
            defaults,
            media,
        })
    }

    /// A model that recognizes speech.
    pub(crate) fn listening(config: &ModelConfig, listener: Listener) -> Self {
        Self {
            name: config.name.clone(),
            replicas: None,
            listener: Some(listener),
            template: None,
            has_template: false,
            sampling: Sampling::default(),
            defaults: Arc::default(),
            media: None,
        }
    }

    /// Whether the files of the model are those that it was loaded from.
    ///
    /// # Errors
    /// A sentence with the name of one that was cut or written to since.
    pub(crate) fn check_files(&self) -> Result<(), String> {
        let replicas = self.replicas.iter().flat_map(Replicas::all);
        let of_text = replicas.map(|replica| replica.model.files().check());
        let of_speech = self.listener.iter().map(Listener::check_files);
        of_text.chain(of_speech).collect::<Result<(), _>>().map_err(|error| error.to_string())
    }

    /// Frees the model's memory, after the passes that run. Blocks until then.
    pub(crate) fn close(mut self) {
        drop((self.replicas.take(), self.listener.take()));
    }

    /// The model of text, for all that is the same of each replica.
    ///
    /// # Errors
    /// If it recognizes speech, or was unloaded.
    pub(crate) fn model(&self) -> Result<&Model, ApiError> {
        self.replicas().map(Replicas::first)
    }

    /// The replicas of the model of text.
    ///
    /// # Errors
    /// As [`model`](Self::model).
    pub(crate) fn replicas(&self) -> Result<&Replicas, ApiError> {
        self.replicas.as_ref().ok_or_else(|| match &self.listener {
            Some(_) => ApiError::field(
                "model",
                format!(
                    "the model {} recognizes speech, expected one of text; /v1/audio/transcriptions \
                     takes audio",
                    self.name
                ),
            ),
            None => ApiError::unavailable("the model was unloaded"),
        })
    }

    /// The model that recognizes speech.
    ///
    /// # Errors
    /// If it is one of text, or was unloaded.
    pub(crate) fn listener(&self) -> Result<&Listener, ApiError> {
        self.listener.as_ref().ok_or_else(|| match &self.replicas {
            Some(_) => ApiError::field(
                "model",
                format!(
                    "the model {} does not recognize speech, expected one such as Whisper; `pelton serve \
                     built-in-speech` has a small one",
                    self.name
                ),
            ),
            None => ApiError::unavailable("the model was unloaded"),
        })
    }

    /// The kind of the model.
    pub(crate) fn kind(&self) -> Kind {
        match self.model().map(|model| model.plan().output) {
            _ if self.listener.is_some() => Kind::Speech,
            Ok(OutputKind::Embedding) => Kind::Embedding,
            Ok(OutputKind::Scores) => Kind::Scores,
            Ok(OutputKind::Logits) | Err(_) => Kind::Text,
        }
    }

    /// The load of the model at the moment.
    pub(crate) fn status(&self) -> Status {
        match (&self.replicas, &self.listener) {
            (Some(replicas), _) => replicas.status(),
            (None, Some(listener)) => listener.status(),
            (None, None) => Status::default(),
        }
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
        // a text that can never fit is not rendered
        let texts = chat.messages.iter().filter_map(|message| message.content.as_ref());
        let tools = chat.tools.iter().filter(|_| *choice != ToolChoice::None);
        let bytes = texts.map(content_bytes).chain(tools.map(text_bytes)).sum();
        self.model()?.check_bytes(bytes)?;
        let template = self.template()?;
        let filled = self.defaults.filled(chat);
        let chat = filled.as_ref().unwrap_or(chat);
        let mut prompt = template.prompt_with(chat, choice, parallel)?;
        if !self.has_template && prompt.prompt.images().is_empty() {
            prompt.prompt = Prompt::Tokens(self.encode(&prompt.prompt)?);
        }
        Ok(prompt)
    }

    /// Whether chats may have pictures.
    pub(crate) fn takes_images(&self) -> bool {
        self.template.as_ref().is_some_and(ChatTemplate::takes_images)
    }

    /// The words for its abilities, as Ollama and llama.cpp have them.
    pub(crate) fn capabilities(&self) -> Vec<&'static str> {
        let Ok(model) = self.model() else { return Vec::new() };
        match model.plan().output {
            OutputKind::Embedding => vec!["embedding"],
            OutputKind::Scores => Vec::new(),
            OutputKind::Logits => {
                let template = self.template.as_ref().filter(|_| self.has_template);
                let caps = template.map(|template| template.template().capabilities());
                let has = |can: bool, word| can.then_some(word);
                let all = [
                    Some("completion"),
                    caps.and_then(|caps| has(caps.tools, "tools")),
                    caps.and_then(|caps| has(caps.thinking, "thinking")),
                    has(self.takes_images(), "vision"),
                ];
                all.into_iter().flatten().collect()
            }
        }
    }

    /// A prompt with its tokens.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub(crate) fn encoded(&self, prompt: &Prompt) -> Result<Encoded, ApiError> {
        let pictured = (!prompt.images().is_empty()).then(|| prompt.clone());
        Ok(Encoded { tokens: self.encode(prompt)?, pictured })
    }

    /// The tokens that the model reads of a prompt: a picture is as many placeholders as it becomes
    /// tokens.
    ///
    /// # Errors
    /// As [`encode`](Self::encode), or if the model takes a picture not.
    pub(crate) fn read_tokens(&self, prompt: &Prompt) -> Result<Vec<u32>, ApiError> {
        match prompt.images() {
            [] => self.encode(prompt),
            _ => Ok(self.model()?.tokenize(prompt)?),
        }
    }

    /// The tokens of a prompt. A picture is one placeholder.
    ///
    /// # Errors
    /// If it can never fit into the context, or the model has no vocabulary.
    pub(crate) fn encode(&self, prompt: &Prompt) -> Result<Vec<u32>, ApiError> {
        let model = self.model()?;
        model.check_bytes(match prompt {
            Prompt::Text(text) => text.len(),
            Prompt::Segments { segments, .. } => {
                segments.iter().map(|segment| segment.text.len()).sum()
            }
            _ => 0,
        })?;
        let tokenizer = model.tokenizer()?;
        match prompt {
            Prompt::Text(text) => Ok(tokenizer.encode_prompt(text)?),
            Prompt::Tokens(tokens) => Ok(tokens.clone()),
            Prompt::Segments { segments, .. } => {
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

/// The bytes of the texts in a value, keys apart.
fn text_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(text_bytes).sum(),
        Value::Object(map) => map.values().map(text_bytes).sum(),
        _ => 0,
    }
}

impl Drop for Served {
    /// Unloads the model on another thread: it waits for the passes that run.
    fn drop(&mut self) {
        let own = (self.replicas.take(), self.listener.take());
        if (own.0.is_some() || own.1.is_some())
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn_blocking(move || drop(own));
        }
    }
}

#[cfg(test)]
impl Served {
    /// The built-in model with a context of 64 tokens.
    pub(crate) fn for_tests() -> Result<Self, ApiError> {
        use pelton::{Device, Engine, LoadOptions, ModelSource};

        let options = LoadOptions::default().context(64);
        let engine = Engine::builder().device(Device::Cpu).threads(1).build()?;
        let model = engine.load(ModelSource::BuiltIn, &options)?;
        let replicas = Replicas::new(vec![model]).map_err(ApiError::internal)?;
        let media = Arc::new(Media::new(&[]));
        Self::new(&ModelConfig::built_in(), replicas, &Arc::default(), &media)
    }

    /// The model with the template of one that takes pictures.
    pub(crate) fn seeing(mut self) -> Result<Self, ApiError> {
        self.template = self.template.take().map(|own| own.with_images("<|image|>")).transpose()?;
        Ok(self)
    }
}
