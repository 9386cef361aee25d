//! Limits of each key: requests and tokens a minute, requests at the same time.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{config::Limits, error::ApiError};

/// An allowance that grows with time, up to that of a minute. Debts are possible.
#[derive(Debug)]
struct Bucket {
    per_minute: f64,
    left: f64,
    updated: Instant,
}

impl Bucket {
    fn new(per_minute: u32, now: Instant) -> Self {
        let per_minute = f64::from(per_minute);
        Self { per_minute, left: per_minute, updated: now }
    }

    /// The time until `amount` is there; none if it is.
    fn wait(&mut self, amount: f64, now: Instant) -> Option<Duration> {
        let minutes = now.saturating_duration_since(self.updated).as_secs_f64() / 60.0;
        self.left = (self.left + minutes * self.per_minute).min(self.per_minute);
        self.updated = now;
        let lacks = amount - self.left;
        (lacks > 0.0).then(|| {
            Duration::from_secs_f64((lacks / self.per_minute.max(1e-3) * 60.0).clamp(1.0, 3600.0))
        })
    }
}

#[derive(Debug)]
struct TokenBuckets {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
}

/// The limits of one key, and what it has used of them.
#[derive(Debug)]
pub(crate) struct KeyLimits {
    buckets: Mutex<TokenBuckets>,
    concurrent: Option<u32>,
    running: AtomicU32,
}

/// A running request of a key.
#[derive(Debug)]
pub(crate) struct Permit(Arc<KeyLimits>);

impl KeyLimits {
    pub(crate) fn new(limits: &Limits) -> Self {
        let now = Instant::now();
        let bucket = |limit: Option<u32>| limit.map(|limit| Bucket::new(limit, now));
        Self {
            buckets: Mutex::new(TokenBuckets {
                requests: bucket(limits.requests_per_minute),
                tokens: bucket(limits.tokens_per_minute),
            }),
            concurrent: limits.concurrent,
            running: AtomicU32::new(0),
        }
    }

    /// Begins a request.
    pub(crate) fn enter(self: &Arc<Self>, now: Instant) -> Result<Permit, ApiError> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(limit) = self.concurrent
            && self.running.load(Ordering::Relaxed) >= limit
        {
            let message = format!("{limit} requests of this key run already, expected fewer");
            return Err(ApiError::busy(message, Duration::from_secs(1)));
        }
        // tokens are charged as they come, so that any positive rest is enough
        if let Some(tokens) = &mut buckets.tokens
            && let Some(wait) = tokens.wait(f64::MIN_POSITIVE, now)
        {
            let limit = tokens.per_minute;
            let message = format!("the key has used its {limit} tokens a minute");
            return Err(ApiError::busy(message, wait));
        }
        if let Some(requests) = &mut buckets.requests {
            if let Some(wait) = requests.wait(1.0, now) {
                let limit = requests.per_minute;
                let message = format!("the key has used its {limit} requests a minute");
                return Err(ApiError::busy(message, wait));
            }
            requests.left -= 1.0;
        }
        self.running.fetch_add(1, Ordering::Relaxed);
        drop(buckets);
        Ok(Permit(Arc::clone(self)))
    }
}

impl Permit {
    /// Charges tokens of the request.
    pub(crate) fn charge(&self, tokens: usize) {
        let mut buckets = self.0.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = &mut buckets.tokens {
            bucket.left -= tokens as f64;
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(
        requests: Option<u32>,
        tokens: Option<u32>,
        concurrent: Option<u32>,
    ) -> Arc<KeyLimits> {
        let limits = Limits {
            requests_per_minute: requests,
            tokens_per_minute: tokens,
            concurrent,
            ..Limits::default()
        };
        Arc::new(KeyLimits::new(&limits))
    }

    #[test]
    fn requests_of_a_minute() {
        let (key, now) = (limits(Some(2), None, None), Instant::now());
        assert!(key.enter(now).is_ok());
        assert!(key.enter(now).is_ok());
        let error = key.enter(now).unwrap_err();
        assert_eq!(error.status.as_u16(), 429);
        assert!((29..=30).contains(&error.retry_after.unwrap().as_secs()));
        assert!(key.enter(now + Duration::from_secs(31)).is_ok());
        assert!(key.enter(now + Duration::from_secs(31)).is_err());
    }

    #[test]
    fn tokens_are_charged_afterwards() {
        let (key, now) = (limits(None, Some(60), None), Instant::now());
        key.enter(now).unwrap().charge(90);
        let error = key.enter(now).unwrap_err();
        assert!(error.retry_after.unwrap().as_secs() >= 29);
        assert!(key.enter(now + Duration::from_secs(31)).is_ok());
    }

    #[test]
    fn requests_at_the_same_time() {
        let (key, now) = (limits(None, None, Some(1)), Instant::now());
        let permit = key.enter(now).unwrap();
        assert!(key.enter(now).is_err());
        drop(permit);
        assert!(key.enter(now).is_ok());
    }
}
