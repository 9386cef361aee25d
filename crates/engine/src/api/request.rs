//! A request to a model.

use std::time::Duration;

use pelton_chat::Segment;
use pelton_constraint::Constraint;
use pelton_sampling::Sampling;

use crate::api::{Client, EffortLevel, Speculation};

/// The text before the one that is generated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Prompt {
    /// Text. Special tokens that are written in it count as such. Tokens that the model file puts
    /// before a text, most often one for its beginning, are added.
    Text(String),
    /// The text of a rendered chat, to which nothing is added. Special tokens count as such only
    /// in the segments that say so: the others are text that a message contains.
    Segments(Vec<Segment>),
    /// Token ids, used as they are.
    Tokens(Vec<u32>),
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<pelton_chat::Prompt> for Prompt {
    fn from(rendered: pelton_chat::Prompt) -> Self {
        Self::Segments(rendered.segments)
    }
}

impl From<Vec<u32>> for Prompt {
    fn from(tokens: Vec<u32>) -> Self {
        Self::Tokens(tokens)
    }
}

/// A text that begins a [constraint](Request::constraint).
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

/// A text to be generated: its prompt, its length, and how its tokens are drawn.
///
/// ```
/// use pelton::{Request, Sampling};
///
/// let request = Request::new("Once upon a time").max_tokens(20).sampling(Sampling::greedy());
/// assert_eq!(request.max_tokens, Some(20));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Request {
    /// The text before.
    pub prompt: Prompt,
    /// The most tokens to be generated; `None` for as many as the context has room for.
    pub max_tokens: Option<usize>,
    /// How each token is drawn.
    pub sampling: Sampling,
    /// Strings before which the text ends; they are not part of it.
    pub stop: Vec<String>,
    /// Whether the text goes on after the model's tokens for an end.
    pub ignore_end: bool,
    /// Log-probabilities of this many likeliest tokens and of the drawn one, for each token.
    pub log_probs: Option<u8>,
    /// Log-probabilities of this many likeliest tokens and of the prompt's own, for each token of the
    /// prompt.
    pub prompt_log_probs: Option<u8>,
    /// Summands of the logits of single tokens.
    pub logit_bias: Vec<(u32, f32)>,
    /// The texts that are allowed. The text ends where the constraint allows no continuation, or
    /// where it allows an end and the model ends it.
    pub constraint: Option<Constraint>,
    /// The texts after which the constraint begins, the first that comes; without any it begins at
    /// once.
    pub triggers: Vec<Trigger>,
    /// The LoRA adapters, by their [names](crate::Model::loras), each with a factor of its own
    /// scale. `None` for those of the [load](crate::LoadOptions::lora), each with the scale given
    /// there.
    pub loras: Option<Vec<(String, f32)>>,
    /// The longest time from the submission to the end of the text.
    pub deadline: Option<Duration>,
    /// The namespace of cached prefixes: requests share them only with requests of the same salt.
    pub cache_salt: u64,
    /// The sender, which decides with others when the request starts.
    pub client: Client,
    /// A text that the generated one is expected to resemble, as that of a file of which a few lines
    /// are to be changed. It is a source of drafts: it changes the speed, never the text.
    pub prediction: Option<Prompt>,
    /// Whether tokens are drafted; `None` for [`LoadOptions::speculation`](crate::LoadOptions).
    pub speculation: Option<Speculation>,
    /// The effort of generated tokens; `None` for that of [`LoadOptions::effort`](crate::LoadOptions::effort),
    /// without which it is 1.
    pub effort: Option<EffortLevel>,
    /// Whether the prompt has that effort too. Otherwise it is read with effort 1.
    pub effort_in_prompt: bool,
}

impl Request {
    /// A text after `prompt`, with default sampling and no limit but the context.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self::after(Prompt::Text(prompt.into()))
    }

    /// As [`new`](Self::new), after token ids.
    pub fn from_tokens(tokens: impl Into<Vec<u32>>) -> Self {
        Self::after(Prompt::Tokens(tokens.into()))
    }

    /// As [`new`](Self::new), after any prompt.
    pub fn after(prompt: impl Into<Prompt>) -> Self {
        let prompt = prompt.into();
        Self {
            prompt,
            max_tokens: None,
            sampling: Sampling::default(),
            stop: Vec::new(),
            ignore_end: false,
            log_probs: None,
            prompt_log_probs: None,
            logit_bias: Vec::new(),
            constraint: None,
            triggers: Vec::new(),
            loras: None,
            deadline: None,
            cache_salt: 0,
            client: Client::default(),
            prediction: None,
            speculation: None,
            effort: None,
            effort_in_prompt: false,
        }
    }

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
    pub fn ignore_end(mut self, ignore: bool) -> Self {
        self.ignore_end = ignore;
        self
    }

    /// Asks for log-probabilities of the `top` likeliest tokens and of the drawn one.
    pub fn log_probs(mut self, top: u8) -> Self {
        self.log_probs = Some(top);
        self
    }

    /// Asks for log-probabilities of each token of the prompt and of the `top` likeliest ones in its
    /// place. All rows of the prompt are run for that, cached or not. A request that generates nothing
    /// has its effort in the prompt.
    ///
    /// ```
    /// use pelton::{Engine, LoadOptions, Request};
    ///
    /// let model = Engine::new().load_built_in(&LoadOptions::default())?;
    /// let mut stream = model.generate(Request::new("The cat").prompt_log_probs(2).max_tokens(5))?;
    /// let text = stream.text()?;
    /// for token in stream.prompt() {
    ///     println!("{} {:?}: {:?} is likelier", token.id, token.log_prob, token.top);
    /// }
    /// # assert!(stream.prompt().len() > 1 && !text.is_empty());
    /// # Ok::<(), pelton::Error>(())
    /// ```
    pub fn prompt_log_probs(mut self, top: u8) -> Self {
        self.prompt_log_probs = Some(top);
        self
    }

    /// Sets the summand of a token's logit.
    pub fn logit_bias(mut self, token: u32, bias: f32) -> Self {
        match self.logit_bias.iter_mut().find(|(id, _)| *id == token) {
            Some((_, old)) => *old = bias,
            None => self.logit_bias.push((token, bias)),
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
    /// use pelton::{Constraint, Engine, LoadOptions, Request};
    ///
    /// let model = Engine::new().load_built_in(&LoadOptions::default())?;
    /// let request = Request::new("Rate it: ").constraint(Constraint::Regex("[1-5] stars?".into()));
    /// assert!(model.generate(request)?.text()?.ends_with(['r', 's']));
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

    /// Lets the constraint begin with `text`, which it includes, such as the opening tag of a tool
    /// call; without it the output is free. May be called several times: the first that comes counts.
    pub fn constrain_from(mut self, text: impl Into<String>) -> Self {
        self.triggers.push(Trigger { text: text.into(), included: true });
        self
    }

    /// Adds a LoRA adapter to those of this request alone.
    pub fn lora(mut self, name: impl Into<String>, scale: f32) -> Self {
        self.loras.get_or_insert_default().push((name.into(), scale));
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
    /// use pelton::{Engine, LoadOptions, Request};
    ///
    /// let model = Engine::with_threads(1).load_built_in(&LoadOptions::default().effort(1.0))?;
    /// let request = Request::new("Once upon a time").max_tokens(8).effort(0.7);
    /// println!("{}", model.generate(request)?.text()?);
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
