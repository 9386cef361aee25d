//! Many texts: several prompts, several samples of each.

use std::{collections::VecDeque, io::Write, process::ExitCode};

use anyhow::Result;
use pelton::{Error, GenerateOptions, Model, Prompt, TokenStream};
use serde_json::json;

use super::answer::{Answer, is_busy};
use crate::{
    interrupt::{EXIT_CODE, Flag},
    output,
    progress::Progress,
};

/// The most requests that are submitted and not read.
const SUBMITTED: usize = 64;

/// How the texts are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Each after a line with its number.
    Text {
        /// Whether the prompt comes before it.
        echo: bool,
    },
    /// A JSON object a line.
    Lines,
}

/// A text to be generated.
pub(super) struct Item {
    pub(super) prompt: String,
    /// The number of the prompt, from 0.
    pub(super) index: usize,
    /// The number of the sample, from 0.
    pub(super) sample: usize,
    /// The prompt as the model reads it, and the options.
    pub(super) rendered: (Prompt, GenerateOptions),
}

/// The next text: `None` at the end, or if the argument is false and there is none yet.
pub(super) type Next<'a> = dyn FnMut(bool) -> Result<Option<Item>> + 'a;

/// Generates texts together, and writes them in their order. A bar shows how many of
/// `count` texts are done.
pub(super) fn run(
    model: &Model,
    next: &mut Next<'_>,
    count: Option<usize>,
    form: Form,
    stop: &Flag,
) -> Result<ExitCode> {
    let bar =
        count.map(|count| Progress::new("{bar:32} {pos} of {len} texts, {eta} left", count as u64));
    // a text for which there was no room
    let mut held: Option<Item> = None;
    let mut submitted: VecDeque<(Item, Result<TokenStream, Error>)> = VecDeque::new();
    let mut failed = false;
    let mut out = output::stdout();
    loop {
        while submitted.len() < SUBMITTED && !stop.is_set() {
            let item = match held.take() {
                Some(item) => Some(item),
                None => next(submitted.is_empty())?,
            };
            let Some(item) = item else { break };
            let (prompt, options) = item.rendered.clone();
            match model.generate(prompt, options) {
                Err(error) if is_busy(&error) && !submitted.is_empty() => {
                    held = Some(item);
                    break;
                }
                stream => submitted.push_back((item, stream)),
            }
        }
        let Some((item, stream)) = submitted.pop_front() else { break };
        if stop.is_set() {
            // dropping the streams cancels their requests
            return Ok(ExitCode::from(EXIT_CODE));
        }
        let answer = stream.map_err(Into::into).and_then(|mut stream| {
            Answer::read(&mut stream, |_| match stop.is_set() {
                true => Err(Error::Cancelled.into()),
                false => Ok(()),
            })
        });
        if stop.is_set() {
            return Ok(ExitCode::from(EXIT_CODE));
        }
        failed |= answer.is_err();
        write(&mut out, model, &item, answer, form)?;
        out.flush()?;
        if let Some(bar) = &bar {
            bar.counter().add(1);
        }
    }
    Ok(match failed {
        _ if stop.is_set() => ExitCode::from(EXIT_CODE),
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

fn write(
    out: &mut impl Write,
    model: &Model,
    item: &Item,
    answer: Result<Answer>,
    form: Form,
) -> Result<()> {
    let Item { prompt, index, sample, .. } = item;
    let tokenizer = model.tokenizer().ok();
    match (form, answer) {
        (Form::Lines, answer) => {
            let mut object = match answer {
                Ok(answer) => answer.to_json(prompt, tokenizer),
                Err(error) => json!({ "prompt": prompt, "error": output::sentence(&error) }),
            };
            object["index"] = json!(index);
            object["sample"] = json!(sample);
            writeln!(out, "{object}")?;
        }
        (Form::Text { .. }, Err(error)) => return Err(error),
        (Form::Text { echo }, Ok(answer)) => {
            writeln!(out, "--- sample {}, seed {} ---", sample + 1, answer.stats.seed)?;
            writeln!(out, "{}{}", if echo { prompt } else { "" }, answer.text)?;
            answer.write_log_probs_if_any(out, tokenizer)?;
        }
    }
    Ok(())
}
