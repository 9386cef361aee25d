//! A command line on its way into Pelton's words.

use std::ffi::{OsStr, OsString};

use super::{
    convert::Became,
    own::{Own, Value},
    problem::{Problem, unknown},
    programs::{peer_of, row},
    table::{DURATION, Fate, KV_KEYS, KV_VALUES, OFFSET, Row, Takes},
};

/// Words that a switch takes as its value.
const SWITCHES: [&str; 9] = ["on", "off", "auto", "true", "false", "1", "0", "enabled", "disabled"];

/// The reason for which most options have no effect.
pub(super) const ITSELF: &str = "Pelton does this by itself";

/// An option without effect, and why it has none.
pub(super) struct Noted {
    pub(super) typed: String,
    pub(super) why: &'static str,
}

/// A command line being rewritten.
pub(super) struct Walk {
    pub(super) command: String,
    pub(super) own: Own,
    /// Models that options name.
    pub(super) models: Vec<OsString>,
    /// A file of the repository that is the model.
    pub(super) file: Option<OsString>,
    /// Arguments after the model that options name.
    pub(super) arguments: Vec<OsString>,
    /// Arguments as they are.
    pub(super) positionals: Vec<OsString>,
    /// Options in Pelton's words.
    pub(super) options: Vec<OsString>,
    /// The words from `--` on.
    pub(super) rest: Vec<OsString>,
    pub(super) problems: Vec<Problem>,
    pub(super) noted: Vec<Noted>,
    pub(super) origins: Vec<(String, String)>,
}

impl Walk {
    pub(super) fn run(&mut self, words: Vec<OsString>) {
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next() {
            let Some(text) = word.to_str() else {
                self.positionals.push(word);
                continue;
            };
            if text == "--" {
                self.rest.push(word);
                self.rest.extend(words.by_ref());
                continue;
            }
            if !text.starts_with('-') || text == "-" || text.parse::<f64>().is_ok() {
                self.positionals.push(word);
                continue;
            }
            let (typed, given) = match text.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => (text, None),
            };
            let given = given.map(OsString::from);
            if let Some(row) = self.find(typed) {
                let typed = typed.to_owned();
                let values = values(row.takes, given, &mut words);
                self.option(&typed, row, values);
            } else if let Some((name, value)) = self.own_name(typed) {
                self.options.push(match &given {
                    Some(value) => joined(&name, value),
                    None => name.clone().into(),
                });
                let mut optional = || words.peek().is_some_and(|next| !begins_option(next));
                let follows = match value {
                    Value::None => false,
                    Value::One => true,
                    Value::Optional => optional(),
                };
                if follows
                    && given.is_none()
                    && let Some(next) = words.next()
                {
                    // a text may look like an option
                    match name.starts_with("--") {
                        true => {
                            self.options.pop();
                            self.options.push(joined(&name, &next));
                        }
                        false => self.options.push(next),
                    }
                }
            } else if self.is_letter_with_value(text) {
                self.options.push(word);
            } else {
                let problem = unknown(&self.command, typed, &self.own);
                self.problems.push(problem);
            }
        }
    }

    /// The row of an option, by its name, by that with hyphens for underscores, or by
    /// the part before a dot.
    fn find(&self, typed: &str) -> Option<&'static Row> {
        let found = row(&self.command, typed);
        if found.is_some() || self.own.has(typed) {
            return found;
        }
        let before_dot = typed.split('.').next().unwrap_or(typed);
        row(&self.command, &dashes(typed)).or_else(|| row(&self.command, before_dot))
    }

    /// An option of Pelton by the name that was typed.
    fn own_name(&self, typed: &str) -> Option<(String, Value)> {
        let names = [typed.to_owned(), dashes(typed)];
        names.into_iter().find_map(|name| self.own.value(&name).map(|value| (name, value)))
    }

    /// Whether a word is a letter of Pelton with its value, as in `-n5`, and no longer
    /// name of another program.
    fn is_letter_with_value(&self, text: &str) -> bool {
        let letters: Vec<char> = text.chars().take(2).collect();
        let [_, letter] = letters[..] else { return false };
        text.chars().count() > 2
            && !text.starts_with("--")
            && self.own.has(&format!("-{letter}"))
            && peer_of(text).is_none()
            && !text.contains(char::is_whitespace)
    }

    /// Takes an option of a table.
    fn option(&mut self, typed: &str, row: &Row, values: Vec<OsString>) {
        if row.takes != Takes::Nothing && values.is_empty() {
            let error = format!("{typed} has no value, expected one after it");
            self.problems.push(Problem { error, hint: None });
            return;
        }
        match row.takes {
            Takes::Two => self.apply(typed, row, OsStr::new("")),
            Takes::Nothing => self.apply(typed, row, OsStr::new("")),
            _ => values.iter().for_each(|value| self.apply(typed, row, value)),
        }
    }

    /// Puts an option of a table with a value into Pelton's words. The error and the note
    /// name it as it was typed.
    pub(super) fn apply(&mut self, typed: &str, row: &Row, value: &OsStr) {
        match row.fate {
            Fate::Is(own) => self.push(typed, own, joined(own, value)),
            Fate::Flag(words) => {
                for word in words.split(' ') {
                    let name = word.split('=').next().unwrap_or(word);
                    self.push(typed, name, word.into());
                }
            }
            Fate::Model => self.models.push(value.to_owned()),
            Fate::Names(model) => self.models.push(model.into()),
            Fate::Argument => self.arguments.push(value.to_owned()),
            Fate::Noted(why) => self.note(typed, why),
            Fate::Refused(hint) => {
                let error = format!("{typed} is no option of Pelton");
                self.problems.push(Problem { error, hint: Some(hint.to_owned()) });
            }
            Fate::By(convert, own) => match value.to_str().map(|value| convert(value, own)) {
                Some(Became::Words(words)) => {
                    for word in words {
                        let name = word.split('=').next().unwrap_or(&word).to_owned();
                        self.push(typed, &name, word.into());
                    }
                }
                Some(Became::Model(model)) => self.models.push(model.into()),
                Some(Became::HubFile(file)) => self.file = Some(file.into()),
                Some(Became::Argument(argument)) => self.arguments.push(argument.into()),
                Some(Became::Noted) => self.note(typed, ITSELF),
                Some(Became::Expected(expected)) => {
                    let value = value.to_string_lossy();
                    let error = format!("{typed} is {value:?}, expected {expected}");
                    self.problems.push(Problem { error, hint: None });
                }
                Some(Became::Refused(hint)) => {
                    let value = value.to_string_lossy();
                    let error = format!("{typed} {value} is no option of Pelton");
                    self.problems.push(Problem { error, hint: Some(hint) });
                }
                None => {
                    let error = format!("{typed} has a value that is no text, expected UTF-8");
                    self.problems.push(Problem { error, hint: None });
                }
            },
        }
    }

    /// Adds a word for an option of Pelton, once.
    fn push(&mut self, typed: &str, name: &str, word: OsString) {
        let own = if [KV_KEYS, KV_VALUES].contains(&name) { "--kv" } else { name };
        if !self.own.has(own) && ![OFFSET, DURATION].contains(&name) {
            let error = format!("{typed} is no option of `pelton {}`", self.command);
            let hint = format!("it stands for {own}, which this command has not");
            self.problems.push(Problem { error, hint: Some(hint) });
            return;
        }
        if self.options.contains(&word) {
            return;
        }
        // a later value replaces an earlier one, and several GPUs win over one
        let beginning = format!("{name}=");
        let is_same = |word: &OsString| word.to_string_lossy().starts_with(&beginning);
        if !self.own.appends(name) && self.options.iter().any(is_same) {
            let has_several =
                |word: &OsString| is_same(word) && word.to_string_lossy().contains(',');
            if name == "--device" && self.options.iter().any(has_several) {
                return;
            }
            self.options.retain(|word| !is_same(word));
        }
        self.options.push(word);
        self.origins.push((name.to_owned(), typed.to_owned()));
    }

    pub(super) fn note(&mut self, typed: &str, why: &'static str) {
        if !self.noted.iter().any(|noted| noted.typed == typed) {
            self.noted.push(Noted { typed: typed.to_owned(), why });
        }
    }

    /// Whether an option of Pelton is among the words.
    pub(super) fn gives(&self, own: &str) -> bool {
        gives(&self.options, own)
    }
}

/// Whether an option of Pelton is among words.
pub(super) fn gives(words: &[OsString], own: &str) -> bool {
    words.iter().any(|word| word.to_string_lossy().split('=').next() == Some(own))
}

/// The values of an option: that after `=`, or the words that follow.
fn values(
    takes: Takes,
    given: Option<OsString>,
    words: &mut std::iter::Peekable<std::vec::IntoIter<OsString>>,
) -> Vec<OsString> {
    match (takes, given) {
        (_, Some(value)) => vec![value],
        (Takes::Nothing, None) => Vec::new(),
        (Takes::Value, None) => words.next().into_iter().collect(),
        (Takes::Two, None) => words.by_ref().take(2).collect(),
        (Takes::Switch, None) => {
            let is_switch = |word: &OsString| SWITCHES.iter().any(|s| word.eq_ignore_ascii_case(s));
            vec![words.next_if(is_switch).unwrap_or_else(|| "on".into())]
        }
        (Takes::List, None) => {
            let mut all = Vec::new();
            while let Some(word) = words.next_if(|word| !begins_option(word)) {
                all.push(word);
            }
            all
        }
    }
}

fn begins_option(word: &OsString) -> bool {
    word.to_str().is_some_and(|text| text.starts_with('-') && text.parse::<f64>().is_err())
}

/// A name with hyphens in place of underscores.
fn dashes(name: &str) -> String {
    name.replace('_', "-")
}

/// An option with its value in one word, so that the value may begin with a hyphen.
pub(super) fn joined(own: &str, value: &OsStr) -> OsString {
    [OsStr::new(own), OsStr::new("="), value].into_iter().collect()
}
