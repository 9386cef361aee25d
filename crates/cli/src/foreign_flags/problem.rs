//! Options that cannot be taken, with the one that was meant.

use super::{
    own::Own,
    programs::{peer_of, rows},
};

/// Letters that are changed, inserted or removed in a misspelt name of this many letters at most.
const LETTERS_PER_ERROR: usize = 6;

/// An option that cannot be taken.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) error: String,
    pub(super) hint: Option<String>,
}

/// The problem of an option that no table has.
pub(super) fn unknown(command: &str, typed: &str, own: &Own) -> Problem {
    let error = format!("{typed} is no option of `pelton {command}`");
    let hint = match similar(command, typed, own) {
        Some(name) => format!("{name} is similar; --help-all lists all options"),
        None if typed.contains(char::is_whitespace) && takes_prompt(command) => {
            "-p gives a prompt that begins with -".to_owned()
        }
        None => match peer_of(typed) {
            Some(peer) => {
                format!("it is one of {}; --help-all lists those of this command", peer.name)
            }
            None => "--help-all lists all options".to_owned(),
        },
    };
    Problem { error, hint: Some(hint) }
}

/// The option with nearly the same name.
fn similar(command: &str, typed: &str, own: &Own) -> Option<String> {
    if !typed.starts_with("--") {
        return None;
    }
    let mut names: Vec<&str> = own.names().collect();
    rows(command).flat_map(|row| row.spellings()).for_each(|name| names.push(name));
    let names = names.into_iter().filter(|name| name.starts_with("--"));
    let distances = names.map(|name| (strsim::damerau_levenshtein(typed, name), name));
    let (distance, name) = distances.min_by_key(|(distance, _)| *distance)?;
    let letters = typed.trim_start_matches('-').len();
    (distance <= 1.max(letters / LETTERS_PER_ERROR)).then(|| name.to_owned())
}

/// Whether `-p` of a command is a text that may begin with a hyphen.
pub(super) fn takes_prompt(command: &str) -> bool {
    ["run", "chat", "tokenize", "embed", "perplexity", "imatrix"].contains(&command)
}
