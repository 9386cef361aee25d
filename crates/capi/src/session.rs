//! Sessions: one sequence, run by hand.

use std::{
    ptr,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use pelton::{Session, graph::Profile};
use serde_json::{Value, json};

use crate::{
    error::pelton_error,
    fault::Fault,
    guard::guard,
    handles::{self, handle},
    memory::{array, buffer, out},
    model::{ModelObject, pelton_model},
    status::pelton_status,
    text::{give, pelton_text},
};

/// One sequence of a model, run by hand. One thread at a time uses it.
pub struct pelton_session;

/// The session with its newest logits.
pub(crate) struct State {
    session: Session,
    logits: Vec<f32>,
}

/// A session that one call has at a time.
pub(crate) struct SessionObject(Mutex<State>);

handle!(pelton_session, SessionObject);

impl SessionObject {
    fn lock(&self) -> Result<MutexGuard<'_, State>, Fault> {
        handles::alone::<pelton_session, _>(&self.0)
    }
}

/// Makes a session of a model, whose handle is closed if it succeeds. The model may have no other
/// handles, streams or calls. Decoders of it go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_session_new(
    model: *mut pelton_model,
    session: *mut *mut pelton_session,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let place = out(session, "session")?;
            handles::get(model)?.text()?;
            let ModelObject::Text(model) = handles::take(model)? else {
                return Err(Fault::invalid("the model recognizes speech"));
            };
            let session = model.into_session()?;
            let state = State { session, logits: Vec::new() };
            place.set(handles::open(SessionObject(Mutex::new(state))));
            Ok(())
        })
    }
}

/// Runs tokens at the next positions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_session_feed(
    session: *mut pelton_session,
    ids: *const u32,
    count: usize,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let session = handles::get(session)?;
            let ids = array(ids, count, "ids")?;
            let State { session, logits } = &mut *session.lock()?;
            let new = session.run(ids)?;
            logits.clear();
            logits.extend_from_slice(new);
            Ok(())
        })
    }
}

/// Copies the logits after the last token that was fed, one for each token of the vocabulary. Only
/// the count is written if `logits` is NULL and `capacity` 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_session_logits(
    session: *const pelton_session,
    logits: *mut f32,
    capacity: usize,
    count: *mut usize,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let session = handles::get(session)?;
            let place = buffer(logits, capacity, count, "logits")?;
            place.fill(&session.lock()?.logits)
        })
    }
}

/// Runs a token and then `capacity - 1` more, each the likeliest after the one before. Writes all
/// `capacity` tokens that were sampled; the last one is not run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_session_chain(
    session: *mut pelton_session,
    id: u32,
    ids: *mut u32,
    capacity: usize,
    count: *mut usize,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let session = handles::get(session)?;
            let place = buffer(ids, capacity, count, "ids")?;
            let capacity = place.capacity();
            let tokens = session.lock()?.session.decode(id, capacity)?;
            place.fill(&tokens)
        })
    }
}

/// Reads the number of positions that were run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_session_position(
    session: *const pelton_session,
    position: *mut usize,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let session = handles::get(session)?;
            out(position, "position")?.set(session.lock()?.session.position());
            Ok(())
        })
    }
}

/// Shortens the sequence to its first `positions`; with 0 another text begins. It is empty
/// afterwards if the model no longer has the state that the next token needs:
/// `pelton_session_position` tells.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_session_truncate(
    session: *mut pelton_session,
    positions: usize,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            handles::get(session)?.lock()?.session.truncate(positions);
            Ok(())
        })
    }
}

/// Runs tokens at the next positions `passes` times over, and returns the times of the steps as
/// JSON. The sequence stays as long as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_session_profile(
    session: *mut pelton_session,
    ids: *const u32,
    count: usize,
    passes: u32,
    profile: *mut *mut pelton_text,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let session = handles::get(session)?;
            let (ids, place) = (array(ids, count, "ids")?, out(profile, "profile")?);
            if ids.is_empty() {
                return Err(pelton::Error::EmptyPrompt.into());
            }
            let session = &mut session.lock()?.session;
            let measured = session.profile(ids, passes as usize)?;
            give(place, shown(&measured).to_string());
            Ok(())
        })
    }
}

fn shown(profile: &Profile) -> Value {
    let steps = profile.steps().map(|(part, step, measured)| {
        json!({
            "device": part.device,
            "op": step.op.name(),
            "layer": step.layer,
            "seconds": measured.time.as_secs_f64(),
            "dispatches": measured.dispatches,
        })
    });
    let recording: Duration = profile.parts.iter().map(|part| part.recording).sum();
    let bandwidths = profile.parts.iter().map(|part| part.read_bandwidth);
    json!({
        "pass_seconds": profile.pass.as_secs_f64(),
        "recording_seconds": recording.as_secs_f64(),
        "hop_seconds": profile.ways.hop.as_secs_f64(),
        "stream_seconds": profile.ways.stream.as_secs_f64(),
        "wait_seconds": profile.ways.wait.as_secs_f64(),
        "read_bytes_per_second": bandwidths.flatten().next(),
        "steps": steps.collect::<Vec<_>>(),
    })
}

/// Closes a session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_session_close(session: *mut pelton_session) -> pelton_status {
    // SAFETY: there is no place for an error.
    unsafe { guard(ptr::null_mut(), || handles::close(session).map(drop)) }
}
