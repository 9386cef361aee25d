//! A run over a plan of any kind, and what its passes gave.

use std::{fs, path::Path, sync::Arc};

use pelton_cpu::Cpu;
use pelton_graph::{
    Backend, Error, Executable, Input, KvType, Limits, Needs, Op, Outputs, Pass, Phase, Pipeline,
    Plan, Row, TableEdit, Ticket, Want, build_with,
};
use pelton_weights::Checkpoint;

/// The plans of all families of tiny models, but for those of speech.
pub(crate) fn families() -> Vec<(String, Arc<Checkpoint>, Plan)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models");
    let index = fs::read(folder.join("models.json")).unwrap();
    let index: serde_json::Value = serde_json::from_slice(&index).unwrap();
    let family = |name: &String| {
        let file = folder.join(name).join("model.gguf");
        let path = if file.is_file() { file } else { folder.join(name) };
        let checkpoint = Checkpoint::open(path).unwrap();
        let plan = build_with(&checkpoint, &Default::default()).ok()?;
        plan.encoder.is_none().then(|| (name.clone(), Arc::new(checkpoint), plan))
    };
    index.as_object().unwrap().keys().filter_map(family).collect()
}

/// Limits for one slot of two pages, and one more.
pub(crate) fn limits_for(plan: &Plan) -> Limits {
    Limits {
        rows: 128,
        wants: 128,
        sequences: 2,
        context: plan.context.min(128),
        pages: vec![4; plan.groups.len()],
        snapshots: 1,
        kv: KvType::F32,
        tokens: plan.vocab,
        bias: 4,
    }
}

/// The pages of slot 0, in every group.
pub(crate) fn edits<'a>(plan: &Plan, pages: &'a [u32]) -> Vec<TableEdit<'a>> {
    let groups = 0..plan.groups.len() as u32;
    groups.map(|group| TableEdit { group, slot: 0, first: 0, pages }).collect()
}

/// The name of a pass, and its results.
type Named = (String, Vec<f32>);

/// The results of each pass of a run.
pub(crate) struct Runs(Vec<Named>);

impl Runs {
    /// The results of the passes of a phase, one after the other.
    pub(crate) fn of(&self, phase: Phase) -> Vec<f32> {
        let phase = format!("{phase:?} ");
        let own = self.0.iter().filter(|(name, _)| name.starts_with(&phase));
        own.flat_map(|(_, results)| results.iter().copied()).collect()
    }

    /// The first difference of two runs.
    pub(crate) fn difference(expected: &Self, got: &Self) -> Option<String> {
        let pairs = expected.0.iter().zip(&got.0);
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        let differs = |((_, a), (_, b)): &(&Named, &Named)| bits(a) != bits(b) || a.is_empty();
        pairs.clone().find(differs).map(|((pass, expected), (_, got))| {
            let differ = expected.iter().zip(got).filter(|(a, b)| a.to_bits() != b.to_bits());
            format!("{pass}: {} of {} values differ", differ.count(), expected.len())
        })
    }
}

/// A text in chunks of both phases, or the one pass of a plan of whole sequences.
pub(crate) fn run(executable: &mut dyn Executable, plan: &Plan) -> Runs {
    let chunks: &[(Phase, usize)] = match plan.whole_sequences {
        true => &[(Phase::Prompt, 70)],
        false => &[
            (Phase::Prompt, 64),
            (Phase::Prompt, 9),
            (Phase::Decode, 1),
            (Phase::Decode, 4),
            (Phase::Decode, 1),
        ],
    };
    let pages = [2, 0];
    let (mut position, mut results) = (0, Vec::new());
    for &(phase, len) in chunks {
        let row = |i: u32| Row {
            input: Input::Token((i * i + 3 * i) % plan.vocab.min(97) as u32),
            position: i,
            slot: 0,
        };
        let rows: Vec<Row> = (position..position + len as u32).map(row).collect();
        // pooled rows of a sequence have one result
        let pools = plan.steps.iter().any(|step| matches!(step.op, Op::Pool(_)));
        let first = if pools { len as u32 - 1 } else { 0 };
        let wants: Vec<Want<'_>> = (first..len as u32).map(|row| Want::Logits { row }).collect();
        let edits = if position == 0 { edits(plan, &pages) } else { Vec::new() };
        let pass = Pass { tables: &edits, ..Pass::new(phase, &rows, &wants) };
        let ticket = executable.submit(&pass).unwrap();
        let logits = executable.take(ticket).unwrap().logits.to_vec();
        results.push((format!("{phase:?} of {len} at {position}"), logits));
        position += len as u32;
    }
    Runs(results)
}

/// A function that is called after a submission, with the number of the pass. Its error
/// is that of the pass.
pub(crate) type Hook = Box<dyn FnMut(usize) -> Result<(), Error> + Send>;

/// A CPU each of whose executables has a hook of its own.
pub(crate) struct Hooked<F>(pub(crate) Cpu, pub(crate) F);

struct HookedExecutable {
    inner: Box<dyn Executable>,
    hook: Hook,
    submitted: usize,
}

/// A CPU whose executables fail at their second pass.
pub(crate) fn broken() -> Arc<dyn Backend> {
    let fail = |number| match number == 1 {
        true => Err(Error::Pass("broken on purpose".to_owned())),
        false => Ok(()),
    };
    Arc::new(Hooked(Cpu::new(1), move || -> Hook { Box::new(fail) }))
}

impl<F: Fn() -> Hook + Send + Sync> Backend for Hooked<F> {
    fn name(&self) -> &'static str {
        "hooked"
    }

    fn accepts(&self, op: &Op, plan: &Plan) -> bool {
        self.0.accepts(op, plan)
    }

    fn needs(&self, plan: &Plan, limits: &Limits) -> Result<Needs, Error> {
        self.0.needs(plan, limits)
    }

    fn load(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, Error> {
        let inner = self.0.load(plan, checkpoint, limits, progress)?;
        Ok(Box::new(HookedExecutable { inner, hook: self.1(), submitted: 0 }))
    }
}

impl Executable for HookedExecutable {
    fn pipeline(&self) -> Pipeline {
        self.inner.pipeline()
    }

    fn submit(&mut self, pass: &Pass<'_>) -> Result<Ticket, Error> {
        let ticket = self.inner.submit(pass)?;
        self.submitted += 1;
        if let Err(error) = (self.hook)(self.submitted - 1) {
            self.inner.take(ticket)?;
            return Err(error);
        }
        Ok(ticket)
    }

    fn take(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        self.inner.take(ticket)
    }

    fn copy_page(&mut self, group: usize, from: u32, to: u32) -> Result<(), Error> {
        self.inner.copy_page(group, from, to)
    }
}
