//! `pelton run`: the continuation of a prompt.

use std::{
    fs,
    io::{Write, stdout},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context, Result};
use pelton::{FinishReason, LoadOptions, Prompt, Request, Sampling, Stats};
use serde_json::json;

use super::text_or_stdin;
use crate::{
    interrupt::{EXIT_CODE, Interrupt},
    model::{self, LoadArgs},
    output::WithHint,
    speculate::{self, SpeculateArgs},
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
    /// Divisor of the logits; 0 always takes the likeliest token
    #[arg(long, value_name = "T", default_value_t = Sampling::default().temperature)]
    temperature: f32,
    /// Draw from the K likeliest tokens; 0 for all
    #[arg(long, value_name = "K", default_value_t = Sampling::default().top_k)]
    top_k: usize,
    /// Draw from the likeliest tokens whose probabilities sum to P; 1 for all
    #[arg(long, value_name = "P", default_value_t = Sampling::default().top_p)]
    top_p: f32,
    /// Leave out tokens with less than P times the probability of the likeliest one; 0 for none
    #[arg(long, value_name = "P", default_value_t = Sampling::default().min_p)]
    min_p: f32,
    /// Divide the positive logits of recent tokens by X and multiply the negative ones; 1 for off
    #[arg(long, value_name = "X", default_value_t = Sampling::default().repetition_penalty)]
    repetition_penalty: f32,
    /// Subtract X from the logits of recent tokens, once for each token; 0 for off
    #[arg(long, value_name = "X", default_value_t = Sampling::default().presence_penalty,
          allow_negative_numbers = true)]
    presence_penalty: f32,
    /// Subtract X from the logits of recent tokens for each time they occur; 0 for off
    #[arg(long, value_name = "X", default_value_t = Sampling::default().frequency_penalty,
          allow_negative_numbers = true)]
    frequency_penalty: f32,
    /// Newest tokens, those of the prompt included, that the penalties count as recent
    #[arg(long, value_name = "N", default_value_t = Sampling::default().penalty_window)]
    penalty_window: usize,
    /// Seed of the draws: the same one gives the same text; by default a random one
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// End before this string; may be given several times
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// A file with a text that the generated one is expected to resemble, as a source of drafts
    #[arg(long, value_name = "FILE")]
    prediction: Option<PathBuf>,
    /// Write one JSON object with the text and the statistics
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    speculate: SpeculateArgs,
    #[command(flatten)]
    load: LoadArgs,
}

impl Args {
    fn sampling(&self) -> Sampling {
        let mut sampling = Sampling::default()
            .temperature(self.temperature)
            .top_k(self.top_k)
            .top_p(self.top_p)
            .min_p(self.min_p)
            .repetition_penalty(self.repetition_penalty)
            .presence_penalty(self.presence_penalty)
            .frequency_penalty(self.frequency_penalty)
            .penalty_window(self.penalty_window);
        sampling.seed = self.seed;
        sampling
    }
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let (file, prompt) = match args.words.as_slice() {
        [file, prompt] => (file.as_str(), prompt),
        [prompt] => (model::BUILT_IN, prompt),
        _ => anyhow::bail!("expected a prompt, or a model and a prompt"),
    };
    let prompt = text_or_stdin(prompt)?;
    let interrupt = Interrupt::install();
    let prediction = args.prediction.as_ref().map(|path| {
        fs::read_to_string(path).with_context(|| format!("--prediction {}", path.display()))
    });
    let prediction = prediction.transpose()?;
    let options = args.speculate.apply(LoadOptions::default());
    let model = model::load(file, &args.load, options)?;
    let mut request = Request::new(prompt.as_str()).sampling(args.sampling());
    request.max_tokens = args.tokens;
    request.stop.clone_from(&args.stop);
    request.prediction = prediction.map(Prompt::Text);
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
        "\n{} prompt tokens{}{first}; {} tokens{}; {reason}, seed {}{}",
        stats.prompt_tokens,
        rate(prefill_speed(stats)),
        stats.generated_tokens,
        rate(stats.decode_tokens_per_second()),
        stats.seed,
        speculate::summary(&stats.speculation),
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
        "drafted_tokens": stats.speculation.drafted,
        "accepted_tokens": stats.speculation.accepted,
        "speculation_gain": stats.speculation.gain(),
    })
}
