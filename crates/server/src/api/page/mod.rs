//! The page to chat in: embedded files, which load nothing from elsewhere.
//!
//! The page is modules of plain JavaScript without a build step. `conversation.js` has
//! conversations as data, and `store.js` their records in the browser. `markdown.js` makes elements
//! of the tokens of `markdown-it.js`, the one library. `answer.js` reads streams, `images.js` reads
//! pictures, and `page.js` joins all. No text of a model is ever parsed as HTML.

use axum::{
    extract::Path,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::error::ApiError;

/// Scripts and styles come from the server only, and nothing else is loaded.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

macro_rules! files {
    ($($name:literal)*) => { [$(($name, include_str!($name))),*] };
}

/// The files of the page by name. `markdown-it.js` is made by `tests/node/bundle.mjs`.
const FILES: [(&str, &str); 13] = files! {
    "answer.js" "conversation.js" "dom.js" "images.js" "markdown-it.js" "markdown.js" "math.js" "messages.js"
    "page.css" "page.js" "settings.js" "sidebar.js" "store.js"
};

fn file(kind: &'static str, text: &'static str) -> Response {
    let headers: [(HeaderName, HeaderValue); 5] = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    (headers, text).into_response()
}

/// `GET /`
pub(super) async fn index() -> Response {
    file("text/html; charset=utf-8", include_str!("index.html"))
}

/// `GET /page/NAME`
pub(super) async fn part(Path(name): Path<String>) -> Result<Response, ApiError> {
    let Some((name, text)) = FILES.into_iter().find(|(own, _)| *own == name) else {
        return Err(ApiError::new(StatusCode::NOT_FOUND, "the page has no such file"));
    };
    let is_style = name.ends_with(".css");
    Ok(file(
        if is_style { "text/css; charset=utf-8" } else { "text/javascript; charset=utf-8" },
        text,
    ))
}
