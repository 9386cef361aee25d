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

/// The change that types of keys and values make to the predictions of a trained model: the mean
/// Kullback-Leibler divergence from those in f32 on the reference path, in thousandths of a nat.
/// Each is within bounds on both sides: a type that is not used at all would be below, and a wrong
/// codec above.
#[test]
fn types_of_keys_and_values() {
    const TEXT: &str = "Once upon a time there was a little fox who lived near the river. Every \
        morning she walked to the old bridge and looked for her friend, the heron. One day the \
        heron was not there, and the fox was sad. She asked the frog, and the frog said";
    let run = |kv: &str| {
        let options = LoadOptions::default().kv(kv.parse().unwrap());
        let engine = Engine::with_backend(Cpu::reference());
        let model = engine.load(ModelSource::BuiltIn, &options).unwrap();
        let ids = model.tokenizer().unwrap().encode_prompt(TEXT).unwrap();
        (run(&mut model.into_session().unwrap(), &ids, &[ids.len()]), ids.len())
    };
    let (exact, rows) = run("f32");
    let width = exact.len() / rows;
    let log_softmax = |row: &[f32]| -> Vec<f64> {
        let most = row.iter().fold(f32::MIN, |most, &x| most.max(x));
        let sum: f64 = row.iter().map(|&x| f64::from(x - most).exp()).sum();
        row.iter().map(|&x| f64::from(x - most) - sum.ln()).collect()
    };
    let divergence = |logits: &[f32]| {
        let pairs = exact.chunks(width).zip(logits.chunks(width));
        let of_row = |(p, q): (&[f32], &[f32])| -> f64 {
            let (p, q) = (log_softmax(p), log_softmax(q));
            p.iter().zip(q).map(|(p, q)| p.exp() * (p - q)).sum()
        };
        1e3 * pairs.map(of_row).sum::<f64>() / rows as f64
    };
    for (kv, bounds) in BOUNDS {
        let got = divergence(&run(kv).0);
        println!("{kv}: {got:.4}");
        assert!(bounds.contains(&got), "{kv}: {got}");
    }
}

/// A third to three times the divergence that docs/memory.md lists.
const BOUNDS: [(&str, std::ops::Range<f64>); 10] = [
    ("f16", 0.0003..0.003),
    ("bf16", 0.04..0.35),
    ("q8_0", 0.25..2.2),
    ("q5_1", 19.0..170.0),
    ("q5_0", 24.0..210.0),
    ("q4_1", 80.0..710.0),
    ("q4_0", 100.0..920.0),
    ("iq4_nl", 72.0..650.0),
    ("q8_0/q4_0", 14.0..120.0),
    ("q4_0/q8_0", 63.0..570.0),
];

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
