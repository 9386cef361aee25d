//! The CPU as a backend, and its executables.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pelton_graph::{
    Backend, EffortForm, Error, Executable, Limits, Needs, Op, Outputs, PageTables, PartProfile,
    Pass, Phase, Pipeline, Plan, Profile, Rates, StepProfile, Ticket, Ways,
};
use pelton_weights::Checkpoint;

use crate::accepts;
use crate::batch::Batch;
use crate::exec::Exec;
use crate::memory::{LoadBudget, State, Use, Weights, available};
use crate::observe::{MatrixInput, Observer};
use crate::pool::Pool;
use crate::rates;
use crate::reference;
use crate::samples::Samples;

/// The CPU as a backend.
///
/// All models that are loaded on a `Cpu` or its clones share one thread pool, which starts with the
/// first of them. Their passes run one after the other.
#[derive(Clone, Debug)]
pub struct Cpu {
    path: Path,
    observer: Option<Observer>,
}

#[derive(Clone, Debug)]
enum Path {
    Reference,
    Fast { threads: usize, pool: Arc<Mutex<Option<Arc<Pool>>>>, repack: bool },
}

impl Cpu {
    /// The fast path on this many threads, at least one.
    pub fn new(threads: usize) -> Self {
        let path = Path::Fast { threads: threads.max(1), pool: Arc::default(), repack: true };
        Self { path, observer: None }
    }

    /// Leaves the weights as they are in the file, for as little memory as possible. Otherwise
    /// they are copied at load where the kernels of the CPU are faster with another order of their
    /// bytes.
    #[must_use]
    pub fn in_file_order(mut self) -> Self {
        if let Path::Fast { repack, .. } = &mut self.path {
            *repack = false;
        }
        self
    }

    /// The reference path: the specification of every op, on one thread.
    pub fn reference() -> Self {
        Self { path: Path::Reference, observer: None }
    }

    /// Calls `call` with the input of each matrix product, before it is computed. Plans are not
    /// fused over matrix products then, so that each has an input of its own.
    #[must_use]
    pub fn observing(mut self, call: impl Fn(MatrixInput<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(Observer::new(call));
        self
    }
}

/// The shared pool, which the first call starts.
fn shared_pool(pool: &Mutex<Option<Arc<Pool>>>, threads: usize) -> Result<Arc<Pool>, Error> {
    let mut pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pool) = &*pool {
        return Ok(Arc::clone(pool));
    }
    let started = Pool::new(threads).map_err(|error| Error::Threads { threads, error })?;
    Ok(Arc::clone(pool.insert(Arc::new(started))))
}

impl Backend for Cpu {
    fn name(&self) -> &str {
        "cpu"
    }

    fn accepts(&self, op: &Op, plan: &Plan) -> bool {
        match self.path {
            Path::Reference => accepts::reference(op, plan),
            Path::Fast { .. } if self.observer.is_some() => accepts::reference(op, plan),
            Path::Fast { .. } => accepts::fast(op, plan),
        }
    }

    fn has_effort(&self, _: EffortForm) -> bool {
        matches!(self.path, Path::Fast { .. })
    }

    fn needs(&self, plan: &Plan, limits: &Limits) -> Result<Needs, Error> {
        check_groups(plan, limits)?;
        let bytes = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
        let threads = self.threads();
        let own = Weights::decoded_bytes(plan).saturating_add(Weights::second_bytes(plan)?);
        Ok(Needs {
            weights: bytes(own),
            caches: bytes(State::cache_bytes(plan, limits)),
            buffers: bytes(buffer_bytes(plan, limits)),
            scratch: bytes(Exec::bytes(plan, limits, threads)),
            streamed: 0,
            staging: 0,
            mapped: bytes(Weights::mapped_bytes(plan)),
        })
    }

    fn budget(&self) -> Option<u64> {
        available()
    }

    fn rates_key(&self) -> Option<String> {
        match self.path {
            Path::Reference => None,
            Path::Fast { threads, repack, .. } => Some(rates::key(threads, repack)),
        }
    }

    fn measure_rates(&self) -> Result<Rates, Error> {
        let repack = matches!(self.path, Path::Fast { repack: true, .. });
        rates::measure(self.threads(), repack)
    }

    fn load(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, Error> {
        let mut budget = LoadBudget::of_system();
        self.load_within(&mut budget, plan, checkpoint, limits, progress)
    }
}

impl Cpu {
    fn threads(&self) -> usize {
        match self.path {
            Path::Reference => 1,
            Path::Fast { threads, .. } => threads,
        }
    }

    fn load_within(
        &self,
        budget: &mut LoadBudget,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, Error> {
        plan.check_accepted(self)?;
        check_groups(&plan, &limits)?;
        let threads = self.threads();
        let buffers = buffer_bytes(&plan, &limits);
        budget.take(Use::Cache, State::cache_bytes(&plan, &limits))?;
        budget.take(Use::Buffers, buffers.saturating_add(Exec::bytes(&plan, &limits, threads)))?;
        budget.take(Use::Decoded, Weights::decoded_bytes(&plan))?;
        read_weights(&plan, &checkpoint, progress);

        let steps = match &self.path {
            Path::Reference => Steps::Reference,
            Path::Fast { threads, pool, .. } => {
                let pool = shared_pool(pool, *threads)?;
                Steps::Fast(Box::new(Exec::new(&plan, &limits, pool)?))
            }
        };
        let (samples, tables) =
            (Samples::new(&limits, threads)?, PageTables::for_plan(&plan, &limits));
        let hidden = Vec::with_capacity(hidden_len(&plan, &limits));
        let mut state = State::new(plan, checkpoint, limits)?;
        if let Steps::Fast(exec) = &steps {
            state.weights.keep_second(&state.plan, exec.pool(), budget)?;
            state.weights.keep_rows(&state.plan, budget);
        }
        if let (Steps::Fast(exec), Path::Fast { repack: true, .. }) = (&steps, &self.path) {
            state.weights.pack(&state.plan, exec.pool(), exec.isa(), budget);
        }
        Ok(Box::new(CpuExecutable {
            samples,
            tables,
            state,
            steps,
            observer: self.observer.clone(),
            next: 0,
            outstanding: None,
            logits: 0,
            hidden,
            rows: 0,
        }))
    }
}

/// Refuses limits of another plan.
fn check_groups(plan: &Plan, limits: &Limits) -> Result<(), Error> {
    let (found, expected) = (limits.pages.len(), plan.groups.len());
    match found == expected {
        true => Ok(()),
        false => {
            Err(Error::Pass(format!("limits of {found} cache groups for a plan of {expected}")))
        }
    }
}

/// Elements of the hidden states that a pass can keep.
fn hidden_len(plan: &Plan, limits: &Limits) -> usize {
    let widths = [Phase::Encode, Phase::Decode].map(|phase| plan.width_of(plan.kept(phase)));
    limits.rows.saturating_mul(widths[0].max(widths[1]))
}

/// Bytes that a loaded plan allocates besides its weights, caches and scratch memory.
fn buffer_bytes(plan: &Plan, limits: &Limits) -> u128 {
    let tables = (limits.sequences as u128)
        .saturating_mul(plan.groups.len() as u128)
        .saturating_mul(size_of::<Vec<u32>>() as u128);
    let hidden = (hidden_len(plan, limits) as u128).saturating_mul(4);
    [State::bytes(plan, limits), Samples::bytes(limits), tables, hidden]
        .into_iter()
        .fold(0, u128::saturating_add)
}

/// The path that the steps of a plan run on.
enum Steps {
    Reference,
    Fast(Box<Exec>),
}

/// A loaded plan. `submit` runs the pass, `take` returns its results.
struct CpuExecutable {
    state: State,
    steps: Steps,
    observer: Option<Observer>,
    tables: PageTables,
    samples: Samples,
    /// The ticket of the next pass.
    next: u64,
    /// The pass that is not taken yet.
    outstanding: Option<Ticket>,
    /// Rows of results that the last pass returns.
    logits: usize,
    /// The hidden states that the last pass returns.
    hidden: Vec<f32>,
    /// Rows of the last pass; 0 if it failed.
    rows: usize,
}

impl CpuExecutable {
    /// Applies the changes of a pass to the page tables, and checks the pass.
    fn begin(&mut self, pass: &Pass<'_>) -> Result<(), Error> {
        for edit in pass.tables {
            self.tables.apply(edit)?;
        }
        pass.check(&self.state.plan, &self.state.limits, &self.tables)?;
        pass.check_other(std::mem::take(&mut self.rows), None)
    }

    /// The time of each step `[steps]` of a pass, or of the whole pass if `times` is none.
    fn time(
        &mut self,
        pass: &Pass<'_>,
        steps: Option<&mut [StepProfile]>,
    ) -> Result<Duration, Error> {
        let timed = steps;
        let Self { state, steps, tables, samples, .. } = self;
        let Steps::Fast(exec) = steps else { return Err(Error::Profile) };
        state.set_hidden(pass.phase, pass.hidden);
        samples.begin(pass);
        samples.resolve(pass, state.plan.stand_in(), 0);
        let (rows, selected) = (samples.rows(), samples.selected());
        let (embeddings, efforts) = (pass.embeddings, pass.efforts);
        let batch = Batch { phase: pass.phase, rows, selected, tables, embeddings, efforts };
        let begun = Instant::now();
        match timed {
            Some(timed) => exec.run_timed(state, &batch, timed)?,
            None => exec.run(state, &batch, None)?,
        }
        Ok(begun.elapsed())
    }

    fn run(&mut self, pass: &Pass<'_>) -> Result<(), Error> {
        let Self { state, steps, observer, tables, samples, .. } = self;
        let (width, tokens, logits) =
            (state.plan.output_width(), state.limits.tokens, state.plan.logits);
        state.set_hidden(pass.phase, pass.hidden);
        samples.begin(pass);
        for repeat in 0..pass.repeat {
            samples.resolve(pass, state.plan.stand_in(), repeat);
            let (rows, selected) = (samples.rows(), samples.selected());
            let (embeddings, efforts) = (pass.embeddings, pass.efforts);
            let batch = Batch { phase: pass.phase, rows, selected, tables, embeddings, efforts };
            match steps {
                Steps::Reference => reference::run(state, &batch, observer.as_ref())?,
                Steps::Fast(exec) => exec.run(state, &batch, observer.as_ref())?,
            }
            let pool = match steps {
                Steps::Reference => None,
                Steps::Fast(exec) => Some(exec.pool()),
            };
            let logits = state.buffers.get_mut(logits);
            samples.draw(pass, repeat, logits, width, tokens, &|count, work| match pool {
                Some(pool) if count > 1 => {
                    pool.run(|worker| work(worker.index(), worker.split(count, 1)));
                }
                _ => work(0, 0..count),
            });
        }
        self.rows = pass.rows.len();
        self.logits = samples.keep_wanted(pass, state.buffers.get_mut(logits), width);
        self.hidden.clear();
        for &id in state.plan.kept(pass.phase).iter().filter(|_| pass.keeps_hidden) {
            let len = pass.rows.len() * state.plan.buffer(id).width;
            self.hidden.extend_from_slice(&state.buffers.get_mut(id)[..len]);
        }
        Ok(())
    }
}

impl Executable for CpuExecutable {
    fn pipeline(&self) -> Pipeline {
        let phases_agree = match &self.steps {
            Steps::Reference => true,
            Steps::Fast(exec) => exec.phases_agree(),
        };
        Pipeline {
            depth: 1,
            stages: 1,
            repeat: 1,
            phases_agree,
            exact_rows: usize::MAX,
            late_draws: false,
            streams: None,
        }
    }

    fn submit(&mut self, pass: &Pass<'_>) -> Result<Ticket, Error> {
        if let Some(Ticket(ticket)) = self.outstanding {
            return Err(Error::Pass(format!("pass {ticket} has not been taken")));
        }
        self.begin(pass)?;
        if pass.draws_later() {
            // the pass is over when it is submitted
            return Err(Error::Pass("a draw that comes later, expected none on a CPU".to_owned()));
        }
        let pool = match &self.steps {
            Steps::Reference => None,
            Steps::Fast(exec) => Some(Arc::clone(exec.pool())),
        };
        let _pass = pool.as_ref().map(|pool| pool.begin_pass());
        self.run(pass)?;
        let ticket = Ticket(self.next);
        self.next += 1;
        self.outstanding = Some(ticket);
        Ok(ticket)
    }

    fn take(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        if self.outstanding != Some(ticket) {
            let found = match self.outstanding {
                Some(Ticket(oldest)) => format!("{oldest} is the oldest pass"),
                None => "every pass has been taken".to_owned(),
            };
            return Err(Error::Pass(format!("ticket {}, but {found}", ticket.0)));
        }
        self.outstanding = None;
        let Self { state, samples, logits, hidden, .. } = self;
        let len = *logits * state.plan.output_width();
        let logits = &state.buffers.get_mut(state.plan.logits)[..len];
        Ok(Outputs { logits, samples: samples.results(), hidden, drafted: &[] })
    }

    fn live_share(&self) -> Option<f64> {
        match &self.steps {
            Steps::Fast(exec) => exec.live_share(),
            Steps::Reference => None,
        }
    }

    fn profile(&mut self, pass: &Pass<'_>, passes: usize) -> Result<Profile, Error> {
        self.begin(pass)?;
        let Steps::Fast(exec) = &self.steps else { return Err(Error::Profile) };
        let pool = Arc::clone(exec.pool());
        let _pass = pool.begin_pass();
        let passes = passes.max(1);
        let count = u32::try_from(passes).unwrap_or(u32::MAX);
        // the first one reads what no cache holds yet
        self.time(pass, None)?;
        let none = StepProfile { time: Duration::ZERO, dispatches: 0, dependent: 0, live: 1.0 };
        let mut steps = vec![none; self.state.plan.steps.len()];
        let mut whole = Duration::ZERO;
        for _ in 0..passes {
            whole += self.time(pass, None)?;
            self.time(pass, Some(&mut steps))?;
        }
        steps.iter_mut().for_each(|step| step.time /= count);
        let part = PartProfile {
            device: "cpu".to_owned(),
            plan: self.state.plan.clone(),
            steps,
            recording: Duration::ZERO,
            read_bandwidth: None,
        };
        Ok(Profile { parts: vec![part], ways: Ways::default(), pass: whole / count })
    }

    fn copy_page(&mut self, group: usize, from: u32, to: u32) -> Result<(), Error> {
        let Some(&pages) = self.state.limits.pages.get(group) else {
            let groups = self.state.limits.pages.len();
            return Err(Error::Pass(format!("cache group {group}, expected one of {groups}")));
        };
        if let Some(page) = [from, to].into_iter().find(|&page| page as usize >= pages) {
            return Err(Error::Pass(format!("page {page} of a copy, expected one of {pages}")));
        }
        for cache in self.state.caches.iter_mut().filter(|cache| cache.shape().group == group) {
            cache.copy_page(from, to);
        }
        Ok(())
    }

    fn save_states(&mut self, slot: u32, snapshot: u32) -> Result<(), Error> {
        self.state.limits.check_snapshot(slot, snapshot)?;
        self.state.states.save(slot, snapshot);
        Ok(())
    }

    fn restore_states(&mut self, snapshot: u32, slot: u32) -> Result<(), Error> {
        self.state.limits.check_snapshot(slot, snapshot)?;
        self.state.states.restore(snapshot, slot);
        Ok(())
    }

    fn set_adapters(&mut self, slot: u32, adapters: &[(u32, f32)]) -> Result<(), Error> {
        let row = self.state.plan.adapters_of(self.state.limits.sequences, slot, adapters)?;
        self.state.adapters.set(slot, &row);
        Ok(())
    }
}

/// Reads every page of a plan's weights once, so that the load waits for a slow disk, with
/// progress, and the first token does not.
fn read_weights(plan: &Plan, checkpoint: &Checkpoint, progress: &mut dyn FnMut(u64, u64)) {
    /// The smallest page of the operating systems that are supported, in bytes.
    const PAGE_BYTES: usize = 4096;
    const STEP: usize = 16 << 20;
    let names: HashSet<&str> = plan.weights.iter().map(|weight| weight.name.as_str()).collect();
    let tensors = || checkpoint.tensors().filter(|tensor| names.contains(tensor.name));
    let all: u64 = tensors().map(|tensor| tensor.bytes.len() as u64).sum();
    let mut done = 0;
    for tensor in tensors() {
        for chunk in tensor.bytes.chunks(STEP) {
            let sum =
                chunk.iter().step_by(PAGE_BYTES).fold(0u8, |sum, &byte| sum.wrapping_add(byte));
            std::hint::black_box(sum);
            done += chunk.len() as u64;
            progress(done, all);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use pelton_graph::{EffortTable, Input, Phase, Row, TableEdit, Want, build};
    use pelton_quant::DType;
    use pelton_testing::{ModelSpec, backend::limits};

    use super::*;

    fn load(cpu: &Cpu) -> Box<dyn Executable> {
        let spec = ModelSpec::default();
        let checkpoint = Arc::new(spec.checkpoint());
        let plan = build(&checkpoint).unwrap();
        cpu.load(plan, checkpoint, limits(&spec), &mut |_, _| {}).unwrap()
    }

    /// Each part of the load fits into the memory, but not all together.
    #[test]
    fn parts_that_fit_alone_are_refused_together() {
        let (cpu, spec) = (Cpu::new(1), ModelSpec::wide(DType::Q8_0));
        let limits = limits(&spec);
        let built = build(&spec.checkpoint()).unwrap();
        let marked = built.clone().with_effort(&|_| true);
        let checkpoint = Arc::new(spec.checkpoint());
        let windows = [(0..20).collect()];
        let scores = crate::effort_scores(built, &checkpoint, &windows, 1, &mut |_, _| {}).unwrap();
        let table = Some(Arc::new(EffortTable::new(scores)));
        let plan = || {
            let mut plan = marked.clone();
            plan.marks.table.clone_from(&table);
            plan
        };
        let load = |available| {
            let (plan, checkpoint) = (plan(), Arc::new(spec.checkpoint()));
            let mut budget = LoadBudget::new(Some(available));
            cpu.load_within(&mut budget, plan, checkpoint, limits.clone(), &mut |_, _| {})
        };
        let error = |available| load(available).err().unwrap().to_string();
        let plan = plan();
        let cache = State::cache_bytes(&plan, &limits) as u64;
        assert!(error(cache - 1).contains("; reduce the context"));
        let needs = cpu.needs(&plan, &limits).unwrap();
        let decoded = Weights::decoded_bytes(&plan) as u64;
        let before = cache + needs.buffers + needs.scratch + decoded;
        assert!(error(before - 1).contains(" for buffers"));
        // one copy of the marked matrices, which alone would fit many times
        let marked = plan.weights.iter().filter(|weight| weight.marked);
        let marked: usize = marked.map(|weight| weight.dtype.bytes_of(weight.len()).unwrap()).sum();
        assert!(error(before + marked as u64 / 2).contains("for the KV cache"));
        assert!(error(needs.total() - 1).contains("for the KV cache"));
        // without memory for both orders few full rows multiply lines, with the same results
        let logits = |available| {
            let mut executable = load(available).unwrap();
            let row = |position| Row { input: Input::Token(position + 1), position, slot: 0 };
            let (rows, wants) = ([0, 1, 2].map(row), [0, 2].map(|row| Want::Logits { row }));
            let tables = [TableEdit { group: 0, slot: 0, first: 0, pages: &[0] }];
            let pass = Pass { tables: &tables, ..Pass::new(Phase::Decode, &rows, &wants) };
            let ticket = executable.submit(&pass).unwrap();
            let logits = executable.take(ticket).unwrap().logits;
            logits.iter().map(|logit| logit.to_bits()).collect::<Vec<_>>()
        };
        assert_eq!(logits(needs.total()), logits(needs.total() + marked as u64));
    }

    fn pool(cpu: &Cpu) -> Arc<Pool> {
        let Path::Fast { threads, pool, .. } = &cpu.path else {
            panic!("the reference has no pool")
        };
        shared_pool(pool, *threads).unwrap()
    }

    #[test]
    fn models_share_one_pool() {
        let cpu = Cpu::new(2);
        let _models = [load(&cpu), load(&cpu.clone())];
        // the two models, the backend and this reference
        assert_eq!(Arc::strong_count(&pool(&cpu)), 4);
        assert_eq!(Arc::strong_count(&pool(&Cpu::new(2))), 2);
    }

    #[test]
    fn the_time_of_each_step() {
        let rows = [Row { input: Input::Token(1), position: 0, slot: 0 }];
        let tables = [TableEdit { group: 0, slot: 0, first: 0, pages: &[0] }];
        let wants = [Want::Logits { row: 0 }];
        let pass = Pass { tables: &tables, ..Pass::new(Phase::Decode, &rows, &wants) };
        let mut executable = load(&Cpu::new(2));
        let steps = build(&ModelSpec::default().checkpoint()).unwrap().steps.len();
        let profile = executable.profile(&pass, 3).unwrap();
        let [part] = &profile.parts[..] else { panic!("{profile:?}") };
        assert_eq!(part.steps.len(), steps);
        let sum: Duration = part.steps.iter().map(|step| step.time).sum();
        assert!(sum > Duration::ZERO && profile.pass > Duration::ZERO, "{profile:?}");
        // passes that are measured leave nothing behind
        let ticket = executable.submit(&pass).unwrap();
        let after = executable.take(ticket).unwrap().logits.to_vec();
        let mut other = load(&Cpu::new(2));
        let ticket = other.submit(&pass).unwrap();
        assert_eq!(after, other.take(ticket).unwrap().logits);
        let error = load(&Cpu::reference()).profile(&pass, 1).unwrap_err();
        assert!(matches!(error, Error::Profile));
    }

    #[test]
    fn passes_on_one_pool_run_one_after_the_other() {
        let cpu = Cpu::new(2);
        let mut executable = load(&cpu);
        let pool = pool(&cpu);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let other = pool.begin_pass();
            scope.spawn(|| {
                let rows = [Row { input: Input::Token(1), position: 0, slot: 0 }];
                let tables = [TableEdit { group: 0, slot: 0, first: 0, pages: &[0] }];
                let pass = Pass { tables: &tables, ..Pass::new(Phase::Decode, &rows, &[]) };
                executable.submit(&pass).unwrap();
                done.store(true, Ordering::Relaxed);
            });
            thread::sleep(Duration::from_millis(100));
            assert!(!done.load(Ordering::Relaxed));
            drop(other);
        });
        assert!(done.into_inner());
    }
}
