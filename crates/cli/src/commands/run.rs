//! `pelton run`: text after a prompt.

use std::{
    io::{Write, stdout},
    process::exit,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::Result;
use pelton::{FinishReason, LoadOptions, Request, Sampling, Stats};
use serde_json::json;

use super::text_or_stdin;
use crate::{
    model::{self, LoadArgs},
    output::WithHint,
};

#[derive(clap::Args)]
#[command(
    override_usage = "pelton run [OPTIONS] [MODEL] <PROMPT>",
    after_help = "With no MODEL the built-in one answers. A PROMPT of - is read from standard input.\n\
                  The text goes to standard output, the statistics to standard error."
)]
pub(crate) struct Args {
    /// A .gguf file (or nothing for the built-in model), and the text to continue
    #[arg(required = true, num_args = 1..=2, value_names = ["MODEL", "PROMPT"])]
    words: Vec<String>,
    /// Tokens to make at most; by default what the context has room for
    #[arg(short = 'n', long, value_name = "N")]
    tokens: Option<usize>,
    /// Randomness; 0 takes the likeliest token always
    #[arg(long, value_name = "T", default_value_t = Sampling::default().temperature)]
    temperature: f32,
    /// Choose among the K likeliest tokens; 0 for all
    #[arg(long, value_name = "K", default_value_t = Sampling::default().top_k)]
    top_k: usize,
    /// Choose among the likeliest tokens that reach this probability together
    #[arg(long, value_name = "P", default_value_t = Sampling::default().top_p)]
    top_p: f32,
    /// Leave out tokens of less than this share of the likeliest one's probability
    #[arg(long, value_name = "P", default_value_t = Sampling::default().min_p)]
    min_p: f32,
    /// Make recent tokens less likely; 1 for not
    #[arg(long, value_name = "X", default_value_t = Sampling::default().repetition_penalty)]
    repetition_penalty: f32,
    /// The same seed gives the same text; by default a random one
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// End before this string; may be given several times
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Write one JSON object with the text and the statistics instead
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: LoadArgs,
}

impl Args {
    fn sampling(&self) -> Sampling {
        Sampling {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            seed: self.seed,
            ..Sampling::default()
        }
    }
}

pub(crate) fn run(args: Args) -> Result<()> {
    let (file, prompt) = match args.words.as_slice() {
        [file, prompt] => (file.as_str(), prompt),
        [prompt] => (model::BUILT_IN, prompt),
        _ => anyhow::bail!("expected a prompt, or a model and a prompt"),
    };
    let prompt = text_or_stdin(prompt)?;
    let model = model::load(file, &args.load, LoadOptions::default())?;
    let mut request = Request::new(prompt.as_str()).sampling(args.sampling());
    request.max_tokens = args.tokens;
    request.stop.clone_from(&args.stop);
    let mut stream =
        model.generate(request).hint("`pelton run --help` tells the ranges of all options")?;

    let interrupted = on_interrupt();
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
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
    }
    let reason = reason_name(stream.finish_reason());
    let stats = stream.stats();
    if args.json {
        writeln!(out, "{:#}", to_json(&prompt, &text, reason, stats))?;
    } else {
        writeln!(out)?;
        out.flush()?;
        print_stats(reason, stats);
    }
    Ok(())
}

/// A flag that is raised by the first Ctrl-C; the second one ends the process at once.
fn on_interrupt() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&flag);
    // without a handler Ctrl-C ends the process, which is no worse than no handler
    let _ = ctrlc::set_handler(move || {
        if raised.swap(true, Ordering::Relaxed) {
            exit(130);
        }
    });
    flag
}

fn reason_name(reason: Option<FinishReason>) -> &'static str {
    match reason {
        Some(FinishReason::End) => "end",
        Some(FinishReason::Stop) => "stop",
        Some(FinishReason::Length) => "length",
        None => "interrupted",
    }
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
        rate(stats.prefill_tokens_per_second()),
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
        "prefill_tokens_per_second": stats.prefill_tokens_per_second(),
        "decode_tokens_per_second": stats.decode_tokens_per_second(),
    })
}
