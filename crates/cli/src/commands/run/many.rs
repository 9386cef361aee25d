//! Many texts: several prompts, several samples of each.

use std::{
    collections::VecDeque,
    io::{Write, stdout},
    process::ExitCode,
};

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

/// Generates texts together, and writes them in their order.
pub(super) fn run(model: &Model, items: Vec<Item>, form: Form, stop: &Flag) -> Result<ExitCode> {
    let bar = Progress::new("{bar:32} {pos} of {len} texts, {eta} left", items.len() as u64);
    let mut waiting: VecDeque<Item> = items.into();
    let mut submitted: VecDeque<(Item, Result<TokenStream, Error>)> = VecDeque::new();
    let mut failed = false;
    let mut out = stdout().lock();
    loop {
        while submitted.len() < SUBMITTED && !stop.is_set() {
            let Some(item) = waiting.pop_front() else { break };
            let (prompt, options) = item.rendered.clone();
            match model.generate(prompt, options) {
                Err(error) if is_busy(&error) && !submitted.is_empty() => {
                    waiting.push_front(item);
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
        bar.counter().add(1);
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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
