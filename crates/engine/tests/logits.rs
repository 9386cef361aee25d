//! Tiny models of each architecture against what PyPI `transformers` computes for them.
//!
//! `tests/fixtures/make_logits.py` made the models and the expected logits.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use std::{fs, path::PathBuf, sync::Arc};

use pelton::{
    Checkpoint, Engine, KvType, LoadOptions, Model,
    graph::{Backend, Executable, Fusion, Limits, Plan},
};
use pelton_cpu::Cpu;

const MODELS: [&str; 5] = ["llama", "llama3-rope", "mistral-window", "qwen2", "qwen3"];

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/logits").join(name)
}

/// The data of a version 1 `.npy` file of 4-byte numbers.
fn npy(name: &str, dtype: &str) -> Vec<[u8; 4]> {
    let bytes = fs::read(fixture(name)).unwrap();
    let header_len = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = String::from_utf8_lossy(&bytes[10..10 + header_len]);
    assert!(header.contains(dtype) && header.contains("'fortran_order': False"), "{header}");
    bytes[10 + header_len..].as_chunks().0.to_vec()
}

struct Case {
    name: &'static str,
    ids: Vec<u32>,
    expected: Vec<f32>,
}

fn cases() -> impl Iterator<Item = Case> {
    MODELS.into_iter().map(|name| Case {
        name,
        ids: npy(&format!("{name}.ids.npy"), "'<i4'").into_iter().map(u32::from_le_bytes).collect(),
        expected: npy(&format!("{name}.logits.npy"), "'<f4'")
            .into_iter()
            .map(f32::from_le_bytes)
            .collect(),
    })
}

fn load(case: &Case, cpu: Cpu, kv: KvType) -> Model {
    let options = LoadOptions { kv, ..LoadOptions::default() };
    Engine::with_backend(cpu).load(fixture(&format!("{}.gguf", case.name)), &options).unwrap()
}

/// The logits of all tokens, run in parts of these lengths.
fn run(model: &Model, ids: &[u32], parts: &[usize]) -> Vec<f32> {
    let (ids, parts) = (ids.to_vec(), parts.to_vec());
    assert_eq!(parts.iter().sum::<usize>(), ids.len());
    model
        .session(ids.len(), move |session| {
            let mut all = Vec::new();
            let mut from = 0;
            for part in parts {
                session.run_all(&ids[from..from + part], |row| all.extend_from_slice(row))?;
                from += part;
            }
            Ok(all)
        })
        .unwrap()
}

fn greatest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn top(row: &[f32]) -> usize {
    (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap()
}

/// Both paths, at lengths 1, 2, 17, 64 and past the window of the model that has one.
#[test]
fn logits_of_transformers() {
    for case in cases() {
        let vocab = case.expected.len() / case.ids.len();
        for (kind, cpu) in [("plain", Cpu::plain()), ("fast", Cpu::new(2))] {
            for kv in [KvType::F32, KvType::F16] {
                let model = load(&case, cpu, kv);
                assert_eq!(model.plan().vocab, vocab);
                for len in [1, 2, 17, 64, case.ids.len()] {
                    let got = run(&model, &case.ids[..len], &[len]);
                    let expected = &case.expected[..len * vocab];
                    let difference = greatest_difference(&got, expected);
                    let what = format!("{} {kind} {kv:?} of {len}", case.name);
                    // rounding keys and values to f16 alone moves these logits (of a deviation
                    // of 1 to 3) by up to 1.05e-2
                    let tolerance = if kv == KvType::F32 { 1e-4 } else { 2e-2 };
                    assert!(difference < tolerance, "{what}: {difference}");
                    for (got, expected) in got.chunks(vocab).zip(expected.chunks(vocab)) {
                        // in f16 two tokens whose logits are as close as that may trade places
                        let behind = got[top(got)] - got[top(expected)];
                        assert!(behind <= if kv == KvType::F32 { 0.0 } else { 1e-2 }, "{what}");
                    }
                }
            }
        }
    }
}

/// A prompt in parts gives what it gives one token at a time.
#[test]
fn prefill_in_any_split() {
    for case in cases() {
        let ids = &case.ids[..64];
        for cpu in [Cpu::plain(), Cpu::new(2)] {
            let model = load(&case, cpu, KvType::F16);
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
    fn fusions(&self) -> &[Fusion] {
        self.1
    }

    fn load(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
    ) -> Result<Box<dyn Executable>, pelton::graph::Error> {
        self.0.load(plan, checkpoint, limits)
    }
}

#[test]
fn fused_as_unfused() {
    for case in cases() {
        let path = fixture(&format!("{}.gguf", case.name));
        let [fused, unfused] = [&Fusion::ALL[..], &[]].map(|fusions| {
            let engine = Engine::with_backend(With(Cpu::new(2), fusions));
            let model = engine.load(&path, &LoadOptions::default()).unwrap();
            run(&model, &case.ids, &[case.ids.len()])
        });
        let difference = greatest_difference(&fused, &unfused);
        assert!(difference < 1e-4, "{}: {difference}", case.name);
    }
}
