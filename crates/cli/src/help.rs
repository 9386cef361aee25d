//! Help in two levels: `--help` shows the options of every day under their headings, `--help-all` all of them.

use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, Command};

/// The flag of the second level.
const ALL: &str = "--help-all";

/// The options that `--help` shows, by their ids, under each heading. A command shows those that it has.
const EVERYDAY: &[(&str, &[&str])] = &[
    (
        FIRST,
        &[
            "model",
            "models",
            "question",
            "prompt",
            "file",
            "words",
            "system",
            "raw",
            "tokens",
            "template",
            "chat_template",
            "messages",
            "text",
            "texts",
            "query",
            "documents",
            "pooling",
            "json",
            "json_schema",
            "ids",
            "output",
        ],
    ),
    ("Speech", &["inputs", "language", "task", "format", "vad", "beam", "batch", "stream"]),
    ("Sampling", &["temperature", "top_p", "seed"]),
    (
        "Server",
        &["host", "port", "api_key_file", "allow_public", "alias", "cors", "config", "lazy"],
    ),
    ("Model, memory and speed", &["device", "threads", "context", "quantize", "effort"]),
];

/// The heading of the prompt's and the answer's options, and of the help itself.
const FIRST: &str = "Prompt and answer";

/// The option that the commands of [`EFFORT_COMMANDS`] alone show.
const EFFORT: &str = "effort";

const EFFORT_COMMANDS: &[&str] = &["run", "chat", "serve", "bench", "perplexity"];

/// Commands of which all options are everyday ones, as they have few.
const WHOLE: &[&str] = &[
    "pull",
    "list",
    "show",
    "rm",
    "devices",
    "inspect",
    "tokenize",
    "template",
    "convert",
    "quantize",
    "effort",
    "pack",
    "doctor",
    "completions",
    "man",
];

/// Options that are everyday ones of other commands alone: a server has them as defaults of requests.
const ELSEWHERE: &[(&str, &[&str])] =
    &[("serve", &["tokens", "json_schema", "temperature", "top_p", "seed"])];

/// A level of help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The options of every day, in few words.
    Everyday,
    /// All options.
    All,
}

/// A command line in which `--help` stands for `--help-all`, and the level of help that it wants, if it does.
pub(crate) fn level(words: Vec<OsString>) -> (Vec<OsString>, Option<Level>) {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let has = |flag: &str| words[..end].iter().any(|word| word == OsStr::new(flag));
    if has(ALL) {
        let help = |word: OsString| if word == OsStr::new(ALL) { "--help".into() } else { word };
        return (words.into_iter().map(help).collect(), Some(Level::All));
    }
    let everyday = has("--help") || has("-h");
    (words, everyday.then_some(Level::Everyday))
}

/// The commands with the options that a level of help shows.
pub(crate) fn with_level(command: Command, level: Level) -> Command {
    // flags of all commands would lengthen the help of each one
    let everywhere = command.get_arguments().filter(|argument| argument.is_global_set());
    let everywhere: Vec<String> =
        everywhere.map(|argument| argument.get_id().to_string()).collect();
    let command = everywhere.into_iter().fold(command, |command, id| {
        command.mut_arg(id, |argument| argument.hide(level == Level::Everyday))
    });
    let names: Vec<String> =
        command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(&name, |command| one(with_level(command, level), &name, level))
    })
}

/// All commands with all options, as manual pages and the completions of shells have them.
pub(crate) fn complete(command: Command) -> Command {
    let mut command = with_level(command, Level::All).disable_help_subcommand(true);
    command.build();
    command
}

fn one(mut command: Command, name: &str, level: Level) -> Command {
    let ids: Vec<String> =
        command.get_arguments().map(|argument| argument.get_id().to_string()).collect();
    let has_effort = EFFORT_COMMANDS.contains(&name);
    let mut hidden = false;
    for id in &ids {
        let heading = EVERYDAY.iter().find(|(_, ids)| ids.contains(&id.as_str()));
        let is_elsewhere =
            ELSEWHERE.iter().any(|(of, ids)| *of == name && ids.contains(&id.as_str()));
        let heading = heading.map(|(heading, _)| *heading).filter(|_| !is_elsewhere);
        let foreign = id == EFFORT && !has_effort;
        let show = !foreign && (level == Level::All || heading.is_some() || WHOLE.contains(&name));
        hidden |= !show && !foreign;
        command = command.mut_arg(id, |argument| {
            let argument = argument.hide(!show);
            match heading {
                Some(heading) if !argument.is_positional() => argument.help_heading(heading),
                _ => argument,
            }
        });
    }
    let action = match level {
        Level::Everyday => ArgAction::HelpShort,
        Level::All => ArgAction::HelpLong,
    };
    let help = Arg::new("help").short('h').long("help").action(action).help("Print this help");
    let help = help.help_heading(FIRST);
    command = command.disable_help_flag(true).arg(help);
    match hidden {
        true => command.after_help(format!("`pelton {name} {ALL}` lists all options.")),
        false => command,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    /// The help of a command as it is without a terminal.
    fn help(name: &str, level: Level) -> String {
        let mut command = with_level(Cli::command(), level);
        command.build();
        let found = command.find_subcommand_mut(name).unwrap();
        match level {
            Level::Everyday => found.render_help().to_string(),
            Level::All => found.render_long_help().to_string(),
        }
    }

    fn commands() -> Vec<String> {
        let command = Cli::command();
        command.get_subcommands().map(|command| command.get_name().to_owned()).collect()
    }

    #[test]
    fn the_first_level_fits_a_screen() {
        let mut long = Vec::new();
        for name in commands() {
            let text = help(&name, Level::Everyday);
            assert!(text.contains("--help-all") || WHOLE.contains(&&*name), "{name}\n{text}");
            if text.lines().count() >= 45 {
                long.push(format!("{} lines\n{text}", text.lines().count()));
            }
        }
        assert!(long.is_empty(), "{}", long.join("\n"));
    }

    /// The second level has every option; those of effort stand where they are of use.
    #[test]
    fn the_second_level_is_complete() {
        for name in commands() {
            let text = help(&name, Level::All);
            let command = Cli::command();
            for argument in command.find_subcommand(&name).unwrap().get_arguments() {
                let Some(long) = argument.get_long() else { continue };
                let foreign = argument.get_id() == EFFORT && !EFFORT_COMMANDS.contains(&&*name);
                let shown = text.contains(&format!("--{long}"));
                assert!(shown != foreign, "{name}: --{long}\n{text}");
            }
        }
    }

    /// docs/cli.md is the second level of all commands; PELTON_WRITE=1 writes it.
    #[cfg(feature = "gpu")]
    #[test]
    fn the_document_is_the_help() {
        let mut text =
            "# The command line\n\nThe help of each command, as `--help-all` shows it.\n"
                .to_owned();
        for name in commands() {
            text.push_str(&format!("\n## pelton {name}\n\n```text\n"));
            for line in help(&name, Level::All).lines() {
                text.push_str(line.trim_end());
                text.push('\n');
            }
            text.push_str("```\n");
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
        if std::env::var_os("PELTON_WRITE").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == text, "docs/cli.md is not the help: PELTON_WRITE=1 writes it");
    }
}
