//! The command line.

use std::{ffi::OsString, path::PathBuf};

use clap::ValueEnum;
use pelton::{
    Device, KvType,
    speech::{Format, Language},
};

use super::details::DetailArgs;
use crate::load_flags;

/// The file that stands for standard input.
pub(super) const STDIN: &str = "-";

#[derive(clap::Args)]
#[command(
    args_override_self = true,
    override_usage = "pelton transcribe [OPTIONS] [MODEL] <FILE>...\n       pelton transcribe [OPTIONS] [MODEL] --stream -",
    after_help = "MODEL is a file ggml-NAME.bin of whisper.cpp, a directory of Hugging Face, or a GGUF file \
                  of `pelton convert`.\nFILE is wav, flac, mp3, ogg, opus, m4a, aiff, mkv or webm; - is standard \
                  input. The text goes to\nstandard output, or with -o to DIR/FILE.FORMAT. --stream - reads raw audio \
                  from a pipe: WAV, or 16-bit samples of\none channel, 16,000 a second."
)]
pub(crate) struct Args {
    /// A speech model, and audio files. A single FILE is heard by the built-in model, which knows
    /// synthetic speech only
    #[arg(required_unless_present = "stream", value_name = "MODEL|FILE")]
    pub(super) inputs: Vec<OsString>,
    /// The language as a code or an English name; auto hears it from the first 30 seconds
    #[arg(short, long, value_name = "LANGUAGE", default_value = "auto", value_parser = language)]
    pub(super) language: Heard,
    /// Write the text in its language, or in English
    #[arg(long, value_enum, default_value = "transcribe")]
    pub(super) task: TaskArg,
    /// The form of the result: txt, srt, vtt, tsv, json, csv or lrc; several with commas for files
    #[arg(short, long, value_name = "FORMAT", default_value = "txt", value_delimiter = ',')]
    pub(super) format: Vec<Format>,
    /// A folder for the results, one file for each audio file
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
    /// The path of a result without its ending; one for each audio file
    #[arg(long, value_name = "PATH", conflicts_with = "output")]
    pub(super) output_file: Vec<PathBuf>,
    /// Replace results that exist
    #[arg(long)]
    pub(super) force: bool,
    /// Find the times of words too; with --stream, write a line with its start and end for each
    #[arg(long)]
    pub(super) words: bool,
    /// Search with N hypotheses; 1 takes the likeliest token each time
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u8).range(1..=32))]
    pub(super) beam: u8,
    /// Decode N parts with speech at a time. They do not know the text before them
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(super) batch: u8,
    /// Decode only parts with speech, by voice activity detection
    #[arg(long)]
    pub(super) vad: bool,
    /// A text before the first window, which shows names and style
    #[arg(long, value_name = "TEXT")]
    pub(super) prompt: Option<String>,
    /// Names and rare words, for every window
    #[arg(long, value_name = "WORDS")]
    pub(super) hot_words: Option<String>,
    /// Sample at this temperature, 0 to 1, and at higher ones where the text is poor
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    pub(super) temperature: f64,
    /// Do not give the text of a window to the next one
    #[arg(long)]
    pub(super) no_condition: bool,
    /// Write texts of this grammar alone, such as commands: a file, or the grammar itself. It is
    /// GBNF where it has ::=, else Lark. Texts begin with a space
    #[arg(long, value_name = "FILE|GBNF")]
    pub(super) grammar: Option<String>,
    /// Hear the language of each window anew
    #[arg(long)]
    pub(super) multilingual: bool,
    /// The seed of samples
    #[arg(long, value_name = "SEED", default_value = "0")]
    pub(super) seed: u64,
    /// Transcribe live audio from standard input: -. It is WAV, or 16-bit samples of one
    /// channel, 16,000 a second
    #[arg(long, value_name = "-", conflicts_with_all = ["output", "output_file", "vad", "grammar"], value_parser = ["-"])]
    pub(super) stream: Option<String>,
    /// Run on auto (a GPU if there is one), cpu, gpu, or gpu:N of `pelton devices`
    #[arg(long, value_name = "DEVICE", default_value_t)]
    pub(super) device: Device,
    /// Use N threads on the CPU; by default one for each physical core
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) threads: Option<u16>,
    #[arg(long, value_name = "TYPE", default_value_t, help = load_flags::help("kv"))]
    pub(super) kv: KvType,
    #[command(flatten)]
    pub(super) details: DetailArgs,
}

/// The language of an audio file, if the user knows it.
#[derive(Clone, Copy)]
pub(super) struct Heard(pub(super) Option<Language>);

fn language(text: &str) -> Result<Heard, String> {
    match text {
        "auto" => Ok(Heard(None)),
        text => text
            .parse()
            .map(|found| Heard(Some(found)))
            .map_err(|e: pelton::speech::UnknownLanguage| e.to_string()),
    }
}

/// [`Task`], for the command line.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum TaskArg {
    /// The language of the speech
    Transcribe,
    /// English
    Translate,
}
