//! `pelton perplexity`: how well a model predicts a text, and how far it is from saved logits.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use pelton::{EffortLevel, LoadOptions, Model, Session, graph::OutputKind, tokenizer::Special};
use serde_json::json;

use crate::{
    loader::Loader,
    model::LoadArgs,
    output::{self, WithHint},
    progress::Progress,
    scores::{
        CONTEXT,
        base_file::{BaseFile, BaseWriter},
        check_context,
        score::{LogProbs, Score, score},
        scored,
        statistics::Summary,
        windows,
    },
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A model: a file, a directory, a name such as qwen3:0.6b, or built-in
    model: String,
    /// A file of text in UTF-8. --base makes it optional: it must be the text of that file
    #[arg(required_unless_present_any = ["base", "prompt"])]
    text: Option<PathBuf>,
    /// The text itself, in place of a file; it may begin with -
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "text")]
    prompt: Option<String>,
    /// Compare with the logits in this file, which --save-base or llama.cpp's --kl-divergence-base
    /// wrote. The context is that of the file
    #[arg(long, value_name = "FILE.kld")]
    base: Option<PathBuf>,
    /// Write the logits to a file, for --base and for llama.cpp's --kl-divergence. A scored token
    /// takes two bytes for each token of the vocabulary
    #[arg(long, value_name = "FILE.kld", conflicts_with = "base")]
    save_base: Option<PathBuf>,
    /// Read the first half of each window with effort 1, as prompts are read (needs
    /// --effort). It is not scored
    #[arg(long, requires = "effort")]
    dense_context: bool,
    /// Score the first windows only
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    windows: Option<u32>,
    /// Write a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: LoadArgs,
}

pub(crate) fn run(mut args: Args) -> Result<()> {
    let mut base = args.base.as_deref().map(BaseFile::open).transpose()?;
    if let (Some(base), Some(context)) = (&base, args.load.context()) {
        ensure!(
            base.context == context,
            "--context is {context}, expected the {} of the saved logits",
            base.context
        );
    }
    let context =
        base.as_ref().map_or_else(|| args.load.context().unwrap_or(CONTEXT), |base| base.context);
    check_context(context)?;
    args.load.set_context(context);
    let model = Loader::new(&args.load).load(&args.model, LoadOptions::default())?;
    if model.plan().output != OutputKind::Logits {
        bail!("{} computes no logits, expected a model that generates text", args.model);
    }
    let vocab = model.plan().vocab;
    if let Some(base) = &base {
        ensure!(
            base.vocab == vocab,
            "the saved logits have a vocabulary of {}, expected that of {}, which is {vocab}",
            base.vocab,
            args.model
        );
    }
    let begin = begin(&model)?;
    let mut tokens = tokens(&model, &args, base.as_ref(), begin)?;
    let windows = windows(tokens.len(), context, args.windows)?;
    tokens.truncate(windows * context);
    let save = |path: &PathBuf| BaseWriter::create(path, context, vocab, &tokens);
    let mut writer = args.save_base.as_ref().map(save).transpose()?;

    let mut session = model.into_session()?;
    let all = windows as u64;
    let bar = Progress::new("{bar:32} window {pos} of {len}, {eta} left", all);
    let mut scores = Vec::with_capacity(windows * scored(context).len());
    let mut live = None;
    for tokens in tokens.chunks_exact(context) {
        let rows = base.as_mut().map(BaseFile::next_window).transpose()?;
        let mut tokens = tokens.to_vec();
        // as llama.cpp does: a window begins as a text does, in place of its first token
        tokens[0] = begin.unwrap_or(tokens[0]);
        let efforts = args.efforts();
        let window = Window { tokens, base: rows, save: writer.is_some(), efforts };
        let scored = window.run(&mut session)?;
        scores.extend(scored.scores);
        live = scored.live;
        if let Some(writer) = &mut writer {
            writer.window(&scored.saved)?;
        }
        bar.counter().add(1);
    }
    drop(bar);
    if let Some(writer) = writer {
        writer.finish()?;
    }
    let summary = Summary::of(&scores);
    let mut out = output::stdout();
    match args.json {
        true => {
            let mut object = summary.to_json();
            object["model"] = json!(args.model);
            object["context"] = json!(context);
            object["windows"] = json!(windows);
            object["effort"] = json!(args.efforts()[1].fraction());
            if let Some(live) = live {
                object["live_share"] = json!(live);
            }
            writeln!(out, "{object}")?;
        }
        false => {
            write!(out, "{}", summary.to_text())?;
            if let Some(live) = live {
                writeln!(out, "weights multiplied where effort applies: {:.1} %", 100.0 * live)?;
            }
        }
    }
    Ok(())
}

impl Args {
    /// The efforts of the two halves of a window.
    fn efforts(&self) -> [EffortLevel; 2] {
        let effort = self.load.effort_level();
        [if self.dense_context { EffortLevel::FULL } else { effort }, effort]
    }
}

/// The token before every text, if the model has one.
pub(super) fn begin(model: &Model) -> Result<Option<u32>> {
    let Ok(tokenizer) = model.tokenizer() else { return Ok(None) };
    let added = tokenizer.encode_prompt("")?;
    Ok(tokenizer.bos().filter(|bos| added.first() == Some(bos)))
}

/// The tokens of the text, which are those of the saved logits if there are any.
fn tokens(
    model: &Model,
    args: &Args,
    base: Option<&BaseFile>,
    begin: Option<u32>,
) -> Result<Vec<u32>> {
    let (tokens, name) = match (&args.text, &args.prompt) {
        (Some(path), _) => {
            (text_tokens(model, &args.model, path, begin)?, path.display().to_string())
        }
        (None, Some(text)) => (tokens_of(model, &args.model, text, begin)?, "--prompt".to_owned()),
        (None, None) => return Ok(base.map(|base| base.tokens.clone()).unwrap_or_default()),
    };
    match base {
        Some(base) if !tokens.starts_with(&base.tokens) => bail!(
            "the tokens of {name} are others than those of the saved logits, expected the same text"
        ),
        Some(base) => Ok(base.tokens.clone()),
        None => Ok(tokens),
    }
}

/// The tokens of a file of text.
pub(super) fn text_tokens(
    model: &Model,
    model_name: &str,
    path: &Path,
    begin: Option<u32>,
) -> Result<Vec<u32>> {
    let name = path.display();
    let bytes = fs::read(path).with_context(|| format!("{name} could not be read"))?;
    let text = String::from_utf8(bytes)
        .map_err(|error| error.utf8_error())
        .with_context(|| format!("{name} is not text, expected UTF-8"))?;
    tokens_of(model, model_name, &text, begin)
}

/// The tokens of a text.
pub(super) fn tokens_of(
    model: &Model,
    model_name: &str,
    text: &str,
    begin: Option<u32>,
) -> Result<Vec<u32>> {
    let tokenizer = model
        .tokenizer()
        .hint(format!("`pelton inspect {model_name}` shows the vocabulary's metadata"))?;
    let mut tokens: Vec<u32> = begin.into_iter().collect();
    tokens.extend(tokenizer.encode(text, Special::Ignore)?);
    Ok(tokens)
}

/// One window of a text.
struct Window {
    tokens: Vec<u32>,
    /// The saved log-probabilities of the scored rows.
    base: Option<Vec<LogProbs>>,
    /// Whether log-probabilities are to be saved.
    save: bool,
    /// The efforts of the first half and of the scored one.
    efforts: [EffortLevel; 2],
}

/// The scored rows of a window.
struct Scored {
    scores: Vec<Score>,
    saved: Vec<LogProbs>,
    /// The share of weights that rows of an effort below 1 have multiplied so far.
    live: Option<f64>,
}

impl Window {
    fn run(self, session: &mut Session) -> Result<Scored> {
        let Self { tokens, base, save, efforts } = self;
        let rows = scored(tokens.len());
        session.truncate(0);
        session.set_effort(efforts[0])?;
        session.run(&tokens[..rows.start])?;
        session.set_effort(efforts[1])?;
        let (mut scores, mut saved) = (Vec::with_capacity(rows.len()), Vec::new());
        session.run_all(&tokens[rows.clone()], |logits| {
            let i = scores.len();
            let next = tokens[rows.start + i + 1];
            scores.push(score(logits, next, base.as_ref().map(|base| &base[i])));
            if save {
                saved.push(LogProbs::of(logits));
            }
        })?;
        let live = session.live_share();
        let scores: Option<Vec<_>> = scores.into_iter().collect();
        let Some(scores) = scores else {
            bail!("logits that are no numbers, expected finite ones of every scored token");
        };
        Ok(Scored { scores, saved, live })
    }
}
