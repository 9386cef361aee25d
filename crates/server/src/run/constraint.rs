//! What the text of a request must be, as the engine takes it.

use pelton::{Request, chat::ChatPrompt};

use super::options::Output;
use crate::error::ApiError;

/// Constrains the text of a request.
pub(crate) fn constrain(request: Request, output: &Output) -> Result<Request, ApiError> {
    match output {
        Output::Text => Ok(request),
        _ => Err(ApiError::field("response_format", "response_format is not supported yet")),
    }
}

/// Constrains the reply to a chat: its tool calls, or its answer after the reasoning.
pub(crate) fn constrain_chat(
    request: Request,
    prompt: &ChatPrompt,
    output: &Output,
) -> Result<Request, ApiError> {
    if prompt.calls.as_ref().is_some_and(|calls| calls.required) {
        return Err(ApiError::field("tool_choice", "tool_choice is not supported yet"));
    }
    constrain(request, output)
}
