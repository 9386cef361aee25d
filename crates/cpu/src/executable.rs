//! The processor as a backend.

use std::sync::Arc;

use pelton_graph::{Backend, Batch, Error, Executable, Fusion, Limits, Plan};
use pelton_weights::Checkpoint;

use crate::{fast::Fast, plain, state::State};

/// The processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    path: Path,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    Plain,
    Fast { threads: usize },
}

impl Cpu {
    /// The fast path, on this many threads (at least one).
    pub fn new(threads: usize) -> Self {
        Self { path: Path::Fast { threads: threads.max(1) } }
    }

    /// The plain path: the specification, on one thread.
    pub fn plain() -> Self {
        Self { path: Path::Plain }
    }
}

impl Backend for Cpu {
    fn fusions(&self) -> &[Fusion] {
        match self.path {
            Path::Plain => &[],
            Path::Fast { .. } => &Fusion::ALL,
        }
    }

    fn load(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
    ) -> Result<Box<dyn Executable>, Error> {
        let state = State::new(plan, checkpoint, limits)?;
        Ok(match self.path {
            Path::Plain => Box::new(PlainExecutable { state }),
            Path::Fast { threads } => {
                let fast = Fast::new(&state, threads)?;
                Box::new(FastExecutable { state, fast })
            }
        })
    }
}

struct PlainExecutable {
    state: State,
}

impl Executable for PlainExecutable {
    fn forward(&mut self, batch: &Batch<'_>) -> Result<&[f32], Error> {
        batch.check(&self.state.plan, &self.state.limits)?;
        for step in 0..self.state.plan.steps.len() {
            plain::run(&mut self.state, step, batch)?;
        }
        Ok(self.state.logits(batch.selected.len()))
    }
}

struct FastExecutable {
    state: State,
    fast: Fast,
}

impl Executable for FastExecutable {
    fn forward(&mut self, batch: &Batch<'_>) -> Result<&[f32], Error> {
        batch.check(&self.state.plan, &self.state.limits)?;
        self.fast.begin(&self.state.plan, batch);
        for step in 0..self.state.plan.steps.len() {
            self.fast.run(&mut self.state, step, batch)?;
        }
        Ok(self.state.logits(batch.selected.len()))
    }
}
