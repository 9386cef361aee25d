//! The log: events of the engine for a function of the caller.

use std::{
    ffi::{c_char, c_void},
    fmt::{self, Write},
    sync::{
        Mutex, Once, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::{Interest, set_global_default},
};

use crate::{
    callback::inside, error::pelton_error, fault::Fault, guard::guard, status::pelton_status,
};

/// No events.
pub const PELTON_LOG_OFF: u32 = 0;
/// Failed passes.
pub const PELTON_LOG_ERROR: u32 = 1;
/// Things that the user should know.
pub const PELTON_LOG_WARN: u32 = 2;
/// Loads.
pub const PELTON_LOG_INFO: u32 = 3;
/// Starts, cancellations and preemptions of requests.
pub const PELTON_LOG_DEBUG: u32 = 4;
/// Passes and evictions.
pub const PELTON_LOG_TRACE: u32 = 5;

/// A function that receives a line of the log: UTF-8 with a NUL after it, which lives until it
/// returns. It runs on any thread, one at a time, and may not call the library.
pub type pelton_log_fn = Option<
    unsafe extern "C" fn(level: u32, text: *const c_char, length: usize, user_data: *mut c_void),
>;

/// The caller's function with its data.
struct Sink {
    call: unsafe extern "C" fn(u32, *const c_char, usize, *mut c_void),
    user_data: *mut c_void,
}

// SAFETY: the header requires data that any thread can use.
unsafe impl Send for Sink {}

static SINK: Mutex<Option<Sink>> = Mutex::new(None);
/// The greatest level that is wanted.
static LEVEL: AtomicU32 = AtomicU32::new(PELTON_LOG_OFF);

fn number(level: Level) -> u32 {
    match level {
        Level::ERROR => PELTON_LOG_ERROR,
        Level::WARN => PELTON_LOG_WARN,
        Level::INFO => PELTON_LOG_INFO,
        Level::DEBUG => PELTON_LOG_DEBUG,
        Level::TRACE => PELTON_LOG_TRACE,
    }
}

/// The receiver of all events of the process.
struct Log;

/// The fields of an event as a line.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // writing to a string does not fail
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

impl Subscriber for Log {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // the level changes
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("pelton")
            && number(*metadata.level()) <= LEVEL.load(Ordering::Relaxed)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(format!("{}:", event.metadata().target()));
        event.record(&mut line);
        // values may be of files and hubs
        let mut text = pelton_printable::line(&line.0).into_owned();
        let length = text.len();
        text.push('\0');
        let sink = SINK.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sink) = &*sink {
            let level = number(*event.metadata().level());
            let data = text.as_ptr().cast();
            // SAFETY: the caller has promised a function that any thread can call, until it is
            // unset.
            inside(|| unsafe { (sink.call)(level, data, length, sink.user_data) });
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Sets the function that receives the log, of all engines, up to a level `PELTON_LOG_*`. NULL
/// unsets it; it does not run any more when this call returns that has unset it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_log_set(
    level: u32,
    callback: pelton_log_fn,
    user_data: *mut c_void,
    error: *mut *mut pelton_error,
) -> pelton_status {
    static INSTALLED: Once = Once::new();
    let call = || {
        if level > PELTON_LOG_TRACE {
            return Err(Fault::invalid(format_args!(
                "the level is {level}, expected 0 to {PELTON_LOG_TRACE}"
            )));
        }
        // a Rust program that has a subscriber of its own keeps it, and this log stays empty
        INSTALLED.call_once(|| drop(set_global_default(Log)));
        let mut sink = SINK.lock().unwrap_or_else(PoisonError::into_inner);
        *sink = callback.map(|call| Sink { call, user_data });
        LEVEL.store(if sink.is_some() { level } else { PELTON_LOG_OFF }, Ordering::Relaxed);
        Ok(())
    };
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe { guard(error, call) }
}
