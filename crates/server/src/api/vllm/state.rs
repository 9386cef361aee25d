//! The version, the load, and what brings the server to rest.

use std::sync::Arc;

use axum::{Json as Answer, extract::State, http::Uri};
use serde_json::{Value, json};

use crate::{app::App, error::ApiError};

/// `GET /version`: that of Pelton.
pub(in crate::api) async fn version() -> Answer<Value> {
    Answer(json!({"version": env!("CARGO_PKG_VERSION")}))
}

/// `GET /load`: the requests that are being answered, without this one.
pub(in crate::api) async fn load(State(app): State<Arc<App>>) -> Answer<Value> {
    Answer(json!({"server_load": app.metrics.http.running() - 1}))
}

/// `POST /reset_prefix_cache`: requests from now on find no prefix of earlier ones.
pub(in crate::api) async fn reset_prefix_cache(State(app): State<Arc<App>>) {
    app.salts.forget();
    tracing::info!("cached prefixes are forgotten");
}

/// `POST /sleep`: unloads all models, after the requests that use them. Levels differ in what vLLM
/// keeps in RAM; here the file is what is left.
pub(in crate::api) async fn sleep(State(app): State<Arc<App>>, uri: Uri) -> Result<(), ApiError> {
    let fields = uri.query().unwrap_or_default().split('&');
    if let Some(level) = fields.filter_map(|field| field.strip_prefix("level=")).next_back()
        && !["1", "2"].contains(&level)
    {
        let shown: String = level.chars().take(20).collect();
        return Err(ApiError::field("level", format!("level is {shown:?}, expected 1 or 2")));
    }
    app.sleep.begin(app.registry.entries()).await;
    Ok(())
}

/// `POST /wake_up`: loads the models again that `/sleep` has unloaded. Their first requests do so
/// too.
pub(in crate::api) async fn wake_up(State(app): State<Arc<App>>) -> Result<(), ApiError> {
    for entry in app.sleep.end() {
        app.registry.load(&entry).await?;
    }
    Ok(())
}

/// `GET /is_sleeping`
pub(in crate::api) async fn is_sleeping(State(app): State<Arc<App>>) -> Answer<Value> {
    Answer(json!({"is_sleeping": app.sleep.is_on()}))
}
