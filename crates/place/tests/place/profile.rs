//! Profiles of models over several devices.

use std::{sync::Arc, time::Duration};

use pelton_cpu::Cpu;
use pelton_gpu::{Gpu, adapters};
use pelton_graph::{
    Backend, Executable, Input, Pass, Phase, Plan, Profile, Row, TableEdit, Want, Ways, build,
};
use pelton_place::{FeedForwards, HostParts, Split};
use pelton_quant::DType;
use pelton_testing::{ModelSpec, Need, backend::assert_same, skip};

use crate::common::{edits, limits_for};

/// A model of three layers, and a way to load it.
fn loaded(backend: &dyn Backend) -> (Plan, Box<dyn Executable>) {
    let spec = ModelSpec { layers: 3, ..ModelSpec::wide(DType::Q4_0) };
    let checkpoint = Arc::new(spec.checkpoint());
    let plan = build(&checkpoint).unwrap().fuse(&|op, plan| backend.accepts(op, plan));
    let limits = limits_for(&plan);
    let executable = backend.load(plan.clone(), checkpoint, limits, &mut |_, _| {}).unwrap();
    (plan, executable)
}

/// A pass over rows from the first position on.
fn rows(count: u32) -> Vec<Row> {
    (0..count).map(|i| Row { input: Input::Token(5 * i + 2), position: i, slot: 0 }).collect()
}

fn profile(
    executable: &mut dyn Executable,
    phase: Phase,
    rows: &[Row],
    tables: &[TableEdit<'_>],
) -> Profile {
    let wants = [Want::Logits { row: rows.len() as u32 - 1 }];
    executable.profile(&Pass { tables, ..Pass::new(phase, rows, &wants) }, 3).unwrap()
}

fn logits(
    executable: &mut dyn Executable,
    phase: Phase,
    rows: &[Row],
    tables: &[TableEdit<'_>],
) -> Vec<f32> {
    let wants = [Want::Logits { row: rows.len() as u32 - 1 }];
    let pass = Pass { tables, ..Pass::new(phase, rows, &wants) };
    let ticket = executable.submit(&pass).unwrap();
    executable.take(ticket).unwrap().logits.to_vec()
}

/// All layers that a profile has, once for each part.
fn layers(profile: &Profile) -> Vec<Vec<usize>> {
    let of_part = |plan: &Plan| {
        let mut layers: Vec<usize> = plan.steps.iter().filter_map(|step| step.layer).collect();
        layers.dedup();
        layers
    };
    profile.parts.iter().map(|part| of_part(&part.plan)).collect()
}

fn time_of(profile: &Profile) -> Duration {
    profile.steps().map(|(_, _, step)| step.time).sum()
}

#[test]
fn parts_of_a_split_model() {
    let cpu: Arc<dyn Backend> = Arc::new(Cpu::new(2));
    let split = Split::new(vec![Arc::clone(&cpu), Arc::clone(&cpu)], vec![1]).unwrap();
    let (plan, mut executable) = loaded(&split);
    let tables = edits(&plan, &[2, 0]);
    for (phase, count) in [(Phase::Prompt, 5), (Phase::Decode, 1)] {
        let profile = profile(&mut *executable, phase, &rows(count), &tables);
        assert_eq!(layers(&profile), [vec![0], vec![1, 2]]);
        assert!(profile.parts.iter().all(|part| part.device == "cpu"));
        assert!(profile.steps().all(|(_, _, step)| step.time > Duration::ZERO));
        let Ways { hop, stream, wait } = profile.ways;
        assert!(hop < profile.pass && stream.is_zero() && wait.is_zero(), "{profile:?}");
    }
    // the passes leave the page tables of the devices as those of others do
    let expected = logits(&mut *loaded(&*cpu).1, Phase::Prompt, &rows(5), &tables);
    assert_same(&logits(&mut *executable, Phase::Prompt, &rows(5), &[]), &expected, "afterwards");
}

#[test]
fn feed_forwards_next_to_a_gpu() {
    let Some(adapter) = adapters().into_iter().next() else {
        return skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
    };
    let gpu = Gpu::open_checked(&adapter).unwrap();
    let device = gpu.name().to_owned();
    let backend =
        HostParts::new(Arc::new(gpu), Arc::new(Cpu::new(2)), FeedForwards::All, usize::MAX);
    let (plan, mut executable) = loaded(&backend);
    let tables = edits(&plan, &[2, 0]);

    let prompt = profile(&mut *executable, Phase::Prompt, &rows(5), &tables);
    assert_eq!(layers(&prompt), [vec![0, 1, 2]]);
    let Ways { hop, stream, wait } = prompt.ways;
    assert!([hop, stream, wait].iter().all(|time| !time.is_zero()), "{prompt:?}");

    let decode = profile(&mut *executable, Phase::Decode, &rows(1), &[]);
    assert_eq!(layers(&decode), [vec![0, 1, 2], vec![0], vec![1], vec![2]]);
    let devices: Vec<&str> = decode.parts.iter().map(|part| part.device.as_str()).collect();
    assert_eq!(devices, [&*device, "cpu", "cpu", "cpu"]);
    let Ways { hop, stream, wait } = decode.ways;
    assert!(stream.is_zero() && !hop.is_zero() && !wait.is_zero(), "{decode:?}");
    assert!(hop + wait < decode.pass && time_of(&decode) > Duration::ZERO, "{decode:?}");
    // the CPU alone computes feed-forwards
    let of_gpu = &decode.parts[0];
    assert_eq!(of_gpu.plan.host.len(), 3);
    for (i, (step, measured)) in of_gpu.plan.steps.iter().zip(&of_gpu.steps).enumerate() {
        let of_host = of_gpu.plan.host.iter().any(|part| part.steps.contains(&i));
        let is_matrix = !step.op.weights().is_empty();
        assert!(!is_matrix || (measured.dispatches == 0) == of_host, "{step:?}: {measured:?}");
    }

    let expected = logits(&mut *loaded(&backend).1, Phase::Prompt, &rows(5), &tables);
    assert_same(&logits(&mut *executable, Phase::Prompt, &rows(5), &[]), &expected, "afterwards");
}
