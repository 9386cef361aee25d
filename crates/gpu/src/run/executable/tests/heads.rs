//! Persistent kernels of passes that verify a draft, of a model with a head, and of the head: the
//! bits of the dispatches, and passes that run again.

use std::sync::atomic::Ordering;

use pelton_graph::{BuildOptions, Hidden, TableEdit, build_with};

use super::{
    persistent::{TURNS, coherent, fail, with_limits, with_mode, with_plan},
    *,
};
use crate::translate::translate;

/// Persistent kernels of one workgroup, which waits for nobody, for passes of up to so many rows.
const fn forced(rows: usize) -> Mode {
    Mode::Forced { groups: 1, turns: TURNS, rows }
}

/// Passes that were submitted with persistent kernels.
fn persisted(device: &Device) -> u64 {
    device.persisted.load(Ordering::Relaxed)
}

/// Two to four rows of one slot have the bits of the dispatches, near and far, over a border of
/// pages.
#[test]
fn passes_of_few_rows_change_no_bit() {
    use Phase::{Decode, Prompt};
    let Some(device) = coherent() else { return };
    for (architecture, dtype, kv) in
        [("llama", DType::Q4_0, KvType::F16), ("qwen3", DType::Q8_0, KvType::Q8_0)]
    {
        let spec = ModelSpec { architecture, ..ModelSpec::wide(dtype) };
        let load = |mode| {
            let plan = build(&spec.checkpoint()).unwrap().fuse(&all);
            with_limits(&device, &spec, (plan, Limits { kv, ..limits(&spec) }), mode)
        };
        let (mut usual, mut persistent) = (load(Mode::Off), load(forced(4)));
        let kernels = persistent.steps.persistent.as_ref().unwrap();
        for source in kernels.sources() {
            translate(architecture, source);
        }
        let passes = kernels.passes();
        assert_eq!(passes.iter().map(|(rows, _)| *rows).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(passes.iter().all(|(_, segments)| *segments >= spec.layers), "{passes:?}");
        for first in [1, 61, 190] {
            let chunks = [(Prompt, first), (Decode, 3), (Decode, 4), (Decode, 1), (Decode, 2)];
            let tokens = tokens(&spec, first + 10);
            let expected = logits(&mut usual, &tokens, &chunks);
            let before = persisted(&device);
            let got = logits(&mut persistent, &tokens, &chunks);
            assert_eq!(persisted(&device) - before, 4, "{spec:?}");
            let same = expected.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{first} tokens before, {spec:?}");
        }
        assert_eq!(persistent.repeat.count, 0);
    }
}

/// Rows of different slots run by dispatches.
#[test]
fn rows_of_different_slots_run_by_dispatches() {
    let Some(device) = coherent() else { return };
    let spec = ModelSpec::wide(DType::Q4_0);
    let mut executable = with_mode(&device, &spec, forced(2));
    let pages = [[0], [1]];
    let edits = [0, 1].map(|slot| {
        let pages = &pages[slot as usize];
        TableEdit { group: 0, slot, first: 0, pages }
    });
    let rows = [0, 1].map(|slot| Row { input: Input::Token(5), position: 0, slot });
    let pass = Pass { tables: &edits, ..Pass::new(Phase::Decode, &rows, &[]) };
    let ticket = executable.submit(&pass).unwrap();
    executable.take(ticket).unwrap();
    assert_eq!(persisted(&device), 0);
}

/// A model that keeps hidden states, and a head: the same model, which adds a hidden state to each
/// embedding.
fn model_and_head(spec: &ModelSpec) -> [Plan; 2] {
    let options = BuildOptions { hidden: true, ..BuildOptions::default() };
    let model = build_with(&spec.checkpoint(), &options).unwrap();
    let mut head = model.clone();
    head.entry.clone_from(&head.exit);
    let x = head.steps[0].outputs[0];
    let add = Step { op: Op::Add, inputs: vec![x, head.entry[0]], ..head.steps[0].clone() };
    head.steps.insert(1, add);
    [model, head].map(|plan| plan.fuse(&all))
}

fn row(input: Input, position: u32) -> Row {
    Row { input, position, slot: 1 }
}

fn greedy(row: u32) -> Want<'static> {
    Want::Sample(SampleWant { row, draw: Draw::GREEDY, recent: &[], pending: 0 })
}

fn start(
    executable: &mut GpuExecutable,
    (rows, repeat): (&[Row], u32),
    hidden: Hidden<'_>,
    wants: &[Want<'_>],
) -> Ticket {
    let edits = [TableEdit { group: 0, slot: 1, first: 0, pages: &[2] }];
    let tables = if rows[0].position == 0 { &edits[..] } else { &[] };
    let pass = Pass { tables, hidden, repeat, ..Pass::new(Phase::Decode, rows, wants) };
    executable.submit(&pass).unwrap()
}

/// The passes whose spins run out.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fails {
    Nothing,
    /// The first pass of the head, of two rows.
    First,
    /// Its second pass, of one row.
    Second,
    /// The pass that verifies the draft.
    Verify,
}

/// The results of a step of speculation.
#[derive(Debug, PartialEq)]
struct Results {
    /// The tokens of the head's passes.
    tokens: Vec<u32>,
    /// Those that the model has verified, and their logits.
    drafted: Vec<u32>,
    logits: Vec<f32>,
    /// The hidden state of the head's last pass.
    state: Vec<f32>,
}

/// A draft of three tokens and the verification of two, without a wait between them, and a
/// further pass of the head.
fn speculate([model, head]: [&mut GpuExecutable; 2], fails: Fails) -> Results {
    assert!(head.pair(model.shared().unwrap()) && model.pair(head.shared().unwrap()));
    let known = [5, 9, 3].map(Input::Token);
    let rows = [row(known[0], 0), row(known[1], 1), row(known[2], 2)];
    let first = start(model, (&rows, 1), Hidden::NONE, &[]);
    let rows = [row(known[1], 0), row(known[2], 1)];
    if model.steps.persistent.is_some() {
        // the model's pass may have to run again
        let edits = [TableEdit { group: 0, slot: 1, first: 0, pages: &[2] }];
        let pass = Pass { tables: &edits, ..Pass::new(Phase::Decode, &rows, &[]) };
        let pass = Pass { hidden: Hidden::Partner(&[1, 2]), ..pass };
        let error = head.submit(&pass).unwrap_err().to_string();
        assert!(error.contains("is not taken"), "{error}");
    }
    model.take(first).unwrap();
    if fails == Fails::First {
        fail(head, 2);
    }
    let mut passes = vec![start(head, (&rows, 1), Hidden::Partner(&[1, 2]), &[greedy(1)])];
    if fails == Fails::Second {
        fail(head, 1);
    }
    let rows = [row(Input::Sampled, 2)];
    passes.push(start(head, (&rows, 2), Hidden::Before(&[1]), &[greedy(0)]));
    if fails == Fails::Verify {
        fail(model, 3);
    }
    let next = Input::Token(7);
    let rows = [row(next, 3), row(Input::Drafted(2), 4), row(Input::Drafted(3), 5)];
    let wants = [0, 1, 2].map(|row| Want::Logits { row });
    let verify = start(model, (&rows, 1), Hidden::NONE, &wants);
    let outputs = model.take(verify).unwrap();
    let (drafted, logits) = (outputs.drafted.to_vec(), outputs.logits.to_vec());
    // the state of the row before the drafted tokens
    let rows = [row(next, 4)];
    let wants = [greedy(0)];
    let pass = Pass { hidden: Hidden::Partner(&[0]), ..Pass::new(Phase::Decode, &rows, &wants) };
    passes.push(head.submit(&Pass { keeps_hidden: true, ..pass }).unwrap());
    let other = start(model, (&[row(Input::Token(2), 4)], 1), Hidden::NONE, &[greedy(0)]);
    if fails != Fails::Nothing {
        // values that later passes may have left
        for executable in [&*model, head] {
            let states = &executable.buffers[executable.plan.exit[0].0];
            let poison = vec![0xff; states.size() as usize];
            executable.device.queue.write_buffer(states, 0, &poison);
        }
    }
    let (mut tokens, mut state) = (Vec::new(), Vec::new());
    for ticket in passes {
        let outputs = head.take(ticket).unwrap();
        tokens.extend(outputs.samples.iter().map(|sampled| sampled.token.unwrap()));
        state.extend(outputs.hidden);
    }
    model.take(other).unwrap();
    Results { tokens, drafted, logits, state }
}

/// A model with a head and the head persist. Their failed passes run again from the values of their
/// own time, although other passes have overwritten these.
#[test]
fn a_model_and_its_head_persist() {
    let Some(device) = coherent() else { return };
    let spec = ModelSpec::wide(DType::Q4_0);
    let plans = model_and_head(&spec);
    let load = |part: usize, mode| with_plan(&device, &spec, plans[part].clone(), mode);
    let [mut model, mut head] = [0, 1].map(|part| load(part, Mode::Off));
    let expected = speculate([&mut model, &mut head], Fails::Nothing);
    assert_eq!(expected.drafted, expected.tokens[..2]);
    assert_eq!(expected.state.len(), spec.hidden);
    let [mut model, mut head] = [0, 1].map(|part| load(part, forced(3)));
    for executable in [&model, &head] {
        let passes = executable.steps.persistent.as_ref().unwrap().passes();
        assert!(passes.len() == 3 && passes.iter().all(|of| of.1 >= spec.layers), "{passes:?}");
    }
    assert_eq!(speculate([&mut model, &mut head], Fails::Nothing), expected);
    assert_eq!([model.repeat.count, head.repeat.count], [0; 2]);
    assert_eq!(persisted(&device), 6);
    // from its failure on each runs by dispatches
    assert_eq!(speculate([&mut model, &mut head], Fails::Verify), expected);
    assert_eq!(speculate([&mut model, &mut head], Fails::First), expected);
    assert_eq!([model.repeat.count, head.repeat.count], [1, 3]);
    assert!(model.steps.persistent.is_none() && head.steps.persistent.is_none());
    let mut head = load(1, forced(3));
    assert_eq!(speculate([&mut model, &mut head], Fails::Second), expected);
    assert_eq!(head.repeat.count, 2);
}
