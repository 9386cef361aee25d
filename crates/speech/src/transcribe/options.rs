//! Options of a whole file.

use crate::decode::DecodeOptions;

/// Options of the transcription of a file, as those of OpenAI's `transcribe`.
#[derive(Clone, Debug, PartialEq)]
pub struct TranscribeOptions {
    /// The options of windows. The temperature is that of [`temperatures`](Self::temperatures); at
    /// 0 `best_of` has no effect, above 0 `beam_size` and `patience` have none. Without a language,
    /// the first window decides.
    pub decode: DecodeOptions,
    /// Temperatures to try, at least one, until a window's text is good enough. The last one is
    /// kept.
    pub temperatures: Vec<f64>,
    /// The next temperature is tried if the [compression ratio](crate::compression) is above this.
    pub compression_ratio_threshold: Option<f64>,
    /// The next temperature is tried if the mean log-probability is below this.
    pub logprob_threshold: Option<f64>,
    /// A window is silent if the probability of no speech is above this, and the mean
    /// log-probability is not above its threshold.
    pub no_speech_threshold: Option<f64>,
    /// Whether the text of a window is the prompt of the next one.
    pub condition_on_previous_text: bool,
    /// The prompt of the first window.
    pub initial_prompt: Option<String>,
    /// Whether the initial prompt precedes the prompt of every window.
    pub carry_initial_prompt: bool,
    /// Names and rare words that precede the prompt of every window.
    pub hot_words: Option<String>,
    /// Whether the language of each window is detected, for files of several languages.
    pub multilingual: bool,
    /// Whether words get their times.
    pub words: bool,
    /// Marks that belong to the next word.
    pub prepend_punctuations: String,
    /// Marks that belong to the word before.
    pub append_punctuations: String,
    /// Starts and ends in seconds of the parts of the file to transcribe, ascending. The last end
    /// may be missing. Empty for the whole file.
    pub clip_timestamps: Vec<f64>,
    /// Silence longer than this many seconds is skipped where words next to it look invented. Needs
    /// `words`.
    pub hallucination_silence_threshold: Option<f64>,
}

impl Default for TranscribeOptions {
    /// OpenAI's defaults.
    fn default() -> Self {
        Self {
            decode: DecodeOptions::default(),
            temperatures: vec![0.0, 0.2, 0.4, 0.6, 0.8, 1.0],
            compression_ratio_threshold: Some(2.4),
            logprob_threshold: Some(-1.0),
            no_speech_threshold: Some(0.6),
            condition_on_previous_text: true,
            initial_prompt: None,
            carry_initial_prompt: false,
            hot_words: None,
            multilingual: false,
            words: false,
            prepend_punctuations: "\"'“¿([{-".to_owned(),
            append_punctuations: "\"'.。,，!！?？:：”)]}、".to_owned(),
            clip_timestamps: Vec::new(),
            hallucination_silence_threshold: None,
        }
    }
}

impl TranscribeOptions {
    /// The options of a window at a temperature.
    pub(super) fn at(&self, temperature: f64) -> DecodeOptions {
        let mut options = self.decode.clone();
        options.temperature = temperature;
        if temperature > 0.0 {
            options.beam_size = None;
            options.patience = None;
        } else {
            options.best_of = None;
        }
        options
    }

    /// Checks the ranges.
    ///
    /// # Errors
    ///
    /// A sentence about the option.
    pub fn check(&self) -> Result<(), String> {
        if self.temperatures.is_empty() {
            return Err("there is no temperature: give one at least, such as 0".to_owned());
        }
        for &temperature in &self.temperatures {
            self.at(temperature).check()?;
        }
        let is_time = |seconds: &&f64| !(seconds.is_finite() && **seconds >= 0.0);
        if let Some(seconds) = self.clip_timestamps.iter().find(is_time) {
            return Err(format!("the clip timestamp {seconds} is no time in seconds"));
        }
        if !self.clip_timestamps.is_sorted() {
            return Err("clip timestamps are not in ascending order".to_owned());
        }
        if self.hallucination_silence_threshold.is_some() && !self.words {
            return Err("hallucination_silence_threshold needs the times of words".to_owned());
        }
        Ok(())
    }
}
