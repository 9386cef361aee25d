//! Tiny models of each architecture against what PyPI `transformers` computes for them, on the
//! processor.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

mod common;

use std::sync::Arc;

use pelton::{
    Checkpoint, Engine, KvType, LoadOptions,
    graph::{Backend, Executable, Fusion, Limits, Plan},
};
use pelton_cpu::Cpu;

use common::{cases, greatest_difference, run};

#[test]
fn logits_of_transformers() {
    for case in cases() {
        for cpu in [Cpu::plain(), Cpu::new(2)] {
            // rounding keys and values to f16 alone moves these logits (of a deviation of 1 to 3)
            // by up to 1.05e-2
            for (kv, tolerance) in [(KvType::F32, 1e-4), (KvType::F16, 2e-2)] {
                case.check(&case.load(cpu, kv), kv, tolerance);
            }
        }
    }
}

/// What keys and values in eight bits do to the logits of a trained model (of a deviation of 2.5),
/// held against f32 on the plain path.
#[test]
fn keys_and_values_in_q8_0() {
    const TEXT: &str = "Once upon a time there was a little fox who lived near the river. Every \
        morning she walked to the old bridge and looked for her friend, the heron. One day the \
        heron was not there, and the fox was sad. She asked the frog, and the frog said";
    let run = |cpu: Cpu, kv| {
        let options = LoadOptions { kv, ..LoadOptions::default() };
        let model = Engine::with_backend(cpu).load_built_in(&options).unwrap();
        let ids = model.tokenizer().unwrap().encode_prompt(TEXT).unwrap();
        run(&model, &ids, &[ids.len()])
    };
    let exact = run(Cpu::plain(), KvType::F32);
    // measured: 0.034, and with activations in eight bits, as the fast path has them, 0.071 (0.064
    // of it without q8_0)
    for (cpu, tolerance) in [(Cpu::plain(), 0.06), (Cpu::new(2), 0.12)] {
        let got = run(cpu, KvType::Q8_0);
        let squares: f32 = exact.iter().zip(&got).map(|(a, b)| (a - b).powi(2)).sum();
        let root = (squares / exact.len() as f32).sqrt();
        assert!(root < tolerance, "{cpu:?}: {root}");
    }
}

/// A prompt in parts gives what it gives one token at a time.
#[test]
fn prefill_in_any_split() {
    for case in cases() {
        let ids = &case.ids[..64];
        for cpu in [Cpu::plain(), Cpu::new(2)] {
            let model = case.load(cpu, KvType::F16);
            let one_by_one = run(&model, ids, &[1; 64]);
            for parts in [&[1, 63][..], &[17, 47], &[64]] {
                let difference = greatest_difference(&run(&model, ids, parts), &one_by_one);
                assert!(difference < 1e-4, "{} in {parts:?}: {difference}", case.name);
            }
        }
    }
}

/// The backend that it wraps, with other fusions.
struct With<'a>(Cpu, &'a [Fusion]);

impl Backend for With<'static> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn fusions(&self) -> &[Fusion] {
        self.1
    }

    fn load(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, pelton::graph::Error> {
        self.0.load(plan, checkpoint, limits, progress)
    }
}

#[test]
fn fused_as_unfused() {
    for case in cases() {
        let [fused, unfused] = [pelton_cpu::FUSIONS, &[]].map(|fusions| {
            let engine = Engine::with_backend(With(Cpu::new(2), fusions));
            let model = engine.load(case.path(), &LoadOptions::default()).unwrap();
            run(&model, &case.ids, &[case.ids.len()])
        });
        let difference = greatest_difference(&fused, &unfused);
        assert!(difference < 1e-4, "{}: {difference}", case.name);
    }
}
