//! The bytes of bodies, within limits of size and time and a budget of memory for all of them.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::Request,
    http::{HeaderValue, StatusCode, header},
};
use http_body_util::BodyExt;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::{count::ValueCount, json::cost_max};
use crate::{config::Limits, error::ApiError};

/// The unit of the budgets.
const UNIT: usize = 1 << 10;
/// Bodies up to this size have a budget of their own, so that large ones cannot keep them out.
const SMALL: usize = 64 << 10;
/// Limit of the memory of small bodies.
const SMALL_BUDGET: usize = 256 << 20;
/// Limit of the memory of a parsed body in bytes for each byte of its text: objects of one number.
const PARSED: usize = 101;
/// How long a body waits for memory.
const WAIT: Duration = Duration::from_secs(5);

/// The memory that bodies may take.
#[derive(Debug)]
pub(crate) struct Bodies {
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    /// For files within forms.
    files: Arc<Semaphore>,
}

/// The memory that one body takes.
#[derive(Debug)]
pub(crate) struct Held {
    permit: Option<OwnedSemaphorePermit>,
    body: usize,
}

impl Held {
    /// The memory of a file, none at first.
    pub(super) fn of_file() -> Self {
        Self { permit: None, body: 0 }
    }

    /// Gives back what the parsed body does not need, whose values cost this much.
    pub(crate) fn keep(&mut self, cost: usize) {
        let needed = units(self.body.saturating_add(cost));
        if let Some(permit) = &mut self.permit
            && let Some(rest) = permit.num_permits().checked_sub(needed)
        {
            drop(permit.split(rest));
        }
    }
}

/// Refuses a body that is compressed: nothing here bounds what it would become.
pub(super) fn plain(request: &Request) -> Result<(), ApiError> {
    let coding = request.headers().get_all(header::CONTENT_ENCODING).iter();
    let is_none = |coding: &&HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"identity");
    let Some(coding) = coding.into_iter().find(|coding| !is_none(coding)) else { return Ok(()) };
    let shown: String =
        String::from_utf8_lossy(coding.as_bytes()).escape_debug().take(40).collect();
    let message = format!("Content-Encoding is {shown}, expected a body that is not compressed");
    Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message))
}

fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT)
}

/// The memory to read and parse a body of this size.
fn needed(body: usize) -> usize {
    body.saturating_add(body.saturating_mul(PARSED).min(cost_max(body)))
}

impl Bodies {
    /// The budgets: that of large bodies has room for at least two of the largest.
    pub(crate) fn new(limits: &Limits) -> Self {
        let large = limits.body_memory.max(2 * needed(limits.body_bytes));
        let semaphore = |bytes| Arc::new(Semaphore::new(units(bytes).min(u32::MAX as usize)));
        let files = limits.audio_memory.max(2 * limits.audio_bytes);
        Self { small: semaphore(SMALL_BUDGET), large: semaphore(large), files: semaphore(files) }
    }

    /// Takes as much memory as makes that of a file `bytes` in all; waits for it for a limited
    /// time.
    pub(super) async fn grow_file(&self, held: &mut Held, bytes: usize) -> Result<(), ApiError> {
        self.grow(&mut held.permit, &self.files, bytes).await
    }

    /// The memory of values that a request has beside its body, in bytes.
    pub(crate) async fn values(&self, cost: usize) -> Result<Held, ApiError> {
        let mut held = Held { permit: None, body: 0 };
        let pool = if cost > SMALL { &self.large } else { &self.small };
        self.grow(&mut held.permit, pool, cost).await?;
        Ok(held)
    }

    /// The whole body, and the memory that it may take until it is parsed.
    pub(crate) async fn read(
        &self,
        request: Request,
        limits: &Limits,
    ) -> Result<(Vec<u8>, Held), ApiError> {
        let too_large = || {
            let limit = limits.body_bytes;
            let message = format!("the body is too large, expected at most {limit} bytes");
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
        };
        plain(&request)?;
        let length = request.headers().get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if length.is_some_and(|length| length > limits.body_bytes as u64) {
            return Err(too_large());
        }
        let mut frames = request.into_body();
        let (mut body, mut held) = (Vec::new(), None);
        let (mut count, mut size, mut refused) = (ValueCount::default(), 0, None);
        let read = async {
            while let Some(frame) = frames.frame().await {
                let frame = frame.map_err(|error| {
                    ApiError::invalid(format!("the body could not be read: {error}"))
                })?;
                let Some(data) = frame.data_ref() else { continue };
                size += data.len();
                if size > limits.body_bytes {
                    return Err(too_large());
                }
                // the rest is read all the same: many clients look for a response after their body
                if refused.is_some() {
                    continue;
                }
                if let Err(error) = count.add(data) {
                    (body, held, refused) = (Vec::new(), None, Some(error));
                    continue;
                }
                // memory is taken for what has come, not for what a client announces
                if size > SMALL {
                    self.grow(&mut held, &self.large, 2 * size).await?;
                }
                body.extend_from_slice(data);
            }
            Ok(())
        };
        match timeout(limits.body_time, read).await {
            Ok(outcome) => outcome?,
            Err(_) => {
                let seconds = limits.body_time.as_secs();
                let message = format!("the body was not complete after {seconds} seconds");
                return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, message));
            }
        }
        if let Some(error) = refused {
            return Err(error);
        }
        let pool = if body.len() > SMALL { &self.large } else { &self.small };
        self.grow(&mut held, pool, needed(body.len())).await?;
        let held = Held { permit: held, body: body.len() };
        Ok((body, held))
    }

    /// Takes as much memory as makes it `bytes` in all; waits for it for a limited time.
    async fn grow(
        &self,
        held: &mut Option<OwnedSemaphorePermit>,
        pool: &Arc<Semaphore>,
        bytes: usize,
    ) -> Result<(), ApiError> {
        let has = held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let Some(more) = units(bytes).checked_sub(has).filter(|&more| more > 0) else {
            return Ok(());
        };
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        match timeout(WAIT, Arc::clone(pool).acquire_many_owned(more)).await {
            Ok(Ok(permit)) => match held {
                Some(held) => held.merge(permit),
                None => *held = Some(permit),
            },
            _ => {
                return Err(ApiError::unavailable(
                    "the bodies of other requests take all memory for bodies",
                ));
            }
        }
        Ok(())
    }
}
