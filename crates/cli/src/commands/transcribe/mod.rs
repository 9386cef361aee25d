//! `pelton transcribe`: the text of speech.

mod args;
mod details;
mod results;

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read, Write, stdin},
    ops::ControlFlow,
    path::Path,
    process::ExitCode,
    time::Instant,
};

use anyhow::{Context, Result, anyhow, bail};
use pelton::{
    Engine, Error, SpeechModel, SpeechOptions,
    speech::{
        AudioFile, Control, Encoding, Format, Language, LiveTranscription, Observer, RawAudio,
        RawFormat, SAMPLE_RATE, Segment, Task, Transcription, Word,
    },
};

use self::{
    args::{STDIN, TaskArg},
    results::{Results, print, results, write_all},
};
use crate::{
    constrain, hints, hub,
    interrupt::{EXIT_CODE, Flag, Interrupt},
    model,
    names::{BUILT_IN, BUILT_IN_SPEECH},
    output::{self, WithHint, note, sentence},
    progress::{Counter, Progress},
};

pub(crate) use self::args::Args;

/// Seconds of new audio after which a live transcription goes on.
const LIVE_STEP: f64 = 1.0;

/// Whether a regular file begins as models do. A pipe is not read: what it gives is audio.
fn is_model(path: &OsStr) -> bool {
    let mut magic = [0; 4];
    let path = Path::new(path);
    path.is_file()
        && File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && [*b"GGUF", *b"lmgg"].contains(&magic)
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let (model, files) = match (args.inputs.as_slice(), &args.stream) {
        ([], _) => (None, &[][..]),
        ([model], Some(_)) => (Some(model), &[][..]),
        (_, Some(_)) => bail!("files and --stream -, expected one of them"),
        ([file], None) if is_model(file) => {
            bail!("{} is a model, expected an audio file after it", file.display())
        }
        (files @ [_], None) => (None, files),
        ([model, files @ ..], None) => (Some(model), files),
    };
    let model = match model.map(|model| (model, model.to_str())) {
        None => BUILT_IN,
        Some((_, Some(model))) => model,
        Some((model, None)) => {
            bail!("{} is no UTF-8, expected a MODEL with a name of Unicode", model.display())
        }
    };
    if files.iter().filter(|file| *file == STDIN).count() > 1 {
        bail!("- is there twice, expected standard input once");
    }
    let places = args.output_file.len();
    if files.len() > 1 && args.output.is_none() && places == 0 {
        bail!("{} files and no -o DIR, expected a folder for their results", files.len());
    }
    if places > 0 && places != files.len() {
        bail!("{places} of --output-file and {} files, expected one for each", files.len());
    }
    if args.format.len() > 1 && args.output.is_none() && places == 0 {
        bail!("{} formats and no -o DIR, expected a folder for the results", args.format.len());
    }
    let mut options = options(args)?;
    let model = if model == BUILT_IN_SPEECH { BUILT_IN } else { model };
    if model == BUILT_IN {
        // it was trained on short texts before a window
        options.rules.condition_on_previous_text = false;
        note!(
            "the built-in speech model knows synthetic speech only: give a MODEL to understand people"
        );
    }
    options.rules.check().map_err(anyhow::Error::msg)?;
    if let Some(folder) = &args.output {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("the folder {} could not be made", folder.display()))?;
    }
    let all = results(args, files)?;
    let interrupt = Interrupt::install();
    let mut model = load(args, model)?;
    if let Some(language) = options.rules.decode.language
        && language != Language::ENGLISH
        && model.vocabulary()?.languages().iter().all(|(known, _)| *known == Language::ENGLISH)
    {
        note!(
            "{} knows English only: the language is taken for english, not {}",
            model.name(),
            language.name()
        );
        options.rules.decode.language = None;
    }
    let stop = interrupt.flag();
    if args.stream.is_some() {
        return live(&mut model, &options, &stop, args.words);
    }
    let mut failed = false;
    for (file, result) in files.iter().zip(all) {
        match transcribe(args, &mut model, Path::new(file), result, &options, &stop) {
            Ok(()) => {}
            Err(_) if stop.is_set() => return Ok(ExitCode::from(EXIT_CODE)),
            Err(error) if files.len() == 1 => return Err(error),
            // the other files are transcribed all the same
            Err(error) => {
                note!("error: {}", sentence(&error));
                failed = true;
            }
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn options(args: &Args) -> Result<Transcription> {
    let mut options = Transcription::default();
    let rules = &mut options.rules;
    rules.decode.language = args.language.0;
    rules.decode.task = match args.task {
        TaskArg::Transcribe => Task::Transcribe,
        TaskArg::Translate => Task::Translate,
    };
    rules.decode.seed = args.seed;
    let beams = usize::from(args.beam);
    if beams > 1 {
        rules.decode.beam_size = Some(beams);
        rules.decode.best_of = Some(beams);
    }
    rules.temperatures = args.details.temperatures(args.temperature);
    rules.words = args.words;
    rules.initial_prompt.clone_from(&args.prompt);
    rules.hot_words.clone_from(&args.hot_words);
    rules.condition_on_previous_text = !args.no_condition;
    rules.multilingual = args.multilingual;
    options.voices = args.vad.then(Default::default);
    options.batched = args.batch > 1;
    options.constraint = args.grammar.as_deref().map(constrain::grammar).transpose()?;
    args.details.apply(&mut options);
    Ok(options)
}

fn load(args: &Args, model: &str) -> Result<SpeechModel> {
    let file = hub::local(model, args.device)?;
    let threads = args.threads.map_or_else(pelton::default_threads, usize::from);
    let engine: Engine = model::engine_on(args.device, threads, true)?;
    let bar = Progress::new("loading {bar:32} {bytes} of {total_bytes}, {eta} left", 0);
    let counter = bar.counter().clone();
    let options = SpeechOptions::default()
        .windows(usize::from(args.batch))
        .beams(usize::from(args.beam.max(args.details.best_of.unwrap_or(1))))
        .kv(args.kv)
        .progress(move |progress| counter.set(progress.done, progress.total));
    engine.load_speech(model::source(&file), &options).map_err(|error| {
        // it is read as audio after it was refused as a model, which may be large
        if matches!(error, Error::Weights(_)) && AudioFile::open(&file).is_ok() {
            return anyhow!(
                "{file} is an audio file, expected a MODEL before several files; {BUILT_IN} is one too"
            );
        }
        hints::of_load(error, &file)
    })
}

/// The observer of a file: it shows progress, and prints text at once where nothing else goes
/// there.
struct Watch<'a> {
    stop: &'a Flag,
    counter: Counter,
    prints: bool,
    /// Seconds of the audio, once they are known.
    seconds: f64,
    /// The failure of printing.
    failure: Option<io::Error>,
}

impl Control for Watch<'_> {
    fn step(&mut self) -> ControlFlow<()> {
        match self.stop.is_set() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl Observer for Watch<'_> {
    fn segment(&mut self, segment: &Segment) -> ControlFlow<()> {
        let text = segment.text.trim();
        if self.prints && !text.is_empty() {
            let mut out = output::stdout();
            let written = writeln!(out, "{text}").and_then(|()| out.flush());
            if let Err(error) = written {
                self.failure = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn progress(&mut self, done: usize, all: usize) -> ControlFlow<()> {
        self.seconds = all as f64 / 100.0;
        self.counter.set(done as u64 / 100, all as u64 / 100);
        self.step()
    }
}

fn transcribe(
    args: &Args,
    model: &mut SpeechModel,
    path: &Path,
    results: Results,
    options: &Transcription,
    stop: &Flag,
) -> Result<()> {
    let opened = match path == STDIN {
        true => AudioFile::from_pipe(stdin().lock(), "standard input"),
        false => AudioFile::open(path),
    };
    let mut audio = opened.or_else(|error| match args.inputs.len() == 1 && path.exists() {
        true => Err(error).hint("a model comes before its audio: pelton transcribe MODEL FILE"),
        false => Err(error.into()),
    })?;
    let begun = Instant::now();
    let bar = Progress::new(
        "transcribing {bar:32} {pos} of {len} s of audio, {per_sec} of audio, {eta} left",
        audio.duration().unwrap_or(0.0) as u64,
    );
    let counter = bar.counter().clone();
    let prints = results.is_empty() && args.format == [Format::Txt];
    let mut watch = Watch { stop, counter, prints, seconds: 0.0, failure: None };
    let found = model.transcribe(&mut audio, options, &mut watch);
    drop(bar);
    if let Some(failure) = watch.failure {
        return Err(failure).context("standard output could not be written");
    }
    let found = match found {
        Err(error @ Error::Output { .. }) if options.rules.words => {
            Err(error).hint("without --words it is transcribed")?
        }
        found => found?,
    };
    for warning in audio.warnings() {
        note!("{}: {warning}", path.display());
    }
    let language = found.language.code();
    let options = args.details.write_options(options.rules.words, language);
    match args.format.first() {
        _ if !results.is_empty() => write_all(&results, args, &found.segments, &options, stop)?,
        Some(&format) if !prints => print(format, &found.segments, &options)?,
        _ => {}
    }
    let seconds = audio.position().max(watch.seconds);
    let took = begun.elapsed().as_secs_f64();
    note!(
        "{}: {}, {seconds:.0} s of audio in {took:.1} s, {:.1} times real time",
        path.display(),
        found.language.name(),
        seconds / took.max(1e-9),
    );
    Ok(())
}

/// Transcribes audio from standard input while it comes: WAV, or raw samples.
fn live(
    model: &mut SpeechModel,
    options: &Transcription,
    stop: &Flag,
    times: bool,
) -> Result<ExitCode> {
    let format = RawFormat { encoding: Encoding::S16Le, rate: SAMPLE_RATE, channels: 1 };
    let mut audio = RawAudio::with_header(stdin().lock(), format)?;
    let mut live = LiveTranscription::new(options.rules.clone(), LIVE_STEP);
    let counter = Counter::default();
    let mut watch = Watch { stop, counter, prints: false, seconds: 0.0, failure: None };
    let print = |words: &[Word]| -> io::Result<()> {
        let mut out = output::stdout();
        words.iter().try_for_each(|word| match times {
            true => {
                let Word { text, start, end, .. } = word;
                writeln!(out, "{start:.2}\t{end:.2}\t{}", text.trim_start())
            }
            false => write!(out, "{}", word.text),
        })?;
        out.flush()
    };
    loop {
        let ended = match audio.next_chunk()? {
            Some(samples) => {
                live.push(samples);
                false
            }
            None => true,
        };
        if live.is_due() || ended {
            match live.advance(model, &mut watch) {
                Ok(update) => print(&update.committed)?,
                Err(_) if stop.is_set() => return Ok(ExitCode::from(EXIT_CODE)),
                Err(error @ Error::Output { .. }) => {
                    return Err(error).hint("--stream needs a model that knows the times of words");
                }
                Err(error) => return Err(error.into()),
            }
        }
        if ended {
            break;
        }
    }
    print(&live.finish())?;
    if !times {
        writeln!(output::stdout())?;
    }
    Ok(ExitCode::SUCCESS)
}
