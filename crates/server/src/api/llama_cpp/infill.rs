//! Text between a prefix and a suffix (fill in the middle).

use std::sync::Arc;

use axum::{extract::State, response::Response};

use super::completion::Wanted;
use crate::{
    app::{App, Caller, Json},
    error::ApiError,
    generate,
};

/// `POST /infill`
pub(in crate::api) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    Json(mut fields): Json,
) -> Result<Response, ApiError> {
    let model = fields.string("model")?;
    let expected = "the text before";
    let before = fields.string("input_prefix")?;
    let before = before.ok_or_else(|| fields.missing("input_prefix", expected))?;
    let after = fields.string("input_suffix")?.unwrap_or_default();
    let mut prefix = String::new();
    for mut file in fields.objects("input_extra")? {
        if let Some(name) = file.string("filename")? {
            prefix.push_str(&format!("{name}\n"));
        }
        prefix.push_str(&file.string("text")?.unwrap_or_default());
        file.finish(&[&["time"]])?;
        prefix.push('\n');
    }
    prefix.push_str(&before);
    prefix.push_str(&fields.string("prompt")?.unwrap_or_default());
    let wanted = Wanted::take(&mut fields)?;
    let lease = app.registry.lease(model.as_deref()).await?;
    let context = app.context(lease, &caller, wanted.salt());
    wanted
        .answer(&app, context, move |context| {
            Ok(generate::infill_prompt(&context.lease, &prefix, &after)?.into())
        })
        .await
}
