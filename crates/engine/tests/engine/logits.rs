//! Tiny models of each architecture on the CPU, compared with PyPI `transformers`.

use std::sync::Arc;

use pelton::{
    Checkpoint, Engine, KvType, LoadOptions, ModelSource,
    graph::{Backend, build},
};
use pelton_cpu::Cpu;

use crate::cases::{cases, greatest_difference, run};

#[test]
fn logits_of_transformers() {
    for case in cases() {
        for cpu in [Cpu::reference(), Cpu::new(2)] {
            // rounding keys and values to f16 alone moves these logits (of a deviation of 1 to 3)
            // by up to 1.05e-2
            for (kv, tolerance) in [(KvType::F32, 1e-4), (KvType::F16, 2e-2)] {
                case.check(&mut case.session(cpu.clone(), kv), kv, tolerance);
            }
        }
    }
}

/// The change that keys and values in eight bits make to the logits of a trained model (of a
/// deviation of 2.5), compared with f32 on the reference path.
#[test]
fn keys_and_values_in_q8_0() {
    const TEXT: &str = "Once upon a time there was a little fox who lived near the river. Every \
        morning she walked to the old bridge and looked for her friend, the heron. One day the \
        heron was not there, and the fox was sad. She asked the frog, and the frog said";
    let run = |cpu: Cpu, kv| {
        let options = LoadOptions::default().kv(kv);
        let model = Engine::with_backend(cpu).load(ModelSource::BuiltIn, &options).unwrap();
        let ids = model.tokenizer().unwrap().encode_prompt(TEXT).unwrap();
        run(&mut model.into_session().unwrap(), &ids, &[ids.len()])
    };
    let exact = run(Cpu::reference(), KvType::F32);
    // measured: 0.034, and with activations in eight bits, as on the fast path, 0.071 (0.064
    // of it without q8_0)
    for (cpu, tolerance) in [(Cpu::reference(), 0.06), (Cpu::new(2), 0.12)] {
        let name = format!("{cpu:?}");
        let got = run(cpu, KvType::Q8_0);
        let squares: f32 = exact.iter().zip(&got).map(|(a, b)| (a - b).powi(2)).sum();
        let root = (squares / exact.len() as f32).sqrt();
        assert!(root < tolerance, "{name}: {root}");
    }
}

/// A prompt in chunks gives the logits of one token at a time. KV in f32: products of floats sum in
/// other orders in prompts than in decoding, which in f16 could round a key to its neighbor.
#[test]
fn prefill_in_any_split() {
    for case in cases() {
        let ids = &case.ids[..64];
        for cpu in [Cpu::reference(), Cpu::new(2)] {
            let mut session = case.session(cpu.clone(), KvType::F32);
            let one_by_one = run(&mut session, ids, &[1; 64]);
            for chunks in [&[1, 63][..], &[17, 47], &[64]] {
                let difference = greatest_difference(&run(&mut session, ids, chunks), &one_by_one);
                let tolerance = 1e-4f32.max(4.0 * case.rounding);
                assert!(difference < tolerance, "{} in {chunks:?}: {difference}", case.name);
            }
        }
    }
}

#[test]
fn fused_as_unfused() {
    for case in cases() {
        let checkpoint = Arc::new(Checkpoint::open(&case.path).unwrap());
        let plan = build(&checkpoint).unwrap();
        let cpu = Cpu::new(2);
        let fused = plan.clone().fuse(&|op, plan| cpu.accepts(op, plan));
        assert!(fused.steps.len() < plan.steps.len());
        let [fused, unfused] = [fused, plan].map(|plan| {
            let engine = Engine::with_backend(cpu.clone());
            let options = LoadOptions::default();
            let model = engine.load_plan(plan, Arc::clone(&checkpoint), &options).unwrap();
            run(&mut model.into_session().unwrap(), &case.ids, &[case.ids.len()])
        });
        let difference = greatest_difference(&fused, &unfused);
        let tolerance = 1e-4f32.max(4.0 * case.rounding);
        assert!(difference < tolerance, "{}: {difference}", case.name);
    }
}
