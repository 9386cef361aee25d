//! Checks of requests before they enter the queue.

use pelton_sampling::LOG_PROBS_MAX;

use super::Model;
use crate::{
    Error,
    api::{GenerateOptions, LogitBias, Prompt},
    chat, kv,
    vision::Tokenized,
};

/// The least bytes of a token by which a text is far too long. A vocabulary of short tokens may
/// leave parts of texts out, such as spaces.
const TOKEN_BYTES: usize = 64;

impl Model {
    /// Whether the model still answers. It is given up after three failed passes in a row, and when
    /// one of its files was cut or written to.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`] with the reason if it was given up.
    pub fn check(&self) -> Result<(), Error> {
        self.shared.check()
    }

    /// The files whose bytes its passes read, which must not change; none where the load has copied
    /// all weights. It needs the feature `unstable`.
    #[cfg(feature = "unstable")]
    pub fn files(&self) -> &pelton_weights::MappedFiles {
        &self.loaded.files
    }

    /// Checks that texts of so many bytes can fit into the context, which is known without their
    /// tokens if they are longer than the longest tokens.
    ///
    /// # Errors
    ///
    /// [`Error::TooManyBytes`] with the least number of tokens that they can have.
    pub fn check_bytes(&self, bytes: usize) -> Result<(), Error> {
        let Ok(tokenizer) = self.tokenizer() else { return Ok(()) };
        let least = bytes / tokenizer.longest_token().max(TOKEN_BYTES);
        let context = self.loaded.limits.context;
        match least > context {
            true => Err(Error::TooManyBytes { bytes, least, context }),
            false => Ok(()),
        }
    }

    /// The tokens of a prompt.
    pub(super) fn tokens(&self, prompt: &Prompt) -> Result<Tokenized, Error> {
        self.check_bytes(match prompt {
            Prompt::Text(text) => text.len(),
            Prompt::Segments { segments, .. } => segments.iter().map(|one| one.text.len()).sum(),
            Prompt::Tokens(_) => 0,
        })?;
        let tokens = match prompt {
            Prompt::Text(text) => self.tokenizer()?.encode_prompt(text)?,
            Prompt::Segments { segments, images }
                if segments.iter().any(|one| one.image.is_some()) =>
            {
                let vision = self.loaded.vision.as_ref().ok_or(Error::NoVision)?;
                return vision.tokens(self.tokenizer()?, segments, images);
            }
            Prompt::Segments { segments, .. } => chat::encode(self.tokenizer()?, segments)?,
            Prompt::Tokens(tokens) => tokens.clone(),
        };
        Ok(Tokenized { tokens, pictures: None })
    }

    /// The tokens of a prompt. Each of the tokens that a picture becomes is the id of a
    /// placeholder, and no picture is prepared for the model.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit) of the prompt. Its length is not checked, but that of its
    /// pictures.
    pub fn tokenize(&self, prompt: &Prompt) -> Result<Vec<u32>, Error> {
        match (prompt, &self.loaded.vision) {
            (Prompt::Segments { segments, images }, Some(vision)) if !images.is_empty() => {
                vision.placeholders(self.tokenizer()?, segments, images)
            }
            _ => Ok(self.tokens(prompt)?.tokens),
        }
    }

    /// Checks the options of a request and the tokens of its prompt.
    pub(super) fn check_request(
        &self,
        options: &GenerateOptions,
        tokens: &[u32],
    ) -> Result<(), Error> {
        let vocab = self.loaded.plan.vocab;
        let ids = tokens.iter().chain(options.logit_bias.iter().map(|one| &one.token));
        if let Some(&token) = ids.into_iter().find(|&&token| token as usize >= vocab) {
            return Err(Error::UnknownToken { token, vocab });
        }
        if tokens.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        let context = self.loaded.limits.context;
        // one that generates nothing can fill the context
        if tokens.len() + usize::from(options.max_tokens != Some(0)) > context {
            return Err(Error::PromptTooLong { tokens: tokens.len(), context });
        }
        let fail = |what: String| Err(Error::Sampling(what));
        let asked = [("logprobs", options.logprobs), ("prompt_logprobs", options.prompt_logprobs)];
        for (name, top) in asked {
            if let Some(top) = top.filter(|&top| top > LOG_PROBS_MAX) {
                return fail(format!("{name} is {top}, expected at most {LOG_PROBS_MAX}"));
            }
        }
        // ids that are no tokens are never drawn
        if options.prompt_logprobs.is_some()
            && let Some(&token) =
                tokens.iter().find(|&&token| token as usize >= self.loaded.limits.tokens)
        {
            return Err(Error::UnknownToken { token, vocab: self.loaded.limits.tokens });
        }
        if options.logit_bias.len() > kv::LOGIT_BIAS_MAX {
            let found = options.logit_bias.len();
            let most = kv::LOGIT_BIAS_MAX;
            return fail(format!("logit_bias has {found} tokens, expected at most {most}"));
        }
        for (i, &LogitBias { token, bias }) in options.logit_bias.iter().enumerate() {
            if bias.is_nan() {
                return fail(format!("logit_bias of token {token} is NaN, expected a number"));
            }
            if options.logit_bias[..i].iter().any(|other| other.token == token) {
                return fail(format!("logit_bias names token {token} twice, expected it once"));
            }
        }
        Ok(())
    }
}
