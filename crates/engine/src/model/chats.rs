//! Conversations with a model.

use std::sync::Arc;

use crate::{
    Error, Model,
    api::GenerateOptions,
    chat::{Chat, ChatOptions, ChatPrompt, ChatStream, ChatTemplate, Message},
};

impl Model {
    /// The chat template of the model file. The first call compiles it.
    ///
    /// # Errors
    ///
    /// [`Error::NoVocabulary`] or [`Error::NoChatTemplate`] if the file has none;
    /// [`Error::Chat`] if it is not valid.
    pub fn chat_template(&self) -> Result<&Arc<ChatTemplate>, Error> {
        if let Some(template) = self.loaded.chat_template.get() {
            return Ok(template);
        }
        let Some(source) = self.tokenizer()?.chat_template() else {
            return Err(Error::NoChatTemplate { file: self.loaded.checkpoint.name().to_owned() });
        };
        let template = Arc::new(self.chat_template_from(source)?);
        Ok(self.loaded.chat_template.get_or_init(|| template))
    }

    /// Compiles another chat template than the file's for the model.
    ///
    /// # Errors
    ///
    /// [`Error::NoVocabulary`] if the file has none; [`Error::Chat`] if the template is not valid.
    pub fn chat_template_from(&self, source: &str) -> Result<ChatTemplate, Error> {
        let template = ChatTemplate::new(Arc::clone(self.shared_tokenizer()?), source)?;
        Ok(match &self.loaded.vision {
            Some(vision) => template.with_images(vision.placeholder())?,
            None => template,
        })
    }

    /// Answers a conversation: renders the messages by the model's template, and returns the parts
    /// of the answer as an iterator that waits for each.
    ///
    /// ```
    /// use pelton::{Engine, LoadOptions, ModelSource, chat::Message};
    ///
    /// let engine = Engine::builder().build()?;
    /// let model = engine.load(ModelSource::BuiltIn, &LoadOptions::default())?;
    /// let reply = model.chat(&[Message::new("user", "What is 2 plus 3?")])?.wait()?;
    /// assert!(reply.content.contains('5'));
    /// # Ok::<(), pelton::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`chat_with`](Self::chat_with).
    pub fn chat(&self, messages: &[Message]) -> Result<ChatStream, Error> {
        self.chat_with(&Chat::new(messages.to_vec()), ChatOptions::default())
    }

    /// As [`chat`](Self::chat), with tools and options. [`GenerateOptions`] are options too.
    ///
    /// # Errors
    ///
    /// As [`chat_template`](Self::chat_template), [`ChatTemplate::prompt_with`] and
    /// [`answer`](Self::answer).
    pub fn chat_with(
        &self,
        chat: &Chat,
        options: impl Into<ChatOptions>,
    ) -> Result<ChatStream, Error> {
        let ChatOptions { generate, tool_choice, parallel_tool_calls } = options.into();
        let template = self.chat_template()?;
        self.answer(&template.prompt_with(chat, &tool_choice, parallel_tool_calls)?, generate)
    }

    /// Answers a rendered chat. The output is constrained as [`ChatPrompt::constrain`] says.
    ///
    /// # Errors
    ///
    /// As [`generate`](Self::generate) and [`ChatPrompt::constrain`].
    pub fn answer(
        &self,
        prompt: &ChatPrompt,
        options: GenerateOptions,
    ) -> Result<ChatStream, Error> {
        let options = prompt.constrain(options)?;
        Ok(ChatStream::new(self.generate(prompt.prompt.clone(), options)?, prompt.parser()))
    }
}
