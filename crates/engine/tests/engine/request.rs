//! A prompt with its options as one value: tests make many of them, and run them on several models.

#![allow(dead_code, reason = "the test of an idle model, a binary of its own, uses a part")]

use std::ops::{ControlFlow, Deref, DerefMut};

use pelton::{
    AsyncTokenStream, Constraint, EffortLevel, Error, Event, GenerateOptions, Model, Prompt,
    PromptToken, RequestHandle, Sampling, Speculation, TokenStream,
};

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) prompt: Prompt,
    pub(crate) options: GenerateOptions,
}

impl Deref for Request {
    type Target = GenerateOptions;

    fn deref(&self) -> &GenerateOptions {
        &self.options
    }
}

impl DerefMut for Request {
    fn deref_mut(&mut self) -> &mut GenerateOptions {
        &mut self.options
    }
}

macro_rules! options {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(pub(crate) fn $name(mut self, $($argument: $type),*) -> Self {
            self.options = self.options.$name($($argument),*);
            self
        })*
    };
}

impl Request {
    pub(crate) fn new(prompt: impl Into<Prompt>) -> Self {
        Self { prompt: prompt.into(), options: GenerateOptions::default() }
    }

    pub(crate) fn from_tokens(tokens: impl Into<Vec<u32>>) -> Self {
        Self::new(tokens.into())
    }

    options! {
        max_tokens(tokens: usize);
        sampling(sampling: Sampling);
        stop(stop: impl Into<String>);
        ignore_eos(ignore: bool);
        logprobs(top: usize);
        prompt_logprobs(top: usize);
        logit_bias(token: u32, bias: f32);
        constraint(constraint: Constraint);
        constrain_after(text: impl Into<String>);
        constrain_from(text: impl Into<String>);
        lora(name: impl Into<String>, scale: f32);
        without_loras();
        deadline(time: std::time::Duration);
        cache_salt(salt: u64);
        client(client: pelton::Client);
        prediction(prediction: impl Into<Prompt>);
        effort(effort: impl Into<EffortLevel>);
        effort_in_prompt(whether: bool);
        speculation(speculation: Speculation);
    }
}

/// The methods of a model for prompts with their options.
pub(crate) trait Run {
    fn run(&self, request: Request) -> Result<TokenStream, Error>;
    fn run_async(&self, request: Request) -> Result<AsyncTokenStream, Error>;
    fn logprobs_of(&self, request: Request) -> Result<Vec<PromptToken>, Error>;
    fn submit_request(
        &self,
        request: Request,
        sink: impl FnMut(Event) -> ControlFlow<()> + Send + 'static,
    ) -> Result<RequestHandle, Error>;
}

impl Run for Model {
    fn run(&self, request: Request) -> Result<TokenStream, Error> {
        self.generate(request.prompt, request.options)
    }

    fn run_async(&self, request: Request) -> Result<AsyncTokenStream, Error> {
        self.stream(request.prompt, request.options)
    }

    fn logprobs_of(&self, request: Request) -> Result<Vec<PromptToken>, Error> {
        self.logprobs(request.prompt, request.options)
    }

    fn submit_request(
        &self,
        request: Request,
        sink: impl FnMut(Event) -> ControlFlow<()> + Send + 'static,
    ) -> Result<RequestHandle, Error> {
        self.submit(request.prompt, request.options, sink)
    }
}
