//! The GPUs next to the first one, which are opened when a model does not fit that.

use std::sync::{Arc, OnceLock};

use pelton_graph::Backend;

/// Several devices, by number.
pub(crate) type Gpus = Vec<Arc<dyn Backend>>;

/// GPUs that are opened when they are needed.
pub(crate) struct MoreGpus {
    open: Box<dyn Fn() -> Gpus + Send + Sync>,
    opened: OnceLock<Gpus>,
}

impl MoreGpus {
    pub(crate) fn new(open: impl Fn() -> Gpus + Send + Sync + 'static) -> Self {
        Self { open: Box::new(open), opened: OnceLock::new() }
    }

    /// The GPUs, which the first call opens.
    pub(crate) fn all(&self) -> &[Arc<dyn Backend>] {
        self.opened.get_or_init(&self.open)
    }

    /// The GPUs that are open.
    pub(crate) fn opened(&self) -> &[Arc<dyn Backend>] {
        self.opened.get().map_or(&[], Vec::as_slice)
    }
}
