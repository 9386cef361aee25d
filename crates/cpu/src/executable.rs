//! The processor as a backend.

use std::sync::Arc;

use pelton_graph::{Backend, Batch, Error, Executable, Fusion, Limits, Plan};
use pelton_weights::Checkpoint;

use crate::{fast::Fast, plain, state::State};

/// The fused ops that the fast path has.
pub const FUSIONS: &[Fusion] =
    &[Fusion::NormLinear, Fusion::RopeStore, Fusion::LinearAdd, Fusion::NormGlu];

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
    fn name(&self) -> &str {
        "cpu"
    }

    fn fusions(&self) -> &[Fusion] {
        match self.path {
            Path::Plain => &[],
            Path::Fast { .. } => FUSIONS,
        }
    }

    fn load(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, Error> {
        read_ahead(&checkpoint, progress);
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

/// Reads every page of the weights once, so that it is the load that waits for a slow disk, with
/// progress, and not the first token.
fn read_ahead(checkpoint: &Checkpoint, progress: &mut dyn FnMut(u64, u64)) {
    /// The smallest page of the systems that run this.
    const PAGE_BYTES: usize = 4096;
    const STEP: usize = 16 << 20;
    let all: u64 = checkpoint.tensors().map(|tensor| tensor.bytes.len() as u64).sum();
    let mut done = 0;
    for tensor in checkpoint.tensors() {
        for part in tensor.bytes.chunks(STEP) {
            let sum =
                part.iter().step_by(PAGE_BYTES).fold(0u8, |sum, &byte| sum.wrapping_add(byte));
            std::hint::black_box(sum);
            done += part.len() as u64;
            progress(done, all);
        }
    }
}
