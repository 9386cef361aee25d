//! `pelton tokenize`: the tokens of a text.

use std::{io::Write, path::PathBuf};

use anyhow::{Result, ensure};
use pelton::tokenizer::{Special, Tokenizer};
use serde_json::json;

use super::{note_unread_pipe, stdin_has_text, text_or_stdin, whole_text_of};
use crate::{
    model,
    output::{self, WithHint},
};

#[derive(clap::Args)]
#[command(
    after_help = "A line has the id of a token, its text, and its name in the vocabulary where that is another \
                  one.\nThe last line counts the tokens, with those that a prompt has in addition."
)]
pub(crate) struct Args {
    /// A model: a file, a directory, a name such as qwen3:0.6b, or built-in
    model: String,
    /// The text; - or nothing for standard input
    text: Option<String>,
    /// The text, in place of the argument; it may begin with -
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "text")]
    prompt: Option<String>,
    /// Read the text from a file; - for standard input
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["text", "prompt"])]
    file: Option<PathBuf>,
    /// Write the ids alone, on one line
    #[arg(long)]
    ids: bool,
    /// Write a JSON array of ids and tokens
    #[arg(long, conflicts_with = "ids")]
    json: bool,
    /// Recognize special tokens in the text, and add those that belong before and after it
    #[arg(long)]
    special: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let checkpoint = model::open(&args.model)?;
    let tokenizer = Tokenizer::from_metadata(checkpoint.metadata())
        .hint(format!("`pelton inspect {}` shows the vocabulary's metadata", args.model))?;
    let text = match (&args.text, &args.prompt, &args.file) {
        (Some(text), ..) if text == "-" => text_or_stdin(text)?,
        (Some(text), ..) | (None, Some(text), _) => {
            note_unread_pipe();
            text.clone()
        }
        (None, None, Some(path)) => whole_text_of(path)?,
        (None, None, None) => {
            stdin_has_text()?;
            let text = text_or_stdin("-")?;
            ensure!(!text.is_empty(), "standard input is empty, expected a text");
            text
        }
    };
    let ids = match args.special {
        true => tokenizer.encode_prompt(&text)?,
        false => tokenizer.encode(&text, Special::Ignore)?,
    };
    let token = |id: u32| tokenizer.token_text(id).unwrap_or_default().to_owned();
    let mut out = output::stdout();
    if args.json {
        let tokens: Vec<_> = ids.iter().map(|&id| json!({"id": id, "token": token(id)})).collect();
        writeln!(out, "{}", serde_json::Value::from(tokens))?;
    } else if args.ids {
        let ids: Vec<_> = ids.iter().map(u32::to_string).collect();
        writeln!(out, "{}", ids.join(" "))?;
    } else {
        for &id in &ids {
            let name = token(id);
            let text = String::from_utf8_lossy(tokenizer.token_bytes(id).unwrap_or_default());
            match text == name {
                true => writeln!(out, "{id:>7}  {text:?}")?,
                false => writeln!(out, "{id:>7}  {:<16} {name}", format!("{text:?}"))?,
            }
        }
        let added = added(&tokenizer)?;
        let counted = match (ids.len(), args.special || added.is_empty()) {
            (1, true) => "1 token".to_owned(),
            (count, true) => format!("{count} tokens"),
            (count, false) => format!("{count} tokens; a prompt also has {}", added.join(" ")),
        };
        writeln!(out, "{counted}")?;
    }
    Ok(())
}

/// The tokens that a prompt has before and after its text.
fn added(tokenizer: &Tokenizer) -> Result<Vec<String>> {
    let name = |id: &u32| tokenizer.token_text(*id).unwrap_or_default().to_owned();
    Ok(tokenizer.encode_prompt("")?.iter().map(name).collect())
}
