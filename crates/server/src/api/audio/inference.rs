//! `/inference` (whisper.cpp's server).

use std::sync::Arc;

use axum::{
    Json as Answer,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use pelton::speech::{Format, Segment, Task};
use serde_json::{Value, json};

use super::answer::{subtitles, text};
use crate::{
    app::{App, Caller},
    error::ApiError,
    input::extras,
    speech::{Found, Hearing, Options, check},
};

/// The forms of a response.
const FORMATS: [&str; 5] = ["json", "text", "srt", "verbose_json", "vtt"];

/// `POST /inference`
pub(in crate::api) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let mut form = app.form(request, &caller).await?;
    let fields = form.fields();
    let model = fields.string("model")?;
    let format = fields.choice("response_format", &FORMATS)?.unwrap_or("json");
    let words = fields.boolean("token_timestamps")?.unwrap_or(false);
    let mut options = Options::new(Task::Transcribe);
    options.take(fields)?;
    options.take_whisper_cpp(fields)?;
    fields.finish(&[extras::ANY, extras::AUDIO])?;
    options.transcription.rules.words = words && format == "verbose_json";
    let audio = check(form.file()?).await?;
    let lease = app.registry.lease_listener(model.as_deref()).await?;
    let options = options.of_model(lease.listener()?.conditions)?;
    let (task, timed) = (options.rules.decode.task, !options.rules.decode.without_timestamps);
    let context = app.context(lease, &caller, None);
    let found = Hearing::start(context, audio, app.config.limits.audio_seconds, options)
        .await?
        .end()
        .await?;
    let all = &found.segments;
    Ok(match format {
        "text" => text(lines(all), "text/plain; charset=utf-8"),
        "srt" => text(subtitles(Format::Srt, all)?, "application/x-subrip; charset=utf-8"),
        "vtt" => text(subtitles(Format::Vtt, all)?, "text/vtt; charset=utf-8"),
        "json" => Answer(json!({"text": lines(all)})).into_response(),
        _ => Answer(verbose(task, timed, &found)).into_response(),
    })
}

/// A line for each segment.
fn lines(segments: &[Segment]) -> String {
    segments.iter().flat_map(|segment| [segment.text.as_str(), "\n"]).collect()
}

fn verbose(task: Task, timed: bool, found: &Found) -> Value {
    let segment = |segment: &Segment| {
        let mut value = json!({
            "id": segment.id, "text": segment.text, "tokens": segment.tokens,
            "temperature": segment.temperature, "avg_logprob": segment.average_logprob,
            "no_speech_prob": segment.no_speech_prob,
        });
        if timed {
            value["start"] = segment.start.into();
            value["end"] = segment.end.into();
        }
        if !segment.words.is_empty() {
            let word = |word: &pelton::speech::Word| {
                json!({
                    "word": word.text, "start": word.start, "end": word.end,
                    "probability": word.probability,
                })
            };
            value["words"] = segment.words.iter().map(word).collect();
        }
        value
    };
    json!({
        "task": match task {
            Task::Transcribe => "transcribe",
            Task::Translate => "translate",
        },
        "language": found.language.name(), "duration": found.seconds,
        "text": lines(&found.segments),
        "segments": found.segments.iter().map(segment).collect::<Vec<Value>>(),
    })
}
