//! Texts with drafts by heads are those of plain decoding; files with parts of a head are refused.

use std::{fs, path::PathBuf};

use pelton::{
    Checkpoint, Engine, LoadOptions, Model, ModelSource, Sampling, Speculation, SpeculationStats,
    graph::{Backend, PAGE},
};
use pelton_cpu::Cpu;
use pelton_testing::Random;

use super::{NAMES, file, folder};
use crate::request::{Request, Run};

const VOCAB: usize = 100;

pub(super) fn options() -> LoadOptions {
    LoadOptions::default().context(256).rows(PAGE).speculation(Speculation::Always)
}

fn load(
    backend: &(impl Backend + Clone + 'static),
    path: &PathBuf,
    options: &LoadOptions,
) -> Model {
    Engine::with_backend(backend.clone()).load(path, options).unwrap()
}

fn prompt(random: &mut Random, len: usize) -> Vec<u32> {
    (0..len).map(|_| 4 + random.below(VOCAB - 4) as u32).collect()
}

/// Requests of prompts of which some have a prefix of a page and more in common, at
/// temperature 0 and above.
fn requests(random: &mut Random, count: usize) -> Vec<Request> {
    let common = prompt(random, PAGE + 9);
    let mut request = |i: usize| {
        let len = 3 + random.below(90);
        let own = prompt(random, len);
        let tokens = if i.is_multiple_of(3) {
            [&common[..], &own[..20.min(own.len())]].concat()
        } else {
            own
        };
        let sampling = match i % 4 {
            0 => Sampling::greedy(),
            1 => Sampling::default().seed(random.bits()).temperature(1.0).top_k(0),
            2 => Sampling::default().seed(random.bits()).temperature(0.4).repetition_penalty(1.2),
            _ => Sampling::greedy().presence_penalty(0.7),
        };
        let most = 20 + random.below(60);
        Request::from_tokens(tokens).sampling(sampling).max_tokens(most).ignore_eos(true)
    };
    (0..count).map(&mut request).collect()
}

fn ids(model: &Model, request: &Request) -> Vec<u32> {
    model.run(request.clone()).unwrap().map(|token| token.unwrap().id).collect()
}

/// The texts of requests alone and in a batch are those without drafts; the statistics of both.
fn texts_equal(
    backend: &(impl Backend + Clone + 'static),
    path: &PathBuf,
    count: usize,
) -> [SpeculationStats; 2] {
    let mut random = Random::new(11);
    let requests = requests(&mut random, count);
    let plain = load(backend, path, &options().speculation(Speculation::Off));
    let alone = load(backend, path, &options().draft_head());
    // the file's head is found without a flag
    let batch = load(backend, path, &options().max_concurrent(4));
    let expected: Vec<_> = requests.iter().map(|request| ids(&plain, request)).collect();
    for (request, expected) in requests.iter().zip(&expected) {
        assert_eq!(&ids(&alone, request), expected, "{path:?}: {request:?}");
    }
    let streams: Vec<_> =
        requests.iter().map(|request| batch.run(request.clone()).unwrap()).collect();
    for (stream, expected) in streams.into_iter().zip(&expected) {
        let found: Vec<u32> = stream.map(|token| token.unwrap().id).collect();
        assert_eq!(&found, expected, "{path:?}");
    }
    assert_eq!(plain.status().speculation.drafted, 0);
    [&alone, &batch].map(|model| model.status().speculation)
}

/// The heads of random models are hardly ever right.
fn wrong_drafts(backend: &(impl Backend + Clone + 'static), names: &[&str], count: usize) {
    for name in names {
        for stats in texts_equal(backend, &file(name), count) {
            println!("{name}: {stats:?}");
            assert!(stats.drafted > 20 * count as u64, "{name}: {stats:?}");
            assert!(stats.acceptance().unwrap() < 0.7, "{name}: {stats:?}");
        }
    }
}

/// A head that is always right.
fn right_drafts(backend: &(impl Backend + Clone + 'static), count: usize) {
    let right = Right::new();
    for stats in texts_equal(backend, &right.0, count) {
        println!("{stats:?}");
        assert!(stats.drafted > 20 * count as u64, "{stats:?}");
        // penalties of tokens that a draft does not know, and last digits
        assert!(stats.acceptance().unwrap() > 0.9, "{stats:?}");
    }
}

#[test]
fn drafts_that_are_wrong_on_the_cpu() {
    wrong_drafts(&Cpu::new(2), &NAMES, 12);
}

#[test]
fn drafts_that_are_right_on_the_cpu() {
    right_drafts(&Cpu::new(2), 12);
}

#[cfg(feature = "gpu")]
#[test]
fn drafts_on_a_gpu() {
    use pelton_testing::{Need, skip};

    let Some(adapter) = pelton::gpu::adapters().into_iter().next() else {
        skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        return;
    };
    let gpu = pelton::gpu::Gpu::open_checked(&adapter).unwrap();
    right_drafts(&gpu, 4);
    if adapter.has_coherent_buffers() {
        // one workgroup waits for nobody, and Mesa ends a loop after 65,535 turns
        let persistent = gpu.clone().with_persistent(1, 60_000, 4);
        right_drafts(&persistent, 4);
        assert!(persistent.persistent_passes() > 100, "passes ran by dispatches");
    }
    // it has recurrent states, and by far the most to compile
    wrong_drafts(&gpu, &["qwen3.5"], 3);
}

/// A copy of a model's file in which no layer changes the residual stream, so that the next token
/// depends on the newest alone. The head has the stream of its own token.
pub(super) struct Right(PathBuf);

impl Right {
    pub(super) fn new() -> Self {
        let path = file("glm4-moe-lite");
        let mut bytes = fs::read(&path).unwrap();
        let checkpoint = Checkpoint::open(&path).unwrap();
        let mut set = |name: &str, new: &[u8]| {
            let old = checkpoint.tensor(name).unwrap().bytes.to_vec();
            assert_eq!(old.len(), new.len(), "{name}");
            let at = bytes.windows(old.len()).position(|window| window == old).unwrap();
            bytes[at..at + old.len()].copy_from_slice(new);
        };
        for tensor in checkpoint.tensors() {
            let name = tensor.name;
            if name.contains("attn_output") || name.contains("ffn_down") {
                set(name, &vec![0; tensor.bytes.len()]);
            }
        }
        const HIDDEN: usize = 16;
        // 1 in half precision
        const ONE: u16 = 0x3C00;
        let value = |i: usize| if i % (2 * HIDDEN) == i / (2 * HIDDEN) { ONE } else { 0 };
        let identity: Vec<u8> =
            (0..2 * HIDDEN * HIDDEN).flat_map(|i| value(i).to_le_bytes()).collect();
        set("blk.1.nextn.eh_proj.weight", &identity);
        set("blk.1.nextn.enorm.weight", &[1f32.to_le_bytes(); HIDDEN].concat());
        let norm = checkpoint.tensor("output_norm.weight").unwrap().bytes.to_vec();
        set("blk.1.nextn.shared_head_norm.weight", &norm);
        Self(written("right", &bytes))
    }

    #[cfg(feature = "gpu")]
    pub(super) fn path(&self) -> &PathBuf {
        &self.0
    }
}

impl Drop for Right {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A file of this test process.
fn written(name: &str, bytes: &[u8]) -> PathBuf {
    let thread = std::thread::current().id();
    let name = format!("pelton-head-{name}-{}-{thread:?}.gguf", std::process::id());
    let path = std::env::temp_dir().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// The error of the load of a model's file with other bytes, and whether it loads without drafts.
fn refusal(change: impl Fn(&mut Vec<u8>)) -> (String, bool) {
    let mut bytes = fs::read(file("qwen3.5")).unwrap();
    change(&mut bytes);
    let path = written("broken", &bytes);
    let engine = Engine::with_backend(Cpu::new(1));
    let error = engine.load(&path, &LoadOptions::default()).err().unwrap().to_string();
    let off = LoadOptions::default().speculation(Speculation::Off);
    let loads = engine.load(&path, &off).is_ok();
    fs::remove_file(&path).unwrap();
    (error, loads)
}

fn at(bytes: &[u8], text: &str) -> usize {
    bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap()
}

#[test]
fn parts_of_a_head_are_refused_by_name() {
    let rename = |from: &'static str, to: &'static str| {
        move |bytes: &mut Vec<u8>| {
            let at = at(bytes, from);
            bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
    };
    for (from, to, expected) in [
        ("blk.2.nextn.hnorm", "blk.2.nextn.hxxxx", "blk.2.nextn.hnorm.weight"),
        ("blk.2.nextn.eh_proj", "blk.2.nextn.xx_proj", "blk.2.nextn.eh_proj.weight"),
        ("blk.2.attn_q.weight", "blk.2.attn_x.weight", "blk.2.attn_q.weight"),
        // one tensor more than a head of this form has
        ("blk.2.nextn.shared_head_norm", "blk.2.nextn.shared_head_xxxx", "shared_head_xxxx"),
    ] {
        let (error, loads) = refusal(rename(from, to));
        assert!(error.contains(expected), "{error}");
        assert!(loads, "{from}");
    }
    // the sizes of the projection the other way round
    let (error, loads) = refusal(|bytes| {
        let name = "blk.2.nextn.eh_proj.weight";
        let at = at(bytes, name) + name.len() + 4;
        bytes[at..at + 16].rotate_left(8);
    });
    assert!(error.contains("blk.2.nextn.eh_proj.weight") && error.contains("[16, 32]"), "{error}");
    assert!(loads);
}

#[test]
fn a_head_that_is_missing() {
    let engine = Engine::with_backend(Cpu::new(1));
    let path = folder("../logits").join("llama.gguf");
    let error = engine.load(&path, &options().draft_head()).err().unwrap().to_string();
    assert!(error.contains("'draft' is mtp") && error.contains("no head"), "{error}");
    assert!(engine.load(&path, &options()).is_ok());
    let built_in = engine.load(ModelSource::BuiltIn, &options().draft_head());
    assert!(built_in.err().unwrap().to_string().contains("has no head"));
}
