//! Streams: running requests, whose tokens the caller pulls.

use std::{
    ffi::{c_char, c_void},
    ptr,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use pelton::{Event, RequestHandle, Stats};

use crate::{
    callback::{Wake, pelton_ready_fn},
    error::pelton_error,
    fault::Fault,
    guard::{attempt, guard},
    handles::{self, Slot, handle},
    memory::{out, sized_out, text},
    model::{ModelObject, pelton_model},
    queue::Queue,
    reading::{self, Next, Reading},
    request::pelton_request,
    settings::unknown,
    status::pelton_status,
    text::{give, pelton_text},
    token::{FIRST_SIZE, pelton_token},
};

/// A running request. It keeps its model loaded. One thread at a time reads it; any
/// thread can cancel it.
pub struct pelton_stream;

/// The outcome of a wait.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum pelton_next {
    /// The call has failed: the error says why.
    PELTON_NEXT_ERROR = -1,
    /// There are no more items.
    PELTON_NEXT_END = 0,
    /// The item was written.
    PELTON_NEXT_ITEM = 1,
    /// None came in the time.
    PELTON_NEXT_TIMEOUT = 2,
}

/// A request that runs.
pub(crate) struct StreamObject {
    queue: Arc<Queue<Event>>,
    handle: RequestHandle,
    reading: Mutex<Reading>,
    /// Keeps the model loaded.
    _model: Arc<Slot<ModelObject>>,
}

handle!(pelton_stream, StreamObject);

impl StreamObject {
    fn reading(&self) -> Result<MutexGuard<'_, Reading>, Fault> {
        handles::alone::<pelton_stream, _>(&self.reading)
    }
}

impl Drop for StreamObject {
    fn drop(&mut self) {
        self.handle.cancel();
    }
}

/// The end of a wait; a negative time has none.
pub(crate) fn end_of(timeout_ms: i64) -> Option<Instant> {
    Instant::now().checked_add(Duration::from_millis(timeout_ms.try_into().ok()?))
}

/// Starts a request on a model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_request_start(
    request: *const pelton_request,
    model: *const pelton_model,
    stream: *mut *mut pelton_stream,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let (request, model) = (handles::get(request)?, handles::get(model)?);
            let place = out(stream, "stream")?;
            let (queue, handle, reading) = reading::start(model.text()?, request.values())?;
            let (reading, _model) = (Mutex::new(reading), model.keep());
            place.set(handles::open(StreamObject { queue, handle, reading, _model }));
            Ok(())
        })
    }
}

/// Waits for the next token at most `timeout_ms` milliseconds: 0 does not wait, and a negative time
/// is without end. After the end, and after an error, it is `PELTON_NEXT_END`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_stream_next(
    stream: *mut pelton_stream,
    timeout_ms: i64,
    token: *mut pelton_token,
    error: *mut *mut pelton_error,
) -> pelton_next {
    // SAFETY: the caller keeps the header's rules of pointers.
    let outcome = unsafe {
        attempt(error, || {
            let stream = handles::get(stream)?;
            let place = sized_out(token, FIRST_SIZE, "token")?;
            let mut reading = stream.reading()?;
            Ok(match reading.next(&stream.queue, end_of(timeout_ms))? {
                Next::Piece(piece) => {
                    place.set(reading.current.insert(piece).view());
                    pelton_next::PELTON_NEXT_ITEM
                }
                Next::End => pelton_next::PELTON_NEXT_END,
                Next::TimedOut => pelton_next::PELTON_NEXT_TIMEOUT,
            })
        })
    };
    outcome.unwrap_or(pelton_next::PELTON_NEXT_ERROR)
}

/// Cancels the request. Its stream ends soon with the finish reason `cancelled`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_stream_cancel(
    stream: *const pelton_stream,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            handles::get(stream)?.handle.cancel();
            Ok(())
        })
    }
}

/// Sets a function that is called when a token or the end can be read; NULL unsets it. It runs on a
/// thread of the library, and at once on this one if there is something to read. It may not call
/// the library. It does not run any more when this call returns that has unset it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_stream_on_ready(
    stream: *const pelton_stream,
    callback: pelton_ready_fn,
    user_data: *mut c_void,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            handles::get(stream)?.queue.on_ready(Wake::new(callback, user_data));
            Ok(())
        })
    }
}

/// A number of a request that runs.
struct Number {
    name: &'static str,
    get: fn(&Stats) -> Option<f64>,
}

const NUMBERS: &[Number] = &[
    Number { name: "prompt_tokens", get: |stats| Some(stats.prompt_tokens as f64) },
    Number { name: "cached_tokens", get: |stats| Some(stats.cached_tokens as f64) },
    Number { name: "prefilled_tokens", get: |stats| Some(stats.prefilled_tokens as f64) },
    Number { name: "generated_tokens", get: |stats| Some(stats.generated_tokens as f64) },
    Number { name: "queued_seconds", get: |stats| Some(stats.queued?.as_secs_f64()) },
    Number {
        name: "time_to_first_token",
        get: |stats| Some(stats.time_to_first_token?.as_secs_f64()),
    },
    Number { name: "picture_seconds", get: |stats| Some(stats.pictures.as_secs_f64()) },
    Number { name: "prefill_seconds", get: |stats| Some(stats.prefill.as_secs_f64()) },
    Number { name: "decode_seconds", get: |stats| Some(stats.decode.as_secs_f64()) },
    Number { name: "prefill_tokens_per_second", get: Stats::prefill_tokens_per_second },
    Number { name: "decode_tokens_per_second", get: Stats::decode_tokens_per_second },
    Number { name: "preemptions", get: |stats| Some(stats.preemptions as f64) },
    Number { name: "drafted_tokens", get: |stats| Some(stats.speculation.drafted as f64) },
    Number { name: "accepted_tokens", get: |stats| Some(stats.speculation.accepted as f64) },
];

/// The texts of a stream.
pub(crate) const TEXTS: [&str; 5] = ["finish_reason", "text", "message", "prompt", "seed"];

/// The names of numbers.
pub(crate) fn numbers() -> Vec<&'static str> {
    NUMBERS.iter().map(|number| number.name).collect()
}

/// Reads a size, a time or a speed of the request so far. One that is not known yet is NaN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_stream_number(
    stream: *const pelton_stream,
    name: *const c_char,
    name_length: usize,
    value: *mut f64,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let stream = handles::get(stream)?;
            let name = text(name, name_length, "name")?;
            let place = out(value, "value")?;
            let Some(number) = NUMBERS.iter().find(|number| number.name == name) else {
                return Err(unknown("number", name, &numbers()));
            };
            place.set((number.get)(&stream.handle.stats()).unwrap_or(f64::NAN));
            Ok(())
        })
    }
}

/// Reads a text of the tokens that were read so far. `text` is the answer, and `message` the JSON
/// of it for the conversation. `prompt` is the JSON of the log-probabilities that the request asks
/// for. `finish_reason` is empty before the end, then `end`, `stop`, `length` or `cancelled`.
/// `seed` gives the same text again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_stream_text(
    stream: *const pelton_stream,
    name: *const c_char,
    name_length: usize,
    value: *mut *mut pelton_text,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let stream = handles::get(stream)?;
            let name = text(name, name_length, "name")?;
            let place = out(value, "value")?;
            let reading = stream.reading()?;
            let found = match name {
                "text" => reading.text().to_owned(),
                "message" => reading.message(),
                "prompt" => reading.prompt(),
                "finish_reason" => reading.finish_reason().unwrap_or_default().to_owned(),
                "seed" => stream.handle.stats().seed.to_string(),
                _ => return Err(unknown("text", name, &TEXTS)),
            };
            give(place, found);
            Ok(())
        })
    }
}

/// Closes a stream, and cancels its request. A thread that waits for it gets the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_stream_close(stream: *mut pelton_stream) -> pelton_status {
    // SAFETY: there is no place for an error.
    unsafe {
        guard(ptr::null_mut(), || {
            let stream = handles::close(stream)?;
            stream.queue.on_ready(None);
            stream.handle.cancel();
            Ok(())
        })
    }
}
