//! `pelton run`: the answer to a prompt, or its continuation.

mod answer;
mod batch;
mod subject;

use std::{collections::VecDeque, fs, io::Write, path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::{Context, Result, bail};
use pelton::{
    Error, GenerateOptions, LoadOptions, Model, Prompt,
    chat::{Chat, ChatTemplate, Message},
};

use self::{
    answer::Answer,
    batch::{Form, Item},
    subject::{Input, Subject},
};
use super::{chat as chat_command, stdin_lines::StdinLines, text_of};
use crate::{
    chat::Params,
    constrain::ConstraintArgs,
    defaults::bias,
    hints,
    interrupt::{EXIT_CODE, Flag, Interrupt},
    loader::Loader,
    model::LoadArgs,
    names::{BUILT_IN, BUILT_IN_VISION},
    output::{self, WithHint},
    pictures::{self, ImageArgs},
    progress::Progress,
    sampling::SamplingArgs,
    speculate::SpeculateArgs,
    templates,
    thinking::ThinkArgs,
};

#[derive(clap::Args)]
#[command(
    override_usage = "pelton run [OPTIONS] [MODEL] <PROMPT>\n       \
                      pelton run [OPTIONS] [MODEL] < FILE\n       \
                      pelton run [OPTIONS] [MODEL] --prompts <FILE>",
    after_help = "A model with a chat template answers the prompt; --raw continues it, as a model without one \
                  does.\nWithout MODEL the built-in model runs, with --image the one that sees: \
                  built-in-vision. One\nargument that is a path or a name of a model is the MODEL: a chat \
                  starts on a terminal. Without a\nprompt, or with one of -, standard input is the prompt, \
                  and --prompt gives any text. One final line\nbreak of standard input is dropped.\n\
                  The text goes to standard output, the statistics to standard error. Ctrl-C ends \
                  the text\nwhen the submitted passes end, with exit code 130; a second one ends the \
                  process at once."
)]
pub(crate) struct Args {
    /// A model: a file, a directory, or a name such as qwen3:0.6b (or nothing for the built-in
    /// one); and the text to answer or continue
    #[arg(num_args = 1..=2, value_names = ["MODEL", "PROMPT"])]
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
    #[command(flatten)]
    images: ImageArgs,
    /// Continue the prompt, where a model with a chat template answers it
    #[arg(long)]
    raw: bool,
    /// Chat template: chatml, llama3, gemma, mistral, phi or a Jinja file
    #[arg(long = "chat-template", value_name = "NAME", conflicts_with = "raw")]
    template: Option<String>,
    /// The system message before a prompt that is answered
    #[arg(long, value_name = "TEXT", conflicts_with = "raw")]
    system: Option<String>,
    /// Read the system message from a file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["system", "raw"])]
    system_file: Option<PathBuf>,
    /// Generate at most N tokens; by default until the context is full
    #[arg(short = 'n', long, value_name = "N")]
    tokens: Option<usize>,
    /// Print the prompt before the text
    #[arg(long)]
    echo: bool,
    /// End before this string; may be given several times
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Go on after the token that ends a text
    #[arg(long)]
    ignore_eos: bool,
    /// Print the log-probabilities of each token and of the N likeliest ones, up to 20
    #[arg(long, value_name = "N")]
    logprobs: Option<usize>,
    /// Generate N texts for each prompt, together; their seeds follow each other
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    samples: u32,
    /// Answer each line of this file, or of standard input (-) as it comes: write a JSON object a
    /// line, in the order of the prompts
    #[arg(long, value_name = "FILE")]
    prompts: Option<PathBuf>,
    /// Generate at most N texts at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    parallel: u16,
    /// Draft tokens from the text in a file, which the generated text is expected to resemble
    #[arg(long, value_name = "FILE")]
    prediction: Option<PathBuf>,
    /// Show how many drafted tokens were accepted, too
    #[arg(short, long)]
    verbose: bool,
    /// Write one JSON object with the text and the statistics
    #[arg(long)]
    json: bool,
    /// Add X to the logit of a token, by its id; -inf for never; may be given several times
    #[arg(long, value_name = "ID=X", value_parser = bias, allow_hyphen_values = true)]
    logit_bias: Vec<(u32, f32)>,
    #[command(flatten)]
    thinking: ThinkArgs,
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
            default: if self.images.image.is_empty() { BUILT_IN } else { BUILT_IN_VISION },
            device: self.load.device,
        })
    }

    /// The chat that a model without a prompt starts on a terminal. The pattern names all options,
    /// so that a new one is either handed over or refused.
    fn into_chat(self, model: &str) -> Result<chat_command::Args> {
        let Self {
            words: _,
            model: _,
            prompt: _,
            file: _,
            prompts: _,
            parallel: _,
            raw,
            echo,
            logprobs,
            samples,
            prediction,
            verbose,
            json,
            logit_bias,
            images,
            template,
            system,
            system_file,
            tokens,
            stop,
            ignore_eos,
            thinking,
            speculate,
            constraint,
            sampling,
            load,
        } = self;
        let alone = [
            (raw, "--raw"),
            (echo, "--echo"),
            (logprobs.is_some(), "--logprobs"),
            (samples > 1, "--samples"),
            (prediction.is_some(), "--prediction"),
            (verbose, "--verbose"),
            (json, "--json"),
            (!logit_bias.is_empty(), "--logit-bias"),
            (ignore_eos, "--ignore-eos"),
        ];
        if let Some((_, flag)) = alone.iter().find(|(given, _)| *given) {
            bail!("found {flag} without a prompt, expected one after the model or with --prompt");
        }
        let mut chat = chat_command::Args::of(model)?;
        chat.images = images;
        chat.template = template;
        chat.system = system;
        chat.system_file = system_file;
        chat.thinking = thinking;
        chat.stop = stop;
        chat.speculate = speculate;
        chat.constraint = constraint;
        chat.params = Params { tokens, sampling };
        chat.options = load;
        Ok(chat)
    }

    /// The chat template by which prompts are answered; `None` if they are continued.
    fn chat_template(
        &self,
        model: &Model,
        source: Option<&str>,
    ) -> Result<Option<Arc<ChatTemplate>>> {
        if self.raw {
            return Ok(None);
        }
        if let Some(source) = source {
            return Ok(Some(Arc::new(model.chat_template_from(source)?)));
        }
        match model.chat_template() {
            Ok(template) => Ok(Some(Arc::clone(template))),
            Err(error) if self.system.is_some() => {
                Err(error).hint("without a chat template there is no place for --system")
            }
            Err(Error::NoChatTemplate { .. } | Error::NoVocabulary { .. }) => Ok(None),
            Err(error) => Err(error).hint("--raw continues the prompt without it"),
        }
    }

    /// The prompt as the model reads it, and the options; `sample` is added to the seed.
    fn rendered(
        &self,
        prompt: &str,
        images: &[Vec<u8>],
        chat: Option<&ChatTemplate>,
        options: &GenerateOptions,
        sample: u64,
    ) -> Result<(Prompt, GenerateOptions)> {
        let mut options = options.clone();
        options.sampling.seed = options.sampling.seed.map(|seed| seed.wrapping_add(sample));
        let Some(chat) = chat else { return Ok((prompt.into(), options)) };
        let system = self.system.as_deref().map(|text| Message::new("system", text));
        let messages = system.into_iter().chain([pictures::message(prompt, images)]);
        let mut messages = Chat::new(messages.collect());
        self.thinking.apply(&mut messages);
        let prompt = chat.prompt(&messages)?;
        let options = prompt.constrain(options)?;
        Ok((prompt.prompt, options))
    }

    /// The options of all texts, but for sampling, whose defaults the model has.
    fn options(&self) -> Result<GenerateOptions> {
        let mut options = GenerateOptions::default();
        options.max_tokens = self.tokens;
        options.stop.clone_from(&self.stop);
        options.logprobs = self.logprobs;
        options.ignore_eos = self.ignore_eos;
        if let Some(path) = &self.prediction {
            let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
            options.prediction = Some(Prompt::Text(text));
        }
        for &(token, bias) in &self.logit_bias {
            options = options.logit_bias(token, bias);
        }
        self.constraint.apply(options)
    }
}

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let (file, prompts) = match args.subject()? {
        Subject::Texts { model, prompts } => (model, Some(prompts)),
        Subject::Lines { model } => (model, None),
        Subject::Chat { model } => return chat_command::run(args.into_chat(&model)?),
    };
    if let Some(path) = &args.system_file {
        args.system = Some(text_of(path)?);
    }
    // files that are missing are found before minutes of loading
    let mut answer = args.options()?;
    let images = args.images.read()?;
    let source = args.template.as_deref().map(templates::source).transpose()?;
    let interrupt = Interrupt::install();
    let samples = args.samples as usize;
    let texts = prompts.as_ref().map(|prompts| prompts.len().saturating_mul(samples));
    let parallel = usize::from(args.parallel);
    let sequences = texts.map_or(parallel, |texts| texts.min(parallel));
    let options = args.speculate.apply(LoadOptions::default().max_concurrent(sequences))?;
    let model = Loader::new(&args.load).load_and_say(&file, options)?;
    args.sampling.fill(&model);
    answer.sampling = args.sampling.sampling().clone();
    let chat = args.chat_template(&model, source.as_deref())?;
    let chat = chat.as_deref();
    pictures::check(&images, chat)?;
    let stop = interrupt.flag();
    let mut lines: Box<dyn FnMut(bool) -> Result<Option<String>>> = match prompts {
        Some(prompts) => {
            if let ([prompt], None, 1) = (&prompts[..], &args.prompts, args.samples) {
                let rendered = args.rendered(prompt, &images, chat, &answer, 0)?;
                return one(&args, &model, prompt, rendered, &interrupt);
            }
            let mut prompts = prompts.into_iter();
            Box::new(move |_| Ok(prompts.next()))
        }
        None => Box::new(of_stdin(stop.clone())),
    };
    let (mut index, mut waiting) = (0, VecDeque::new());
    let mut next = |wait: bool| -> Result<Option<Item>> {
        if waiting.is_empty()
            && let Some(prompt) = lines(wait)?
        {
            for sample in 0..args.samples {
                let rendered = args.rendered(&prompt, &images, chat, &answer, u64::from(sample))?;
                let (prompt, sample) = (prompt.clone(), sample as usize);
                waiting.push_back(Item { prompt, index, sample, rendered });
            }
            index += 1;
        }
        Ok(waiting.pop_front())
    };
    let form = match args.json || args.prompts.is_some() {
        true => Form::Lines,
        false => Form::Text { echo: args.echo },
    };
    batch::run(&model, &mut next, texts, form, &stop)
}

/// The prompts of standard input, a line each. Empty lines are left out.
fn of_stdin(stop: Flag) -> impl FnMut(bool) -> Result<Option<String>> {
    let lines = StdinLines::of_stdin(stop.clone());
    let mut any = false;
    move |wait| {
        loop {
            match lines.next(wait)? {
                Some(line) if line.is_empty() => {}
                None if wait && !any && !stop.is_set() => {
                    bail!("standard input has no line, expected a prompt a line")
                }
                line => {
                    any |= line.is_some();
                    return Ok(line);
                }
            }
        }
    }
}

/// Generates one text, which is printed as it comes.
fn one(
    args: &Args,
    model: &Model,
    prompt: &str,
    (rendered, options): (Prompt, GenerateOptions),
    interrupt: &Interrupt,
) -> Result<ExitCode> {
    let mut stream = model.generate(rendered, options).map_err(hints::of_request)?;
    interrupt.cancels(stream.handle());
    tracing::debug!(prompt_tokens = stream.stats().prompt_tokens, "the request is submitted");
    let mut out = output::stdout();
    if args.echo && !args.json {
        out.write_all(prompt.as_bytes())?;
        out.flush()?;
    }
    let mut reading = Some(Progress::of_prompt(stream.handle()));
    let answer = Answer::read(&mut stream, |token| {
        reading = None;
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
        answer.print_stats(model.context(), args.verbose);
    }
    // dropping the model waits for its thread, so the GPU is idle when the process ends
    match answer.is_interrupted() {
        true => Ok(ExitCode::from(EXIT_CODE)),
        false => Ok(ExitCode::SUCCESS),
    }
}
