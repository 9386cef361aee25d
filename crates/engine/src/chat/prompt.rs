//! A rendered chat.

use std::sync::Arc;

use pelton_chat::{Error, Format, Parser, Rule, Segment, ToolGrammar};
use pelton_constraint::Constraint;
use pelton_tokenizer::Tokenizer;
use serde_json::{Value, json};

use super::{lark::lark, reply::ReplyParser};
use crate::api::{GenerateOptions, Prompt, PromptImage};

/// The name of gpt-oss's format.
const HARMONY: &str = "harmony";
/// The beginning of a message of reasoning in gpt-oss, its end, and what follows it.
const ANALYSIS: [&str; 3] = ["<|channel|>analysis<|message|>", "<|end|>", "<|start|>assistant"];

/// Whether and how the model calls tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolChoice {
    /// It decides. A tool whose definition has `"strict": true` makes calls constrained from their
    /// beginning on.
    #[default]
    Auto,
    /// It calls none: the prompt has no tools.
    None,
    /// It calls at least one.
    Required,
    /// It calls the tool with this name.
    Named(String),
}

/// Where the answer begins in an output: what a constraint leaves free before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerStart {
    /// At the first token.
    First,
    /// After this text, which ends the reasoning that the prompt began.
    After(&'static str),
    /// After `close` if the output begins with `open` (after white space), otherwise at the first
    /// token: the template knows of reasoning, and neither it nor the chat turns it off.
    AfterOptional {
        /// The beginning of reasoning.
        open: &'static str,
        /// Its end.
        close: &'static str,
    },
}

/// The grammar of tool calls that a request demands.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CallConstraint {
    /// The calls, and the texts that begin them.
    pub grammar: ToolGrammar,
    /// Whether the answer is calls and nothing else. If not, it is free up to the first of the
    /// grammar's triggers.
    pub required: bool,
}

/// A rendered chat, and what belongs to its answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChatPrompt {
    /// The text, for a request.
    pub prompt: Prompt,
    /// Where the answer begins.
    pub start: AnswerStart,
    /// The calls that the answer is constrained to.
    pub calls: Option<CallConstraint>,
    pub(super) text: String,
    pub(super) parsing: Parsing,
}

/// The parts of a parser of the answer.
#[derive(Clone, Debug)]
pub(super) struct Parsing {
    pub(super) tokenizer: Arc<Tokenizer>,
    pub(super) format: &'static Format,
    pub(super) tools: Vec<Value>,
    /// Whether an answer may have several calls.
    pub(super) parallel: bool,
    /// The text of the message that the answer continues.
    pub(super) continued: Option<String>,
    pub(super) in_reasoning: bool,
    /// Whether the answer may begin with reasoning that the prompt has not begun.
    pub(super) thinks: bool,
}

impl ChatPrompt {
    pub(super) fn new(
        segments: Vec<Segment>,
        images: Vec<PromptImage>,
        calls: Option<CallConstraint>,
        mut parsing: Parsing,
    ) -> Self {
        let text: String = segments.iter().map(|segment| segment.text.as_str()).collect();
        parsing.in_reasoning = match &parsing.continued {
            Some(_) => false,
            None => parsing.format.is_reasoning(&text),
        };
        let start = start(&text, &parsing);
        Self { prompt: Prompt::Segments { segments, images }, start, calls, text, parsing }
    }

    /// The parts of the text, of which some may have control tokens, and the places of pictures.
    pub fn segments(&self) -> &[Segment] {
        match &self.prompt {
            Prompt::Segments { segments, .. } => segments,
            _ => &[],
        }
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Constrains the output of a request's options as this prompt demands. If the tool choice or a
    /// strict tool demands calls, the output is calls whose arguments the tools' schemas allow.
    /// Otherwise it is that of the options' own constraint, or calls if that is JSON and the model
    /// may call tools. Either begins where the answer does, after the reasoning.
    ///
    /// # Errors
    ///
    /// If the options have a constraint although calls are demanded, or if a schema has a keyword
    /// that the format of the calls cannot enforce.
    pub fn constrain(&self, mut options: GenerateOptions) -> Result<GenerateOptions, Error> {
        let Some(calls) = &self.calls else { return self.answer(options) };
        match (options.constraint.is_some(), calls.required) {
            (true, true) => Err(Error::Invalid(
                "a tool call is demanded, expected a request without another constraint".into(),
            )),
            // the answer instead of calls
            (true, false) => self.answer(options),
            (false, true) => {
                let rule = self.after_reasoning(calls.grammar.calls.clone());
                options.constraint = Some(Constraint::Lark(self.lark(&rule)?));
                Ok(options)
            }
            (false, false) => {
                options.constraint = Some(Constraint::Lark(self.lark(&calls.grammar.calls)?));
                let triggers = calls.grammar.triggers.iter();
                Ok(triggers.fold(options, |options, text| options.constrain_from(text)))
            }
        }
    }

    /// Lets the constraint of the options begin where the answer does.
    fn answer(&self, mut options: GenerateOptions) -> Result<GenerateOptions, Error> {
        // the caller's triggers say where it begins
        if !options.triggers.is_empty() {
            return Ok(options);
        }
        let Some(constraint) = options.constraint.take() else { return Ok(options) };
        let schema = match &constraint {
            Constraint::JsonSchema(schema) => Some(schema.clone()),
            Constraint::JsonObject => Some(json!({"type": "object"})),
            _ => None,
        };
        if let Some(schema) = &schema
            && let Some(calls) = self.optional_calls()?
        {
            let rule = self.after_reasoning(Rule::Choice(vec![self.content(schema), calls]));
            return Ok(options.constraint(Constraint::Lark(self.lark(&rule)?)));
        }
        Ok(match (self.start, schema) {
            (AnswerStart::After(text), _) => options.constraint(constraint).constrain_after(text),
            (AnswerStart::AfterOptional { .. }, Some(schema)) => {
                let rule = self.after_reasoning(Rule::Json(schema));
                options.constraint(Constraint::Lark(self.lark(&rule)?))
            }
            _ => options.constraint(constraint),
        })
    }

    /// The calls that the model may make instead of an answer.
    fn optional_calls(&self) -> Result<Option<Rule>, Error> {
        let Parsing { format, tools, parallel, .. } = &self.parsing;
        let grammar = match &self.calls {
            Some(calls) => Some(calls.grammar.clone()),
            None => format.grammar(tools, *parallel)?,
        };
        Ok(grammar.map(|grammar| grammar.calls))
    }

    /// A message of JSON, with its header in gpt-oss.
    fn content(&self, schema: &Value) -> Rule {
        let json = Rule::Json(schema.clone());
        match self.start {
            AnswerStart::After(header) if self.parsing.format.name == HARMONY => {
                Rule::Sequence(vec![Rule::Text(header.to_owned()), json])
            }
            _ => json,
        }
    }

    fn lark(&self, rule: &Rule) -> Result<String, Error> {
        lark(rule, &self.parsing.tokenizer)
    }

    /// The output whose answer is a rule's text: it may come after reasoning.
    fn after_reasoning(&self, rule: Rule) -> Rule {
        let text = |text: &str| Rule::Text(text.to_owned());
        let until = |text: &str| Rule::Until(text.to_owned());
        let optional = |rules| Rule::Optional(Box::new(Rule::Sequence(rules)));
        let is_harmony = self.parsing.format.name == HARMONY;
        Rule::Sequence(match self.start {
            AnswerStart::After(_) if is_harmony => {
                let [open, close, next] = ANALYSIS;
                vec![optional(vec![text(open), until(close), text(next)]), rule]
            }
            AnswerStart::First => vec![rule],
            AnswerStart::After(close) => vec![until(close), Rule::Space, rule],
            AnswerStart::AfterOptional { open, close } => {
                vec![optional(vec![text(open), until(close), Rule::Space]), rule]
            }
        })
    }

    /// A parser of the answer.
    pub fn parser(&self) -> ReplyParser {
        let parser = match &self.calls {
            Some(calls) if calls.required => self.parsing.parser().with_calls_only(),
            _ => self.parsing.parser(),
        };
        ReplyParser::new(Arc::clone(&self.parsing.tokenizer), parser)
    }
}

impl Parsing {
    fn parser(&self) -> Parser {
        let parser = Parser::new(self.format, &self.tools).in_reasoning(self.in_reasoning);
        let parser = if self.tools.is_empty() { parser.without_calls() } else { parser };
        let parser = if self.parallel { parser } else { parser.with_one_call() };
        match &self.continued {
            Some(text) => parser.continuing(text),
            None => parser,
        }
    }
}

/// Where the answer to a prompt begins.
fn start(prompt: &str, parsing: &Parsing) -> AnswerStart {
    if parsing.format.name == HARMONY {
        return match parsing.continued {
            Some(_) => AnswerStart::First,
            None => AnswerStart::After("<|channel|>final<|message|>"),
        };
    }
    let Some(reasoning) = parsing.format.reasoning else { return AnswerStart::First };
    let (open, close) = (reasoning.open, reasoning.close);
    if parsing.parser().is_reasoning() {
        AnswerStart::After(close)
    } else if parsing.continued.is_some() || prompt.trim_end().ends_with(close) || !parsing.thinks {
        AnswerStart::First
    } else {
        AnswerStart::AfterOptional { open, close }
    }
}
