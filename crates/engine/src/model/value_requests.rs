//! Requests for values, one or many at a time.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::mpsc::{self, Sender},
    time::Duration,
};

use pelton_graph::{Effort, Op};
use web_time::Instant;

use super::{Loaded, Model};
use crate::{
    Error,
    api::{Client, EmbedOptions, KeepAlive, Prompt, RequestHandle, RerankOptions, Stats},
    schedule::{Goal, Sequence, Terms, Values, WantedRows},
    vision::Tokenized,
};

/// A text whose values are wanted, or a pair of texts.
#[derive(Clone)]
pub(super) struct Text {
    /// Its number in the call.
    pub(super) number: usize,
    pub(super) tokens: Vec<u32>,
    /// The first token of the second text of a pair, the number of tokens if there is none. From it
    /// on the token type is 1, in a model that has types.
    pub(super) second: usize,
}

impl Text {
    pub(super) fn one(number: usize, tokens: Vec<u32>) -> Self {
        Self { number, second: tokens.len(), tokens }
    }
}

/// The options that all requests for values have.
#[derive(Clone, Copy)]
pub(super) struct Common {
    pub(super) deadline: Option<Duration>,
    pub(super) cache_salt: u64,
    pub(super) client: Client,
}

impl EmbedOptions {
    pub(super) fn common(&self) -> Common {
        let Self { deadline, cache_salt, client, .. } = *self;
        Common { deadline, cache_salt, client }
    }
}

impl RerankOptions {
    pub(super) fn common(&self) -> Common {
        let Self { deadline, cache_salt, client, .. } = *self;
        Common { deadline, cache_salt, client }
    }
}

/// The handles of requests that are not finished, which are cancelled on drop.
#[derive(Default)]
struct Unfinished(BTreeMap<usize, RequestHandle>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.0.values().for_each(RequestHandle::cancel);
    }
}

/// The error of text `number` for that of a prompt.
pub(super) fn too_long(number: usize, error: Error) -> Error {
    match error {
        Error::PromptTooLong { tokens, context } => {
            Error::TextTooLong { text: number, tokens, limit: context, what: CONTEXT }
        }
        error => error,
    }
}

impl Loaded {
    /// Whether the plan pools: the result of any row is that of its sequence.
    pub(super) fn pools(&self) -> bool {
        self.plan.steps.iter().any(|step| matches!(step.op, Op::Pool(_)))
    }
}

/// The bound of a text, for errors.
const CONTEXT: &str = "the context that the model was loaded with";

impl Model {
    /// A prompt as text `number`.
    pub(super) fn text(&self, number: usize, prompt: &Prompt) -> Result<Text, Error> {
        match self.tokens(prompt).map_err(|error| too_long(number, error))? {
            Tokenized { tokens, pictures: None } => Ok(Text::one(number, tokens)),
            Tokenized { pictures: Some(_), .. } => Err(Error::NoVision),
        }
    }

    /// Submits a text whose values `[wanted rows, width]` are passed to `done`. Its age counts from
    /// `begun`.
    pub(super) fn submit_values(
        &self,
        text: Text,
        wanted: WantedRows,
        options: Common,
        begun: Instant,
        done: impl FnOnce(Result<Vec<f32>, Error>) + Send + 'static,
    ) -> Result<RequestHandle, Error> {
        self.shared.check()?;
        self.check_text(&text)?;
        let Text { number: _, mut tokens, second } = text;
        if self.loaded.plan.token_types > 1 {
            let vocab = self.loaded.plan.vocab as u32;
            tokens[second..].iter_mut().for_each(|token| *token += vocab);
        }
        let place = self.shared.bound.enter(tokens.len(), options.client.id)?;
        let handle = RequestHandle::new(Stats::new(tokens.len(), 0));
        let rows = wanted.of(0, tokens.len(), tokens.len()).len();
        let len = rows * self.loaded.plan.output_width();
        let values = Values::new(Box::new(done), handle.clone(), wanted, len, begun);
        let goal = Goal::Values(Box::new(values));
        // results of rows that are not run again are lost
        let salt = match wanted {
            WantedRows::Last => self.loaded.salt(options.cache_salt),
            WantedRows::First | WantedRows::All => None,
        };
        let most = tokens.len().saturating_add(1);
        let terms = Terms {
            salt,
            loras: self.loaded.loras.defaults.clone(),
            client: options.client,
            effort: Effort::FULL,
            effort_in_prompt: false,
            deadline: options.deadline,
        };
        self.send(Sequence::new(tokens, most, terms, goal, place))?;
        Ok(handle)
    }

    fn check_text(&self, text: &Text) -> Result<(), Error> {
        let loaded = &self.loaded;
        let (found, vocab) = (text.tokens.len(), loaded.plan.vocab);
        if found == 0 {
            return Err(Error::EmptyPrompt);
        }
        if let Some(&token) = text.tokens.iter().find(|&&token| token as usize >= vocab) {
            return Err(Error::UnknownToken { token, vocab });
        }
        let fail =
            |limit, what| Err(Error::TextTooLong { text: text.number, tokens: found, limit, what });
        if found > loaded.limits.context {
            return fail(loaded.limits.context, CONTEXT);
        }
        if loaded.plan.whole_sequences && found > loaded.limits.rows {
            return fail(loaded.limits.rows, "the rows of a pass that the model was loaded with");
        }
        Ok(())
    }

    /// Encodes `count` texts by their numbers, checks them all, and submits them, as many at a time
    /// as keep the model busy. Passes each result to `each`, as they come.
    pub(super) fn run_many<T: Send + 'static>(
        &self,
        count: usize,
        encode: impl Fn(usize) -> Result<Text, Error>,
        mut each: impl FnMut(usize, T) -> ControlFlow<()>,
        submit: impl Fn(Text, Sender<(usize, Result<T, Error>)>) -> Result<RequestHandle, Error>,
    ) -> Result<(), Error> {
        if self.worker.is_own_thread() {
            return Err(Error::OwnThread);
        }
        let mut texts = Vec::with_capacity(count);
        for number in 0..count {
            let text = encode(number)?;
            self.check_text(&text)?;
            texts.push(text);
        }
        // those of a pass that runs, and of the next one
        let most = 2 * self.loaded.limits.sequences;
        let (sender, results) = mpsc::channel();
        let mut unfinished = Unfinished::default();
        let mut left = texts.into_iter().peekable();
        loop {
            while unfinished.0.len() < most
                && let Some(text) = left.peek()
            {
                let number = text.number;
                match submit(text.clone(), sender.clone()) {
                    Ok(handle) => unfinished.0.insert(number, handle),
                    // others fill the queue: the next one takes the place of a finished one
                    Err(Error::Busy { .. }) if !unfinished.0.is_empty() => break,
                    Err(error) => return Err(error),
                };
                left.next();
            }
            if unfinished.0.is_empty() {
                return Ok(());
            }
            // a request always calls back, at the latest when it is dropped
            let (number, outcome) = self.worker.recv(&results).map_err(|_| self.shared.error())?;
            unfinished.0.remove(&number);
            if each(number, outcome?) == ControlFlow::Break(()) {
                return Ok(());
            }
        }
    }
}
