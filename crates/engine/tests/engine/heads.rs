//! Heads that predict further tokens: their plans compared with PyTorch, and texts with their
//! drafts.
//!
//! `tests/fixtures/make_heads.py` describes the files. The first tests run passes without the
//! scheduler, so that the only subjects are the plans and the backend.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use pelton::graph::{
    Backend, BuildOptions, Executable, Hidden, Input, Limits, PAGE, Pass, Phase, Plan, Row, Sample,
    TableEdit, Want, build_head, build_with,
};
use pelton::{Checkpoint, KvType};
use pelton_cpu::Cpu;
use pelton_sampling::Draw;
use pelton_testing::npy;

mod partners;
mod texts;
#[cfg(feature = "gpu")]
mod waits;

const NAMES: [&str; 3] = ["glm4-moe", "glm4-moe-lite", "qwen3.5"];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/heads").join(name)
}

fn file(name: &str) -> PathBuf {
    folder(name).join("model.gguf")
}

/// A loaded plan with one slot.
struct Loaded {
    executable: Box<dyn Executable>,
    plan: Plan,
}

impl Loaded {
    fn new(plan: Plan, checkpoint: &Arc<Checkpoint>, backend: &dyn Backend) -> Self {
        let plan = plan.fuse(&|op, plan| backend.accepts(op, plan));
        let limits = Limits {
            rows: PAGE,
            wants: PAGE,
            sequences: 1,
            context: PAGE,
            pages: vec![1; plan.groups.len()],
            snapshots: 0,
            kv: KvType::F32,
            tokens: plan.vocab,
            bias: 0,
        };
        let checkpoint = Arc::clone(checkpoint);
        let executable = backend.load(plan.clone(), checkpoint, limits, &mut |_, _| {}).unwrap();
        Self { executable, plan }
    }

    /// The logits of all rows of a pass from `position` on, and their hidden states.
    fn run(
        &mut self,
        phase: Phase,
        tokens: &[u32],
        position: usize,
        hidden: &[f32],
    ) -> (Vec<f32>, Vec<f32>) {
        let row =
            |(position, &token): (u32, _)| Row { input: Input::Token(token), position, slot: 0 };
        let rows: Vec<Row> = (position as u32..).zip(tokens).map(row).collect();
        let wants: Vec<_> = (0..rows.len() as u32).map(|row| Want::Logits { row }).collect();
        let (tables, hidden) = (self.tables(), Hidden::Given(hidden));
        let pass =
            Pass { tables: &tables, hidden, keeps_hidden: true, ..Pass::new(phase, &rows, &wants) };
        let ticket = self.executable.submit(&pass).unwrap();
        let outputs = self.executable.take(ticket).unwrap();
        (outputs.logits.to_vec(), outputs.hidden.to_vec())
    }

    /// The likeliest tokens of `repeat` passes after the one that was sampled for `position`.
    fn more(&mut self, position: u32, hidden: Hidden<'_>, repeat: u32) -> Vec<u32> {
        let rows = [Row { input: Input::Sampled, position, slot: 0 }];
        let wants = [greedy(0)];
        let tables = self.tables();
        let pass =
            Pass { tables: &tables, hidden, repeat, ..Pass::new(Phase::Decode, &rows, &wants) };
        let ticket = self.executable.submit(&pass).unwrap();
        let samples = self.executable.take(ticket).unwrap().samples;
        samples.iter().map(|sampled| sampled.token.unwrap()).collect()
    }

    fn tables(&self) -> Vec<TableEdit<'static>> {
        let edit = |group| TableEdit { group, slot: 0, first: 0, pages: &[0] };
        (0..self.plan.groups.len() as u32).map(edit).collect()
    }
}

fn greedy(row: u32) -> Want<'static> {
    Want::Sample(Sample { row, draw: Draw::GREEDY, recent: &[], pending: 0 })
}

/// The greatest difference of two lists of numbers, of which each is compared.
fn difference(expected: &[f32], found: &[f32]) -> f32 {
    assert_eq!(expected.len(), found.len());
    assert!(found.iter().all(|value| value.is_finite()));
    expected.iter().zip(found).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn likeliest(logits: &[f32]) -> u32 {
    (0..).zip(logits).max_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap().0
}

/// Compares hidden states, of RMS 1, and logits; none may be off by `tolerance`.
fn equals_pytorch(backend: &dyn Backend, tolerance: f32) {
    for name in NAMES {
        let checkpoint = Arc::new(Checkpoint::open(file(name)).unwrap());
        let options = BuildOptions { hidden: true, ..BuildOptions::default() };
        let ids = npy::integers(folder(name).join("ids.npy"));
        let states = npy::floats(folder(name).join("hidden.npy"));
        let logits = npy::floats(folder(name).join("logits.npy"));
        let tokens = npy::integers(folder(name).join("tokens.npy"));
        let plan = build_with(&checkpoint, &options).unwrap();
        let mut model = Loaded::new(plan, &checkpoint, backend);
        for chunks in [&[(Phase::Prompt, ids.len())][..], &[(Phase::Prompt, 7), (Phase::Decode, 5)]]
        {
            let (mut position, mut found) = (0, Vec::new());
            for &(phase, len) in chunks {
                let chunk = &ids[position..position + len];
                found.extend(model.run(phase, chunk, position, &[]).1);
                position += len;
            }
            let off = difference(&states, &found);
            assert!(off < tolerance, "{name} on {}: hidden states {off}", backend.name());
        }
        let plan = build_head(&checkpoint, &options).unwrap().unwrap();
        let (width, vocab) = (plan.hidden_width(), plan.vocab);
        let mut head = Loaded::new(plan, &checkpoint, backend);
        let rows = ids.len() - 1;
        for chunks in [&[(Phase::Prompt, rows)][..], &[(Phase::Prompt, 7), (Phase::Decode, 4)]] {
            let (mut first, mut found, mut last) = (0, Vec::new(), Vec::new());
            for &(phase, len) in chunks {
                let own = first..first + len;
                let hidden = &states[own.start * width..own.end * width];
                let (logits, after) = head.run(phase, &ids[own.start + 1..=own.end], first, hidden);
                found.extend(logits);
                last = after[(len - 1) * width..].to_vec();
                first += len;
            }
            // two steps from the head's own hidden states
            for &token in &tokens {
                let (logits, after) = head.run(Phase::Decode, &[token], first, &last);
                found.extend(logits);
                (first, last) = (first + 1, after);
            }
            let off = difference(&logits, &found);
            assert!(off < tolerance, "{name} on {}: logits {off}", backend.name());
        }
        // the same steps as repeats of one pass
        let expected: Vec<u32> = logits.chunks(vocab).skip(rows - 1).map(likeliest).collect();
        assert_eq!(expected[..2], tokens);
        let all: Vec<Row> = (0..rows as u32)
            .map(|p| Row { input: Input::Token(ids[p as usize + 1]), position: p, slot: 0 })
            .collect();
        let wants = [greedy(rows as u32 - 1)];
        let (tables, hidden) = (head.tables(), Hidden::Given(&states[..rows * width]));
        let pass = Pass {
            tables: &tables,
            hidden,
            keeps_hidden: true,
            ..Pass::new(Phase::Decode, &all, &wants)
        };
        let ticket = head.executable.submit(&pass).unwrap();
        let outputs = head.executable.take(ticket).unwrap();
        assert_eq!(outputs.samples[0].token, Some(tokens[0]), "{name}");
        let last = outputs.hidden[(rows - 1) * width..].to_vec();
        assert_eq!(head.more(rows as u32, Hidden::Given(&last), 2), expected[1..], "{name}");
    }
}

#[test]
fn heads_equal_pytorch_on_the_cpu() {
    equals_pytorch(&Cpu::reference(), 2e-3);
    equals_pytorch(&Cpu::new(2), 2e-3);
}

#[cfg(feature = "gpu")]
#[test]
fn heads_equal_pytorch_on_a_gpu() {
    use pelton_testing::{Need, skip};

    let Some(adapter) = pelton::gpu::adapters().into_iter().next() else {
        skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        return;
    };
    // on matrix cores activations of prompts have 16 bits
    equals_pytorch(&pelton::gpu::Gpu::open_checked(&adapter).unwrap(), 6e-3);
}

/// Passes whose hidden states do not fit the plan.
#[test]
fn hidden_states_of_passes_are_checked() {
    let checkpoint = Arc::new(Checkpoint::open(file("glm4-moe")).unwrap());
    let backend = Cpu::new(1);
    let options = BuildOptions { hidden: true, ..BuildOptions::default() };
    let head = build_head(&checkpoint, &options).unwrap().unwrap();
    let model = build_with(&checkpoint, &BuildOptions::default()).unwrap();
    let (mut head, mut model) =
        (Loaded::new(head, &checkpoint, &backend), Loaded::new(model, &checkpoint, &backend));
    let rows = [Row { input: Input::Token(5), position: 0, slot: 0 }];
    let tables = head.tables();
    let wants = [greedy(0)];
    let pass = Pass { tables: &tables, ..Pass::new(Phase::Decode, &rows, &wants) };
    let refuses = |loaded: &mut Loaded, pass: Pass<'_>, what: &str| {
        let error = loaded.executable.submit(&pass).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    };
    let states = [0.0; 17];
    let given = |count| Hidden::Given(&states[..count]);
    let few = Pass { hidden: given(15), ..pass };
    refuses(&mut head, few, "15 elements of hidden states, expected 16 for 1 rows");
    refuses(
        &mut head,
        Pass { hidden: given(0), ..pass },
        "0 elements of hidden states, expected 16",
    );
    let both = Pass { hidden: given(16), keeps_hidden: true, repeat: 2, ..pass };
    refuses(&mut head, both, "expected a plan that has any and a single repeat");
    refuses(&mut model, Pass { hidden: given(16), ..pass }, "expected 0 for 1 rows");
    refuses(&mut model, Pass { keeps_hidden: true, ..pass }, "expected a plan that has any");
    let before = |rows| Pass { hidden: Hidden::Before(rows), ..pass };
    refuses(&mut head, before(&[]), "0 rows of hidden states, expected 1 for 1 rows");
    refuses(&mut head, before(&[0]), "hidden state of row 0, expected one of 0");
    refuses(&mut model, before(&[0]), "hidden states of the pass before, expected a head");
    let partner = Pass { hidden: Hidden::Partner(&[0]), ..pass };
    refuses(&mut head, partner, "values of a partner, expected none");
    refuses(&mut model, partner, "expected a plan that begins with some");
    let rows = [Row { input: Input::Drafted(3), position: 0, slot: 0 }];
    refuses(&mut model, Pass { rows: &rows, ..pass }, "values of a partner, expected none");
}
