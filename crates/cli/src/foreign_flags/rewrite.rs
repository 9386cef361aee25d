//! A command line of another program, as one of Pelton's.

use std::ffi::OsString;

use clap::Command;

use super::{
    environment,
    own::{Own, Value},
    problem::{Problem, takes_prompt},
    together,
    walk::{Noted, Walk},
};
use crate::output::note;

/// A rewritten command line.
pub(crate) struct Line {
    /// The words, for the parser.
    pub(crate) words: Vec<OsString>,
    pub(super) problems: Vec<Problem>,
    /// Options and variables without effect, as they were typed.
    noted: Vec<Noted>,
    /// Variables with an effect.
    variables: Vec<&'static str>,
    /// Options of Pelton that stand for others, with the names of those.
    pub(super) origins: Vec<(String, String)>,
    /// Whether the command has an argument or option for a prompt that begins with `-`.
    pub(super) takes_prompt: bool,
}

impl Line {
    /// Says on standard error which words have no effect, and which variables have one.
    pub(crate) fn say(&self) {
        if let Some(first) = self.noted.first() {
            let names: Vec<&str> = self.noted.iter().map(|noted| noted.typed.as_str()).collect();
            let is_one = self.noted.iter().all(|noted| noted.why == first.why);
            match is_one {
                true => note!("{}: no effect, {}", names.join(", "), first.why),
                false => note!("{}: no effect here", names.join(", ")),
            }
        }
        if !self.variables.is_empty() {
            note!("the environment sets options: {}", self.variables.join(", "));
        }
    }

    #[cfg(test)]
    pub(super) fn is_noted(&self) -> bool {
        !self.noted.is_empty()
    }
}

/// Rewrites a command line, whose first word is the program. `variable` reads the environment.
pub(crate) fn rewritten(
    words: Vec<OsString>,
    root: &Command,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Line {
    let mut chain = vec![root];
    let mut begin = command_at(&words, &Own::of(&chain));
    while let Some(next) = words.get(begin).and_then(|word| {
        let command = chain.last()?;
        command.find_subcommand(word)
    }) {
        chain.push(next);
        begin += 1;
    }
    let mut line = Line {
        words,
        problems: Vec::new(),
        noted: Vec::new(),
        variables: Vec::new(),
        origins: Vec::new(),
        takes_prompt: chain.get(1).is_some_and(|command| takes_prompt(command.get_name())),
    };
    // the parser knows what to say without a command, or with one that does not exist
    if chain.len() < 2 {
        return line;
    }
    let own = Own::of(&chain);
    let mut walk = Walk {
        command: chain.get(1).map(|command| command.get_name().to_owned()).unwrap_or_default(),
        own,
        models: Vec::new(),
        file: None,
        arguments: Vec::new(),
        positionals: Vec::new(),
        options: Vec::new(),
        rest: Vec::new(),
        problems: Vec::new(),
        noted: Vec::new(),
        origins: Vec::new(),
    };
    let rest = line.words.split_off(begin);
    walk.run(rest);
    line.variables = environment::read(&mut walk, variable);
    together::finish(&mut walk);
    line.words.append(&mut walk.options);
    line.words.append(&mut walk.models);
    line.words.append(&mut walk.arguments);
    line.words.append(&mut walk.positionals);
    line.words.append(&mut walk.rest);
    line.problems = walk.problems;
    line.noted = walk.noted;
    line.origins = walk.origins;
    line
}

/// Where the command stands, after the options of all commands.
fn command_at(words: &[OsString], own: &Own) -> usize {
    let mut at = 1;
    while let Some(name) = words.get(at).and_then(|word| word.to_str())
        && name.starts_with('-')
    {
        let takes = !name.contains('=') && own.value(name) == Some(Value::One);
        at += 1 + usize::from(takes);
    }
    at.min(words.len())
}
