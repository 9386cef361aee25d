//! `pelton run`: the continuation of a prompt.

use std::{
    io::{Write, stdout},
    process::ExitCode,
};

use anyhow::Result;
use pelton::{FinishReason, LoadOptions, Request, Stats};
use serde_json::json;

use super::text_or_stdin;
use crate::{
    interrupt::{EXIT_CODE, Interrupt},
    model::{self, LoadArgs},
    output::WithHint,
    sampling::SamplingArgs,
};

#[derive(clap::Args)]
#[command(
    override_usage = "pelton run [OPTIONS] [MODEL] <PROMPT>",
    after_help = "Without MODEL the built-in model runs. A PROMPT of - is read from standard input.\n\
                  The text goes to standard output, the statistics to standard error. Ctrl-C ends \
                  the text\nwhen the submitted passes end, with exit code 130; a second one ends the \
                  process at once."
)]
pub(crate) struct Args {
    /// A model file or directory (or nothing for the built-in model), and the text to continue
    #[arg(required = true, num_args = 1..=2, value_names = ["MODEL", "PROMPT"])]
    words: Vec<String>,
    /// Tokens to generate, at most; by default as many as the context has room for
    #[arg(short = 'n', long, value_name = "N")]
    tokens: Option<usize>,
    #[command(flatten)]
    sampling: SamplingArgs,
    /// End before this string; may be given several times
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Write one JSON object with the text and the statistics
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: LoadArgs,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let (file, prompt) = match args.words.as_slice() {
        [file, prompt] => (file.as_str(), prompt),
        [prompt] => (model::BUILT_IN, prompt),
        _ => anyhow::bail!("expected a prompt, or a model and a prompt"),
    };
    let prompt = text_or_stdin(prompt)?;
    let interrupt = Interrupt::install();
    let model = model::load(file, &args.load, LoadOptions::default())?;
    let mut request = Request::new(prompt.as_str()).sampling(args.sampling.sampling());
    request.max_tokens = args.tokens;
    request.stop.clone_from(&args.stop);
    let mut stream = model.generate(request).hint("`pelton run --help` describes the options")?;

    interrupt.cancels(stream.handle());
    tracing::debug!(prompt_tokens = stream.stats().prompt_tokens, "the request is submitted");
    let mut out = stdout().lock();
    let mut text = String::new();
    if !args.json {
        out.write_all(prompt.as_bytes())?;
        out.flush()?;
    }
    for token in &mut stream {
        let token = token?;
        text.push_str(&token.text);
        if !args.json {
            out.write_all(token.text.as_bytes())?;
            out.flush()?;
        }
    }
    let reason = reason_name(stream.finish_reason());
    let stats = stream.stats();
    if args.json {
        writeln!(out, "{:#}", to_json(&prompt, &text, reason, &stats))?;
    } else {
        writeln!(out)?;
        out.flush()?;
        print_stats(reason, &stats);
    }
    // dropping the model waits for its thread, so the GPU is idle when the process ends
    match stream.finish_reason() {
        Some(FinishReason::Cancelled) => Ok(ExitCode::from(EXIT_CODE)),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn reason_name(reason: Option<FinishReason>) -> &'static str {
    match reason {
        Some(FinishReason::End) => "end",
        Some(FinishReason::Stop) => "stop",
        Some(FinishReason::Length) => "length",
        // nothing but Ctrl-C cancels the request
        Some(_) | None => "interrupted",
    }
}

/// Prompt tokens per second; `None` for a prompt that was not finished.
fn prefill_speed(stats: &Stats) -> Option<f64> {
    stats.time_to_first_token.and_then(|_| stats.prefill_tokens_per_second())
}

fn print_stats(reason: &str, stats: &Stats) {
    let rate = |rate: Option<f64>| match rate {
        Some(rate) => format!(" at {rate:.1} tokens/s"),
        None => String::new(),
    };
    let first = match stats.time_to_first_token {
        Some(time) => format!(", first token after {:.0} ms", time.as_secs_f64() * 1e3),
        None => String::new(),
    };
    eprintln!(
        "\n{} prompt tokens{}{first}; {} tokens{}; {reason}, seed {}",
        stats.prompt_tokens,
        rate(prefill_speed(stats)),
        stats.generated_tokens,
        rate(stats.decode_tokens_per_second()),
        stats.seed,
    );
}

fn to_json(prompt: &str, text: &str, reason: &str, stats: &Stats) -> serde_json::Value {
    json!({
        "prompt": prompt,
        "text": text,
        "finish_reason": reason,
        "seed": stats.seed,
        "prompt_tokens": stats.prompt_tokens,
        "generated_tokens": stats.generated_tokens,
        "time_to_first_token_ms": stats.time_to_first_token.map(|t| t.as_secs_f64() * 1e3),
        "prefill_tokens_per_second": prefill_speed(stats),
        "decode_tokens_per_second": stats.decode_tokens_per_second(),
    })
}
