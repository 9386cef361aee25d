//! Requests: a prompt and its options.

use std::{
    ffi::c_char,
    ptr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use pelton::{GenerateOptions, Prompt};

use crate::{
    conversation::{self, Conversation},
    error::pelton_error,
    fault::Fault,
    grammar::pelton_grammar,
    guard::guard,
    handles::{self, handle},
    memory::{array, out, text},
    request_options,
    status::pelton_status,
};

/// A prompt with its options. It can be started many times, on any model, and changed in between.
pub struct pelton_request;

/// The text that is continued or answered.
#[derive(Clone)]
pub(crate) enum Input {
    Prompt(Prompt),
    Conversation(Box<Conversation>),
}

/// The values of a request.
#[derive(Clone, Default)]
pub(crate) struct Values {
    pub(crate) input: Option<Input>,
    pub(crate) options: GenerateOptions,
}

/// A request that several threads may read.
#[derive(Default)]
pub(crate) struct RequestObject(Mutex<Values>);

impl RequestObject {
    fn lock(&self) -> MutexGuard<'_, Values> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The values of this moment.
    pub(crate) fn values(&self) -> Values {
        self.lock().clone()
    }
}

handle!(pelton_request, RequestObject);

/// Makes a request without a prompt.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_request_new(
    request: *mut *mut pelton_request,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            out(request, "request")?.set(handles::open(RequestObject::default()));
            Ok(())
        })
    }
}

/// Sets a text to continue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_request_set_prompt(
    request: *mut pelton_request,
    prompt: *const c_char,
    prompt_length: usize,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let request = handles::get(request)?;
            let prompt = text(prompt, prompt_length, "prompt")?;
            request.lock().input = Some(Input::Prompt(prompt.into()));
            Ok(())
        })
    }
}

/// Sets tokens to continue, which are used as they are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_request_set_tokens(
    request: *mut pelton_request,
    ids: *const u32,
    count: usize,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let request = handles::get(request)?;
            let ids = array(ids, count, "ids")?;
            request.lock().input = Some(Input::Prompt(ids.into()));
            Ok(())
        })
    }
}

/// Sets a conversation to answer. It is JSON: a list of messages as in OpenAI's API, or an object
/// with the keys `messages`, `tools`, `tool_choice`, `parallel_tool_calls`, `documents`,
/// `add_generation_prompt`, `continue_final_message`, `enable_thinking`, `reasoning_effort` and
/// `chat_template_kwargs`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_request_set_messages(
    request: *mut pelton_request,
    messages: *const c_char,
    messages_length: usize,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let request = handles::get(request)?;
            let messages = text(messages, messages_length, "messages")?;
            let all = Box::new(conversation::parse(messages)?);
            request.lock().input = Some(Input::Conversation(all));
            Ok(())
        })
    }
}

/// Puts a picture before the text of the last message of the conversation, which is the user's.
/// `file` has the bytes of a file: PNG, JPEG, WebP, GIF or BMP. Pictures come in the order of the
/// calls, and the next conversation begins without any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_request_add_image(
    request: *mut pelton_request,
    file: *const u8,
    file_length: usize,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let request = handles::get(request)?;
            let file = array(file, file_length, "file")?;
            match &mut request.lock().input {
                Some(Input::Conversation(all)) => all.add_image(file),
                _ => Err(Fault::invalid(format_args!(
                    "the request has no conversation, expected one before its pictures"
                ))),
            }
        })
    }
}

/// Sets an option to a text, such as `stop`. docs/c.md lists the options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_request_set(
    request: *mut pelton_request,
    name: *const c_char,
    name_length: usize,
    value: *const c_char,
    value_length: usize,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let request = handles::get(request)?;
            let (name, value) =
                (text(name, name_length, "name")?, text(value, value_length, "value")?);
            set(&mut request.lock(), name, value)
        })
    }
}

/// Sets an option to a number, such as `max_tokens` or `temperature`; 1 is yes and 0 no.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_request_set_number(
    request: *mut pelton_request,
    name: *const c_char,
    name_length: usize,
    value: f64,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let request = handles::get(request)?;
            let name = text(name, name_length, "name")?;
            set(&mut request.lock(), name, &value.to_string())
        })
    }
}

/// Sets the option, or changes nothing.
fn set(values: &mut Values, name: &str, value: &str) -> Result<(), Fault> {
    let mut options = values.options.clone();
    request_options::set(&mut options, name, value)?;
    values.options = options;
    Ok(())
}

/// Sets the grammar that the text keeps to; NULL for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_request_set_grammar(
    request: *mut pelton_request,
    grammar: *const pelton_grammar,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let request = handles::get(request)?;
            let grammar = handles::get_optional(grammar)?;
            request.lock().options.constraint = grammar.map(|grammar| grammar.clone());
            Ok(())
        })
    }
}

/// Closes a request. Its streams go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_request_free(request: *mut pelton_request) -> pelton_status {
    // SAFETY: there is no place for an error.
    unsafe { guard(ptr::null_mut(), || handles::close(request).map(drop)) }
}
