//! `/v1/audio/transcriptions` and `/v1/audio/translations` (OpenAI).

use std::sync::Arc;

use axum::{
    Json as Answer,
    extract::{Request as HttpRequest, State},
    response::{IntoResponse, Response},
};
use pelton::speech::{Format, Task};
use serde_json::{Value, json};

use super::answer::{segment, subtitles, text, whole, word};
use crate::{
    app::{App, Caller},
    error::{ApiError, Shape},
    input::{Fields, extras},
    speech::{Found, Hearing, Options, check},
    wire,
};

/// The forms of a response.
const FORMATS: [&str; 5] = ["json", "text", "srt", "verbose_json", "vtt"];
/// Positions of the encoder for a second of audio.
const POSITIONS: f64 = 50.0;
/// The type of texts and subtitles.
const TEXT: &str = "text/plain; charset=utf-8";

/// A request.
struct Request {
    model: Option<String>,
    options: Options,
    format: &'static str,
    /// Whether segments and words are in the answer, which only one format has.
    segments: bool,
    words: bool,
    stream: bool,
}

impl Request {
    fn take(fields: &mut Fields, task: Task) -> Result<Self, ApiError> {
        let model = fields.string("model")?;
        let format = fields.choice("response_format", &FORMATS)?.unwrap_or("json");
        let mut options = Options::new(task);
        options.take(fields)?;
        options.take_chunking(fields)?;
        let (mut segments, mut words) = (false, false);
        for name in fields.strings("timestamp_granularities")? {
            match name.as_str() {
                "segment" => segments = true,
                "word" => words = true,
                _ => {
                    return Err(fields.wrong(
                        "timestamp_granularities",
                        &name.into(),
                        "word or segment",
                    ));
                }
            }
        }
        if (segments || words) && format != "verbose_json" {
            let message = format!(
                "timestamp_granularities is there and response_format {format}, expected verbose_json"
            );
            return Err(ApiError::field("timestamp_granularities", message));
        }
        if let Some(name) = fields.strings("include")?.into_iter().next() {
            let expected = "nothing: the segments of verbose_json have a mean of log-probabilities";
            return Err(fields.wrong("include", &name.into(), expected));
        }
        options.transcription.rules.words = words;
        let stream = fields.boolean("stream")?.unwrap_or(false);
        if stream && matches!(format, "srt" | "vtt") {
            let message = format!(
                "stream is true and response_format {format}, expected json, text or verbose_json"
            );
            return Err(ApiError::field("stream", message));
        }
        fields.finish(&[extras::ANY, extras::AUDIO])?;
        Ok(Self { model, options, format, segments: segments || !words, words, stream })
    }

    fn answer(&self, task: Task, found: &Found) -> Result<Response, ApiError> {
        let (all, seconds) = (&found.segments, found.seconds);
        Ok(match self.format {
            "text" => text(whole(all) + "\n", TEXT),
            "srt" => text(subtitles(Format::Srt, all)?, TEXT),
            "vtt" => text(subtitles(Format::Vtt, all)?, TEXT),
            "json" => Answer(json!({"text": whole(all), "usage": usage(seconds)})).into_response(),
            _ => {
                let mut body = json!({
                    "task": match task {
                        Task::Transcribe => "transcribe",
                        Task::Translate => "translate",
                    },
                    "language": found.language.name(), "duration": seconds, "text": whole(all),
                    "usage": usage(seconds),
                });
                if self.segments {
                    body["segments"] = all.iter().map(segment).collect();
                }
                if self.words {
                    body["words"] = all.iter().flat_map(|one| &one.words).map(word).collect();
                }
                Answer(body).into_response()
            }
        })
    }
}

/// The usage of a request, in seconds of audio.
fn usage(seconds: f64) -> Value {
    json!({"type": "duration", "seconds": seconds})
}

/// The usage of a stream, whose last event has no other form in OpenAI's API. A token of audio is a
/// position of the encoder.
fn tokens(found: &Found) -> Value {
    let audio = (found.seconds * POSITIONS).ceil() as u64;
    let output: usize = found.segments.iter().map(|one| one.tokens.len()).sum();
    json!({
        "type": "tokens", "input_tokens": audio, "output_tokens": output,
        "total_tokens": audio + output as u64,
        "input_token_details": {"audio_tokens": audio, "text_tokens": 0},
    })
}

/// `POST /v1/audio/transcriptions`
pub(in crate::api) async fn transcriptions(
    State(app): State<Arc<App>>,
    caller: Caller,
    request: HttpRequest,
) -> Result<Response, ApiError> {
    create(&app, &caller, request, Task::Transcribe).await
}

/// `POST /v1/audio/translations`
pub(in crate::api) async fn translations(
    State(app): State<Arc<App>>,
    caller: Caller,
    request: HttpRequest,
) -> Result<Response, ApiError> {
    create(&app, &caller, request, Task::Translate).await
}

async fn create(
    app: &App,
    caller: &Caller,
    request: HttpRequest,
    task: Task,
) -> Result<Response, ApiError> {
    let mut form = app.form(request, caller).await?;
    let mut request = Request::take(form.fields(), task)?;
    let audio = check(form.file()?).await?;
    let lease = app.registry.lease_listener(request.model.as_deref()).await?;
    let options = std::mem::replace(&mut request.options, Options::new(task));
    let options = options.of_model(lease.listener()?.conditions)?;
    let context = app.context(lease, caller, None);
    let mut hearing =
        Hearing::start(context, audio, app.config.limits.audio_seconds, options).await?;
    if !request.stream {
        return request.answer(task, &hearing.end().await?);
    }
    let format = wire::Format::Events(Shape::OpenAi);
    let with_segments = request.format == "verbose_json" && request.segments;
    Ok(wire::stream(format, app.config.limits.keep_alive, move |frames| async move {
        let mut is_first = true;
        while let Some(one) = hearing.next().await {
            let text = if is_first { one.text.trim_start() } else { &one.text };
            is_first = false;
            frames.data(&json!({"type": "transcript.text.delta", "delta": text})).await?;
            if with_segments {
                let mut event = segment(&one);
                event["type"] = "transcript.text.segment".into();
                if request.words {
                    event["words"] = one.words.iter().map(word).collect();
                }
                frames.data(&event).await?;
            }
        }
        let found = hearing.end().await?;
        let done = json!({
            "type": "transcript.text.done", "text": whole(&found.segments),
            "usage": tokens(&found),
        });
        Ok(frames.data(&done).await?)
    }))
}
