//! Errors as clients receive them.

use std::{borrow::Cow, time::Duration};

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

/// The API whose shape an error has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shape {
    #[default]
    OpenAi,
    Anthropic,
    Ollama,
}

/// Why a request was not answered.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    /// One sentence.
    pub(crate) message: Cow<'static, str>,
    /// The path of the field of the request that is at fault.
    pub(crate) param: Option<String>,
    pub(crate) code: Option<&'static str>,
    pub(crate) retry_after: Option<Duration>,
    /// Further fields of the error object.
    pub(crate) extra: Vec<(&'static str, Value)>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        Self { status, message, param: None, code: None, retry_after: None, extra: Vec::new() }
    }

    /// A field of the request is not as it must be.
    pub(crate) fn field(param: impl Into<String>, message: impl Into<Cow<'static, str>>) -> Self {
        let error = Self::new(StatusCode::BAD_REQUEST, message);
        Self { param: Some(param.into()), ..error }
    }

    /// The request as a whole is not as it must be.
    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// A fault of the server.
    pub(crate) fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    pub(crate) fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// Too many requests for now.
    pub(crate) fn busy(message: impl Into<Cow<'static, str>>, retry: Duration) -> Self {
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, message).code("rate_limit_exceeded");
        Self { retry_after: Some(retry), ..error }
    }

    /// The server or the model is not there for now.
    pub(crate) fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, message);
        Self { retry_after: Some(Duration::from_secs(1)), ..error }
    }

    fn kind(&self, shape: Shape) -> &'static str {
        match (self.status, shape) {
            (StatusCode::UNAUTHORIZED, _) => "authentication_error",
            (StatusCode::FORBIDDEN, _) => "permission_error",
            (StatusCode::NOT_FOUND, Shape::Anthropic) => "not_found_error",
            (StatusCode::PAYLOAD_TOO_LARGE, Shape::Anthropic) => "request_too_large",
            (StatusCode::TOO_MANY_REQUESTS, _) => "rate_limit_error",
            (StatusCode::SERVICE_UNAVAILABLE, Shape::Anthropic) => "overloaded_error",
            (StatusCode::NOT_IMPLEMENTED, Shape::OpenAi) => "not_supported_error",
            (status, Shape::Anthropic) if status.is_server_error() => "api_error",
            (status, _) if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        }
    }

    /// The message in the API of Anthropic, whose clients know the sentence of a full context.
    fn anthropic_message(&self) -> Cow<'static, str> {
        let number = |name| self.extra.iter().find(|(key, _)| *key == name).map(|(_, value)| value);
        match (self.code, number("n_prompt_tokens"), number("n_ctx")) {
            (Some("context_length_exceeded"), Some(tokens), Some(context)) => {
                format!("prompt is too long: {tokens} tokens > {context} maximum").into()
            }
            _ => self.message.clone(),
        }
    }

    /// The JSON of the error in an API's shape.
    pub(crate) fn body(&self, shape: Shape) -> Value {
        let mut error = match shape {
            Shape::OpenAi => json!({
                "message": self.message, "type": self.kind(shape), "param": self.param,
                "code": self.code,
            }),
            Shape::Anthropic => {
                json!({"type": self.kind(shape), "message": self.anthropic_message()})
            }
            Shape::Ollama => return json!({"error": self.message}),
        };
        for (key, value) in &self.extra {
            error[*key] = value.clone();
        }
        match shape {
            Shape::Anthropic => json!({"type": "error", "error": error}),
            _ => json!({"error": error}),
        }
    }

    /// The response in an API's shape.
    pub(crate) fn response(self, shape: Shape) -> Response {
        let mut response = (self.status, Json(self.body(shape))).into_response();
        let headers = response.headers_mut();
        if let Some(wait) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
        }
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            // the rest of the body is not read
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.response(Shape::OpenAi)
    }
}

impl From<pelton::Error> for ApiError {
    fn from(error: pelton::Error) -> Self {
        use pelton::{Error as E, ErrorKind};
        let (text, kind) = (error.to_string(), error.kind());
        match error {
            E::PromptTooLong { tokens, context }
            | E::TooManyBytes { least: tokens, context, .. } => {
                let bound = if matches!(error, E::TooManyBytes { .. }) { "at least " } else { "" };
                let error = Self::invalid(format!(
                    "This model's maximum context length is {context} tokens. However, your \
                     prompt has {bound}{tokens} tokens, and at least one more must fit. Please \
                     shorten it, or start the server with a longer --context if the model has one."
                ));
                let extra = vec![("n_prompt_tokens", tokens.into()), ("n_ctx", context.into())];
                Self { extra, param: Some("messages".to_owned()), ..error }
                    .code("context_length_exceeded")
            }
            E::TextTooLong { text, tokens, limit, what } => {
                let error = Self::invalid(format!(
                    "This model's maximum context length is {limit} tokens ({what}). However, text \
                     {text} has {tokens} tokens. Please shorten it, or start the server with a \
                     longer --context if the model has one."
                ));
                let extra = vec![("n_prompt_tokens", tokens.into()), ("n_ctx", limit.into())];
                Self { extra, param: Some("input".to_owned()), ..error }
                    .code("context_length_exceeded")
            }
            E::RequestOption { option, .. } | E::Option { option: option @ "lora", .. } => {
                Self::field(option, text)
            }
            E::Output { found, expected: "embeddings", .. } if found.starts_with("logits") => {
                Self::invalid(format!(
                    "{text}. A server that is started with --pooling last embeds a text by the \
                     model's last token."
                ))
            }
            E::Sampling(_) => {
                let param = text.split(' ').next().unwrap_or_default().to_owned();
                Self::field(param, text)
            }
            E::Effort { .. } => Self::field("effort", text),
            E::Chat(error) => error.into(),
            // others are being compiled, which may take seconds
            E::Constraint(pelton::ConstraintError::Busy) => {
                Self::busy(text, Duration::from_secs(5))
            }
            E::Constraint(_) => Self::field("response_format", text),
            E::EmptyPrompt => Self::field("prompt", text),
            E::Gone(_) => Self::unavailable(text),
            _ => match kind {
                ErrorKind::InvalidInput | ErrorKind::Unsupported => Self::invalid(text),
                ErrorKind::Busy => Self::busy(text, Duration::from_secs(1)),
                ErrorKind::TimedOut => Self::new(StatusCode::GATEWAY_TIMEOUT, text).code("timeout"),
                ErrorKind::Cancelled => Self::unavailable(text),
                _ => Self::internal(text),
            },
        }
    }
}

impl From<pelton::chat::Error> for ApiError {
    fn from(error: pelton::chat::Error) -> Self {
        Self::field("messages", error.to_string())
    }
}

impl From<pelton::tokenizer::Error> for ApiError {
    fn from(error: pelton::tokenizer::Error) -> Self {
        Self::invalid(error.to_string())
    }
}
