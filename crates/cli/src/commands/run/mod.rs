//! `pelton run`: the continuation of a prompt.

mod answer;
mod many;
mod subject;

use std::{
    fs,
    io::{Write, stdout},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context, Result, bail, ensure};
use pelton::{LoadOptions, Model, Prompt, Request};

use self::{
    answer::Answer,
    many::{Form, Item},
    subject::{Input, Subject},
};
use super::chat as chat_command;
use crate::{
    constrain::ConstraintArgs,
    hints,
    interrupt::{EXIT_CODE, Interrupt},
    model::{self, LoadArgs},
    sampling::SamplingArgs,
    speculate::SpeculateArgs,
};

#[derive(clap::Args)]
#[command(
    override_usage = "pelton run [OPTIONS] [MODEL] <PROMPT>\n       \
                      pelton run [OPTIONS] <MODEL> < FILE\n       \
                      pelton run [OPTIONS] [MODEL] --prompts <FILE>",
    after_help = "Without MODEL the built-in model runs. One argument that names a file, a folder or a \
                  repository is\nthe MODEL: the prompt is then standard input, or a chat starts on a \
                  terminal. A PROMPT of - is\nstandard input, and --prompt gives any text. One final \
                  line break of standard input is dropped.\n\
                  The text goes to standard output, the statistics to standard error. Ctrl-C ends \
                  the text\nwhen the submitted passes end, with exit code 130; a second one ends the \
                  process at once."
)]
pub(crate) struct Args {
    /// A model file or directory (or nothing for the built-in model), and the text to continue
    #[arg(required_unless_present_any = ["prompts", "model", "prompt", "file"], num_args = 1..=2,
        value_names = ["MODEL", "PROMPT"])]
    words: Vec<String>,
    /// The model, in place of the argument
    #[arg(short, long, value_name = "MODEL")]
    model: Option<String>,
    /// The prompt, in place of the argument; it may begin with -
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Read the prompt from a file
    #[arg(short, long, value_name = "FILE", conflicts_with = "prompt")]
    file: Option<PathBuf>,
    /// Tokens to generate, at most; by default as many as the context has room for
    #[arg(short = 'n', long, value_name = "N")]
    tokens: Option<usize>,
    /// Print the prompt before the text
    #[arg(long)]
    echo: bool,
    /// End before this string; may be given several times
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Print the log-probabilities of each token and of the N likeliest ones, up to 20
    #[arg(long, value_name = "N")]
    logprobs: Option<u8>,
    /// Generate N texts for each prompt, together; their seeds follow each other
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    samples: u32,
    /// Continue each line of this file (- for standard input): writes a JSON object a line, in the
    /// order of the prompts
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    /// Texts that are generated at the same time, at most
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    parallel: u16,
    /// A file with a text that the generated one is expected to resemble, as a source of drafts
    #[arg(long, value_name = "FILE")]
    prediction: Option<PathBuf>,
    /// Write one JSON object with the text and the statistics
    #[arg(long)]
    json: bool,
    /// Add X to the logit of a token, by its id; -inf for never; may be given several times
    #[arg(long, value_name = "ID=X", value_parser = bias, allow_hyphen_values = true)]
    logit_bias: Vec<(u32, f32)>,
    #[command(flatten)]
    speculate: SpeculateArgs,
    #[command(flatten)]
    constraint: ConstraintArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    load: LoadArgs,
}

impl Args {
    /// The model and its prompts.
    fn subject(&self) -> Result<Subject> {
        subject::of(&Input {
            words: &self.words,
            model: self.model.as_deref(),
            prompt: self.prompt.as_deref(),
            file: self.file.as_deref(),
            prompts: self.prompts.as_deref(),
        })
    }

    /// The chat that a model without a prompt starts on a terminal.
    fn into_chat(self, model: String) -> Result<chat_command::Args> {
        let alone = [
            (self.json, "--json"),
            (self.samples > 1, "--samples"),
            (self.logprobs.is_some(), "--logprobs"),
        ];
        if let Some((_, flag)) = alone.iter().find(|(given, _)| *given) {
            bail!("found {flag} without a prompt, expected one after the model or with --prompt");
        }
        chat_command::Args::of_run(&model, self.tokens, self.sampling, self.load)
    }

    /// The request of a prompt; `sample` is added to the seed.
    fn request(&self, prompt: &str, model: &Request, sample: u64) -> Request {
        let mut request = model.clone();
        request.prompt = prompt.into();
        request.sampling.seed = request.sampling.seed.map(|seed| seed.wrapping_add(sample));
        request
    }

    /// A request without a prompt.
    fn template(&self) -> Result<Request> {
        let mut request = Request::new("").sampling(self.sampling.sampling());
        request.max_tokens = self.tokens;
        request.stop.clone_from(&self.stop);
        request.log_probs = self.logprobs;
        if let Some(path) = &self.prediction {
            let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
            request.prediction = Some(Prompt::Text(text));
        }
        for &(token, bias) in &self.logit_bias {
            request = request.logit_bias(token, bias);
        }
        self.constraint.apply(request)
    }
}

/// Parses a token and the summand of its logit.
fn bias(text: &str) -> Result<(u32, f32)> {
    let (id, bias) = text.split_once('=').context("expected ID=X, as in 7=-1.5")?;
    let id = id.trim().parse().context("expected the id of a token before =")?;
    let bias: f32 = bias.trim().parse().context("expected a number after =")?;
    ensure!(!bias.is_nan(), "expected a number after =");
    Ok((id, bias))
}

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let (file, prompts) = match args.subject()? {
        Subject::Texts { model, prompts } => (model, prompts),
        Subject::Chat { model } => return chat_command::run(args.into_chat(model)?),
    };
    let interrupt = Interrupt::install();
    let texts = prompts.len().saturating_mul(args.samples as usize);
    let sequences = texts.min(usize::from(args.parallel));
    let options = args.speculate.apply(LoadOptions::default().sequences(sequences));
    let model = model::load(&file, &args.load, options)?;
    args.sampling.fill(&model);
    let template = args.template()?;
    if let ([prompt], None, 1) = (&prompts[..], &args.prompts, args.samples) {
        return one(&args, &model, prompt, &template, &interrupt);
    }
    let samples = u64::from(args.samples);
    let items = (0..).zip(&prompts).flat_map(|(index, prompt)| {
        let template = &template;
        let args = &args;
        (0..samples).map(move |sample| Item {
            prompt: prompt.clone(),
            index,
            sample: sample as usize,
            request: args.request(prompt, template, sample),
        })
    });
    let form = match args.json || args.prompts.is_some() {
        true => Form::Lines,
        false => Form::Text { echo: args.echo },
    };
    many::run(&model, items.collect(), form, &interrupt.flag())
}

/// Generates one text, which is printed as it comes.
fn one(
    args: &Args,
    model: &Model,
    prompt: &str,
    template: &Request,
    interrupt: &Interrupt,
) -> Result<ExitCode> {
    let mut stream =
        model.generate(args.request(prompt, template, 0)).map_err(hints::of_request)?;
    interrupt.cancels(stream.handle());
    tracing::debug!(prompt_tokens = stream.stats().prompt_tokens, "the request is submitted");
    let mut out = stdout().lock();
    if args.echo && !args.json {
        out.write_all(prompt.as_bytes())?;
        out.flush()?;
    }
    let answer = Answer::read(&mut stream, |token| {
        if !args.json {
            out.write_all(token.text.as_bytes())?;
            out.flush()?;
        }
        Ok(())
    })?;
    let tokenizer = model.tokenizer().ok();
    if args.json {
        writeln!(out, "{:#}", answer.to_json(prompt, tokenizer))?;
    } else {
        writeln!(out)?;
        answer.write_log_probs_if_any(&mut out, tokenizer)?;
        out.flush()?;
        answer.print_stats();
    }
    // dropping the model waits for its thread, so the GPU is idle when the process ends
    match answer.is_interrupted() {
        true => Ok(ExitCode::from(EXIT_CODE)),
        false => Ok(ExitCode::SUCCESS),
    }
}
