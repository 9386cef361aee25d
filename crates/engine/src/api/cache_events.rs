//! Changes of the cached prefixes of a model, for routers that send requests to
//! where their prefixes are.

use std::{fmt, sync::Arc};

/// A change of the pages that later prompts can share.
///
/// Only pages that a prompt can hit are reported: where passes over prompts and decoding passes
/// differ in bits, those of generated tokens are not. Neither are those of prompts below
/// [`LoadOptions::stream_from`](crate::LoadOptions::stream_from), which are hit by such prompts
/// alone and are cheap. These hit no page that is reported. Models with windows or recurrent states
/// may find less of a prefix than its pages say, because they also need what follows it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CacheEvent {
    /// A page is cached.
    Stored(CachedPage),
    /// The page with this identity was evicted.
    Removed(u64),
    /// No page is cached: the model was loaded or unloaded.
    Cleared,
}

/// A page of 64 positions that is cached.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CachedPage {
    /// The identity, a hash of the page's tokens, of those before it, and of the values below. The
    /// same page has the same identity each time it is stored.
    pub id: u64,
    /// The page before it; `None` for the first one of a prefix.
    pub parent: Option<u64>,
    /// The tokens of its positions.
    pub tokens: Vec<u32>,
    /// The [salt](crate::GenerateOptions::cache_salt) of the requests that can share it.
    pub salt: u64,
    /// Their LoRA adapters, by their places in
    /// [`LoadOptions::loras`](crate::LoadOptions::loras), with scales.
    pub loras: Vec<(u32, f32)>,
    /// The [effort](crate::GenerateOptions::effort) of their prompts.
    pub effort: f64,
}

/// The function that receives the changes of a model's cache.
#[derive(Clone)]
pub(crate) struct CacheCallback(Arc<dyn Fn(Vec<CacheEvent>) + Send + Sync>);

impl CacheCallback {
    pub(crate) fn new(call: impl Fn(Vec<CacheEvent>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }

    pub(crate) fn call(&self, events: Vec<CacheEvent>) {
        (self.0)(events);
    }
}

impl fmt::Debug for CacheCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CacheCallback")
    }
}

/// A function is equal to itself.
impl PartialEq for CacheCallback {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
