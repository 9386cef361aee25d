//! Persistent kernels against the dispatches: the same bits, and passes that run again.

use pelton_graph::{EffortForm, EffortTable, Hidden, TableEdit};
use pelton_sampling::Penalties;

use super::*;
use crate::{
    persist::{PassRows, Persistent, PersistentPass},
    translate::translate,
};

/// Below the 65,535 turns after which Mesa's software driver ends a loop.
pub(super) const TURNS: u32 = 60_000;
/// Persistent kernels of one workgroup, which waits for nobody, for passes of one row.
const FORCED: Mode = Mode::Forced { groups: 1, turns: TURNS, rows: 1 };

pub(super) fn with_mode(device: &Arc<Device>, spec: &ModelSpec, persistent: Mode) -> GpuExecutable {
    let plan = build(&spec.checkpoint()).unwrap().fuse(&all);
    with_plan(device, spec, plan, persistent)
}

pub(super) fn with_plan(
    device: &Arc<Device>,
    spec: &ModelSpec,
    plan: Plan,
    persistent: Mode,
) -> GpuExecutable {
    with_limits(device, spec, (plan, limits(spec)), persistent)
}

pub(super) fn with_limits(
    device: &Arc<Device>,
    spec: &ModelSpec,
    (plan, limits): (Plan, Limits),
    persistent: Mode,
) -> GpuExecutable {
    let checkpoint = Arc::new(spec.checkpoint());
    let device = Arc::clone(device);
    let matrices = SharedMatrices::default();
    let sources = Sources { checkpoint: &checkpoint, matrices: &matrices };
    let load = Load { device, plan, limits, available: None, choices: None, persistent };
    GpuExecutable::load(load, sources, &mut |_, _| {}).unwrap()
}

/// Persistent kernels of so many workgroups. `None` if spins run out: a software driver on a busy
/// machine may run one workgroup after the other has waited for long. One alone waits for nobody.
fn forced(device: &Arc<Device>, spec: &ModelSpec, groups: usize) -> Option<GpuExecutable> {
    const TRIES: usize = 4;
    let load = |_| with_mode(device, spec, Mode::Forced { groups, turns: TURNS, rows: 1 });
    let runs = |executable: &GpuExecutable| executable.steps.persistent.is_some();
    let found = (0..TRIES).map(load).find(runs);
    assert!(found.is_some() || groups > 1, "{spec:?}");
    found
}

/// Dispatches of the segments of passes of these rows; `None` if they have no persistent kernels.
fn segments(executable: &GpuExecutable, rows: PassRows) -> Option<usize> {
    executable.steps.persistent.as_ref()?.of(rows).map(PersistentPass::segments)
}

/// Lets the spins of passes of so many full rows run out.
pub(super) fn fail(executable: &GpuExecutable, rows: usize) {
    let kernels = executable.steps.persistent.as_ref().unwrap().of(PassRows::full(rows)).unwrap();
    let (words, offset) = kernels.dead();
    executable.device.queue.write_buffer(&words, offset, &[1, 0, 0, 0]);
}

pub(super) fn coherent() -> Option<Arc<Device>> {
    let device = device()?;
    if !device.coherent {
        skip(Need::Capability, "this GPU has no coherent buffers");
        return None;
    }
    Some(device)
}

/// A launch shape that is chosen by time changes no result; a second load reads it from the file.
#[test]
fn choosing_by_time_changes_nothing() {
    let (Some(usual), Some(mut tuned)) = (coherent(), coherent()) else { return };
    if !tuned.capabilities.timestamps {
        skip(Need::Capability, "this GPU has no clock that kernels could be timed with");
        return;
    }
    Arc::get_mut(&mut tuned).unwrap().tunes = true;
    let spec = ModelSpec::wide(DType::Q4_0);
    let expected = with_mode(&usual, &spec, Mode::Off);
    let chunks = [(Phase::Prompt, 5), (Phase::Decode, 1), (Phase::Decode, 1)];
    let tokens = tokens(&spec, 7);
    let run = |mut executable: GpuExecutable| logits(&mut executable, &tokens, &chunks);
    let expected = run(expected);
    let folder = tempfile::tempdir().unwrap();
    let kept = Choices::new(Records::at(folder.path().join("tuning.json")), &tuned);
    for _ in 0..2 {
        let checkpoint = Arc::new(spec.checkpoint());
        let plan = build(&checkpoint).unwrap().fuse(&all);
        let matrices = SharedMatrices::default();
        let sources = Sources { checkpoint: &checkpoint, matrices: &matrices };
        let (device, choices) = (Arc::clone(&tuned), Some(&kept));
        let load = Load {
            device,
            plan,
            limits: limits(&spec),
            available: None,
            choices,
            persistent: Mode::default(),
        };
        let executable = GpuExecutable::load(load, sources, &mut |_, _| {}).unwrap();
        assert!(kept.file().exists());
        for (got, expected) in run(executable).iter().zip(&expected) {
            // the squares of a norm may be summed in another order
            assert!((got - expected).abs() < 1e-4, "{got} for {expected}");
        }
    }
}

/// Norms of heads, biases, formats that differ within a layer, and near and far positions.
#[test]
fn persistent_kernels_change_no_bit() {
    use Phase::{Decode, Prompt};
    let Some(device) = coherent() else { return };
    // a software driver has too few bindings for a layer in Q4_K: two segments
    for (architecture, dtype, groups, most) in [
        ("llama", DType::Q4_0, 1, 1),
        ("llama", DType::Q4_0, 2, 1),
        ("qwen3", DType::Q8_0, 1, 1),
        ("llama", DType::Q4_K, 1, 2),
        ("qwen2", DType::Q4_0, 1, 1),
        ("llama", DType::F16, 1, 1),
    ] {
        let spec = ModelSpec { architecture, ..ModelSpec::wide(dtype) };
        let mut usual = with_mode(&device, &spec, Mode::Off);
        let Some(mut persistent) = forced(&device, &spec, groups) else {
            skip(Need::Capability, "spins of several workgroups run out on this GPU");
            continue;
        };
        let segments = segments(&persistent, PassRows::ALONE);
        let range = spec.layers..=most * spec.layers;
        assert!(segments.is_some_and(|n| range.contains(&n)), "{segments:?}, {spec:?}");
        for source in persistent.steps.persistent.iter().flat_map(Persistent::sources) {
            translate(architecture, source);
        }
        for first in [1, 63, 200] {
            let chunks = [(Prompt, first), (Decode, 1), (Decode, 1)];
            let tokens = tokens(&spec, first + 2);
            let expected = logits(&mut usual, &tokens, &chunks);
            let got = logits(&mut persistent, &tokens, &chunks);
            let same = expected.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{first} tokens before, {spec:?}");
        }
        assert!(persistent.steps.persistent.is_some() || groups > 1, "a spin ran out");
    }
}

/// The plan of a model with marks.
pub(super) fn with_effort(spec: &ModelSpec, fused: bool) -> Plan {
    let checkpoint = Arc::new(spec.checkpoint());
    let built = build(&checkpoint).unwrap();
    let has = |form| form == EffortForm::Nested;
    let mut plan = built.clone().fuse(&|_, _| fused).with_effort(&has);
    let windows = [(0..20).collect()];
    let scores = pelton_cpu::effort_scores(built, &checkpoint, &windows, 1, &mut |_, _| {});
    plan.marks.table = Some(Arc::new(EffortTable::new(scores.unwrap())));
    plan
}

/// A load with marks has persistent kernels for full rows, with the bits of a load
/// without one.
#[test]
fn rows_of_effort_1_persist() {
    use Phase::{Decode, Prompt};
    let Some(device) = coherent() else { return };
    let spec = ModelSpec::wide(DType::Q8_0);
    let plan = with_effort(&spec, true);
    let mut usual = with_mode(&device, &spec, Mode::Off);
    let mut persistent = with_plan(&device, &spec, plan, FORCED);
    let segments = segments(&persistent, PassRows::ALONE);
    assert!(segments.is_some_and(|n| n >= spec.layers), "{segments:?}");
    let chunks = [(Prompt, 20), (Decode, 1), (Decode, 1)];
    let tokens = tokens(&spec, 22);
    let expected = logits(&mut usual, &tokens, &chunks);
    let got = logits(&mut persistent, &tokens, &chunks);
    assert!(expected.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits()));
}

/// The logits of two passes of a row, after a prompt of so many tokens.
fn logits_below(
    executable: &mut GpuExecutable,
    spec: &ModelSpec,
    first: usize,
    level: f64,
) -> Vec<f32> {
    let tokens = tokens(spec, first + 2);
    let pages: Vec<u32> = (0..tokens.len().div_ceil(PAGE) as u32).collect();
    let tables = [TableEdit { group: 0, slot: 0, first: 0, pages: &pages }];
    let rows: Vec<Row> = (0..)
        .zip(&tokens)
        .map(|(position, &token)| Row { input: Input::Token(token), position, slot: 0 })
        .collect();
    let (prompt, decoded) = rows.split_at(first);
    let pass = Pass { tables: &tables, ..Pass::new(Phase::Prompt, prompt, &[]) };
    let ticket = executable.submit(&pass).unwrap();
    executable.take(ticket).unwrap();
    let efforts = [Effort::new(level).unwrap()];
    let logits = decoded.iter().flat_map(|row| {
        let (rows, wants) = ([*row], [Want::Logits { row: 0 }]);
        let pass = Pass { efforts: &efforts, ..Pass::new(Phase::Decode, &rows, &wants) };
        let ticket = executable.submit(&pass).unwrap();
        let persists =
            |given: &Option<repeat_data::Given>| given.as_ref().is_some_and(|of| of.run.persists);
        let all = segments(executable, PassRows::BELOW).is_some();
        assert_eq!(executable.repeat.given.iter().all(persists), all);
        executable.take(ticket).unwrap().logits.to_vec()
    });
    logits.collect()
}

/// By dispatches a layer of a row below 1 has four products and attention. The results of the two
/// products that are added to the residual stream have one each. Several KV splits have a merge.
#[test]
fn dispatches_of_rows_below_1() {
    let Some(device) = device() else { return };
    let spec = ModelSpec { layers: 4, context: 1024, ..ModelSpec::wide(DType::Q8_0) };
    let executable = with_plan(&device, &spec, with_effort(&spec, true), Mode::Off);
    for (bound, expected) in [(1, 7), (1000, 8)] {
        let shape = StepShape { rows: 1, bound, tiles: 0, distinct: true, sequences: 1, below: 1 };
        let steps = executable.plan.steps.iter().zip(&executable.steps.alone);
        for layer in 0..spec.layers {
            let of_layer = steps.clone().filter(|(step, _)| step.layer == Some(layer));
            let count = of_layer.map(|(_, calls)| StepDispatches { calls, shape }.count().0);
            assert_eq!(count.sum::<usize>(), expected, "layer {layer}, positions below {bound}");
        }
    }
    // a driver compiles the kernels of one layer alone, and a GPU keeps their code
    let sources = |layer: usize| -> Vec<&str> {
        let steps = executable.plan.steps.iter().zip(&executable.steps.alone);
        let of_layer = steps.filter(|(step, _)| step.layer == Some(layer));
        of_layer.flat_map(|(_, calls)| calls).map(|call| call.kernel.source().text()).collect()
    };
    for layer in 1..spec.layers {
        assert_eq!(sources(layer), sources(0), "layer {layer}");
    }
}

/// A layer of a row below 1 is one dispatch, with the bits of the dispatches of its steps.
#[test]
fn rows_below_1_persist() {
    let Some(device) = coherent() else { return };
    for architecture in ["llama", "qwen3", "qwen2"] {
        let spec = ModelSpec { architecture, ..ModelSpec::wide(DType::Q8_0) };
        let plan = with_effort(&spec, true);
        let load = |mode| with_plan(&device, &spec, plan.clone(), mode);
        let mut usual = load(Mode::Off);
        let mut persistent = load(FORCED);
        assert_eq!(segments(&persistent, PassRows::BELOW), Some(spec.layers), "{spec:?}");
        for source in persistent.steps.persistent.iter().flat_map(Persistent::sources) {
            translate(architecture, source);
        }
        for first in [1, 63, 200] {
            let expected = logits_below(&mut usual, &spec, first, 0.5);
            let got = logits_below(&mut persistent, &spec, first, 0.5);
            let same = expected.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{first} tokens before, {spec:?}");
        }
        assert!(persistent.steps.persistent.is_some(), "a spin ran out");
    }
}

/// Three passes in flight, whose first ran into a spin without end: all run again, from the tokens
/// and pages of their time.
#[test]
fn failed_passes_run_again() {
    let Some(device) = coherent() else { return };
    let spec = ModelSpec::wide(DType::Q4_0);
    const REPEAT: u32 = 4;
    let pages = [5, 3];
    let params = FixedParams::new(1.0, 40, 0.9, 0.0);
    let penalties = Penalties { repetition: 1.3, presence: 0.1, frequency: 0.1, window: 64 };
    let run = |executable: &mut GpuExecutable, fails: bool| -> Vec<Option<u32>> {
        let edits = [TableEdit { group: 0, slot: 1, first: 0, pages: &pages }];
        if fails {
            fail(executable, 1);
        }
        let mut tickets = Vec::new();
        for pass in 0..DEPTH as u32 {
            let position = pass * REPEAT;
            let input = if pass == 0 { Input::Token(5) } else { Input::Sampled };
            let rows = [Row { input, position, slot: 1 }];
            let draw = Draw {
                params,
                penalties: Some(penalties),
                index: u64::from(position),
                ..Draw::GREEDY
            };
            let want = SampleWant { row: 0, draw, recent: &[], pending: position + 1 };
            let wants = [Want::Sample(want)];
            let tables = if pass == 0 { &edits[..] } else { &[] };
            let pass = Pass { repeat: REPEAT, tables, ..Pass::new(Phase::Decode, &rows, &wants) };
            tickets.push(executable.submit(&pass).unwrap());
        }
        if fails {
            // values that the failed passes may have left, or that later passes changed
            let Inputs { recent, rows, .. } = &executable.inputs;
            for buffer in [recent, rows] {
                let poison = vec![1u8; buffer.size() as usize];
                executable.device.queue.write_buffer(buffer, 0, &poison);
            }
            executable.inputs.write_table(&executable.device, 0, 1, 0, &[0, 0]);
        }
        let take = |ticket| {
            let samples = executable.take(ticket).unwrap().samples;
            samples.iter().map(|sample| sample.token).collect::<Vec<_>>()
        };
        tickets.into_iter().flat_map(take).collect()
    };
    let expected = run(&mut with_mode(&device, &spec, Mode::Off), false);
    let Some(mut failing) = forced(&device, &spec, 1) else { return };
    assert_eq!(run(&mut failing, true), expected);
    assert_eq!(failing.repeat.count, DEPTH);
    assert!(failing.steps.persistent.is_none());
    // from there on by dispatches
    assert_eq!(run(&mut failing, false), expected);
    assert_eq!(failing.repeat.count, DEPTH);
    // and without a failure
    let Some(mut persistent) = forced(&device, &spec, 1) else { return };
    assert_eq!(run(&mut persistent, false), expected);
    assert_eq!(persistent.repeat.count, 0);
}

/// Passes of several rows and efforts that follow a failed one run again with their own efforts.
#[test]
fn passes_that_run_again_keep_their_efforts() {
    let Some(device) = coherent() else { return };
    let spec = ModelSpec::wide(DType::Q8_0);
    let plan = with_effort(&spec, true);
    let [full, half, less] = [1.0, 0.5, 0.25].map(|level| Effort::new(level).unwrap());
    let efforts = [vec![full], vec![half, full, less], vec![less, half, full]];
    let run = |executable: &mut GpuExecutable, fails: bool| -> Vec<Sampled> {
        if fails {
            fail(executable, 1);
        }
        let pages = [[0], [1], [2]];
        let edits: Vec<TableEdit<'_>> = (0..)
            .zip(&pages)
            .map(|(slot, pages)| TableEdit { group: 0, slot, first: 0, pages })
            .collect();
        let mut tickets = Vec::new();
        for (position, efforts) in (0..).zip(&efforts) {
            // the other slots begin one pass later
            let row = |slot: u32| match position - slot.min(1) {
                0 => Row { input: Input::Token(5 + slot), position: 0, slot },
                position => Row { input: Input::Sampled, position, slot },
            };
            let slots = 0..efforts.len() as u32;
            let rows: Vec<Row> = slots.clone().map(row).collect();
            let draw = Draw {
                params: FixedParams::new(1.0, 40, 0.9, 0.0),
                index: u64::from(position),
                log_probs: Some(1),
                ..Draw::GREEDY
            };
            let want = |row| Want::Sample(SampleWant { row, draw, recent: &[], pending: 0 });
            let wants: Vec<Want<'_>> = slots.map(want).collect();
            let tables = if position == 0 { &edits[..] } else { &[] };
            let pass = Pass { tables, efforts, ..Pass::new(Phase::Decode, &rows, &wants) };
            tickets.push(executable.submit(&pass).unwrap());
        }
        let take = |ticket| executable.take(ticket).unwrap().samples.to_vec();
        tickets.into_iter().flat_map(take).collect()
    };
    let load = |mode| with_plan(&device, &spec, plan.clone(), mode);
    let expected = run(&mut load(Mode::Off), false);
    let mut failing = load(FORCED);
    assert_eq!(run(&mut failing, true), expected);
    assert_eq!(failing.repeat.count, DEPTH);
}

/// The first and the last part of a model over two devices: values come in or go out in the middle.
fn parts(spec: &ModelSpec) -> [Plan; 2] {
    let plan = build(&spec.checkpoint()).unwrap();
    let x = plan.steps[0].outputs[0];
    let last_layer = plan.steps.iter().rposition(|step| step.layer.is_some()).unwrap();
    let first = Plan {
        steps: plan.steps[..=last_layer].to_vec(),
        exit: vec![x],
        logits: x,
        ..plan.clone()
    };
    let last = Plan { steps: plan.steps[1..].to_vec(), entry: vec![x], ..plan };
    [first, last].map(|part| part.keep_used().fuse(&all))
}

/// Parts of a model persist, and their failed passes run again from the values of their own.
#[test]
fn parts_persist_and_run_again() {
    let Some(device) = coherent() else { return };
    let spec = ModelSpec::wide(DType::Q4_0);
    let run = |executable: &mut GpuExecutable, fails: bool| -> Vec<Vec<f32>> {
        let edits = [TableEdit { group: 0, slot: 1, first: 0, pages: &[2] }];
        if fails {
            fail(executable, 1);
        }
        let is_last = executable.plan.exit.is_empty();
        let submit = |position: u32| {
            let rows = [Row { input: Input::Token(5 + position), position, slot: 1 }];
            let width = if is_last { spec.hidden } else { 0 };
            let hidden: Vec<f32> = (0..width).map(|i| (i as f32 * 0.7).sin()).collect();
            let draw = Draw { log_probs: Some(3), ..Draw::GREEDY };
            let want = Want::Sample(SampleWant { row: 0, draw, recent: &[], pending: 0 });
            let wants = if is_last { vec![want] } else { Vec::new() };
            let tables = if position == 0 { &edits[..] } else { &[] };
            let pass = Pass { tables, ..Pass::new(Phase::Decode, &rows, &wants) };
            let pass = Pass { hidden: Hidden::Given(&hidden), keeps_hidden: !is_last, ..pass };
            executable.submit(&pass).unwrap()
        };
        let tickets: Vec<_> = (0..DEPTH as u32).map(submit).collect();
        let take = |ticket| {
            let outputs = executable.take(ticket).unwrap();
            let likely = outputs.samples.iter().flat_map(|sample| &sample.log_probs);
            let likely = likely.flat_map(|log_probs| &log_probs.top).map(|of| of.0 as f32 + of.1);
            outputs.hidden.iter().copied().chain(likely).collect()
        };
        tickets.into_iter().map(take).collect()
    };
    for plan in parts(&spec) {
        let load = |mode| with_plan(&device, &spec, plan.clone(), mode);
        let expected = run(&mut load(Mode::Off), false);
        assert!(expected.iter().all(|values| values.len() >= 3));
        let mut failing = load(FORCED);
        assert!(failing.steps.persistent.is_some());
        assert_eq!(run(&mut failing, true), expected);
        assert_eq!(failing.repeat.count, DEPTH);
        let mut persistent = load(FORCED);
        assert_eq!(run(&mut persistent, false), expected);
        assert!(persistent.steps.persistent.is_some());
    }
}

/// A pass whose results are lost is taken, so that it does not block later ones.
#[test]
fn failed_passes_are_taken() {
    let Some(device) = coherent() else { return };
    let Some(mut executable) = forced(&device, &ModelSpec::wide(DType::Q4_0), 1) else { return };
    let edits = [TableEdit { group: 0, slot: 0, first: 0, pages: &[0] }];
    let tickets = [0, 1].map(|position| {
        let rows = [Row { input: Input::Token(5), position, slot: 0 }];
        let want = SampleWant { row: 0, draw: Draw::GREEDY, recent: &[], pending: 0 };
        let wants = [Want::Sample(want)];
        let pass = Pass { tables: &edits, ..Pass::new(Phase::Decode, &rows, &wants) };
        executable.submit(&pass).unwrap()
    });
    device.lose();
    for (ticket, left) in tickets.into_iter().zip([1, 0]) {
        let error = executable.take(ticket).err().unwrap().to_string();
        assert!(error.contains("by a test"), "{error}");
        assert_eq!(executable.in_flight.len(), left);
        assert_eq!(executable.repeat.given.len(), left);
    }
}

/// Kernels whose barriers fail are not used.
#[test]
fn kernels_that_fail_at_load_are_not_used() {
    let Some(device) = coherent() else { return };
    let spec = ModelSpec::wide(DType::Q4_0);
    let executable = with_mode(&device, &spec, Mode::Forced { groups: 1, turns: 0, rows: 1 });
    assert!(executable.steps.persistent.is_none());
}
