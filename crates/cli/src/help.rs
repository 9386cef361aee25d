//! Help in two levels: `--help` shows the options of every day under their headings,
//! `--help-all` all of them.

use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, Command};

/// The flag of the second level.
const ALL: &str = "--help-all";

/// The options that `--help` shows, by their ids, under each heading. A command
/// shows those that it has.
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

/// Options that are everyday ones of other commands alone: a server has them as
/// defaults of requests.
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

/// A command line in which `--help` stands for `--help-all`, and the level of help that
/// it wants, if it does.
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

    /// The options of a help, each with the lines that describe it, and the rest with
    /// gaps in their places.
    #[cfg(feature = "gpu")]
    fn options(help: &str) -> (Vec<String>, String) {
        let is_head = |line: &str| line.starts_with("  -") || line.starts_with("      --");
        let (mut options, mut rest) = (Vec::<String>::new(), String::new());
        let mut within = false;
        for line in help.lines().map(str::trim_end) {
            within = is_head(line) || within && (line.is_empty() || line.starts_with("      "));
            let to = match within {
                true if is_head(line) => {
                    rest.push_str(&format!("{GAP}{}\n", options.len()));
                    options.push(String::new());
                    options.last_mut().unwrap()
                }
                true => options.last_mut().unwrap(),
                false => &mut rest,
            };
            to.push_str(line);
            to.push('\n');
        }
        for option in &mut options {
            option.truncate(option.trim_end().len());
        }
        (options, rest)
    }

    /// A line in the place of an option, before its number.
    #[cfg(feature = "gpu")]
    const GAP: &str = "\u{0}";
    /// Columns of a line of options.
    #[cfg(feature = "gpu")]
    const WIDTH: usize = 99;
    /// Commands from which on an option is described once, for all.
    #[cfg(feature = "gpu")]
    const SEVERAL: usize = 3;

    /// The names of an option, which is the first word that begins with two hyphens.
    #[cfg(feature = "gpu")]
    fn long(option: &str) -> &str {
        let mut words = option.split([' ', ',', '[', '=', '\n']);
        words.find(|word| word.starts_with("--")).unwrap_or(option)
    }

    /// The second level of all commands, with options of several commands once.
    #[cfg(feature = "gpu")]
    fn document() -> String {
        let helps: Vec<_> =
            commands().into_iter().map(|name| (options(&help(&name, Level::All)), name)).collect();
        let mut counts = std::collections::BTreeMap::<_, usize>::new();
        for option in helps.iter().flat_map(|((options, _), _)| options) {
            *counts.entry((long(option).to_owned(), option.clone())).or_default() += 1;
        }
        counts.retain(|_, count| *count >= SEVERAL);
        let is_shared =
            |option: &String| counts.contains_key(&(long(option).to_owned(), option.clone()));
        let mut text = "# The command line\n\nThe help of each command, as `--help-all` shows it. Options that \
                        three or more commands share are described [at the end](#options-of-several-commands).\n"
            .to_owned();
        for ((options, rest), name) in &helps {
            text.push_str(&format!("\n## pelton {name}\n\n```text\n"));
            let mut shared = Vec::new();
            // a heading whose options are all shared is left out
            let mut heading = None;
            let mut is_after_options = false;
            for line in rest.lines() {
                if let Some(number) = line.strip_prefix(GAP) {
                    let option = &options[number.parse::<usize>().unwrap()];
                    is_after_options = true;
                    match is_shared(option) {
                        true => shared.push(long(option)),
                        false => {
                            let heading = heading.take().map(|line| format!("{line}\n"));
                            text.push_str(&format!("{}{option}\n\n", heading.unwrap_or_default()));
                        }
                    }
                } else if line.ends_with(':') && !line.starts_with(' ') {
                    heading = Some(line);
                } else {
                    match heading.take() {
                        Some(line) if !is_after_options => text.push_str(&format!("{line}\n")),
                        _ => {}
                    }
                    text.push_str(line);
                    text.push('\n');
                }
            }
            text.truncate(text.trim_end().len());
            if !shared.is_empty() {
                text.push_str("\n\nOptions of several commands:");
                let mut width = WIDTH;
                for name in shared {
                    if width + name.len() > WIDTH {
                        text.push_str("\n     ");
                        width = 5;
                    }
                    text.push_str(&format!(" {name}"));
                    width += name.len() + 1;
                }
            }
            text.push_str("\n```\n");
        }
        text.push_str("\n## Options of several commands\n\n```text\n");
        let shared: Vec<_> = counts.keys().map(|(_, option)| option.as_str()).collect();
        text.push_str(&shared.join("\n\n"));
        text.push_str("\n```\n");
        text
    }

    /// docs/cli.md has the second level of all commands; PELTON_WRITE=1 writes it.
    #[cfg(feature = "gpu")]
    #[test]
    fn the_document_is_the_help() {
        let text = document();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
        if std::env::var_os("PELTON_WRITE").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == text, "docs/cli.md is not the help: PELTON_WRITE=1 writes it");
        // every option of every command is there
        for name in commands() {
            let section = text.split(&format!("\n## pelton {name}\n")).nth(1).unwrap();
            let section = section.split("\n## ").next().unwrap();
            for option in options(&help(&name, Level::All)).0 {
                assert!(section.contains(long(&option)), "{name}: {option}");
            }
        }
    }
}
