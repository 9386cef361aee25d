//! `pelton tokenize`: the tokens of a text.

use std::io::{Write, stdout};

use anyhow::Result;
use pelton::tokenizer::{Special, Tokenizer};
use serde_json::json;

use super::text_or_stdin;
use crate::{model, output::WithHint};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A model file or directory, or built-in
    model: String,
    /// The text; - for standard input
    text: String,
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
    let text = text_or_stdin(&args.text)?;
    let ids = match args.special {
        true => tokenizer.encode_prompt(&text)?,
        false => tokenizer.encode(&text, Special::Ignore)?,
    };
    let token = |id: u32| tokenizer.token_text(id).unwrap_or_default().to_owned();
    let mut out = stdout().lock();
    if args.json {
        let tokens: Vec<_> = ids.iter().map(|&id| json!({"id": id, "token": token(id)})).collect();
        writeln!(out, "{}", serde_json::Value::from(tokens))?;
    } else if args.ids {
        let ids: Vec<_> = ids.iter().map(u32::to_string).collect();
        writeln!(out, "{}", ids.join(" "))?;
    } else {
        for id in ids {
            writeln!(out, "{id:>7}  {:?}", token(id))?;
        }
    }
    Ok(())
}
