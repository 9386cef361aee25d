//! Rendering of conversations.

use std::ffi::c_char;

use pelton::{Model, chat::ChatPrompt};

use crate::{
    conversation::{self, Conversation},
    error::pelton_error,
    fault::Fault,
    guard::guard,
    handles,
    memory::{out, text},
    model::pelton_model,
    status::pelton_status,
    text::{give, pelton_text},
};

/// A conversation as the model's template writes it.
pub(crate) fn render(model: &Model, all: &Conversation) -> Result<ChatPrompt, Fault> {
    let template = model.chat_template()?;
    let prompt = template.prompt_with(&all.chat, &all.choice, all.parallel);
    Ok(prompt.map_err(pelton::Error::from)?)
}

/// Renders a conversation by the model's chat template. The messages are a list in JSON, or an
/// object with `messages`, `tools` and further keys, as `pelton_request_set_messages` takes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_chat_render(
    model: *const pelton_model,
    messages: *const c_char,
    messages_length: usize,
    prompt: *mut *mut pelton_text,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let model = handles::get(model)?;
            let messages = text(messages, messages_length, "messages")?;
            let place = out(prompt, "prompt")?;
            let all = conversation::parse(messages)?;
            give(place, render(model.text()?, &all)?.text().to_owned());
            Ok(())
        })
    }
}
