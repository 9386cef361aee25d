//! Command lines of other programs: llama.cpp's, whisper.cpp's, OpenAI's Whisper, vLLM's and Ollama's.
//!
//! Each program has a table of its options with what becomes of them. [`rewrite`] turns a command line with such
//! options into one of Pelton's before it is parsed. The pages `docs/coming-from-*.md` are made from the tables.

mod convert;
mod environment;
mod errors;
mod llama_cli;
mod llama_common;
mod llama_sampling;
mod llama_server;
mod llama_tools;
mod ollama;
mod openai_whisper;
mod own;
mod rewrite;
mod speech;
mod vllm;
mod whisper_cli;

#[cfg(test)]
mod lines;
#[cfg(test)]
mod pages;

pub(crate) use errors::refuse;
pub(crate) use rewrite::{Line, rewritten};

use convert::Convert;

/// The values that follow an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value,
    /// One if the next word is `on`, `off`, `auto`, or another word for a truth value.
    Switch,
    /// Two values.
    Two,
    /// All words up to the next option.
    List,
}

/// The fate of an option.
#[derive(Clone, Copy)]
enum Fate {
    /// An option of Pelton with the same value.
    Is(&'static str),
    /// An option of Pelton without a value, or with a fixed one.
    Flag(&'static str),
    /// An option of Pelton with a converted value.
    By(Convert, &'static str),
    /// The model: an argument, or `--model` where a command has it.
    Model,
    /// This model.
    Names(&'static str),
    /// An argument after the model.
    Argument,
    /// No effect: Pelton does this by itself, or has no use for it. The reason, for the pages.
    Noted(&'static str),
    /// An error with this hint.
    Refused(&'static str),
}

/// An option of another program.
#[derive(Clone, Copy)]
struct Row {
    /// The spellings, with spaces between them.
    names: &'static str,
    takes: Takes,
    fate: Fate,
    /// The environment variable that stands for the option, or nothing.
    variable: &'static str,
}

impl Row {
    const fn new(names: &'static str, takes: Takes, fate: Fate) -> Self {
        Self { names, takes, fate, variable: "" }
    }

    /// The row with an environment variable.
    const fn env(mut self, variable: &'static str) -> Self {
        self.variable = variable;
        self
    }

    fn spellings(&self) -> impl Iterator<Item = &'static str> {
        self.names.split(' ')
    }

    /// Whether the option names the model.
    fn names_model(&self) -> bool {
        matches!(self.fate, Fate::Model | Fate::Names(_) | Fate::By(_, ""))
            && self.variable.contains("MODEL") | self.variable.contains("HF_")
    }

    fn has(&self, name: &str) -> bool {
        self.spellings().any(|spelling| spelling == name)
    }
}

/// An option with the same value.
const fn is(names: &'static str, own: &'static str) -> Row {
    Row::new(names, Takes::Value, Fate::Is(own))
}

/// An option without a value.
const fn flag(names: &'static str, own: &'static str) -> Row {
    Row::new(names, Takes::Nothing, Fate::Flag(own))
}

/// An option with a converted value.
const fn by(names: &'static str, convert: Convert, own: &'static str) -> Row {
    Row::new(names, Takes::Value, Fate::By(convert, own))
}

/// An option with a value that changes nothing.
const fn noted(names: &'static str, why: &'static str) -> Row {
    Row::new(names, Takes::Value, Fate::Noted(why))
}

/// A flag that changes nothing.
const fn noted_flag(names: &'static str, why: &'static str) -> Row {
    Row::new(names, Takes::Nothing, Fate::Noted(why))
}

/// An option with a value that Pelton lacks.
const fn refused(names: &'static str, hint: &'static str) -> Row {
    Row::new(names, Takes::Value, Fate::Refused(hint))
}

/// A flag that Pelton lacks.
const fn refused_flag(names: &'static str, hint: &'static str) -> Row {
    Row::new(names, Takes::Nothing, Fate::Refused(hint))
}

/// A program with its options.
struct Peer {
    name: &'static str,
    /// The commands of Pelton that take its options.
    commands: &'static [&'static str],
    /// Parts of the table, the special one first.
    tables: &'static [&'static [Row]],
}

/// All programs. Where two have an option of the same name for a command, the first one counts.
static PEERS: &[Peer] = &[
    llama_server::PEER,
    llama_cli::RUN,
    llama_cli::CHAT,
    llama_tools::BENCH,
    llama_tools::PERPLEXITY,
    llama_tools::IMATRIX,
    llama_tools::EMBEDDING,
    llama_tools::TOKENIZE,
    llama_tools::QUANTIZE,
    llama_tools::CONVERT,
    llama_common::LOADS,
    llama_common::READS,
    llama_common::RENDERS,
    whisper_cli::PEER,
    openai_whisper::PEER,
    openai_whisper::CTRANSLATE2,
    vllm::PEER,
    ollama::RUN,
    ollama::SHOW,
    ollama::PULL,
    ollama::SERVE,
];

/// The row of an option for a command of Pelton.
fn row(command: &str, name: &str) -> Option<&'static Row> {
    rows(command).find(|row| row.has(name))
}

/// The rows for a command of Pelton.
fn rows(command: &str) -> impl Iterator<Item = &'static Row> {
    let peers = PEERS.iter().filter(move |peer| peer.commands.contains(&command));
    peers.flat_map(|peer| peer.tables.iter().flat_map(|table| table.iter()))
}

/// The first program that spells an option so.
fn peer_of(name: &str) -> Option<&'static Peer> {
    let spells = |peer: &&Peer| peer.tables.iter().any(|table| table.iter().any(|r| r.has(name)));
    PEERS.iter().find(spells)
}
