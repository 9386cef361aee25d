//! A rendered chat.

use std::sync::Arc;

use pelton_chat::{Format, Parser, Segment, ToolGrammar};
use pelton_tokenizer::Tokenizer;
use serde_json::Value;

use super::reply::ReplyParser;
use crate::api::Prompt;

/// Whether and how the model calls tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// It decides. With a tool whose definition has `"strict": true`, calls are constrained from
    /// their beginning on.
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
pub enum AnswerStart {
    /// At the first token.
    First,
    /// After this text, which ends the reasoning that the prompt began.
    After(&'static str),
    /// After `close` if the output begins with `open` (after white space), otherwise at the first
    /// token.
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

/// What a parser of the answer is made of.
#[derive(Clone, Debug)]
pub(super) struct Parsing {
    pub(super) tokenizer: Arc<Tokenizer>,
    pub(super) format: &'static Format,
    pub(super) tools: Vec<Value>,
    /// The text of the message that the answer continues.
    pub(super) continued: Option<String>,
    pub(super) in_reasoning: bool,
}

impl ChatPrompt {
    pub(super) fn new(
        segments: Vec<Segment>,
        calls: Option<CallConstraint>,
        mut parsing: Parsing,
    ) -> Self {
        let text: String = segments.iter().map(|segment| segment.text.as_str()).collect();
        parsing.in_reasoning = match &parsing.continued {
            Some(_) => false,
            None => parsing.format.is_reasoning(&text),
        };
        let start = start(&text, &parsing);
        Self { prompt: Prompt::Segments(segments), start, calls, text, parsing }
    }

    /// The whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A parser of the answer.
    pub fn parser(&self) -> ReplyParser {
        ReplyParser::new(Arc::clone(&self.parsing.tokenizer), self.parsing.parser())
    }
}

impl Parsing {
    fn parser(&self) -> Parser {
        let parser = Parser::new(self.format, &self.tools).in_reasoning(self.in_reasoning);
        let parser = if self.tools.is_empty() { parser.without_calls() } else { parser };
        match &self.continued {
            Some(text) => parser.continuing(text),
            None => parser,
        }
    }
}

/// Where the answer to a prompt begins.
fn start(prompt: &str, parsing: &Parsing) -> AnswerStart {
    if parsing.format.name == "harmony" {
        return match parsing.continued {
            Some(_) => AnswerStart::First,
            None => AnswerStart::After("<|channel|>final<|message|>"),
        };
    }
    let Some(reasoning) = parsing.format.reasoning else { return AnswerStart::First };
    let (open, close) = (reasoning.open, reasoning.close);
    if parsing.parser().is_reasoning() {
        AnswerStart::After(close)
    } else if parsing.continued.is_some() || prompt.trim_end().ends_with(close) {
        AnswerStart::First
    } else {
        AnswerStart::AfterOptional { open, close }
    }
}
