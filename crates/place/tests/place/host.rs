//! Feed-forwards in the memory of the CPU next to a GPU or its software driver. Without either,
//! tests that need one say that they were skipped.

use std::sync::Arc;

use pelton_cpu::Cpu;
use pelton_gpu::{Gpu, adapters};
use pelton_graph::{
    Backend, Error, Executable, Index, Input, Limits, Pass, Phase, Plan, Row, Sample, Want, build,
};
use pelton_place::{FeedForwards, HostParts, host_parts};
use pelton_quant::DType;
use pelton_sampling::Draw;
use pelton_testing::{
    ModelSpec, Need,
    backend::{Subject, assert_same, relative_difference},
    skip,
};
use pelton_weights::Checkpoint;

use crate::common::{self, Runs, edits, families, limits_for, run};

fn opened() -> Option<Gpu> {
    let Some(adapter) = adapters().into_iter().next() else {
        skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        return None;
    };
    Some(Gpu::open_checked(&adapter).unwrap())
}

/// A GPU whose submissions end at each part of the host.
fn gpu() -> Option<Arc<dyn Backend>> {
    Some(Arc::new(opened()?.without_persistent()))
}

/// A GPU with kernels that wait for the host, for at most so many looks.
fn waiting(turns: u32) -> Option<Gpu> {
    Some(opened()?.with_persistent(1, turns, 1))
}

/// Looks that suffice unless the machine is busy.
const MANY: u32 = 60_000;

/// A GPU with the feed-forwards of its first layers on the CPU.
fn hosted(gpu: &Arc<dyn Backend>, layers: usize) -> HostParts {
    HostParts::new(Arc::clone(gpu), Arc::new(Cpu::new(2)), FeedForwards::All, layers)
}

fn load(backend: &dyn Backend, plan: &Plan, checkpoint: &Arc<Checkpoint>) -> Box<dyn Executable> {
    let fused = plan.clone().fuse(&|op, plan| backend.accepts(op, plan));
    let limits = limits_for(&fused);
    backend.load(fused, Arc::clone(checkpoint), limits, &mut |_, _| {}).unwrap()
}

/// The layers of each family whose feed-forwards and experts can leave a GPU.
#[test]
fn feed_forwards_of_families() {
    let mut without = Vec::new();
    for (name, _, plan) in families() {
        let all = host_parts(&plan, FeedForwards::All, usize::MAX);
        let experts = host_parts(&plan, FeedForwards::Experts, usize::MAX);
        assert!(experts.iter().all(|part| all.contains(part)), "{name}");
        if all.is_empty() {
            without.push(name);
            continue;
        }
        // three layers of DeciLM have no network, or no attention before it
        let others = if name == "deci" { 3 } else { 0 };
        assert_eq!(all.len(), plan.shape.layers - others, "{name}");
        let first = host_parts(&plan, FeedForwards::All, 1);
        assert_eq!(first, all[..1], "{name}");
        for (layer, part) in &all {
            let steps = &plan.steps[part.steps.clone()];
            let mut matrices = 0;
            for step in steps {
                assert_eq!(step.layer, Some(*layer), "{name}");
                step.op.clone().visit_indices(&mut |index| match index {
                    Index::Weight(id) => {
                        matrices += usize::from(plan.weights[id.0].is_matrix());
                    }
                    Index::Cache(_) | Index::State(_) => panic!("{name}: {:?}", step.op),
                });
            }
            assert!(matrices >= 2, "{name}: {matrices}");
        }
        // a part between two others is one of the same length in a fused plan too
        let host: Vec<_> = all.iter().map(|(_, part)| part.clone()).collect();
        let marked = Plan { host: host.clone(), ..plan.clone() };
        let parts = marked.host_parts();
        assert!(parts.iter().any(Option::is_some) && parts.iter().any(Option::is_none), "{name}");
        let fused = marked.fuse(&|_, _| true);
        for (part, before) in fused.host.iter().zip(&host) {
            assert!(part.steps.len() <= before.steps.len(), "{name}");
            assert_eq!(fused.buffer(part.entry), plan.buffer(before.entry), "{name}");
            let layer = fused.steps[part.steps.start].layer;
            assert!(fused.steps[part.steps.clone()].iter().all(|of| of.layer == layer), "{name}");
        }
    }
    // attention and feed-forward in parallel, values of all layers, or layers of one branch
    let expected = [
        "phi2",
        "gpt-neox",
        "gptj",
        "nemotron-h",
        "nemotron-h-moe",
        "falcon-7b",
        "falcon-40b",
        "stablelm-parallel",
        "cohere",
        "cohere-qk-norm",
        "cohere2",
        "cohere2-moe",
        "gemma4-shared-kv",
    ];
    without.sort_unstable();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(without, expected);
}

/// Prompts have the bits of a GPU with all weights, and decoding passes are near.
#[test]
fn families_next_to_a_gpu() {
    let Some(gpu) = gpu() else { return };
    let names = [
        "llama-wide",
        "gemma2",
        "olmo2",
        "gpt2",
        "qwen2-moe",
        "gpt-oss",
        "deepseek-v3",
        "qwen3.5-moe",
        "nomic-bert",
    ];
    let mut failed = String::new();
    for (name, checkpoint, plan) in families().into_iter().filter(|of| names.contains(&&*of.0)) {
        let expected = run(&mut *load(&*gpu, &plan, &checkpoint), &plan);
        for layers in [1, usize::MAX] {
            let got = run(&mut *load(&hosted(&gpu, layers), &plan, &checkpoint), &plan);
            let [all, of_host] = [&expected, &got].map(|runs: &Runs| runs.of(Phase::Prompt));
            assert!(!all.is_empty());
            let bits = |all: &[f32]| all.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            if bits(&all) != bits(&of_host) {
                failed += &format!("{name}, {layers}: prompts differ\n");
            }
            let [all, of_host] = [&expected, &got].map(|runs: &Runs| runs.of(Phase::Decode));
            let difference = relative_difference(&all, &of_host);
            if difference > 0.02 || (difference == 0.0 && !all.is_empty()) {
                failed += &format!("{name}, {layers}: decoding differs by {difference}\n");
            }
        }
    }
    assert!(failed.is_empty(), "\n{failed}");
}

/// The results that every backend must compute, whatever the chunks and the other rows.
#[test]
fn the_shared_tests() {
    let Some(gpu) = gpu() else { return };
    let waiting = [MANY, 1].map(|turns| -> Arc<dyn Backend> { Arc::new(waiting(turns).unwrap()) });
    let reference = Cpu::reference();
    for gpu in [&gpu].into_iter().chain(&waiting) {
        let backend = hosted(gpu, 2);
        let subject = Subject { backend: &backend, reference: &reference, tolerance: 0.05 };
        subject.any_chunks(&[DType::Q4_0]);
        subject.sequences_do_not_mix();
        subject.only_wanted_rows();
        subject.copied_pages();
        subject.hostile_passes();
    }
}

/// Families whose passes wait for the host have the same bits as without waits, whether the waits
/// are long enough or not.
#[test]
fn passes_that_wait() {
    let Some(gpu) = gpu() else { return };
    let names = ["llama-wide", "gemma2", "gpt-oss", "deepseek-v3", "qwen3.5-moe"];
    let mut found = 0;
    for (name, checkpoint, plan) in families().into_iter().filter(|of| names.contains(&&*of.0)) {
        found += 1;
        let expected = run(&mut *load(&hosted(&gpu, usize::MAX), &plan, &checkpoint), &plan);
        let all = expected.of(Phase::Decode);
        assert!(!all.is_empty());
        for turns in [MANY, 1] {
            let waiting = waiting(turns).unwrap();
            let backend: Arc<dyn Backend> = Arc::new(waiting.clone());
            let got = run(&mut *load(&hosted(&backend, usize::MAX), &plan, &checkpoint), &plan);
            assert_same(&got.of(Phase::Decode), &all, &format!("{name}, {turns} turns"));
            let waited = waiting.persistent_passes();
            // recurrent states cannot run again
            match (plan.states.is_empty(), turns) {
                (false, _) => assert_eq!(waited, 0, "{name}"),
                (true, 1) => assert_eq!(waited, 1, "{name}: the first one was late"),
                (true, _) => assert!(waited > 0, "{name}"),
            }
        }
    }
    assert_eq!(found, names.len());
}

/// Whole plans are near the reference.
#[test]
fn near_the_reference() {
    let Some(gpu) = gpu() else { return };
    let (reference, backend) = (Cpu::reference(), hosted(&gpu, 2));
    Subject { backend: &backend, reference: &reference, tolerance: 0.05 }.equals_reference();
}

/// Sampled tokens stay on the GPU between passes, and one pass is in flight.
#[test]
fn tokens_of_one_stream() {
    let Some(gpu) = gpu() else { return };
    let checkpoint = Arc::new(ModelSpec::default().checkpoint());
    let plan = build(&checkpoint).unwrap();
    let [waiting, late] =
        [MANY, 1].map(|turns| -> Arc<dyn Backend> { Arc::new(waiting(turns).unwrap()) });
    let kinds = [(&gpu, true), (&gpu, false), (&waiting, true), (&late, true)];
    let texts = kinds.map(|(gpu, samples)| {
        let backend = hosted(gpu, 2);
        let mut executable = load(&backend, &plan, &checkpoint);
        let pipeline = executable.pipeline();
        assert_eq!((pipeline.depth, pipeline.repeat, pipeline.late_draws), (1, 1, false));
        let pages = [3, 1];
        let (edits, mut text) = (edits(&plan, &pages), vec![7]);
        for position in 0..20 {
            let input = match position {
                1.. if samples => Input::Sampled,
                _ => Input::Token(text[position as usize]),
            };
            let rows = [Row { input, position, slot: 0 }];
            let wants =
                [Want::Sample(Sample { row: 0, draw: Draw::GREEDY, recent: &[], pending: 0 })];
            let tables = if position == 0 { &edits[..] } else { &[] };
            let pass = Pass { tables, ..Pass::new(Phase::Decode, &rows, &wants) };
            let ticket = executable.submit(&pass).unwrap();
            let second = executable.submit(&Pass::new(Phase::Decode, &rows, &wants));
            assert!(second.unwrap_err().to_string().contains("is not taken"));
            text.push(executable.take(ticket).unwrap().samples[0].token.unwrap());
            let repeated = Pass { repeat: 2, ..Pass::new(Phase::Decode, &rows, &wants) };
            assert!(executable.submit(&repeated).is_err());
        }
        text
    });
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
}

/// Matrices that are larger than a staging buffer come in several chunks.
#[test]
fn large_matrices_are_streamed() {
    let Some(gpu) = gpu() else { return };
    // 40 MiB of each matrix of the feed-forward
    let spec = ModelSpec { layers: 1, ffn: 80 << 10, vocab: 64, ..ModelSpec::wide(DType::F16) };
    assert_eq!(2 * spec.hidden * spec.ffn, 40 << 20);
    let checkpoint = Arc::new(spec.checkpoint());
    let plan = build(&checkpoint).unwrap();
    let rows: Vec<Row> =
        (0..5).map(|i| Row { input: Input::Token(3 * i), position: i, slot: 0 }).collect();
    let wants = [Want::Logits { row: 4 }];
    let results = [0, 1].map(|layers| {
        let mut executable = load(&hosted(&gpu, layers), &plan, &checkpoint);
        let tables = edits(&plan, &[3]);
        let pass = Pass { tables: &tables, ..Pass::new(Phase::Prompt, &rows, &wants) };
        let ticket = executable.submit(&pass).unwrap();
        executable.take(ticket).unwrap().logits.to_vec()
    });
    assert!(results[0].iter().any(|logit| *logit != results[0][0]));
    assert_same(&results[1], &results[0], "chunks");
}

/// The length from which on prompts are streamed is that of the options, or a power of two that
/// a measurement gives.
#[test]
fn prompts_that_are_streamed() {
    let Some(gpu) = gpu() else { return };
    let checkpoint = Arc::new(ModelSpec::wide(DType::Q4_0).checkpoint());
    let plan = build(&checkpoint).unwrap();
    let streams = |backend: &HostParts| load(backend, &plan, &checkpoint).pipeline().streams;
    assert_eq!(streams(&hosted(&gpu, 1).streaming_from(77)), Some(77));
    assert_eq!(load(&*gpu, &plan, &checkpoint).pipeline().streams, None);
    let measured = streams(&hosted(&gpu, 1)).unwrap();
    assert!(measured == 0 || measured.is_power_of_two() && measured <= 1024, "{measured}");
    // it is remembered
    assert_eq!(streams(&hosted(&gpu, 1)), Some(measured));
}

/// A part that fails ends its pass alone.
#[test]
fn a_part_that_fails() {
    let Some(gpu) = gpu() else { return };
    a_part_fails_next_to(&gpu);
    let waiting: Arc<dyn Backend> = Arc::new(waiting(MANY).unwrap());
    a_part_fails_next_to(&waiting);
}

fn a_part_fails_next_to(gpu: &Arc<dyn Backend>) {
    let checkpoint = Arc::new(ModelSpec::default().checkpoint());
    let plan = build(&checkpoint).unwrap();
    let cpus: [Arc<dyn Backend>; 2] = [Arc::new(Cpu::new(1)), common::broken()];
    let results = cpus.map(|cpu| {
        // without a measurement, which would fail
        let backend = HostParts::new(Arc::clone(gpu), cpu, FeedForwards::All, 1).streaming_from(0);
        let mut executable = load(&backend, &plan, &checkpoint);
        let (pages, mut results) = ([3, 1], Vec::new());
        let edits = edits(&plan, &pages);
        let rows: Vec<Row> =
            (0..9).map(|i| Row { input: Input::Token(3 * i), position: i, slot: 0 }).collect();
        for (phase, rows) in [
            (Phase::Prompt, &rows[..5]),
            (Phase::Decode, &rows[5..6]),
            (Phase::Decode, &rows[6..7]),
            // the work of a pass that failed is done again
            (Phase::Decode, &rows[6..7]),
            (Phase::Prompt, &rows[7..]),
        ] {
            let wants = [Want::Logits { row: 0 }];
            let tables = if results.is_empty() { &edits[..] } else { &[] };
            let pass = Pass { tables, ..Pass::new(phase, rows, &wants) };
            results.push(match executable.submit(&pass) {
                Ok(ticket) => Ok(executable.take(ticket).unwrap().logits.to_vec()),
                Err(error) => Err(error.to_string()),
            });
        }
        results
    });
    let [expected, got] = results;
    for (i, (expected, got)) in expected.iter().zip(&got).enumerate() {
        match got {
            Ok(got) => assert_same(expected.as_ref().unwrap(), got, &format!("pass {i}")),
            Err(error) => assert!(i == 2 && error.contains("broken on purpose"), "{i}: {error}"),
        }
    }
    assert!(got[2].is_err());
}

/// The GPU needs places for two feed-forwards in turn in place of the weights of all,
/// and the CPU has those.
#[test]
fn needs_of_both() {
    let Some(gpu) = gpu() else { return };
    let spec = ModelSpec { layers: 5, ..ModelSpec::wide(DType::Q4_0) };
    let checkpoint = Arc::new(spec.checkpoint());
    let plan = build(&checkpoint).unwrap();
    let limits = limits_for(&plan);
    let needs = |layers| {
        let backend = hosted(&gpu, layers);
        let fused = plan.clone().fuse(&|op, plan| backend.accepts(op, plan));
        let host = backend.on_host(&fused, &limits).unwrap();
        (backend.needs(&fused, &limits).unwrap(), host)
    };
    let (whole, none) = needs(0);
    assert!(none.is_none() && whole.streamed == 0 && whole.staging > 0);
    let [one, two, all] = [1, 2, 5].map(|layers| needs(layers).0);
    let layer = whole.weights - one.weights;
    assert!(layer > 0);
    for (needs, layers) in [(two, 2), (all, 5)] {
        assert_eq!(needs.weights, whole.weights - layers * layer);
        assert_eq!(needs.streamed, one.streamed + layer);
        assert_eq!((needs.staging, needs.caches), (0, whole.caches));
    }
    let share = needs(5).1.unwrap();
    assert_eq!((share.which, share.layers), (FeedForwards::All, 0..5));
    assert_eq!(share.needs.caches, 0);
    // the file's blocks of 18 bytes for 32 weights, three matrices in each layer
    assert_eq!(share.needs.mapped, 5 * 3 * 256 * 512 / 32 * 18);
}

/// A device refuses what it cannot have.
#[test]
fn refusals() {
    let checkpoint = Arc::new(ModelSpec::default().checkpoint());
    let plan = build(&checkpoint).unwrap();
    let cpu: Arc<dyn Backend> = Arc::new(Cpu::new(1));
    assert!(!cpu.has_host_parts());
    let backend = hosted(&cpu, 1);
    let limits: Limits = limits_for(&plan);
    let error = backend.load(plan.clone(), checkpoint, limits, &mut |_, _| {}).err().unwrap();
    assert!(matches!(error, Error::Placement(_)), "{error}");
    assert!(error.to_string().contains("1 feed-forwards in RAM next to 'cpu'"), "{error}");
}
