//! Engines: the devices that models are loaded on.

use std::ptr;

use pelton::{Device, Engine};

use crate::{
    error::pelton_error,
    guard::guard,
    handles::{self, handle},
    memory::out,
    options::{self, pelton_options},
    settings::{Setting, count, flag, setting},
    status::pelton_status,
};

/// A device. Any thread can load models on it, several at the same time.
pub struct pelton_engine;

handle!(pelton_engine, Engine);

/// The options of an engine.
#[derive(Default)]
pub(crate) struct EngineOptions {
    device: Device,
    threads: Option<usize>,
    repack: Option<bool>,
}

pub(crate) const SETTINGS: &[Setting<EngineOptions>] = &[
    setting!("device", str::parse, |options, device| options.device = device),
    setting!("threads", count, |options, threads| options.threads = Some(threads)),
    setting!("repack", flag, |options, repack| options.repack = Some(repack)),
];

/// Opens a device. `options` may be NULL: then it is a hardware GPU if there is one, or else the
/// CPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_engine_open(
    options: *const pelton_options,
    engine: *mut *mut pelton_engine,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let place = out(engine, "engine")?;
            let options = options::read(options, SETTINGS)?;
            let mut builder = Engine::builder().device(options.device);
            if let Some(threads) = options.threads {
                builder = builder.threads(threads);
            }
            if let Some(repack) = options.repack {
                builder = builder.repack(repack);
            }
            place.set(handles::open(builder.build()?));
            Ok(())
        })
    }
}

/// Closes an engine. Its models go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_engine_close(engine: *mut pelton_engine) -> pelton_status {
    // SAFETY: there is no place for an error.
    unsafe { guard(ptr::null_mut(), || handles::close(engine).map(drop)) }
}
