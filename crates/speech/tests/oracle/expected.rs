//! Options and numbers of the expectations.

use pelton_speech::Vocabulary;
use pelton_speech::decode::{DecodeOptions, Suppress, Task};
use serde_json::Value;

use crate::fake::ids;

/// FNV-1a over little-endian numbers.
pub(crate) fn fnv(numbers: impl IntoIterator<Item = u32>) -> String {
    let bytes = numbers.into_iter().flat_map(u32::to_le_bytes);
    let digest = bytes.fold(0xCBF2_9CE4_8422_2325u64, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3)
    });
    format!("{digest:016x}")
}

/// Asserts that a number is within 1e-5, relative to numbers above 1.
#[track_caller]
pub(crate) fn assert_near(found: f64, expected: &Value, what: &str) {
    let expected = expected.as_f64().unwrap();
    let tolerance = 1e-5 * expected.abs().max(1.0);
    assert!((found - expected).abs() <= tolerance, "{what}: {found} for {expected}");
}

fn tokens(vocabulary: &Vocabulary, value: &Value) -> Vec<u32> {
    match value {
        Value::String(text) => vocabulary.prompt(text),
        _ => ids(value),
    }
}

/// Sets an option of a window. Returns false if it is none.
pub(crate) fn set(
    vocabulary: &Vocabulary,
    options: &mut DecodeOptions,
    prompt: &mut Vec<u32>,
    name: &str,
    value: &Value,
) -> bool {
    let count = || value.as_u64().map(|n| n as usize);
    match name {
        "task" => {
            options.task = match value.as_str() {
                Some("translate") => Task::Translate,
                _ => Task::Transcribe,
            }
        }
        "language" => options.language = Some(value.as_str().unwrap().parse().unwrap()),
        "temperature" if value.is_number() => options.temperature = value.as_f64().unwrap(),
        "sample_len" => options.sample_len = count(),
        "best_of" => options.best_of = count(),
        "beam_size" => options.beam_size = count(),
        "patience" => options.patience = value.as_f64(),
        "length_penalty" => options.length_penalty = value.as_f64(),
        "suppress_blank" => options.suppress_blank = value.as_bool().unwrap(),
        "without_timestamps" => options.without_timestamps = value.as_bool().unwrap(),
        "max_initial_timestamp" => options.max_initial_timestamp = value.as_f64(),
        "prompt" => *prompt = tokens(vocabulary, value),
        "prefix" => options.prefix = tokens(vocabulary, value),
        "suppress_tokens" => {
            let parts = value.as_str().unwrap().split(',').filter(|part| !part.is_empty());
            let numbers: Vec<i64> = parts.map(|part| part.parse().unwrap()).collect();
            let tokens = numbers.iter().filter_map(|&n| u32::try_from(n).ok()).collect();
            options.suppress = Suppress { non_speech: numbers.contains(&-1), tokens };
        }
        _ => return false,
    }
    true
}
