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
    /// Read the list of messages, or an object with messages and tools, from a JSON
    /// file; - for standard input
    #[arg(long, value_name = "FILE")]
    messages: String,
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
    let prompt = template.prompt(&chat(&args)?)?;
    let mut out = output::stdout();
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

fn chat(args: &Args) -> Result<Chat> {
    let text = match args.messages.as_str() {
        "-" => text_or_stdin("-")?,
        file => read(file)?,
    };
    let named = || format!("the messages in {}", args.messages);
    let (messages, mut tools) = match serde_json::from_str(&text).with_context(named)? {
        Value::Object(mut all) => (
            all.remove("messages").with_context(|| format!("{} has no messages", args.messages))?,
            all.remove("tools").unwrap_or_default(),
        ),
        messages => (messages, Value::Null),
    };
    let messages: Vec<Message> = serde_json::from_value(messages).with_context(named)?;
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
    Ok(chat)
}

fn read(file: &str) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("{file} could not be read"))
}
