//! `pelton template`: the prompt that a model is given for a chat.

use std::fs;
use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use pelton::Tokenizer;
use pelton::chat::{Chat, ChatTemplate, Message};
use serde_json::{Map, Value};

use super::text_or_stdin;
use crate::{
    model,
    output::{self, WithHint},
    templates,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A model: a file, a directory, a name such as qwen3:0.6b, or built-in
    model: String,
    /// A message of the user. Without messages, the template itself is shown
    #[arg(conflicts_with = "messages")]
    message: Option<String>,
    /// Read the list of messages, or an object with messages and tools, from a JSON
    /// file; - for standard input
    #[arg(long, value_name = "FILE")]
    messages: Option<String>,
    /// Read the list of tools from a JSON file
    #[arg(long, value_name = "FILE")]
    tools: Option<String>,
    /// Chat template: chatml, llama3, gemma, mistral, phi or a Jinja file
    #[arg(long = "chat-template", value_name = "NAME")]
    template: Option<String>,
    /// A JSON object of variables, which override bos_token, add_generation_prompt and all others
    #[arg(long, value_name = "JSON")]
    kwargs: Option<String>,
    /// Write the token ids, on one line
    #[arg(long)]
    ids: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let checkpoint = model::open(&args.model)?;
    let tokenizer = Tokenizer::from_metadata(checkpoint.metadata())
        .hint(format!("`pelton inspect {}` shows the vocabulary's metadata", args.model))?;
    let source = match (&args.template, tokenizer.chat_template()) {
        (Some(name), _) => templates::source(name)?,
        (None, Some(template)) => template.to_owned(),
        (None, None) => {
            bail!("{} has no chat template; --chat-template NAME gives one", args.model)
        }
    };
    let template = ChatTemplate::new(Arc::new(tokenizer), &source)?.explaining_tools();
    let mut out = output::stdout();
    let Some(chat) = chat(&args)? else {
        writeln!(out, "{source}")?;
        return Ok(());
    };
    let prompt = template.prompt(&chat)?;
    match args.ids {
        true => {
            let ids = template.encode(prompt.segments())?;
            let ids: Vec<_> = ids.iter().map(u32::to_string).collect();
            writeln!(out, "{}", ids.join(" "))?;
        }
        false => writeln!(out, "{}", prompt.text())?,
    }
    Ok(())
}

/// The chat of the arguments, if they have messages.
fn chat(args: &Args) -> Result<Option<Chat>> {
    let (messages, mut tools) = match (&args.message, &args.messages) {
        (Some(text), _) => (vec![Message::new("user", text)], Value::Null),
        (None, Some(file)) => messages(file)?,
        (None, None) if args.tools.is_some() || args.kwargs.is_some() || args.ids => {
            bail!(
                "found no message for the template, expected one after the model, or --messages FILE"
            )
        }
        (None, None) => return Ok(None),
    };
    if let Some(file) = &args.tools {
        tools =
            serde_json::from_str(&read(file)?).with_context(|| format!("the tools in {file}"))?;
    }
    let mut chat = Chat::new(messages);
    chat.tools = match tools {
        Value::Null => Vec::new(),
        Value::Array(tools) => tools,
        _ => bail!("the tools are not a list"),
    };
    if let Some(kwargs) = &args.kwargs {
        let kwargs: Map<String, Value> =
            serde_json::from_str(kwargs).context("--kwargs is not a JSON object")?;
        chat.kwargs = kwargs;
    }
    Ok(Some(chat))
}

/// The messages of a file, and its tools.
fn messages(file: &str) -> Result<(Vec<Message>, Value)> {
    let text = match file {
        "-" => text_or_stdin("-")?,
        file => read(file)?,
    };
    let named = || format!("the messages in {file}");
    let (messages, tools) = match serde_json::from_str(&text).with_context(named)? {
        Value::Object(mut all) => (
            all.remove("messages").with_context(|| format!("{file} has no messages"))?,
            all.remove("tools").unwrap_or_default(),
        ),
        messages => (messages, Value::Null),
    };
    Ok((serde_json::from_value(messages).with_context(named)?, tools))
}

fn read(file: &str) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("{file} could not be read"))
}
