//! Pelton's own options, as its parser has them.

use clap::{ArgAction, Command};

/// The options of a command.
pub(super) struct Own {
    /// Long names with `--`, letters with `-`, and whether each takes a value.
    options: Vec<(String, Value)>,
    /// Those that gather values in a list.
    lists: Vec<String>,
}

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    None,
    Optional,
    One,
}

/// Options of every command.
const EVERYWHERE: [&str; 5] = ["--help", "--help-all", "--version", "-h", "-V"];

impl Own {
    /// The options of a chain: a command and those below it.
    pub(super) fn of(chain: &[&Command]) -> Self {
        let mut options: Vec<(String, Value)> =
            EVERYWHERE.iter().map(|name| ((*name).to_owned(), Value::None)).collect();
        let mut lists = Vec::new();
        for argument in chain.iter().flat_map(|command| command.get_arguments()) {
            if matches!(argument.get_action(), ArgAction::Append) {
                lists.extend(argument.get_long().map(|long| format!("--{long}")));
            }
            let takes = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
            let optional = argument.get_num_args().is_some_and(|range| range.min_values() == 0);
            let value = match (takes, optional) {
                (false, _) => Value::None,
                (true, true) => Value::Optional,
                (true, false) => Value::One,
            };
            let longs = argument
                .get_long()
                .into_iter()
                .chain(argument.get_all_aliases().unwrap_or_default());
            options.extend(longs.map(|long| (format!("--{long}"), value)));
            let letters = argument.get_short_and_visible_aliases().unwrap_or_default();
            options.extend(letters.into_iter().map(|letter| (format!("-{letter}"), value)));
        }
        Self { options, lists }
    }

    /// The value of an option, if there is one of this name.
    pub(super) fn value(&self, name: &str) -> Option<Value> {
        self.options.iter().find(|(own, _)| own == name).map(|(_, value)| *value)
    }

    /// Whether an option gathers values in a list.
    pub(super) fn appends(&self, name: &str) -> bool {
        self.lists.iter().any(|list| list == name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// The names of all options.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.options.iter().map(|(name, _)| name.as_str())
    }
}
