//! Models on whatever device there is, a GPU or else a software driver, against `transformers` and
//! against the processor. Where there is neither, each test says that it was skipped.

#![cfg(feature = "gpu")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

mod common;

use pelton::{
    Engine, KvType, LoadOptions, Model, Request, Sampling, Session,
    gpu::{Gpu, adapters},
    graph::Backend,
};
use pelton_cpu::Cpu;

use common::{cases, greatest_difference, run, top};

/// The first device, with kernels that test every index.
fn device() -> Option<Gpu> {
    let Some(adapter) = adapters().into_iter().next() else {
        eprintln!("SKIPPED: no Vulkan, Metal or DX12 device, not even in software");
        return None;
    };
    Some(Gpu::open_checked(&adapter).unwrap())
}

/// Prompts whole and in parts. Keys and values in f16 move these logits as far as on the processor;
/// and kernels for one row and for many, which sum in other orders, can tip their rounding. In f32
/// there is nothing to tip.
#[test]
fn logits_of_transformers() {
    let Some(gpu) = device() else { return };
    for case in cases() {
        for (kv, tolerance, between) in [(KvType::F32, 1e-3, 1e-4), (KvType::F16, 2e-2, 2e-2)] {
            let model = case.load(gpu.clone(), kv);
            case.check(&model, kv, tolerance);
            let ids = &case.ids[..64];
            let whole = run(&model, ids, &[64]);
            for parts in [&[1, 63][..], &[17, 47], &[1; 64]] {
                let difference = greatest_difference(&run(&model, ids, parts), &whole);
                assert!(difference < between, "{} {kv:?} in {parts:?}: {difference}", case.name);
            }
        }
    }
}

const STORY: &str = "Once upon a time";
const CHAT: &str = "<|user|>What is 7 plus 5?<|end|><|assistant|>";

fn built_in(backend: impl Backend + 'static) -> Model {
    let options = LoadOptions { context: Some(300), batch: 64, ..LoadOptions::default() };
    Engine::with_backend(backend).load_built_in(&options).unwrap()
}

fn text(model: &Model, prompt: &str, most: usize, sampling: Sampling) -> String {
    let request = Request::new(prompt).max_tokens(most).sampling(sampling);
    model.generate(Request { ignore_end: true, ..request }).unwrap().text().unwrap()
}

fn seeded(seed: u64) -> Sampling {
    Sampling { seed: Some(seed), ..Sampling::default() }
}

/// Weights in blocks: the device and the processor round activations to 8 bits alike, so logits
/// agree to the sixth digit until one number tips. From there on they differ as they do from those
/// of the plain path, which does not round.
#[test]
fn logits_of_the_processor() {
    let Some(gpu) = device().map(built_in) else { return };
    let story = STORY.to_owned() + &text(&gpu, STORY, 64, Sampling::greedy());
    let tokens = &gpu.tokenizer().unwrap().encode_prompt(&story).unwrap()[..64];
    for cpu in [Cpu::plain(), Cpu::new(2)] {
        let expected = run(&built_in(cpu), tokens, &[64]);
        for parts in [&[64][..], &[8; 8], &[1; 64]] {
            let share = share(&expected, &run(&gpu, tokens, parts));
            assert!(share < 2e-2, "{cpu:?} {parts:?}: {share}");
        }
    }
}

/// By what share of its norm a list differs from another.
fn share(expected: &[f32], got: &[f32]) -> f32 {
    assert_eq!(expected.len(), got.len());
    let norm = |v: &mut dyn Iterator<Item = f32>| v.map(|v| v * v).sum::<f32>().sqrt();
    let difference = norm(&mut expected.iter().zip(got).map(|(a, b)| a - b));
    difference / norm(&mut expected.iter().copied())
}

/// Along a greedy text of the processor the device finds the same tokens likeliest, but where two
/// are as likely up to what rounding to 8 bits moves (0.45 between the plain path and the fast one):
/// devices add in other orders.
#[test]
fn greedy_texts_of_the_processor() {
    let Some([gpu, cpu]) = device().map(|gpu| [built_in(gpu), built_in(Cpu::new(2))]) else {
        return;
    };
    for prompt in [STORY, CHAT] {
        let prompt = cpu.tokenizer().unwrap().encode_prompt(prompt).unwrap();
        let request = Request::from_tokens(prompt.clone()).max_tokens(200);
        let request = Request { ignore_end: true, ..request.sampling(Sampling::greedy()) };
        let expected: Vec<u32> =
            cpu.generate(request).unwrap().map(|token| token.unwrap().id).collect();
        assert_eq!(expected.len(), 200);
        let all = [&prompt[..], &expected[..199]].concat();
        let parts = vec![1; all.len()];
        let [on_gpu, on_cpu] = [&gpu, &cpu].map(|model| run(model, &all, &parts));
        let vocab = cpu.plan().vocab;
        let rows = |logits: &[f32]| -> Vec<Vec<f32>> {
            logits.chunks(vocab).skip(prompt.len() - 1).map(<[f32]>::to_vec).collect()
        };
        let mut parted = 0;
        for ((gpu, cpu), &token) in rows(&on_gpu).iter().zip(rows(&on_cpu)).zip(&expected) {
            let found = (0..vocab).fold(0, |best, i| if gpu[i] > gpu[best] { i } else { best });
            if found != token as usize {
                let lead = cpu[token as usize] - cpu[found];
                assert!(lead < 0.45, "{found} instead of {token}, which leads by {lead}");
                parted += 1;
            }
        }
        assert!(parted <= 4, "{parted} of 200 tokens differ");
    }
}

#[test]
fn same_seed_same_text() {
    let Some(gpu) = device().map(built_in) else { return };
    let [first, again, other] = [1, 1, 2].map(|seed| text(&gpu, STORY, 60, seeded(seed)));
    assert_eq!(first, again);
    assert_ne!(first, other);
}

/// Weights in f32: what is drawn in a chain on the device is what the sampler draws from the
/// logits of the processor.
#[test]
fn draws_of_the_processor() {
    let Some(gpu) = device() else { return };
    for case in cases() {
        let models = [case.load(gpu.clone(), KvType::F32), case.load(Cpu::new(2), KvType::F32)];
        let wide = Sampling { temperature: 1.5, top_k: 0, ..seeded(2) };
        for sampling in [Sampling::greedy(), seeded(1), wide] {
            let [got, expected] = models.each_ref().map(|model| {
                let request = Request::from_tokens(case.ids[..4].to_vec()).max_tokens(60);
                let stream = model.generate(request.sampling(sampling.clone())).unwrap();
                stream.map(|token| token.unwrap().id).collect::<Vec<_>>()
            });
            assert_eq!(got, expected, "{} {sampling:?}", case.name);
        }
    }
}

/// A chain of passes gives, bit for bit, what its passes give one after the other. It begins where
/// attention takes a row's positions in one part, and goes on to where it takes several.
#[test]
fn a_chain_is_its_passes() {
    let Some(gpu) = device().map(built_in) else { return };
    let prompt = gpu.tokenizer().unwrap().encode_prompt(STORY).unwrap();
    let bits = |logits: &[f32]| logits.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    gpu.session(300, move |session: &mut Session<'_>| {
        let story = session.run(&prompt).map(|logits| top(logits) as u32)?;
        let story = [vec![story], session.decode(story, 170)?].concat();
        let mut position = prompt.len() + 170;
        let mut token = story[170];
        for n in [1, 2, 12, 45] {
            let chain = session.decode(token, n)?;
            let after = bits(session.run(&chain[n - 1..])?);
            session.truncate(position);
            let mut passes = Vec::new();
            let mut next = token;
            for _ in 0..n {
                next = top(session.run(&[next])?) as u32;
                passes.push(next);
            }
            assert_eq!(chain, passes);
            assert!(bits(session.run(&[next])?) == after, "the logits after {n} passes");
            session.truncate(position + n);
            (position, token) = (position + n, next);
        }
        Ok(())
    })
    .unwrap();
}
