//! Lines that begin with a slash.

use anyhow::{Result, bail};

/// A command of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Reset,
    Undo,
    Retry,
    Continue,
    Edit,
    Image,
    System,
    Save,
    Load,
    Params,
    Think,
    Effort,
    Stats,
    Tools,
    Quit,
}

/// The commands: name, argument, description.
pub(crate) const COMMANDS: &[(Command, &str, &str, &str)] = &[
    (Command::Help, "/help", "", "show this list"),
    (Command::Reset, "/reset", "", "forget all messages but the system message"),
    (Command::Undo, "/undo", "", "forget your last message and its answer"),
    (Command::Retry, "/retry", "", "answer your last message again"),
    (Command::Continue, "/continue", "", "go on with the last answer, where it was cut"),
    (Command::Edit, "/edit", "[TEXT]", "change your last message and answer it again"),
    (Command::Image, "/image", "FILE", "show the model a picture with your next message"),
    (Command::System, "/system", "[TEXT]", "show or set the system message; - for none"),
    (Command::Save, "/save", "FILE", "write the messages to a JSON file"),
    (Command::Load, "/load", "FILE", "read messages from a JSON file"),
    (Command::Params, "/params", "[NAME VALUE]...", "show or set the options of sampling"),
    (Command::Think, "/think", "[on|off]", "show or set whether the model reasons first"),
    (Command::Effort, "/effort", "[E]", "show or set the effort of answers (--effort)"),
    (Command::Stats, "/stats", "", "show tokens and times"),
    (Command::Tools, "/tools", "", "list the tools that the model can call"),
    (Command::Quit, "/quit", "", "end"),
];

/// Names of commands in other programs.
const ALIASES: &[(&str, Command)] = &[
    ("/bye", Command::Quit),
    ("/exit", Command::Quit),
    ("/clear", Command::Reset),
    ("/?", Command::Help),
];

/// The keys of the editor, for the help.
const KEYS: &str = "\
Several lines: end a line with \\, press Alt-Enter, or write them between \"\"\" and \"\"\".
Ctrl-C stops an answer or clears the line; Ctrl-D ends; Tab completes; the arrow keys recall.
A message that begins with a slash is written with two.";

/// The list of commands.
pub(crate) fn help() -> String {
    let line = |(_, name, argument, what): &(Command, &str, &str, &str)| {
        format!("  {:<24}{what}\n", format!("{name} {argument}"))
    };
    let lines: String = COMMANDS.iter().map(line).collect();
    format!("{lines}{KEYS}")
}

/// The user's line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A message.
    Message(String),
    /// A command with the rest of its line.
    Command(Command, String),
}

/// A command if the text begins with one slash, or else a message.
///
/// # Errors
/// If there is no command of that name; a unique beginning of one is enough.
pub(crate) fn parse(text: &str) -> Result<Entry> {
    let Some(rest) = text.strip_prefix('/') else {
        return Ok(Entry::Message(text.to_owned()));
    };
    if rest.starts_with('/') {
        return Ok(Entry::Message(rest.to_owned()));
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (name, argument) = text.split_at(end);
    if let Some((_, command)) = ALIASES.iter().find(|(alias, _)| *alias == name) {
        return Ok(Entry::Command(*command, argument.trim().to_owned()));
    }
    if name == "/model" {
        bail!("a chat has one model; /save FILE, then `pelton chat OTHER --load FILE` goes on");
    }
    // Ollama's
    if matches!(name, "/set" | "/show") {
        bail!("there is no command {name}; /params sets sampling, and /help lists all");
    }
    let mut found = COMMANDS.iter().filter(|(_, full, ..)| full.starts_with(name));
    match (found.next(), found.next()) {
        (Some((command, ..)), None) => Ok(Entry::Command(*command, argument.trim().to_owned())),
        (Some((_, first, ..)), Some((_, second, ..))) => {
            bail!("{name} is {first} or {second}, expected a whole name")
        }
        (None, _) => bail!("there is no command {name}; /help lists them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_messages() {
        let command = |command, rest: &str| Entry::Command(command, rest.to_owned());
        let message = |text: &str| Entry::Message(text.to_owned());
        for (line, expected) in [
            ("hello /help", message("hello /help")),
            ("//help", message("/help")),
            ("/help", command(Command::Help, "")),
            ("/h", command(Command::Help, "")),
            ("/system  You are\nbrief ", command(Command::System, "You are\nbrief")),
            ("/sy", command(Command::System, "")),
            ("/image a b.png", command(Command::Image, "a b.png")),
            ("/bye", command(Command::Quit, "")),
            ("/clear", command(Command::Reset, "")),
            ("/think off", command(Command::Think, "off")),
            ("/save /tmp/a b.json", command(Command::Save, "/tmp/a b.json")),
        ] {
            assert_eq!(parse(line).unwrap(), expected);
        }
        for (line, words) in [
            ("/model x", "--load"),
            ("/s", "/system or /save"),
            ("/x", "/x"),
            ("/", "/help or /reset"),
        ] {
            let said = parse(line).unwrap_err().to_string();
            assert!(said.contains(words), "{said}");
        }
        assert!(COMMANDS.iter().all(|(_, name, ..)| help().contains(name)));
    }
}
