//! Environment variables of other programs. A command line wins over them.

use std::{
    ffi::{OsStr, OsString},
    mem,
};

use super::{
    convert::truth,
    programs::rows,
    table::{Row, Takes},
    walk::{Walk, gives},
};
use crate::names;

/// The commands that read variables.
const COMMANDS: [&str; 3] = ["serve", "run", "chat"];

/// Adds the options that variables set, and returns the names of those.
pub(super) fn read(
    walk: &mut Walk,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Vec<&'static str> {
    let mut read = Vec::new();
    if !COMMANDS.contains(&walk.command.as_str()) {
        return read;
    }
    let command = walk.command.clone();
    let has_model = has_model(walk);
    let typed = mem::take(&mut walk.options);
    for row in rows(&command).filter(|row| !row.variable.is_empty()) {
        let Some(value) = variable(row.variable).filter(|value| !value.is_empty()) else {
            continue;
        };
        if read.contains(&row.variable) || has_model && row.names_model() {
            continue;
        }
        let before = (walk.options.len(), walk.models.len());
        match row.takes {
            Takes::Nothing => match value.to_str().and_then(truth) {
                Some(true) => walk.apply(row.variable, row, OsStr::new("")),
                Some(false) => {}
                None => walk.apply(row.variable, &WRONG, &value),
            },
            _ => walk.apply(row.variable, row, &value),
        }
        // the command line wins
        let is_typed = |word: &OsString| {
            let word = word.to_string_lossy();
            let own = word.split('=').next().unwrap_or_default();
            gives(&typed, own) || letter(own).is_some_and(|letter| gives(&typed, letter))
        };
        let added = walk.options.split_off(before.0.min(walk.options.len()));
        walk.options.extend(added.into_iter().filter(|word| !is_typed(word)));
        if (walk.options.len(), walk.models.len()) != before {
            read.push(row.variable);
        }
    }
    walk.options.extend(typed);
    read
}

/// The row of a variable whose value is no truth value.
const WRONG: Row = super::table::by("", |_, _| super::convert::expected("1 or 0"), "");

/// The letter of an option of Pelton that a command line may have in place of its name.
fn letter(own: &str) -> Option<&'static str> {
    let letters = [("--context", "-c"), ("--threads", "-t"), ("--tokens", "-n")];
    letters.into_iter().find(|(name, _)| *name == own).map(|(_, letter)| letter)
}

/// Whether the command line names a model, or a file of options that may.
fn has_model(walk: &Walk) -> bool {
    let is_model = |word: &OsString| word.to_str().is_some_and(names::is_model);
    !walk.models.is_empty()
        || walk.gives("--config")
        || walk.gives("--model")
        || walk.gives("-m")
        || match walk.command.as_str() {
            "run" => walk.positionals.len() > 1 || walk.positionals.iter().any(is_model),
            _ => !walk.positionals.is_empty(),
        }
}
