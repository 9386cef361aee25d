//! The options of a generated text.

use std::time::Duration;

use pelton_constraint::Constraint;
use pelton_sampling::Sampling;

use crate::api::{Client, EffortLevel, Prompt, Speculation};

/// A text that begins a [constraint](GenerateOptions::constraint).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trigger {
    /// The text. A token that is it, such as `</think>` or `<tool_call>`, counts as its text.
    pub text: String,
    /// Whether the constraint describes the output from the beginning of the text on, as that of a
    /// tool call does. Otherwise it describes the output after the text. Then a text that never
    /// comes is no error: the output may end without it.
    pub included: bool,
}

/// An addition to the logit of a token.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LogitBias {
    /// The token's id.
    pub token: u32,
    /// The summand; −∞ forbids the token.
    pub bias: f32,
}

impl LogitBias {
    /// An addition to the logit of a token.
    pub fn new(token: u32, bias: f32) -> Self {
        Self { token, bias }
    }
}

/// A LoRA adapter of a request, chosen by its name.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LoraChoice {
    /// Its [name](crate::Model::loras), or that of its file without the ending.
    pub name: String,
    /// A factor of the adapter's own scale.
    pub scale: f32,
}

impl LoraChoice {
    /// An adapter with a factor of its own scale.
    pub fn new(name: impl Into<String>, scale: f32) -> Self {
        Self { name: name.into(), scale }
    }
}

/// The options of a generated text: its length, and how its tokens are drawn.
///
/// ```
/// use pelton::{GenerateOptions, Sampling};
///
/// let options = GenerateOptions::default().max_tokens(20).sampling(Sampling::greedy());
/// assert_eq!(options.max_tokens, Some(20));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct GenerateOptions {
    /// The most tokens to be generated; `None` for as many as the context has room for.
    pub max_tokens: Option<usize>,
    /// How each token is drawn.
    pub sampling: Sampling,
    /// Strings before which the text ends; they are not part of it.
    pub stop: Vec<String>,
    /// Whether the text goes on after the model's tokens for an end.
    pub ignore_eos: bool,
    /// Log-probabilities of this many likeliest tokens and of the drawn one, for each token.
    pub logprobs: Option<usize>,
    /// Log-probabilities of this many likeliest tokens and of the prompt's own, for each
    /// token of the prompt.
    pub prompt_logprobs: Option<usize>,
    /// Summands of the logits of single tokens.
    pub logit_bias: Vec<LogitBias>,
    /// The texts that are allowed. The text ends where the constraint allows no continuation, or
    /// where it allows an end and the model ends it.
    pub constraint: Option<Constraint>,
    /// The texts after which the constraint begins, the first that comes; without any it begins at
    /// once.
    pub triggers: Vec<Trigger>,
    /// The LoRA adapters, by their [names](crate::Model::loras), each with a factor of its own
    /// scale. `None` for those of the [load](crate::LoadOptions::lora), each with the scale given
    /// there.
    pub loras: Option<Vec<LoraChoice>>,
    /// The longest time from the submission to the end of the text.
    pub deadline: Option<Duration>,
    /// The namespace of cached prefixes: requests share them only with requests of the same salt.
    pub cache_salt: u64,
    /// The sender, which decides with others when the request starts.
    pub client: Client,
    /// A text that the generated one is expected to resemble, as that of a file of which a few
    /// lines are to be changed. It is a source of drafts: it changes the speed, never the text.
    pub prediction: Option<Prompt>,
    /// Whether tokens are drafted; `None` for [`LoadOptions::speculation`](crate::LoadOptions).
    pub speculation: Option<Speculation>,
    /// The effort of generated tokens; `None` for that of
    /// [`LoadOptions::effort`](crate::LoadOptions::effort), without which it is 1.
    pub effort: Option<EffortLevel>,
    /// Whether the prompt has that effort too. Otherwise it is read with effort 1.
    pub effort_in_prompt: bool,
}

impl GenerateOptions {
    /// Sets the most tokens to be generated.
    pub fn max_tokens(mut self, tokens: usize) -> Self {
        self.max_tokens = Some(tokens);
        self
    }

    /// Sets how tokens are drawn.
    pub fn sampling(mut self, sampling: Sampling) -> Self {
        self.sampling = sampling;
        self
    }

    /// Adds a string before which the text ends.
    pub fn stop(mut self, stop: impl Into<String>) -> Self {
        self.stop.push(stop.into());
        self
    }

    /// Sets whether the text goes on after the model's tokens for an end.
    pub fn ignore_eos(mut self, ignore: bool) -> Self {
        self.ignore_eos = ignore;
        self
    }

    /// Asks for log-probabilities of the `top` likeliest tokens and of the drawn one.
    pub fn logprobs(mut self, top: usize) -> Self {
        self.logprobs = Some(top);
        self
    }

    /// Asks for log-probabilities of each token of the prompt and of the `top` likeliest ones in
    /// its place. All rows of the prompt are run for that, cached or not. A request that generates
    /// nothing has its effort in the prompt.
    ///
    /// ```
    /// use pelton::{Engine, GenerateOptions, LoadOptions, ModelSource};
    ///
    /// let engine = Engine::builder().build()?;
    /// let model = engine.load(ModelSource::BuiltIn, &LoadOptions::default())?;
    /// let options = GenerateOptions::default().prompt_logprobs(2).max_tokens(5);
    /// let mut stream = model.generate("The cat", options)?;
    /// let text = stream.text()?;
    /// for token in stream.prompt() {
    ///     println!("{} {:?}: {:?} is likelier", token.id, token.logprob, token.top);
    /// }
    /// # assert!(stream.prompt().len() > 1 && !text.is_empty());
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn prompt_logprobs(mut self, top: usize) -> Self {
        self.prompt_logprobs = Some(top);
        self
    }

    /// Sets the summand of a token's logit.
    pub fn logit_bias(mut self, token: u32, bias: f32) -> Self {
        match self.logit_bias.iter_mut().find(|old| old.token == token) {
            Some(old) => old.bias = bias,
            None => self.logit_bias.push(LogitBias::new(token, bias)),
        }
        self
    }

    /// Constrains the text.
    ///
    /// A constrained sequence takes part in one pass at a time, as the tokens that are allowed
    /// depend on the one before. Tokens that the constraint leaves no choice about are appended
    /// without a draw, unless log-probabilities are asked for.
    ///
    /// ```
    /// use pelton::{Constraint, Engine, GenerateOptions, LoadOptions, ModelSource};
    ///
    /// let engine = Engine::builder().build()?;
    /// let model = engine.load(ModelSource::BuiltIn, &LoadOptions::default())?;
    /// let options = GenerateOptions::default();
    /// let options = options.constraint(Constraint::Regex("[1-5] stars?".into()));
    /// assert!(model.generate("Rate it: ", options)?.text()?.ends_with(['r', 's']));
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn constraint(mut self, constraint: Constraint) -> Self {
        self.constraint = Some(constraint);
        self
    }

    /// Lets the constraint begin after `text`, such as the end of the model's reasoning; the model
    /// cannot end its output before. May be called several times: the first text that comes counts.
    pub fn constrain_after(mut self, text: impl Into<String>) -> Self {
        self.triggers.push(Trigger { text: text.into(), included: false });
        self
    }

    /// Lets the constraint begin with `text`, which it includes, such as the opening tag
    /// of a tool call; without it the output is free. May be called several times: the
    /// first that comes counts.
    pub fn constrain_from(mut self, text: impl Into<String>) -> Self {
        self.triggers.push(Trigger { text: text.into(), included: true });
        self
    }

    /// Adds a LoRA adapter to those of this request alone.
    pub fn lora(mut self, name: impl Into<String>, scale: f32) -> Self {
        self.loras.get_or_insert_default().push(LoraChoice::new(name, scale));
        self
    }

    /// Sets that the request has no LoRA adapters.
    pub fn without_loras(mut self) -> Self {
        self.loras = Some(Vec::new());
        self
    }

    /// Sets the time from the submission to the end of the text.
    pub fn deadline(mut self, time: Duration) -> Self {
        self.deadline = Some(time);
        self
    }

    /// Sets the namespace of cached prefixes.
    pub fn cache_salt(mut self, salt: u64) -> Self {
        self.cache_salt = salt;
        self
    }

    /// Sets the sender.
    pub fn client(mut self, client: Client) -> Self {
        self.client = client;
        self
    }

    /// Sets the text that the generated one is expected to resemble.
    pub fn prediction(mut self, prediction: impl Into<Prompt>) -> Self {
        self.prediction = Some(prediction.into());
        self
    }

    /// Sets the effort of generated tokens; the model must have been loaded with
    /// [`LoadOptions::effort`](crate::LoadOptions::effort) for one below 1.
    ///
    /// ```
    /// use pelton::{Engine, GenerateOptions, LoadOptions, ModelSource};
    ///
    /// let engine = Engine::builder().build()?;
    /// let model = engine.load(ModelSource::BuiltIn, &LoadOptions::default().effort(1.0))?;
    /// let options = GenerateOptions::default().max_tokens(8).effort(0.7);
    /// println!("{}", model.generate("Once upon a time", options)?.text()?);
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn effort(mut self, effort: impl Into<EffortLevel>) -> Self {
        self.effort = Some(effort.into());
        self
    }

    /// Sets whether the prompt has the effort of the generated tokens.
    pub fn effort_in_prompt(mut self, whether: bool) -> Self {
        self.effort_in_prompt = whether;
        self
    }

    /// Sets whether tokens are drafted.
    pub fn speculation(mut self, speculation: Speculation) -> Self {
        self.speculation = Some(speculation);
        self
    }
}
