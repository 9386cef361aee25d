//! A fake backend whose model is a deterministic function of its inputs. These are tokens,
//! positions, page tables, phases, chunk borders, efforts and draws, all of which an engine must
//! get right.
//!
//! It stores each row's token in its paged caches together with a hash of all that came before, and
//! computes logits from the hashes that it reads back through the page tables. So a wrong table, a
//! page that was freed and written too early, or a wrong prefix hit changes the text. The hashes
//! form a chain, so that the fault is also written down in [`Log::violations`].
//!
//! Passes run when they are taken, in order: results are delayed as those of a GPU are.

mod cells;
mod executable;
mod hidden;
mod log;
mod options;
mod partner;
mod wants;

use std::sync::Arc;

use pelton_graph::{
    Adapters, Backend, EffortForm, Error, Executable, Limits, Needs, Op, OutputKind, Plan, Pooling,
    State, Step, build,
};
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

    fn has_effort(&self, _: EffortForm) -> bool {
        true
    }

    fn needs(&self, _: &Plan, _: &Limits) -> Result<Needs, Error> {
        Ok(Needs::default())
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

/// The results of a plan without logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Results {
    /// Their meaning.
    pub output: OutputKind,
    /// Values of each.
    pub width: usize,
    /// Whether rows see later ones.
    pub whole: bool,
    /// The pooling in the plan.
    pub pooling: Option<Pooling>,
}

/// As [`plan`], with these results in place of logits.
pub fn values_plan(
    vocab: usize,
    context: usize,
    windows: &[Option<usize>],
    results: Results,
) -> (Plan, Arc<Checkpoint>) {
    let (mut plan, checkpoint) = plan(vocab, context, windows);
    plan.output = results.output;
    plan.whole_sequences = results.whole;
    plan.buffers[plan.logits.0].width = results.width;
    for step in &mut plan.steps {
        if step.op == Op::Select
            && let Some(pooling) = results.pooling
        {
            step.op = Op::Pool(pooling);
        }
    }
    (plan, checkpoint)
}

/// As [`plan`], with a recurrent state next to the caches.
pub fn recurrent_plan(
    vocab: usize,
    context: usize,
    windows: &[Option<usize>],
) -> (Plan, Arc<Checkpoint>) {
    let (mut plan, checkpoint) = plan(vocab, context, windows);
    plan.states = vec![State { len: 16 }];
    (plan, checkpoint)
}

/// As [`plan`], with `count` LoRA adapters, of which each row can have two.
pub fn adapters_plan(
    vocab: usize,
    context: usize,
    windows: &[Option<usize>],
    count: usize,
) -> (Plan, Arc<Checkpoint>) {
    let (mut plan, checkpoint) = plan(vocab, context, windows);
    let op = Op::Adapters(Adapters { count, used: 2 });
    plan.steps.insert(0, Step { op, inputs: Vec::new(), outputs: Vec::new(), layer: None });
    (plan, checkpoint)
}

/// The plan of a small model of `vocab` tokens and `context` positions, and its file, which has no
/// vocabulary. Its layers are in cache groups with these windows.
pub fn plan(vocab: usize, context: usize, windows: &[Option<usize>]) -> (Plan, Arc<Checkpoint>) {
    let layers = windows.len();
    let spec = ModelSpec { vocab, context, layers, ..ModelSpec::default() };
    let checkpoint = spec.checkpoint();
    let mut plan = build(&checkpoint).unwrap().with_effort(&|_| true);
    plan.groups = windows.iter().map(|&window| pelton_graph::CacheGroup { window }).collect();
    for (group, cache) in plan.caches.iter_mut().enumerate() {
        cache.group = group;
    }
    (plan, Arc::new(checkpoint))
}
