//! Tiny models of all families on the CPU and on a GPU, compared with PyPI `transformers`.
//!
//! `tests/fixtures/models/README.md` describes the files. Passes run without the scheduler, so that
//! the only subjects are the plans and the backend.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pelton::graph::{
    Backend, Executable, Input, Limits, PAGE, Pass, Phase, Plan, Row, TableEdit, Want, build_for,
    pages_for,
};
use pelton::{Checkpoint, KvType};
use pelton_cpu::Cpu;
use pelton_testing::npy::{floats, integers};
use serde_json::Value;

mod mutations;
mod quantized;
mod scaled;

/// Rows that the decoding phase runs one by one after a prompt.
const DECODED: usize = 8;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models")
}

/// A model of `models.json`.
struct Model {
    name: String,
    kind: String,
    /// The greatest change of its outputs by rounding.
    rounding: f32,
}

fn models() -> Vec<Model> {
    let index: Value =
        serde_json::from_slice(&fs::read(folder().join("models.json")).unwrap()).unwrap();
    let model = |(name, model): (&String, &Value)| Model {
        name: name.clone(),
        kind: model["kind"].as_str().unwrap().to_owned(),
        rounding: model["rounding"].as_f64().unwrap() as f32,
    };
    index.as_object().unwrap().iter().map(model).collect()
}

impl Model {
    fn path(&self, file: &str) -> PathBuf {
        folder().join(&self.name).join(file)
    }

    /// The same model in its kinds of files.
    fn checkpoints(&self) -> Vec<(&'static str, Arc<Checkpoint>)> {
        let open = |file| Arc::new(Checkpoint::open(self.path(file)).unwrap());
        let mut all = vec![("directory", open(""))];
        if self.has_file() {
            all.push(("GGUF", open("model.gguf")));
        }
        all
    }

    /// Whether a GGUF file gives the same results.
    fn has_file(&self) -> bool {
        // the converter drops the pooler of this one, which its scores depend on
        self.path("model.gguf").is_file() && self.name != "bert-reranker"
    }
}

/// A loaded plan with one slot, whose pages are all allocated.
struct Loaded {
    executable: Box<dyn Executable>,
    plan: Plan,
    pages: Vec<u32>,
}

impl Loaded {
    fn new(checkpoint: &Arc<Checkpoint>, backend: &dyn Backend, context: usize) -> Self {
        let plan = build_for(checkpoint, Some(context)).unwrap();
        let plan = plan.fuse(&|op, plan| backend.accepts(op, plan));
        let pages = pages_for(context.next_multiple_of(PAGE));
        let limits = Limits {
            rows: context,
            wants: context,
            sequences: 1,
            context,
            pages: vec![pages; plan.groups.len()],
            snapshots: 0,
            kv: KvType::F32,
            tokens: plan.vocab,
            bias: 0,
        };
        let checkpoint = Arc::clone(checkpoint);
        let executable = backend.load(plan.clone(), checkpoint, limits, &mut |_, _| {}).unwrap();
        Self { executable, plan, pages: (0..pages as u32).collect() }
    }

    /// The results `[wants, width]` of a pass of tokens from `position` on.
    fn run(&mut self, phase: Phase, tokens: &[u32], position: usize, wants: &[u32]) -> Vec<f32> {
        let rows: Vec<_> = (position as u32..)
            .zip(tokens)
            .map(|(position, &token)| Row { input: Input::Token(token), position, slot: 0 })
            .collect();
        let pages = &self.pages;
        let edit = |group| TableEdit { group, slot: 0, first: 0, pages };
        let tables: Vec<_> = (0..self.plan.groups.len() as u32).map(edit).collect();
        let wants: Vec<_> = wants.iter().map(|&row| Want::Logits { row }).collect();
        let pass = Pass { tables: &tables, ..Pass::new(phase, &rows, &wants) };
        let ticket = self.executable.submit(&pass).unwrap();
        self.executable.take(ticket).unwrap().logits.to_vec()
    }

    /// The results of all rows of a text, in one prompt.
    fn prompt(&mut self, tokens: &[u32]) -> Vec<f32> {
        let wants: Vec<_> = (0..tokens.len() as u32).collect();
        self.run(Phase::Prompt, tokens, 0, &wants)
    }
}

/// The greatest difference of two rows of numbers; infinite if one is not a number.
fn difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let worst = |worst: f32, d: f32| if d <= worst { worst } else { d };
    let d = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, worst);
    if d.is_nan() { f32::INFINITY } else { d }
}

/// A backend with a name.
struct Subject {
    name: &'static str,
    backend: Box<dyn Backend>,
    /// Whether it runs directories of models that have a GGUF file too.
    directories: bool,
    /// Whether it rounds activations to 8 bits next to weights in blocks, which tips the choice of
    /// experts; the tests of ops compare such products.
    rounds: bool,
}

/// The reference path and the fast path of the CPU.
fn cpu() -> Vec<Subject> {
    let subject = |name, cpu: Cpu, rounds| Subject {
        name,
        backend: Box::new(cpu),
        directories: true,
        rounds,
    };
    vec![
        subject("reference path", Cpu::reference(), false),
        subject("fast path", Cpu::new(2), true),
    ]
}

/// The first GPU or software driver. A directory gives the same plan as a file, which the CPU
/// shows, so files are enough.
#[cfg(feature = "gpu")]
fn gpu() -> Vec<Subject> {
    use pelton::gpu::{Gpu, adapters};
    use pelton_testing::{Need, skip};

    let Some(adapter) = adapters().into_iter().next() else {
        skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        return Vec::new();
    };
    let backend = Box::new(Gpu::open_checked(&adapter).unwrap());
    vec![Subject { name: "GPU", backend, directories: false, rounds: true }]
}

/// The models of a kind, at least `least`, compared by `check`, which returns what differs.
fn compare(
    subjects: &[Subject],
    kind: &str,
    least: usize,
    check: impl Fn(&Model, &Arc<Checkpoint>, &dyn Backend) -> Vec<(String, f32)>,
) {
    let (mut failed, mut count) = (String::new(), 0);
    for model in models().iter().filter(|model| model.kind == kind) {
        for (file, checkpoint) in model.checkpoints() {
            for subject in subjects {
                let in_blocks = checkpoint.tensors().any(|tensor| tensor.dtype.block_len() > 1);
                let twice = file == "directory" && model.has_file();
                if twice && !subject.directories || in_blocks && subject.rounds {
                    continue;
                }
                for (what, difference) in check(model, &checkpoint, subject.backend.as_ref()) {
                    let (model, subject) = (&model.name, subject.name);
                    failed += &format!("{model} ({file}), {subject}, {what}: {difference}\n");
                }
            }
        }
        count += 1;
    }
    assert!(count >= least, "{count} models");
    assert!(failed.is_empty(), "\n{failed}");
}

/// The logits of prompts of several lengths, and of rows that are decoded one by one.
fn compare_logits(subjects: &[Subject]) {
    compare(subjects, "causal", 90, |model, checkpoint, backend| {
        let mut failed = Vec::new();
        for suffix in ["", "-2"] {
            let ids = model.path(&format!("ids{suffix}.npy"));
            if !ids.is_file() {
                continue;
            }
            let (ids, expected) =
                (integers(&ids), floats(model.path(&format!("logits{suffix}.npy"))));
            let mut loaded = Loaded::new(checkpoint, backend, ids.len());
            let vocab = expected.len() / ids.len();
            assert_eq!(loaded.plan.output_width(), vocab);
            // transformers rotates a short text of this model in another way than a long one
            let by_length = loaded.plan.ropes.iter().any(|rope| rope.scaling == "longrope");
            let lengths = if by_length { vec![] } else { vec![1, 17, 64] };
            for len in lengths.into_iter().chain([ids.len()]) {
                let got = loaded.prompt(&ids[..len]);
                let worst = difference(&got, &expected[..len * vocab]);
                if worst >= 1e-3f32.max(4.0 * model.rounding) {
                    failed.push((format!("{len} tokens"), worst));
                }
            }
            let len = ids.len() - DECODED;
            loaded.run(Phase::Prompt, &ids[..len], 0, &[]);
            for at in len..ids.len() {
                let got = loaded.run(Phase::Decode, &ids[at..=at], at, &[0]);
                let worst = difference(&got, &expected[at * vocab..(at + 1) * vocab]);
                if worst >= 1e-3f32.max(4.0 * model.rounding) {
                    failed.push((format!("decoding of token {at}"), worst));
                }
            }
        }
        failed
    });
}

#[test]
fn logits_of_transformers() {
    compare_logits(&cpu());
}

#[cfg(feature = "gpu")]
#[test]
fn logits_of_transformers_on_a_gpu() {
    compare_logits(&gpu());
}

/// The results of a model for each of its texts, compared with a file.
fn compare_texts(
    model: &Model,
    checkpoint: &Arc<Checkpoint>,
    backend: &dyn Backend,
    file: &str,
    tolerance: f32,
) -> Vec<(String, f32)> {
    let (mut ids, expected) = (integers(model.path("ids.npy")), floats(model.path(file)));
    let lengths = integers(model.path("lengths.npy"));
    let width = expected.len() / lengths.len();
    let mut loaded = Loaded::new(checkpoint, backend, *lengths.iter().max().unwrap() as usize);
    assert_eq!(loaded.plan.output_width(), width);
    if file == "scores-types.npy" {
        assert_eq!(loaded.plan.token_types, 2);
        let types = integers(model.path("types.npy"));
        assert!(types.contains(&0) && types.contains(&1), "{types:?}");
        let vocab = loaded.plan.vocab as u32;
        ids.iter_mut().zip(types).for_each(|(id, kind)| *id += kind * vocab);
    }
    let mut first = 0;
    let mut failed = Vec::new();
    for (text, expected) in lengths.iter().zip(expected.chunks(width)) {
        let ids = &ids[first..first + *text as usize];
        first += ids.len();
        let got = loaded.run(Phase::Prompt, ids, 0, &[text - 1]);
        let worst = difference(&got, expected);
        if worst >= tolerance {
            failed.push((format!("{text} tokens"), worst));
        }
    }
    failed
}

fn compare_embeddings(subjects: &[Subject]) {
    compare(subjects, "encoder", 8, |model, checkpoint, backend| {
        compare_texts(model, checkpoint, backend, "embedding.npy", 1e-4)
    });
}

fn compare_scores(subjects: &[Subject]) {
    compare(subjects, "reranker", 5, |model, checkpoint, backend| {
        let tolerance = 1e-4f32.max(4.0 * model.rounding);
        let mut failed = compare_texts(model, checkpoint, backend, "scores.npy", tolerance);
        if model.path("types.npy").is_file() {
            let file = "scores-types.npy";
            failed.extend(compare_texts(model, checkpoint, backend, file, tolerance));
        }
        failed
    });
}

#[test]
fn embeddings_of_transformers() {
    compare_embeddings(&cpu());
}

#[test]
fn scores_of_transformers() {
    compare_scores(&cpu());
}

#[cfg(feature = "gpu")]
#[test]
fn embeddings_and_scores_of_transformers_on_a_gpu() {
    let gpu = gpu();
    compare_embeddings(&gpu);
    compare_scores(&gpu);
}
