use pelton_graph::{
    Backend, BufferId, ExpertLinear, HostPart, Input, KvType, Op, PAGE, Row, Sample as SampleWant,
    Step, WeightId, build,
};
use pelton_quant::DType;
use pelton_records::Records;
use pelton_sampling::{Draw, FixedParams};
use pelton_testing::{
    ModelSpec, Need,
    backend::{limits, load, logits, tokens},
    skip,
};
use pelton_weights::Checkpoint;

use super::*;
use crate::{
    Gpu,
    run::memory::{check_limits, needs},
    testing::device,
    weights::SharedMatrices,
};

mod guess;
mod heads;
mod lengths;
mod live_sets;
mod persistent;
mod pictures;

fn all(_: &Op, _: &Plan) -> bool {
    true
}

fn loaded(device: &Arc<Device>, spec: &ModelSpec, limits: Limits) -> Result<GpuExecutable, Error> {
    let checkpoint = Arc::new(spec.checkpoint());
    let plan = build(&checkpoint).unwrap().fuse(&all);
    let matrices = SharedMatrices::default();
    let sources = Sources { checkpoint: &checkpoint, matrices: &matrices };
    let device = Arc::clone(device);
    let (choices, persistent) = (None, Mode::Off);
    let load = Load { device, plan, limits, available: None, choices, persistent };
    GpuExecutable::load(load, sources, &mut |_, _| {})
}

/// Passes of any size and kind create no buffer, pipeline or bind group.
#[test]
fn nothing_is_allocated_after_load() {
    use Phase::{Decode, Prompt};
    let Some(device) = device() else { return };
    let gpu = Gpu::of(device).without_persistent();
    for spec in [ModelSpec::default(), ModelSpec::wide(DType::Q4_0)] {
        let mut executable = load(&gpu, &spec, &all, limits(&spec));
        let created = gpu.device.created();
        assert!(created > 0);
        let pass = |executable: &mut dyn Executable| {
            let chunks = [(Prompt, 1), (Decode, 3), (Prompt, 9), (Prompt, 40), (Decode, 20)];
            logits(executable, &tokens(&spec, 1 + 3 + 9 + 40 + 20), &chunks);
        };
        pass(&mut *executable);
        let few = FixedParams::new(1.0, 40, 0.9, 0.0);
        let many = FixedParams::new(1.0, spec.vocab, 0.9, 0.0);
        for params in [None, few, many] {
            let rows = [Row { input: Input::Token(5), position: 0, slot: 1 }];
            let draw = Draw { params, log_probs: Some(3), ..Draw::GREEDY };
            let want = SampleWant { row: 0, draw, recent: &[], pending: 0 };
            let wants = [Want::Sample(want)];
            let pass = Pass { repeat: 12, ..Pass::new(Decode, &rows, &wants) };
            let ticket = executable.submit(&pass).unwrap();
            assert_eq!(executable.take(ticket).unwrap().samples.len(), 12);
        }
        pass(&mut *executable);
        assert_eq!(gpu.device.created(), created, "{spec:?}");
    }
}

/// Autotuning at load changes no logits, and its choices are read from the file later.
#[test]
fn autotuning_changes_nothing() {
    let (Some(usual), Some(mut tuned)) = (device(), device()) else { return };
    let folder = tempfile::tempdir().unwrap();
    if !tuned.capabilities.timestamps {
        skip(Need::Capability, "this GPU has no clock that kernels could be timed with");
        return;
    }
    Arc::get_mut(&mut tuned).unwrap().tunes = true;
    let kept = Choices::new(Records::at(folder.path().join("tuning.json")), &tuned);
    // an output matrix whose rows leave workgroups idle, with subgroups of 8 and of 32
    let spec = ModelSpec { vocab: 36_000, ..ModelSpec::wide(DType::Q4_0) };
    let limits = Limits { rows: 16, wants: 16, ..limits(&spec) };
    let load = |device: &Arc<Device>| {
        let checkpoint = Arc::new(spec.checkpoint());
        let plan = build(&checkpoint).unwrap().fuse(&all);
        let matrices = SharedMatrices::default();
        let sources = Sources { checkpoint: &checkpoint, matrices: &matrices };
        let (device, choices) = (Arc::clone(device), Some(&kept));
        let load = Load {
            device,
            plan,
            limits: limits.clone(),
            available: None,
            choices,
            persistent: Mode::Off,
        };
        GpuExecutable::load(load, sources, &mut |_, _| {}).unwrap()
    };
    let run = |device: &Arc<Device>| {
        logits(&mut load(device), &tokens(&spec, 5), &[(Phase::Decode, 1); 5])
    };
    let expected = run(&usual);
    // measured, then read from the file
    for _ in 0..2 {
        for (got, expected) in run(&tuned).iter().zip(&expected) {
            // the squares of a norm are summed in another order
            assert!((got - expected).abs() < 1e-4, "{got} for {expected}");
        }
    }
    // the choice of the file determines the workgroups
    let groups = |choice: &str| {
        let text = std::fs::read_to_string(kept.file()).unwrap();
        let mut known: serde_json::Value = serde_json::from_str(&text).unwrap();
        for kernels in known.as_object_mut().unwrap().values_mut() {
            for tuning in kernels.as_object_mut().unwrap().values_mut() {
                *tuning = serde_json::from_str(choice).unwrap();
            }
        }
        std::fs::write(kept.file(), known.to_string()).unwrap();
        let executable = load(&tuned);
        let shape =
            StepShape { rows: 1, bound: 1, tiles: 0, distinct: true, sequences: 1, below: 0 };
        let calls = executable.steps.alone.iter().flatten();
        calls.filter_map(|call| call.groups(&shape)).map(|groups| groups[0]).max().unwrap()
    };
    assert!(groups("[512, 132]") < groups("[512, 528]"));
}

/// Heads of no whole blocks are refused in Q8_0, and the error names the types that can be.
#[test]
fn caches_of_parts_of_blocks_are_refused() {
    let Some(device) = device() else { return };
    let spec = ModelSpec::default();
    let limits = Limits { kv: KvType::Q8_0, ..limits(&spec) };
    let error = loaded(&device, &spec, limits).err().unwrap().to_string();
    assert!(error.contains("q8_0") && error.contains("f16 or f32"), "{error}");
}

/// Caches that no kernel can bind are refused, with the context that would fit.
#[test]
fn caches_above_a_binding_are_refused() {
    let Some(mut device) = device() else { return };
    let spec = ModelSpec::default();
    let limits = Limits { sequences: 1, ..limits(&spec) };
    let page = 2 * spec.kv_heads * spec.head_dim * PAGE;
    Arc::get_mut(&mut device).unwrap().capabilities.binding_bytes = 3 * page as u64;
    let error = loaded(&device, &spec, limits).err().unwrap().to_string();
    assert!(error.contains("a kernel can bind; a context of 192 would fit"), "{error}");
}

/// A load that needs one byte too many is refused before anything is uploaded.
#[test]
fn all_memory_is_counted_before_the_upload() {
    let Some(device) = device() else { return };
    let spec = ModelSpec::default();
    let checkpoint = Arc::new(spec.checkpoint());
    let plan = build(&checkpoint).unwrap().fuse(&all);
    let needs = needs(&device, &plan, &limits(&spec)).unwrap();
    assert!(needs.weights > 0 && needs.caches > 0 && needs.buffers > 0 && needs.scratch > 0);
    let load = |available| {
        let matrices = SharedMatrices::default();
        let sources = Sources { checkpoint: &checkpoint, matrices: &matrices };
        let load = Load {
            device: Arc::clone(&device),
            plan: plan.clone(),
            limits: limits(&spec),
            available: Some(available),
            choices: None,
            persistent: Mode::Off,
        };
        GpuExecutable::load(load, sources, &mut |_, _| {})
    };
    let created = device.created();
    let error = load(needs.most() - 1).err().unwrap().to_string();
    assert!(error.contains("bytes of memory on"), "{error}");
    assert_eq!(device.created(), created);
    assert!(load(needs.most()).is_ok());
}

/// The memory of a load is that of wgpu's allocator, within 2 %.
#[test]
fn predicted_memory_is_that_of_the_allocator() {
    let Some(device) = device() else { return };
    let Some(before) = device.allocated() else { return };
    for dtype in [DType::F32, DType::F16, DType::Q4_0, DType::Q6_K, DType::IQ3_S] {
        for architecture in ["llama", "qwen2", "qwen3"] {
            let spec = ModelSpec { architecture, vocab: 3001, ..ModelSpec::wide(dtype) };
            let plan = build(&spec.checkpoint()).unwrap().fuse(&all);
            let expected = needs(&device, &plan, &limits(&spec)).unwrap().total();
            let executable = loaded(&device, &spec, limits(&spec)).unwrap();
            let allocated = device.allocated().unwrap() - before;
            let difference = allocated.abs_diff(expected);
            assert!(difference < expected / 50, "{spec:?}: {allocated}, expected {expected}");
            drop(executable);
            device.wait().unwrap();
        }
    }
}

/// The plan with its first feed-forward in the host's memory.
fn with_part_of_host(plan: Plan) -> Plan {
    let at = plan.steps.iter().position(|step| matches!(step.op, Op::NormGlu { .. })).unwrap();
    let (entry, exit) = (plan.steps[at].inputs[0], plan.steps[at + 1].outputs[0]);
    Plan { host: vec![HostPart { steps: at..at + 2, entry, exit }], ..plan }
}

/// The same of a load whose first feed-forward stays in the host's memory.
#[test]
fn predicted_memory_with_a_part_of_the_host() {
    let Some(device) = device() else { return };
    let Some(before) = device.allocated() else { return };
    let spec = ModelSpec { vocab: 3001, ..ModelSpec::wide(DType::Q4_0) };
    let checkpoint = Arc::new(spec.checkpoint());
    let plan = build(&checkpoint).unwrap().fuse(&all);
    let whole = needs(&device, &plan, &limits(&spec)).unwrap();
    let plan = with_part_of_host(plan);
    let needs = needs(&device, &plan, &limits(&spec)).unwrap();
    assert!(needs.weights < whole.weights && needs.streamed > 0, "{needs:?}");
    let matrices = SharedMatrices::default();
    let sources = Sources { checkpoint: &checkpoint, matrices: &matrices };
    let load = Load {
        device: Arc::clone(&device),
        plan,
        limits: limits(&spec),
        available: Some(needs.most()),
        choices: None,
        persistent: Mode::Off,
    };
    let executable = GpuExecutable::load(load, sources, &mut |_, _| {}).unwrap();
    let (expected, allocated) = (needs.total(), device.allocated().unwrap() - before);
    assert!(allocated.abs_diff(expected) < expected / 50, "{allocated}, expected {expected}");
    // streamed matrices are not shared with other plans
    assert_eq!(
        matrices.count(),
        executable.plan.weights.iter().filter(|w| w.is_matrix()).count() - 3
    );
}

/// More rows than workgroups of a dispatch are refused.
#[test]
fn too_many_rows_are_refused() {
    let Some(device) = device() else { return };
    let spec = ModelSpec::default();
    let limits = Limits { rows: 65_536, ..limits(&spec) };
    let error = loaded(&device, &spec, limits).err().unwrap().to_string();
    assert!(error.contains("65536 rows"), "{error}");
}

/// More pairs of a row and an expert than workgroups of a dispatch are refused.
#[test]
fn too_many_pairs_are_refused() {
    let Some(device) = device() else { return };
    let spec = ModelSpec::default();
    let mut plan = build(&spec.checkpoint()).unwrap();
    let linear = ExpertLinear { weight: WeightId(0), bias: None, used: 16 };
    let step = Step { op: Op::ExpertLinear(linear), ..plan.steps[0].clone() };
    plan.steps.push(step);
    let check =
        |wants| check_limits(&device, &plan, &Limits { rows: 8192, wants, ..limits(&spec) });
    check(4095).unwrap();
    let error = check(4096).unwrap_err().to_string();
    assert!(error.contains("4096 rows with 16 experts each"), "{error}");
}

/// Heads that do not fit the memory of a workgroup are refused by the name of the op.
#[test]
fn ops_that_do_not_fit_are_refused() {
    let Some(device) = device() else { return };
    let gpu = Gpu::of(device).without_persistent();
    for spec in [
        ModelSpec { heads: 2, kv_heads: 2, head_dim: 642, ..ModelSpec::default() },
        ModelSpec { heads: 1, kv_heads: 1, head_dim: 514, ..ModelSpec::default() },
    ] {
        let checkpoint = Arc::new(spec.checkpoint());
        let plan = build(&checkpoint).unwrap();
        let outcome = gpu.load(plan, checkpoint, limits(&spec), &mut |_, _| {});
        let error = outcome.err().unwrap();
        assert!(matches!(error, Error::Op { .. }), "{error}");
    }
}

/// The dependent dispatches of a decoding pass over one row, at each position.
fn dependent(device: &Arc<Device>, spec: &ModelSpec, positions: [usize; 2]) -> [usize; 2] {
    let executable = loaded(device, spec, limits(spec)).unwrap();
    positions.map(|position| {
        let shape = PassShape {
            phase: Phase::Decode,
            rows: 1,
            selected: vec![0],
            bound: position + 1,
            tiles: 0,
            slots: 1,
            distinct: true,
            sequences: 1,
            below: [0; 2],
            alone: true,
        };
        let steps = 0..executable.plan.steps.len();
        executable.dispatches(&shape, steps).map(|step| step.count().1).sum()
    })
}

/// A dependent dispatch costs microseconds, which are most of the time of a token of small models.
#[test]
fn few_dispatches_depend_on_each_other() {
    let Some(device) = device() else { return };
    for architecture in ["llama", "qwen2", "qwen3"] {
        let [two, three] = [2, 3].map(|layers| {
            let spec = ModelSpec { architecture, layers, ..ModelSpec::wide(DType::Q4_0) };
            dependent(&device, &spec, [0, 400])
        });
        // at far positions attention has several KV splits and a merge
        for (i, most) in [5, 6].into_iter().enumerate() {
            assert!(three[i] - two[i] <= most, "{architecture}: {two:?} {three:?}");
            // embedding, and norm and logits
            assert!(two[i] <= 2 * most + 2, "{architecture}: {two:?}");
        }
    }
}

/// A token that is drawn after its pass was submitted is that of a draw with the pass, and draws
/// out of their order are refused.
#[test]
fn draws_may_follow_their_passes() {
    let Some(device) = device() else { return };
    let spec = ModelSpec::default();
    let prompt = tokens(&spec, 4);
    let mask: Vec<u32> =
        (0..spec.vocab.div_ceil(32)).map(|word| 0x5a5a_5a5a << (word % 2)).collect();
    let params = FixedParams::new(1.5, spec.vocab, 0.99, 0.0);
    let draw = Draw { params, seed: 7, mask: Some(&mask), log_probs: Some(2), ..Draw::GREEDY };
    let sample =
        |index| SampleWant { row: 0, draw: Draw { index, ..draw }, recent: &[], pending: 0 };
    let first = |executable: &mut GpuExecutable| {
        let rows: Vec<Row> = (0..)
            .zip(&prompt)
            .map(|(position, &token)| Row { input: Input::Token(token), position, slot: 0 })
            .collect();
        let wants = [Want::Sample(SampleWant { row: 3, ..sample(0) })];
        let pages = [0];
        let tables = [pelton_graph::TableEdit { group: 0, slot: 0, first: 0, pages: &pages }];
        let pass = Pass { tables: &tables, ..Pass::new(Phase::Prompt, &rows, &wants) };
        executable.submit(&pass).unwrap()
    };
    let row = |position| [Row { input: Input::Sampled, position, slot: 0 }];
    let load = || loaded(&device, &spec, limits(&spec)).unwrap();

    let mut plain = load();
    let mut expected = Vec::new();
    let ticket = first(&mut plain);
    expected.extend(plain.take(ticket).unwrap().samples.to_vec());
    for index in 1..6 {
        let (rows, wants) = (row(3 + index as u32), [Want::Sample(sample(index))]);
        let ticket = plain.submit(&Pass::new(Phase::Decode, &rows, &wants)).unwrap();
        expected.extend(plain.take(ticket).unwrap().samples.to_vec());
    }

    let mut late = load();
    let mut got = Vec::new();
    let mut before = first(&mut late);
    for index in 1..6 {
        let (rows, wants) = (row(3 + index as u32), [Want::Later { row: 0 }]);
        let pass = Pass::new(Phase::Decode, &rows, &wants);
        let ticket = late.submit(&pass).unwrap();
        assert!(late.submit(&pass).is_err(), "its draw is awaited");
        assert!(late.draw(before, None).is_err(), "that one is not the newest");
        got.extend(late.take(before).unwrap().samples.to_vec());
        assert!(late.take(ticket).is_err(), "its draw is awaited");
        late.draw(ticket, Some(&sample(index))).unwrap();
        assert!(late.draw(ticket, None).is_err(), "it is drawn");
        before = ticket;
    }
    got.extend(late.take(before).unwrap().samples.to_vec());
    assert_eq!(got, expected);
    let (rows, wants) = (row(9), [Want::Later { row: 0 }]);
    let ticket = late.submit(&Pass::new(Phase::Decode, &rows, &wants)).unwrap();
    late.draw(ticket, None).unwrap();
    assert!(late.take(ticket).unwrap().samples.is_empty());
}

/// Plans over one checkpoint, such as those of a model and its head, have its matrices once.
#[test]
fn plans_of_one_checkpoint_share_matrices() {
    let Some(device) = device() else { return };
    let gpu = Gpu::of(device);
    let spec = ModelSpec::default();
    let (one, other) = (Arc::new(spec.checkpoint()), Arc::new(spec.checkpoint()));
    let load = |checkpoint: &Arc<Checkpoint>| {
        let plan = build(checkpoint).unwrap();
        gpu.load(plan, Arc::clone(checkpoint), limits(&spec), &mut |_, _| {}).unwrap()
    };
    let first = load(&one);
    let matrices = gpu.matrices.count();
    assert_eq!(matrices, 2 + 7 * spec.layers);
    let mut second = load(&one);
    assert_eq!(gpu.matrices.count(), matrices);
    let mut third = load(&other);
    assert_eq!(gpu.matrices.count(), 2 * matrices);
    // the matrices stay with the last plan
    drop(first);
    let tokens = tokens(&spec, 5);
    let found = logits(&mut *second, &tokens, &[(Phase::Prompt, 5)]);
    assert_eq!(found, logits(&mut *third, &tokens, &[(Phase::Prompt, 5)]));
    drop(second);
    let _fourth = load(&one);
    assert_eq!(gpu.matrices.count(), 2 * matrices);
}
