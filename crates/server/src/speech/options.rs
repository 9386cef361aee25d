//! The options of a transcription, from the fields of a form.

use pelton::{
    Constraint,
    speech::{Task, Transcription, VoiceOptions},
};

use crate::{error::ApiError, input::Fields};

/// Hypotheses of a window, those for which models are loaded.
const BEAMS: i64 = 5;
/// Temperatures that are tried one after the other.
const TEMPERATURES: [f64; 6] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];
/// Milliseconds of an hour, the longest pause or padding.
const HOUR: f64 = 3.6e6;

/// The options of a transcription.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) transcription: Transcription,
    /// Whether the request says whether a window knows the text before it.
    conditions: Option<bool>,
}

impl Options {
    /// OpenAI's defaults with the beams of its command line.
    pub(crate) fn new(task: Task) -> Self {
        let mut transcription = Transcription::default();
        let rules = &mut transcription.rules;
        rules.decode.task = task;
        rules.decode.beam_size = Some(BEAMS as usize);
        rules.decode.best_of = Some(BEAMS as usize);
        Self { transcription, conditions: None }
    }

    /// Takes the fields that all APIs for audio share.
    pub(crate) fn take(&mut self, fields: &mut Fields) -> Result<(), ApiError> {
        let rules = &mut self.transcription.rules;
        if let Some(text) = fields.string("language")?.filter(|text| text != "auto") {
            let language = text.parse().map_err(|error: pelton::speech::UnknownLanguage| {
                ApiError::field("language", error.to_string())
            })?;
            rules.decode.language = Some(language);
        }
        rules.initial_prompt = fields.string("prompt")?;
        if let Some(temperature) = fields.number("temperature", 0.0..=1.0)? {
            let above = TEMPERATURES.into_iter().filter(|&other| other > temperature);
            let others: Vec<f64> = if temperature == 0.0 { above.collect() } else { Vec::new() };
            rules.temperatures = [vec![temperature], others].concat();
        }
        if let Some(beams) = fields.integer("beam_size", 1..=BEAMS)? {
            let beams = (beams > 1).then_some(beams as usize);
            (rules.decode.beam_size, rules.decode.best_of) = (beams, beams);
        }
        self.conditions = fields.boolean("condition_on_previous_text")?;
        let words = fields.strings("hotwords")?.into_iter().chain(fields.strings("keywords")?);
        let words = words.collect::<Vec<_>>().join(", ");
        rules.hot_words = (!words.is_empty()).then_some(words);
        if let Some(seed) = fields.integer("seed", 0..=i64::MAX)? {
            rules.decode.seed = seed.unsigned_abs();
        }
        self.transcription.constraint =
            fields.string("grammar")?.map(|grammar| match grammar.contains("::=") {
                true => Constraint::Gbnf(grammar),
                false => Constraint::Lark(grammar),
            });
        Ok(())
    }

    /// Takes OpenAI's strategy of chunks: parts with speech are decoded, several at a time.
    pub(crate) fn take_chunking(&mut self, fields: &mut Fields) -> Result<(), ApiError> {
        const NAME: &str = "chunking_strategy";
        if fields.string_is(NAME, "auto") {
            fields.take(NAME);
            self.batch(VoiceOptions::default());
        } else if let Some(mut object) = fields.object(NAME)? {
            object.choice("type", &["server_vad"])?;
            let mut voices = VoiceOptions::default();
            if let Some(onset) = object.number("threshold", 0.0..=1.0)? {
                set_onset(&mut voices, onset);
            }
            if let Some(padding) = object.number("prefix_padding_ms", 0.0..=HOUR)? {
                voices.padding = padding / 1e3;
            }
            if let Some(silence) = object.number("silence_duration_ms", 0.0..=HOUR)? {
                voices.least_silence = silence / 1e3;
            }
            self.batch(voices);
        }
        if fields.boolean("vad_filter")?.unwrap_or(false) && self.transcription.voices.is_none() {
            self.transcription.voices = Some(VoiceOptions::default());
        }
        Ok(())
    }

    fn batch(&mut self, voices: VoiceOptions) {
        self.transcription.voices = Some(voices);
        self.transcription.batched = true;
    }

    /// Takes the further fields of whisper.cpp.
    pub(crate) fn take_whisper_cpp(&mut self, fields: &mut Fields) -> Result<(), ApiError> {
        if fields.boolean("translate")?.unwrap_or(false) {
            self.transcription.rules.decode.task = Task::Translate;
        }
        let rules = &mut self.transcription.rules;
        if fields.boolean("detect_language")?.unwrap_or(false) {
            rules.decode.language = None;
        }
        // steps of temperatures from the lowest on
        if let Some(step) = fields.number("temperature_inc", 0.0..=1.0)? {
            let first = rules.temperatures.first().copied().unwrap_or(0.0);
            let more = |i: u32| first + f64::from(i) * step;
            let steps = (0..).map(more).take_while(|&t| t < 1.0 + 1e-6).take(11);
            rules.temperatures = if step > 0.0 { steps.collect() } else { vec![first] };
        }
        if let Some(best) = fields.integer("best_of", 1..=BEAMS)? {
            rules.decode.best_of = (best > 1).then_some(best as usize);
        }
        if let Some(most) = fields.number("no_speech_thold", 0.0..=1.0)? {
            rules.no_speech_threshold = Some(most);
        }
        if let Some(least) = fields.number("logprob_thold", -100.0..=0.0)? {
            rules.logprob_threshold = Some(least);
        }
        if let Some(carries) = fields.boolean("carry_initial_prompt")? {
            rules.carry_initial_prompt = carries;
        }
        rules.decode.without_timestamps = fields.boolean("no_timestamps")?.unwrap_or(false);
        let first = fields.number("offset_t", 0.0..=1e12)?.unwrap_or(0.0) / 1e3;
        let length = fields.number("duration", 0.0..=1e12)?.unwrap_or(0.0) / 1e3;
        if length > 0.0 {
            rules.clip_timestamps = vec![first, first + length];
        } else if first > 0.0 {
            rules.clip_timestamps = vec![first];
        }
        if fields.boolean("vad")?.unwrap_or(false) {
            let mut voices = VoiceOptions::default();
            if let Some(onset) = fields.number("vad_threshold", 0.0..=1.0)? {
                set_onset(&mut voices, onset);
            }
            let mut milliseconds = |name: &'static str, value: &mut f64| {
                fields.number(name, 0.0..=HOUR).map(|found| {
                    *value = found.map_or(*value, |found| found / 1e3);
                })
            };
            milliseconds("vad_min_speech_duration_ms", &mut voices.least_speech)?;
            milliseconds("vad_min_silence_duration_ms", &mut voices.least_silence)?;
            milliseconds("vad_speech_pad_ms", &mut voices.padding)?;
            self.transcription.voices = Some(voices);
        }
        Ok(())
    }

    /// The options for a model, which conditions windows on the text before them or not.
    pub(crate) fn of_model(mut self, conditions: bool) -> Result<Transcription, ApiError> {
        let rules = &mut self.transcription.rules;
        rules.condition_on_previous_text = self.conditions.unwrap_or(conditions);
        rules.check().map_err(ApiError::invalid)?;
        Ok(self.transcription)
    }
}

/// Sets the score at which speech begins; it ends somewhat below.
fn set_onset(voices: &mut VoiceOptions, onset: f64) {
    voices.onset = onset as f32;
    voices.offset = (voices.onset - 0.15).max(0.0);
}
