//! Conversations with a model.

use std::sync::Arc;

use crate::{
    Error, Model,
    api::Request,
    chat::{ChatPrompt, ChatStream, ChatTemplate},
};

impl Model {
    /// The chat template of the model file. The first call compiles it.
    ///
    /// # Errors
    ///
    /// [`Error::NoVocabulary`] or [`Error::NoChatTemplate`] if the file has none; [`Error::Chat`] if
    /// it is not valid.
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
        Ok(ChatTemplate::new(Arc::clone(self.shared_tokenizer()?), source)?)
    }

    /// Submits a request for the answer to a chat, and returns the answer's parts as an iterator
    /// that waits for each. The prompt of `request` is replaced; its other fields hold. The output
    /// is constrained as [`ChatPrompt::constrain`] says.
    ///
    /// # Errors
    ///
    /// As [`generate`](Self::generate) and [`ChatPrompt::constrain`].
    pub fn chat(&self, prompt: &ChatPrompt, mut request: Request) -> Result<ChatStream, Error> {
        request.prompt = prompt.prompt.clone();
        let request = prompt.constrain(request)?;
        Ok(ChatStream::new(self.generate(request)?, prompt.parser()))
    }
}
