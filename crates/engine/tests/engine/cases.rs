//! The tiny models whose logits PyPI `transformers` computed, and the comparison of logits with
//! them.
//!
//! `tests/fixtures/make_logits.py` made the first model and its expected logits, and
//! `tests/fixtures/make_models.py` the others.

use std::{fs, path::PathBuf};

use pelton::{Engine, KvType, LoadOptions, Model, Session, graph::Backend};
use pelton_testing::npy;

const MODELS: [&str; 4] = ["llama3", "mistral-window", "qwen2", "qwen3"];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

/// A model, and the logits after each of some tokens.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) ids: Vec<u32>,
    pub(crate) expected: Vec<f32>,
    /// The greatest change of a logit by rounding in f32.
    pub(crate) rounding: f32,
}

impl Case {
    /// The model of a file, with files next to it whose names begin with `prefix`.
    fn new(name: &'static str, path: PathBuf, prefix: &str, rounding: f32) -> Self {
        let file = |name: &str| path.with_file_name(format!("{prefix}{name}.npy"));
        let ids = npy::integers(file("ids"));
        let expected = npy::floats(file("logits"));
        Self { name, path, ids, expected, rounding }
    }
}

pub(crate) fn cases() -> impl Iterator<Item = Case> {
    let models = folder().join("models");
    let index = fs::read(models.join("models.json")).unwrap();
    let index: serde_json::Value = serde_json::from_slice(&index).unwrap();
    let first = Case::new("llama", folder().join("logits/llama.gguf"), "llama.", 0.0);
    let others = MODELS.into_iter().map(move |name| {
        let rounding = index[name]["rounding"].as_f64().unwrap() as f32;
        Case::new(name, models.join(name).join("model.gguf"), "", rounding)
    });
    [first].into_iter().chain(others)
}

impl Case {
    pub(crate) fn load(&self, backend: impl Backend + 'static, kv: KvType) -> Model {
        let options = LoadOptions::default().kv(kv);
        Engine::with_backend(backend).load(&self.path, &options).unwrap()
    }

    pub(crate) fn session(&self, backend: impl Backend + 'static, kv: KvType) -> Session {
        self.load(backend, kv).into_session().unwrap()
    }

    /// Compares the model's logits with the expected ones, at lengths 1, 2, 17, 64 and past the
    /// window of the model that has one.
    pub(crate) fn check(&self, session: &mut Session, kv: KvType, tolerance: f32) {
        let vocab = self.expected.len() / self.ids.len();
        assert_eq!(session.plan().vocab, vocab);
        let tolerance = tolerance.max(4.0 * self.rounding);
        for len in [1, 2, 17, 64, self.ids.len()] {
            let got = run(session, &self.ids[..len], &[len]);
            let expected = &self.expected[..len * vocab];
            let difference = greatest_difference(&got, expected);
            let what = format!("{} {kv:?} of {len}", self.name);
            assert!(difference < tolerance, "{what}: {difference}");
            for (got, expected) in got.chunks(vocab).zip(expected.chunks(vocab)) {
                // in f16 two tokens whose logits are as close as that may trade places
                let behind = got[top(got)] - got[top(expected)];
                assert!(behind <= if kv == KvType::F32 { 0.0 } else { 1e-2 }, "{what}");
            }
        }
    }
}

/// The logits of all tokens of a text, run in chunks of these lengths.
pub(crate) fn run(session: &mut Session, ids: &[u32], chunks: &[usize]) -> Vec<f32> {
    assert_eq!(chunks.iter().sum::<usize>(), ids.len());
    session.truncate(0);
    let mut all = Vec::new();
    let mut from = 0;
    for chunk in chunks {
        let chunk = &ids[from..from + chunk];
        session.run_all(chunk, |row| all.extend_from_slice(row)).unwrap();
        from += chunk.len();
    }
    all
}

pub(crate) fn greatest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

pub(crate) fn top(row: &[f32]) -> usize {
    (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap()
}
