use pelton_graph::build;
use pelton_quant::DType;
use pelton_testing::{
    ModelSpec,
    backend::{LIMITS, load, logits, tokens},
};

use super::*;
use crate::testing::device;

/// Passes and chains of any size work with what was made when the model was loaded.
#[test]
fn nothing_is_made_after_load() {
    let Some(device) = device() else { return };
    let gpu = Gpu { device };
    for spec in [ModelSpec::default(), ModelSpec::wide(DType::Q4_0)] {
        let mut executable = load(&gpu, &spec, FUSIONS, LIMITS);
        let made = gpu.device.made();
        assert!(made > 0);
        let pass = |executable: &mut dyn Executable| {
            logits(executable, &tokens(&spec, 1 + 3 + 9 + 40), &[1, 3, 9, 40]);
        };
        pass(&mut *executable);
        let greedy =
            Choice { temperature: 0.0, top_k: 1, top_p: 1.0, min_p: 0.0, seed: 1, index: 0 };
        let few = Choice { temperature: 1.0, top_k: 40, ..greedy };
        let many = Choice { top_k: spec.vocab, top_p: 0.9, ..few };
        for choice in [greedy, few, many] {
            let row = Row { token: 5, position: 0, sequence: 0 };
            executable.begin_chain(row, &[2], &choice).unwrap();
            executable.extend_chain(12).unwrap();
            executable.extend_chain(3).unwrap();
            assert_eq!(executable.read_chain().unwrap().len(), 12);
            executable.end_chain();
        }
        pass(&mut *executable);
        assert_eq!(gpu.device.made(), made, "{spec:?}");
    }
}

/// What is tried at load, and what is chosen then, leaves nothing behind that changes a text.
#[test]
fn trying_changes_nothing() {
    let (Some(usual), Some(mut tuned)) = (device(), device()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tuning.json");
    {
        let tuned = Arc::get_mut(&mut tuned).unwrap();
        if !tuned.abilities.timestamps {
            eprintln!("SKIPPED: this device has no clock that kernels could be timed with");
            return;
        }
        (tuned.tunes, tuned.tuning_file) = (true, Some(file.clone()));
    }
    // an output matrix whose rows leave workgroups idle, with subgroups of 8 and of 32
    let spec = ModelSpec { vocab: 36_000, ..ModelSpec::wide(DType::Q4_0) };
    let all = |device: &Arc<Device>| {
        let gpu = Gpu { device: Arc::clone(device) };
        let mut executable = load(&gpu, &spec, FUSIONS, LIMITS);
        logits(&mut *executable, &tokens(&spec, 5), &[1; 5])
    };
    let expected = all(&usual);
    // tried, and then known
    for _ in 0..2 {
        for (got, expected) in all(&tuned).iter().zip(&expected) {
            // a norm's squares are added up in another order
            assert!((got - expected).abs() < 1e-4, "{got} for {expected}");
        }
    }
    // what is known is what is taken
    let groups = |choice: &str| {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut known: serde_json::Value = serde_json::from_str(&text).unwrap();
        for kernels in known.as_object_mut().unwrap().values_mut() {
            for tuning in kernels.as_object_mut().unwrap().values_mut() {
                *tuning = serde_json::from_str(choice).unwrap();
            }
        }
        std::fs::write(&file, known.to_string()).unwrap();
        let checkpoint = spec.checkpoint();
        let plan = build(&checkpoint).unwrap().fuse(FUSIONS);
        let device = Arc::clone(&tuned);
        let executable =
            GpuExecutable::load(device, plan, &checkpoint, LIMITS, &mut |_, _| {}).unwrap();
        let extent = Extent { rows: 1, bound: 1, tiles: 0 };
        let calls = executable.alone.iter().flatten();
        calls.filter_map(|call| call.groups(&extent)).map(|groups| groups[0]).max().unwrap()
    };
    assert!(groups("[512, 132]") < groups("[512, 528]"));
}

/// What no kernel reads is refused, and the error says what is possible.
#[test]
fn caches_in_blocks_are_refused() {
    let Some(device) = device() else { return };
    let checkpoint = ModelSpec::default().checkpoint();
    let plan = build(&checkpoint).unwrap().fuse(FUSIONS);
    let limits = Limits { kv: KvType::Q8_0, ..LIMITS };
    let loaded = GpuExecutable::load(device, plan, &checkpoint, limits, &mut |_, _| {});
    let error = loaded.err().unwrap().to_string();
    assert!(error.contains("q8_0") && error.contains("f16 or f32"), "{error}");
}

/// How many kernels a pass over one row has to wait for, one after the other; at each position.
fn waits(device: &Arc<Device>, spec: &ModelSpec, positions: [u32; 2]) -> [usize; 2] {
    let checkpoint = spec.checkpoint();
    let plan = build(&checkpoint).unwrap().fuse(FUSIONS);
    let executable =
        GpuExecutable::load(Arc::clone(device), plan, &checkpoint, LIMITS, &mut |_, _| {}).unwrap();
    positions.map(|position| {
        let rows = [Row { token: 0, position, sequence: 0 }];
        let batch = Batch { rows: &rows, tables: &[], selected: &[0] };
        executable.calls(&batch, 0).map(|step| step.dispatches().1).sum()
    })
}

/// A dependent dispatch costs microseconds, which is what small models spend most of a token on.
#[test]
fn few_kernels_wait_for_each_other() {
    let Some(device) = device() else { return };
    for architecture in ["llama", "qwen2", "qwen3"] {
        let [two, three] = [2, 3].map(|layers| {
            let spec = ModelSpec { architecture, layers, ..ModelSpec::wide(DType::Q4_0) };
            waits(&device, &spec, [0, 400])
        });
        // far out attention is shared out in parts, which are joined
        for (i, most) in [5, 6].into_iter().enumerate() {
            assert!(three[i] - two[i] <= most, "{architecture}: {two:?} {three:?}");
            // embedding, and norm and logits
            assert!(two[i] <= 2 * most + 2, "{architecture}: {two:?}");
        }
    }
}
