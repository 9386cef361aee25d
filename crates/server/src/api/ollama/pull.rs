//! Models on the disk: downloads and deletions.

use std::sync::Arc;

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use pelton_hub::{Error, Phase, Progress, Reference};
use serde_json::{Value, json};

use super::request::model;
use crate::{
    app::{App, Json},
    error::ApiError,
    generate::blocking,
    input::extras,
    pulls::{Pulls, State as Pull, refusal},
    wire::{Format, respond},
};

/// The downloads of the server.
fn pulls(app: &App) -> Result<&Arc<Pulls>, ApiError> {
    app.pulls.as_ref().ok_or_else(|| {
        ApiError::new(
            StatusCode::NOT_IMPLEMENTED,
            "the server does not download or change models, expected models on its command line",
        )
    })
}

/// `POST /api/pull`
pub(in crate::api) async fn pull(
    State(app): State<Arc<App>>,
    Json(mut fields): Json,
) -> Result<Response, ApiError> {
    let name = model(&mut fields)?;
    let streams = fields.boolean("stream")?.unwrap_or(true);
    fields.boolean("insecure")?;
    fields.finish(&[extras::ANY, &["username", "password"]])?;
    let pulls = pulls(&app)?;
    let reference: Reference = name.parse().map_err(|error| refusal(&error))?;
    if pulls.hub().settings().offline {
        let (name, places) = (reference.to_string(), pulls.hub().searched());
        return Err(refusal(&Error::Offline { name, places }));
    }
    let offer = {
        let app = Arc::clone(&app);
        let name = name.clone();
        move |config| app.registry.add(config, &name)
    };
    let mut waiting = pulls.start(app.config.device, reference, offer)?;
    let last = |whole: &mut Value, frame: &Value| *whole = frame.clone();
    let keep_alive = app.config.limits.keep_alive;
    respond(streams, Format::Lines, keep_alive, last, |frames| async move {
        frames.data(&json!({"status": "pulling manifest"})).await?;
        let mut state = waiting.now();
        loop {
            match state {
                Pull::Asking => {}
                Pull::Chosen(reason) => frames.data(&json!({"status": reason})).await?,
                Pull::Coming(progress) => frames.data(&line(&progress)).await?,
                Pull::Ended(outcome) => {
                    outcome?;
                    break;
                }
            }
            state = waiting.next().await;
        }
        frames.data(&json!({"status": "writing manifest"})).await?;
        frames.data(&json!({"status": "success"})).await?;
        Ok(())
    })
    .await
}

/// A line about a file that comes.
fn line(progress: &Progress) -> Value {
    let status = match progress.phase {
        Phase::Verifying => "verifying sha256 digest".to_owned(),
        Phase::Waiting => format!("waiting for another download of {}", progress.file),
        _ => format!("pulling {}", progress.file),
    };
    let mut line = json!({
        "status": status, "total": progress.file_total, "completed": progress.file_done,
    });
    if let Some(digest) = &progress.sha256 {
        line["digest"] = format!("sha256:{digest}").into();
    }
    line
}

/// `DELETE /api/delete`
pub(in crate::api) async fn remove(
    State(app): State<Arc<App>>,
    Json(mut fields): Json,
) -> Result<Response, ApiError> {
    let name = model(&mut fields)?;
    fields.finish(&[extras::ANY])?;
    let hub = Arc::clone(pulls(&app)?.hub());
    let entry = app.registry.remove(&name)?;
    entry.unload().await;
    // the alias names the quantization, so that others of the repository stay
    let exact = entry.config.aliases.first().unwrap_or(&entry.config.name).clone();
    blocking(move || {
        let reference: Reference = exact.parse().map_err(|error| refusal(&error))?;
        hub.remove(&reference).map_err(|error| refusal(&error))
    })
    .await?;
    Ok(StatusCode::OK.into_response())
}
