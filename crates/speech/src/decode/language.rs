//! Detection of languages by the token after the start of a transcript.

use crate::error::Error;
use crate::language::Language;
use crate::recognizer::{Append, Recognizer, Window};
use crate::softmax::LogSumExp;
use crate::vocabulary::Vocabulary;

/// The probability of a language.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LanguageProbability {
    /// The language.
    pub language: Language,
    /// Its probability, 0 to 1, among the languages of the vocabulary.
    pub probability: f64,
}

/// Probabilities of all languages in each window, in the order of their tokens.
///
/// # Errors
///
/// The recognizer failed, or the vocabulary is English-only.
pub fn detect_languages<R: Recognizer + ?Sized>(
    recognizer: &mut R,
    vocabulary: &Vocabulary,
    windows: &[Window],
) -> Result<Vec<Vec<LanguageProbability>>, Error<R::Error>> {
    if vocabulary.languages().is_empty() {
        let text = "the model knows one language, so that none can be detected: give no language";
        return Err(Error::Options(text.to_owned()));
    }
    let mut found = Vec::with_capacity(windows.len());
    for windows in windows.chunks(recognizer.sizes().hypotheses.max(1)) {
        let mut hypotheses = Vec::with_capacity(windows.len());
        let result = detect(recognizer, vocabulary, windows, &mut hypotheses, &mut found);
        hypotheses.into_iter().for_each(|hypothesis| recognizer.free(hypothesis));
        result.map_err(Error::Model)?;
    }
    Ok(found)
}

/// The likeliest language, the first of equal ones.
pub(crate) fn likeliest(languages: &[LanguageProbability]) -> Option<Language> {
    let mut best: Option<&LanguageProbability> = None;
    for language in languages {
        if best.is_none_or(|best| language.probability > best.probability) {
            best = Some(language);
        }
    }
    best.map(|best| best.language)
}

/// Appends the start to a hypothesis of each window. `hypotheses` are those that live afterwards,
/// after an error too.
fn detect<R: Recognizer + ?Sized>(
    recognizer: &mut R,
    vocabulary: &Vocabulary,
    windows: &[Window],
    hypotheses: &mut Vec<crate::Hypothesis>,
    found: &mut Vec<Vec<LanguageProbability>>,
) -> Result<(), R::Error> {
    for &window in windows {
        hypotheses.push(recognizer.begin(window)?);
    }
    let start = [vocabulary.sot];
    let appends: Vec<_> = hypotheses
        .iter()
        .map(|&hypothesis| Append { hypothesis, tokens: &start, wants: &[0] })
        .collect();
    let width = recognizer.sizes().vocab;
    let logits = recognizer.append(&appends)?;
    found.extend(logits.chunks_exact(width).map(|row| probabilities(vocabulary, row)));
    Ok(())
}

/// The softmax of the logits of languages.
fn probabilities(vocabulary: &Vocabulary, logits: &[f32]) -> Vec<LanguageProbability> {
    let of = |token: u32| logits.get(token as usize).copied().unwrap_or(f32::NEG_INFINITY);
    let languages = vocabulary.languages();
    let own: Vec<f32> = languages.iter().map(|&(_, token)| of(token)).collect();
    let sum = LogSumExp::of(&own);
    let probability = |(&(language, _), &logit): (&(Language, u32), &f32)| LanguageProbability {
        language,
        probability: sum.log_prob(logit).exp(),
    };
    languages.iter().zip(&own).map(probability).collect()
}
