//! Flags of load options, from the table of [`LoadOptions::OPTIONS`].

use anyhow::{Result, anyhow};
use clap::{Arg, ArgAction, ArgMatches, Command, builder::PossibleValuesParser};
use pelton::{LoadGroup, LoadKind, LoadOption, LoadOptions};

/// Flags of all commands that load a model.
pub(crate) type ModelFlags = LoadFlags<{ LoadGroup::Model as u8 }>;
/// Flags of commands that place a model.
pub(crate) type PlacementFlags = LoadFlags<{ LoadGroup::Placement as u8 }>;
/// Flags of commands that generate text.
pub(crate) type DraftFlags = LoadFlags<{ LoadGroup::Drafts as u8 }>;
/// Flags of commands that compute embeddings.
pub(crate) type EmbeddingFlags = LoadFlags<{ LoadGroup::Embeddings as u8 }>;
/// Flags of the server.
pub(crate) type RequestFlags = LoadFlags<{ LoadGroup::Requests as u8 }>;

/// The values of flags that are on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

/// The texts that flags add to the help of the table: names of models, and defaults of commands.
const NOTES: &[(&str, &str)] = &[
    (
        "context",
        ". By default serve and chat do the same, and run takes at most 4096 tokens. Other commands take what \
         the given lengths need",
    ),
    ("max_concurrent", " [default: 4]"),
    ("lora", ", or the name of either"),
    ("gpu_memory", ", such as gpu:0=8G"),
    ("queue_requests", "; answer further ones 429 [default: 256]"),
    ("speculation", " [default: auto; of `bench --streams` off]"),
    ("draft", ". The name of a model stands for its file"),
];

/// Options whose flags have a syntax of their own, and fields of their own in the
/// commands' arguments.
const OWN: [&str; 2] = ["gpu_memory", "effort"];

/// The flags of the options of one group, [`LoadGroup`] as a number.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadFlags<const GROUP: u8> {
    /// The options that are given, and their values, which have been read once.
    given: Vec<(&'static LoadOption, String)>,
}

impl<const GROUP: u8> LoadFlags<GROUP> {
    fn options() -> impl Iterator<Item = &'static LoadOption> {
        let is_own = |option: &&LoadOption| OWN.contains(&option.name);
        let has_flag = |option: &&LoadOption| option.group as u8 == GROUP && option.flag.is_some();
        LoadOptions::OPTIONS.iter().filter(has_flag).filter(move |option| !is_own(option))
    }

    /// The value of an option, if it is given.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let given = self.given.iter().rev().find(|(option, _)| option.name == name);
        given.map(|(_, text)| text.as_str())
    }

    /// Gives a value to an option that has one.
    pub(crate) fn set(&mut self, name: &str, value: String) {
        self.given.retain(|(option, _)| option.name != name);
        self.given.extend(LoadOption::find(name).map(|option| (option, value)));
    }

    /// The options of a load with these flags, which go before those of the command.
    pub(crate) fn apply(&self, mut options: LoadOptions) -> Result<LoadOptions> {
        for (option, text) in &self.given {
            let set = option.set(&mut options, text);
            set.map_err(|expected| anyhow!("{} is {text}, {expected}", option.name))?;
        }
        Ok(options)
    }
}

/// The help of the flag of an option.
pub(crate) fn help(name: &str) -> String {
    let Some(option) = LoadOption::find(name) else { return String::new() };
    match (NOTES.iter().find(|(of, _)| *of == name), option.default) {
        (Some((_, note)), _) => format!("{}{note}", option.help),
        (None, Some(default)) => format!("{} [default: {default}]", option.help),
        (None, None) => option.help.to_owned(),
    }
}

/// Reads a value. Times of flags are in milliseconds.
fn read(option: &LoadOption, text: &str) -> Result<String, String> {
    let is_number = matches!(option.kind, LoadKind::Time(_)) && text.parse::<f64>().is_ok();
    let text = if is_number { format!("{text}ms") } else { text.to_owned() };
    option.set(&mut LoadOptions::default(), &text).map(|()| text)
}

/// The flag's name, which is its id too: commands have arguments that are named as other options.
fn id(option: &LoadOption) -> &'static str {
    option.flag.unwrap_or(option.name)
}

/// The flag of an option.
fn flag(option: &'static LoadOption) -> Arg {
    let argument = Arg::new(id(option)).long(id(option)).value_name(option.value_name);
    let argument = argument.help(help(option.name));
    let argument = if option.name == "context" { argument.short('c') } else { argument };
    match option.kind {
        LoadKind::Words(words, _) => argument.value_parser(PossibleValuesParser::new(words)),
        LoadKind::Switch(_) => argument.num_args(0).default_missing_value("true"),
        LoadKind::List(..) => {
            let parser = move |text: &str| read(option, text);
            argument.action(ArgAction::Append).value_parser(parser)
        }
        _ => argument.value_parser(move |text: &str| read(option, text)),
    }
}

impl<const GROUP: u8> clap::Args for LoadFlags<GROUP> {
    fn augment_args(command: Command) -> Command {
        command.args(Self::options().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const GROUP: u8> clap::FromArgMatches for LoadFlags<GROUP> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for option in Self::options() {
            let values = matches.get_many::<String>(id(option)).into_iter().flatten();
            self.given.extend(values.map(|value| (option, value.clone())));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    /// Options whose values the commands choose, or that other flags set.
    const WITHOUT: [&str; 6] =
        ["fit_context", "rows", "kv_bytes", "kv_share", "prefill_budget", "draft_head"];

    /// The server has a flag for each option of the table, with the table's help. Notes are of
    /// flags.
    #[test]
    fn a_flag_for_each_option_of_the_table() {
        let command = Cli::command();
        let serve = command.find_subcommand("serve").unwrap();
        for option in LoadOptions::OPTIONS {
            let Some(flag) = option.flag else {
                assert!(WITHOUT.contains(&option.name), "{} has no flag", option.name);
                continue;
            };
            let mut arguments = serve.get_arguments();
            let argument = arguments.find(|argument| argument.get_long() == Some(flag));
            let argument = argument.unwrap_or_else(|| panic!("serve has no --{flag}"));
            let said = argument.get_help().unwrap().to_string();
            // keys of effort have a help of their own
            assert!(option.name == "effort" || said.starts_with(option.help), "--{flag}: {said}");
            let value = argument.get_value_names().unwrap()[0].as_str();
            assert!(value.starts_with(option.value_name), "--{flag} {value}");
        }
        for (name, _) in NOTES {
            assert!(LoadOption::find(name).unwrap().flag.is_some(), "{name}");
        }
    }

    #[test]
    fn times_are_in_milliseconds() {
        let option = LoadOption::find("target_tbt").unwrap();
        for (text, expected) in [("25", "25ms"), ("0.5", "0.5ms"), ("25ms", "25ms"), ("2s", "2s")] {
            assert_eq!(read(option, text).as_deref(), Ok(expected));
        }
        assert!(read(option, "-3").unwrap_err().starts_with("expected "));
    }
}
