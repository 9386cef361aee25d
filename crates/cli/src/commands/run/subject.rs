//! The model and the prompts of a command line.

use std::{
    fs,
    io::{IsTerminal, stdin},
    path::Path,
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use pelton::Device;

use crate::{
    commands::{
        note_unread_pipe, prompt_or_stdin, stdin_has_text, text_or_stdin, without_line_break,
    },
    hints, hub,
    names::is_built_in,
    output::{Hint, note},
};

/// The arguments that name the model and the prompts.
pub(super) struct Input<'a> {
    /// At most two words: MODEL and PROMPT, or one of them.
    pub(super) words: &'a [String],
    pub(super) model: Option<&'a str>,
    pub(super) prompt: Option<&'a str>,
    /// A file with one prompt.
    pub(super) file: Option<&'a Path>,
    /// A file with a prompt a line.
    pub(super) prompts: Option<&'a Path>,
    /// The model where no word names one.
    pub(super) default: &'static str,
    /// Where the model runs.
    pub(super) device: Device,
}

/// A model with the work that it is given.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// Prompts, at least one.
    Texts {
        /// The model's file or folder, or one within the program.
        model: String,
        prompts: Vec<String>,
    },
    /// Prompts that standard input has, a line each.
    Lines {
        /// As above.
        model: String,
    },
    /// A model without a prompt, on a terminal.
    Chat {
        /// As above.
        model: String,
    },
}

/// The subject of the arguments; reads standard input where the prompt is there.
///
/// # Errors
/// If there are two models or two prompts, or a file cannot be read.
pub(super) fn of(input: &Input<'_>) -> Result<Subject> {
    let (model, text) = split(input)?;
    let has_model = model.is_some();
    let model = model.unwrap_or(input.default).to_owned();
    let prompt = match (text, input.prompt, input.file, input.prompts) {
        (Some(text), None, None, None) => {
            if text != "-" {
                note_unread_pipe();
            }
            prompt_or_stdin(text)?
        }
        (None, Some(text), None, None) => {
            note_unread_pipe();
            text.to_owned()
        }
        (None, None, Some(path), None) => without_line_break(read(path)?),
        (None, None, None, Some(path)) if path == Path::new("-") => {
            return Ok(Subject::Lines { model });
        }
        (None, None, None, Some(path)) => {
            return Ok(Subject::Texts { model, prompts: lines(path)? });
        }
        (None, None, None, None) if has_model && stdin().is_terminal() => {
            return Ok(Subject::Chat { model });
        }
        (None, None, None, None) => {
            stdin_has_text()?;
            // before a wait for a prompt that nothing could answer
            let model = hub::local(&model, input.device)?;
            if !is_built_in(&model) && !Path::new(&model).exists() {
                let error = anyhow!("{model}: there is no such file or folder, expected a model");
                bail!(Hint { error, hint: hints::what_a_model_is() });
            }
            let text = prompt_or_stdin("-")?;
            ensure!(!text.is_empty(), "standard input is empty, expected a prompt for {model}");
            text
        }
        _ => bail!("found several prompts, expected an argument, --prompt, --file or --prompts"),
    };
    Ok(Subject::Texts { model, prompts: vec![prompt] })
}

/// Whether a word has the form of a model's name: small letters, digits and what joins them.
fn is_like_a_name(word: &str) -> bool {
    let is_of_names = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.:".contains(c);
    word.len() > 3 && word.chars().all(is_of_names) && !word.ends_with(['.', ':'])
}

/// The words for the model and for the prompt.
fn split<'a>(input: &Input<'a>) -> Result<(Option<&'a str>, Option<&'a str>)> {
    let has_prompt = input.prompt.is_some() || input.file.is_some() || input.prompts.is_some();
    Ok(match (input.model, input.words) {
        (Some(model), []) => (Some(model), None),
        (Some(model), [text]) => (Some(model), Some(text)),
        (Some(_), _) => bail!("found --model and a second model, expected one of them"),
        (None, [model, text]) => (Some(model), Some(text)),
        (None, [word]) if has_prompt || hub::is_model(word) => (Some(word), None),
        (None, [text]) => {
            if is_like_a_name(text) {
                note!("{text} is the prompt: no model is known by that word");
            }
            (None, Some(text))
        }
        (None, _) => (None, None),
    })
}

/// The lines of a file of prompts that are not empty.
fn lines(path: &Path) -> Result<Vec<String>> {
    let text = read(path)?;
    let lines: Vec<String> =
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    ensure!(!lines.is_empty(), "{} has no line, expected a prompt a line", path.display());
    Ok(lines)
}

fn read(path: &Path) -> Result<String> {
    match path.to_str() {
        Some("-") => text_or_stdin("-"),
        _ => fs::read_to_string(path).with_context(|| format!("{}", path.display())),
    }
}
