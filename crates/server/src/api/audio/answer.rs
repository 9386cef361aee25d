//! Transcripts as the bodies of responses.

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use pelton::speech::{Format, Segment, Word, WriteOptions, write};
use serde_json::{Value, json};

use crate::error::ApiError;

/// A body that is no JSON.
pub(super) fn text(body: String, kind: &'static str) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], body).into_response()
}

/// Subtitles of segments, with a cue for each.
pub(super) fn subtitles(format: Format, segments: &[Segment]) -> Result<String, ApiError> {
    let mut out = Vec::new();
    write(format, segments, &WriteOptions::default(), &mut out)
        .map_err(|error| ApiError::internal(format!("the text could not be written: {error}")))?;
    String::from_utf8(out).map_err(|error| ApiError::internal(error.to_string()))
}

/// The text of all segments without spaces at its ends.
pub(super) fn whole(segments: &[Segment]) -> String {
    let text: String = segments.iter().map(|segment| segment.text.as_str()).collect();
    text.trim().to_owned()
}

/// A segment with all of its fields.
pub(super) fn segment(segment: &Segment) -> Value {
    json!({
        "id": segment.id, "seek": segment.seek, "start": segment.start, "end": segment.end,
        "text": segment.text, "tokens": segment.tokens, "temperature": segment.temperature,
        "avg_logprob": segment.average_logprob, "compression_ratio": segment.compression_ratio,
        "no_speech_prob": segment.no_speech_prob,
    })
}

/// A word without the space before it.
pub(super) fn word(word: &Word) -> Value {
    json!({"word": word.text.trim(), "start": word.start, "end": word.end})
}
