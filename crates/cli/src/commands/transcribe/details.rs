//! Flags of Whisper's rules, of subtitles and of the voice activity detection, by OpenAI's names.

use pelton::speech::{VoiceOptions, WriteOptions};

use super::Transcription;

/// Flags that few users need.
#[derive(clap::Args)]
#[command(next_help_heading = "Rules, by the names of OpenAI's program")]
pub(super) struct DetailArgs {
    /// Raise the temperature by X, up to 1, where a text is poor; 0 for one temperature
    #[arg(long, value_name = "X", default_value_t = 0.2)]
    temperature_increment: f64,
    /// Draw N samples at temperatures above 0, and take the likeliest; by default as many as --beam
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=32))]
    pub(super) best_of: Option<u8>,
    /// End the search after --beam times X hypotheses
    #[arg(long, value_name = "X")]
    patience: Option<f64>,
    /// Rank hypotheses by their length to the power of X; by default by their mean
    #[arg(long, value_name = "X")]
    length_penalty: Option<f64>,
    /// A text is poor if it is compressed more than this; none for no test
    #[arg(long, value_name = "X", default_value = "2.4", value_parser = threshold)]
    compression_ratio_threshold: Threshold,
    /// A text is poor if its mean log-probability is below this; none for no test
    #[arg(long, value_name = "X", default_value = "-1", value_parser = threshold, allow_hyphen_values = true)]
    logprob_threshold: Threshold,
    /// A window is silent if its probability of no speech is above this; none for no test
    #[arg(long, value_name = "X", default_value = "0.6", value_parser = threshold)]
    no_speech_threshold: Threshold,
    /// Give the text of --prompt to every window
    #[arg(long)]
    carry_initial_prompt: bool,
    /// Allow a text to begin with a space
    #[arg(long)]
    allow_blank: bool,
    /// Divide the positive logits of tokens that a text has by X
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    repetition_penalty: f32,
    /// Let no N tokens occur twice in a text; 0 for off
    #[arg(long, value_name = "N", default_value_t = 0)]
    no_repeat_ngram_size: usize,
    /// Skip silence longer than SECONDS where words next to it look invented (needs --words)
    #[arg(long, value_name = "SECONDS", requires = "words")]
    hallucination_silence_threshold: Option<f64>,
    /// Transcribe these parts of the audio: starts and ends in seconds
    #[arg(long, value_name = "START,END", value_delimiter = ',')]
    clip_timestamps: Vec<f64>,
    /// Marks that belong to the next word
    #[arg(long, value_name = "MARKS", allow_hyphen_values = true)]
    prepend_punctuations: Option<String>,
    /// Marks that belong to the word before
    #[arg(long, value_name = "MARKS", allow_hyphen_values = true)]
    append_punctuations: Option<String>,
    /// Underline each word of a subtitle while it is spoken (needs --words)
    #[arg(long, requires = "words")]
    highlight_words: bool,
    /// Break lines of subtitles after N characters (needs --words)
    #[arg(long, value_name = "N", requires = "words", value_parser = clap::value_parser!(u32).range(1..))]
    max_line_width: Option<u32>,
    /// Let a subtitle have at most N lines (needs --words)
    #[arg(long, value_name = "N", requires = "words", value_parser = clap::value_parser!(u32).range(1..))]
    max_line_count: Option<u32>,
    /// Let a line have at most N words (needs --words)
    #[arg(long, value_name = "N", requires = "words", value_parser = clap::value_parser!(u32).range(1..))]
    max_words_per_line: Option<u32>,
    /// The score from 0 to 1 at which speech begins (needs --vad)
    #[arg(long, value_name = "X", requires = "vad")]
    vad_threshold: Option<f32>,
    /// Drop speech that is shorter (needs --vad)
    #[arg(long, value_name = "MS", requires = "vad")]
    vad_min_speech_duration_ms: Option<u32>,
    /// Keep speech together that a shorter pause separates (needs --vad)
    #[arg(long, value_name = "MS", requires = "vad")]
    vad_min_silence_duration_ms: Option<u32>,
    /// Cut speech that is longer (needs --vad)
    #[arg(long, value_name = "SECONDS", requires = "vad")]
    vad_max_speech_duration_s: Option<f64>,
    /// Add this time before and after speech (needs --vad)
    #[arg(long, value_name = "MS", requires = "vad")]
    vad_speech_pad_ms: Option<u32>,
}

/// A limit, or none.
#[derive(Clone, Copy)]
struct Threshold(Option<f64>);

fn threshold(text: &str) -> Result<Threshold, String> {
    match text {
        "none" | "None" => Ok(Threshold(None)),
        text => match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Threshold(Some(number))),
            _ => Err("expected a number, or none".to_owned()),
        },
    }
}

impl DetailArgs {
    /// Temperatures from the first one on.
    pub(super) fn temperatures(&self, first: f64) -> Vec<f64> {
        let mut all = vec![first];
        let step = self.temperature_increment;
        // at most as many as steps of a hundredth
        while step >= 0.01
            && let Some(next) = all.last().map(|last| last + step).filter(|next| *next < 1.0 + 1e-6)
        {
            all.push(next);
        }
        all
    }

    /// Sets what the flags say.
    pub(super) fn apply(&self, options: &mut Transcription) {
        let rules = &mut options.rules;
        let decode = &mut rules.decode;
        decode.best_of = self.best_of.map(usize::from).or(decode.best_of);
        decode.patience = self.patience;
        decode.length_penalty = self.length_penalty;
        decode.suppress_blank = !self.allow_blank;
        decode.repetition.penalty = self.repetition_penalty;
        decode.repetition.no_repeat_ngram = self.no_repeat_ngram_size;
        rules.compression_ratio_threshold = self.compression_ratio_threshold.0;
        rules.logprob_threshold = self.logprob_threshold.0;
        rules.no_speech_threshold = self.no_speech_threshold.0;
        rules.carry_initial_prompt = self.carry_initial_prompt;
        rules.hallucination_silence_threshold = self.hallucination_silence_threshold;
        rules.clip_timestamps.clone_from(&self.clip_timestamps);
        if let Some(marks) = &self.prepend_punctuations {
            rules.prepend_punctuations.clone_from(marks);
        }
        if let Some(marks) = &self.append_punctuations {
            rules.append_punctuations.clone_from(marks);
        }
        if let Some(voices) = &mut options.voices {
            self.set_voices(voices);
        }
    }

    fn set_voices(&self, voices: &mut VoiceOptions) {
        let seconds = |milliseconds: u32| f64::from(milliseconds) / 1000.0;
        if let Some(onset) = self.vad_threshold {
            // the distance of both is that of the defaults
            voices.offset = (onset - (voices.onset - voices.offset)).max(0.0);
            voices.onset = onset;
        }
        voices.least_speech = self.vad_min_speech_duration_ms.map_or(voices.least_speech, seconds);
        voices.least_silence =
            self.vad_min_silence_duration_ms.map_or(voices.least_silence, seconds);
        voices.greatest = self.vad_max_speech_duration_s.unwrap_or(voices.greatest);
        voices.padding = self.vad_speech_pad_ms.map_or(voices.padding, seconds);
    }

    /// How results are written.
    pub(super) fn write_options(&self, words: bool, language: &str) -> WriteOptions {
        let number = |number: Option<u32>| number.map(|number| number as usize);
        WriteOptions {
            words,
            highlight_words: self.highlight_words,
            max_line_width: number(self.max_line_width),
            max_line_count: number(self.max_line_count),
            max_words_per_line: number(self.max_words_per_line),
            language: language.to_owned(),
        }
    }
}
