//! A fake backend whose model is a deterministic function of everything that an engine must get
//! right: tokens, positions, page tables, phases, chunk borders, draws.
//!
//! It stores each row's token in its paged caches together with a hash of all that came before, and
//! computes logits from what it reads back through the page tables. So a wrong table, a page that
//! was freed and written too early, or a wrong prefix hit changes the text; and since the hashes
//! form a chain, it is also noticed and written down in [`Log::violations`].
//!
//! Passes run when they are taken, in order: results are delayed as those of a GPU are.

mod cells;
mod executable;
mod log;
mod options;

use std::sync::Arc;

use pelton_graph::{Backend, Error, Executable, Limits, Op, Plan, build};
use pelton_weights::Checkpoint;

use crate::ModelSpec;
use executable::FakeExecutable;
pub use log::{Failure, Log, PassRecord};
pub use options::Fake;

impl Backend for Fake {
    fn name(&self) -> &str {
        "fake"
    }

    fn accepts(&self, _op: &Op, _plan: &Plan) -> bool {
        true
    }

    fn load(
        &self,
        plan: Plan,
        _checkpoint: Arc<Checkpoint>,
        limits: Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, Error> {
        progress(1, 1);
        Ok(Box::new(FakeExecutable::new(self.clone(), plan, limits)))
    }
}

/// The plan of a small model of `vocab` tokens and `context` positions whose layers are in cache
/// groups with these windows, and its file, which has no vocabulary.
pub fn plan(vocab: usize, context: usize, windows: &[Option<usize>]) -> (Plan, Arc<Checkpoint>) {
    let layers = windows.len();
    let spec = ModelSpec { vocab, context, layers, ..ModelSpec::default() };
    let checkpoint = spec.checkpoint();
    let mut plan = build(&checkpoint).unwrap();
    plan.groups = windows.iter().map(|&window| pelton_graph::CacheGroup { window }).collect();
    for (group, cache) in plan.caches.iter_mut().enumerate() {
        cache.group = group;
    }
    (plan, Arc::new(checkpoint))
}
