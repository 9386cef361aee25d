//! Tiny models of all families through the scheduler. A request's text is the same alone, in a
//! batch, with drafts, after a prefix hit and with windows that are shorter than the text. It is
//! the same on the CPU as on a GPU.
//!
//! The expected texts come from passes that the tests form by hand, one row of one slot at a time
//! (`models.rs` compares such rows with PyPI `transformers`).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};
use std::thread;

use pelton::graph::{Backend, PAGE};
use pelton::{Engine, KvType, LoadOptions, Model, Sampling, Session, Speculation, Stats};
use pelton_cpu::Cpu;
use serde_json::Value;

use crate::request::{Request, Run};

/// Tokens of the embedding tables of all of these models that have a meaning.
const VOCAB: u32 = 100;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models")
}

/// A model that generates text, and the sizes of its texts.
struct Family {
    name: String,
    /// The greatest change of its logits by rounding in f32.
    #[cfg_attr(not(feature = "gpu"), expect(dead_code, reason = "a test on GPUs reads it"))]
    rounding: f32,
    /// Positions of a sequence.
    context: usize,
    /// Pages of the common prefix of prompts.
    pages: usize,
    /// Generated tokens of each text.
    tokens: usize,
}

fn families() -> Vec<Family> {
    let index: Value =
        serde_json::from_slice(&fs::read(folder().join("models.json")).unwrap()).unwrap();
    let causal = index.as_object().unwrap().iter().filter(|(_, model)| model["kind"] == "causal");
    let family = |(name, model): (&String, &Value)| {
        let (name, rounding) = (name.clone(), model["rounding"].as_f64().unwrap() as f32);
        let (context, pages, tokens) = match name.as_str() {
            // these have 128 positions
            "gpt2" | "gpt-bigcode" => (128, 1, 32),
            _ => (256, 2, 64),
        };
        Family { name, rounding, context, pages, tokens }
    };
    causal.map(family).collect()
}

impl Family {
    /// The model with room for several sequences, in chunks of prompts of one page.
    fn load(&self, backend: impl Backend + 'static) -> Model {
        let folder = folder().join(&self.name);
        let file = folder.join("model.gguf");
        let path = if file.is_file() { file } else { folder };
        let options = LoadOptions::default().context(self.context).max_concurrent(4);
        let options = options.rows(PAGE).kv(KvType::F32);
        Engine::with_backend(backend).load(path, &options).unwrap()
    }

    /// The model with one sequence that is run by hand.
    fn session(&self, backend: impl Backend + 'static) -> Session {
        self.load(backend).into_session().unwrap()
    }

    /// Prompts of a batch, of which the second and the third have a prefix in common, and a later
    /// prompt with that prefix.
    fn prompts(&self) -> ([Vec<u32>; 4], Vec<u32>) {
        let common = tokens(self.pages * PAGE + 7, 1);
        let after = |len, seed| [common.clone(), tokens(len, seed)].concat();
        ([tokens(21, 2), after(20, 3), after(9, 4), tokens(PAGE + 12, 5)], after(14, 6))
    }

    /// The greedy text after a prompt and the logits before each of its tokens, from passes formed
    /// by hand. The tokens of `text` are run in place of the likeliest ones.
    fn by_hand(
        &self,
        session: &mut Session,
        prompt: &[u32],
        text: Option<&[u32]>,
    ) -> (Vec<u32>, Vec<Vec<f32>>) {
        session.truncate(0);
        let mut logits = vec![session.run(prompt).unwrap().to_vec()];
        let mut tokens = vec![likeliest(&logits[0])];
        while tokens.len() < self.tokens {
            let last = tokens.len() - 1;
            let token = text.map_or(tokens[last], |text| text[last]);
            logits.push(session.run(&[token]).unwrap().to_vec());
            tokens.push(likeliest(&logits[last + 1]));
        }
        (tokens, logits)
    }

    /// The differences between the texts of a model in all circumstances. The texts of the prompts
    /// `by_hand` are compared with those of passes formed by hand.
    fn differences(&self, model: &Model, session: &mut Session, by_hand: &[usize]) -> Vec<String> {
        let (batch, later) = self.prompts();
        let mut failed = Vec::new();
        let greedy = |prompt: &[u32]| {
            let request = Request::from_tokens(prompt).max_tokens(self.tokens).ignore_eos(true);
            request.sampling(Sampling::greedy())
        };
        let all = batch.iter().chain([&later]).enumerate();
        for (i, prompt) in all.filter(|(i, _)| by_hand.contains(i)) {
            let expected = self.by_hand(session, prompt, None).0;
            // a salt of its own: nothing is cached
            let text = texts(model, vec![greedy(prompt).cache_salt(1 + i as u64)]).remove(0).0;
            let ids: Vec<_> = text.iter().map(|(id, _)| *id).collect();
            if ids != expected {
                failed.push(format!("prompt {i}: {ids:?}, by hand {expected:?}"));
            }
        }
        // drawn texts do not end in loops, as greedy ones may
        let drawn = |prompt: &[u32]| {
            let sampling = Sampling::default().seed(7).temperature(1.0);
            greedy(prompt).sampling(sampling).logprobs(1)
        };
        let alone = |i: usize, prompt: &[u32]| {
            texts(model, vec![drawn(prompt).cache_salt(100 + i as u64)]).remove(0).0
        };
        let together = texts(model, batch.iter().map(|prompt| drawn(prompt)).collect());
        for (i, ((text, _), prompt)) in together.iter().zip(&batch).enumerate() {
            if *text != alone(i, prompt) {
                failed.push(format!("prompt {i} in a batch"));
            }
        }
        // drafts of which every seventh is wrong
        let drafted = |prompt: &[u32], text: &Drawn| {
            let wrong = |(i, &(id, _)): (usize, &(u32, _))| (id + u32::from(i % 7 == 6)) % VOCAB;
            let prediction: Vec<u32> = text.iter().enumerate().map(wrong).collect();
            drawn(prompt).prediction(prediction).speculation(Speculation::Always)
        };
        let requests = batch.iter().zip(&together).map(|(prompt, (text, _))| drafted(prompt, text));
        let (mut all, mut accepted) = (0, 0);
        for (i, (text, stats)) in texts(model, requests.collect()).into_iter().enumerate() {
            let drafts = stats.speculation;
            (all, accepted) = (all + drafts.drafted, accepted + drafts.accepted);
            if text != together[i].0 {
                failed.push(format!("prompt {i} with drafts: {drafts:?}"));
            }
        }
        if accepted == 0 || accepted == all {
            failed.push(format!("{accepted} of {all} drafts were accepted"));
        }
        let (text, stats) = texts(model, vec![drawn(&later)]).remove(0);
        if text != alone(4, &later) {
            failed.push("a prompt after a prefix hit".to_owned());
        }
        if stats.cached_tokens != self.pages * PAGE {
            failed.push(format!("{} tokens of a prefix are cached", stats.cached_tokens));
        }
        failed
    }
}

/// Tokens without a pattern, from a linear congruential generator.
fn tokens(len: usize, seed: u32) -> Vec<u32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % VOCAB
    };
    (0..len).map(next).collect()
}

fn likeliest(logits: &[f32]) -> u32 {
    let best = (0..logits.len()).fold(0, |best, i| if logits[i] > logits[best] { i } else { best });
    best as u32
}

/// Tokens, each with the bits of its log-probability.
type Drawn = Vec<(u32, Option<u32>)>;

/// The tokens of requests that run together.
fn texts(model: &Model, requests: Vec<Request>) -> Vec<(Drawn, Stats)> {
    let streams: Vec<_> = requests.into_iter().map(|request| model.run(request).unwrap()).collect();
    let text = |mut stream: pelton::TokenStream| {
        let token = |token: pelton::Token| (token.id, token.logprob.map(f32::to_bits));
        let tokens = stream.by_ref().map(|next| token(next.unwrap())).collect();
        (tokens, stream.handle().stats())
    };
    streams.into_iter().map(text).collect()
}

/// Runs `check` for all families, on as many threads as there are cores.
fn for_each(families: &[Family], check: impl Fn(&Family) -> Vec<String> + Sync) {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(String::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from).min(4) {
            scope.spawn(|| {
                while let Some(family) = families.get(next.fetch_add(1, Ordering::Relaxed)) {
                    for what in check(family) {
                        *failed.lock().unwrap() += &format!("{}: {what}\n", family.name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "\n{failed}");
}

#[test]
fn texts_on_the_cpu() {
    let families = families();
    assert!(families.len() >= 53, "{} models", families.len());
    for_each(&families, |family| {
        let mut session = family.session(Cpu::new(1));
        family.differences(&family.load(Cpu::new(1)), &mut session, &[0, 1, 2, 3, 4])
    });
}

/// Models that a software driver runs within the time of a test. They have a window with soft caps,
/// recurrent states with experts, short convolutions, scans, latent attention, sinks with experts,
/// chunked attention, shared caches, and weights in blocks.
#[cfg(feature = "gpu")]
const ON_A_GPU: [&str; 9] = [
    "gemma2",
    "qwen3-next",
    "lfm2-moe",
    "granite-hybrid",
    "deepseek-v2-lite",
    "gpt-oss",
    "llama4",
    "gemma4-shared-kv",
    "llama-gptq",
];

/// The greatest change of a logit.
#[cfg(feature = "gpu")]
fn change(a: &[Vec<f32>], b: &[Vec<f32>]) -> f32 {
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// How much likelier the tokens of a text are than each other token.
#[cfg(feature = "gpu")]
fn leads(logits: &[Vec<f32>], text: &[u32]) -> Vec<Vec<f32>> {
    let of_row = |(row, &token): (&Vec<f32>, &u32)| {
        row.iter().map(|other| row[token as usize] - other).collect()
    };
    logits.iter().zip(text).map(of_row).collect()
}

/// The texts of the GPU; and along the texts of the CPU the logits up to rounding, and the
/// likeliest tokens, except where two are as likely up to rounding.
#[cfg(feature = "gpu")]
#[test]
fn texts_on_a_gpu() {
    use pelton::gpu::{Gpu, adapters};
    use pelton_testing::{Need, skip};

    let Some(adapter) = adapters().into_iter().next() else {
        skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        return;
    };
    let all = std::env::var_os("PELTON_FULL").is_some();
    let mut families = families();
    families.retain(|family| all || ON_A_GPU.contains(&family.name.as_str()));
    assert!(families.len() >= ON_A_GPU.len());
    let gpu = Gpu::open_checked(&adapter).unwrap();
    let (near_ties, tokens) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for_each(&families, |family| {
        let mut session = family.session(gpu.clone());
        let mut failed = family.differences(&family.load(gpu.clone()), &mut session, &[0, 4]);
        let prompt = &family.prompts().0[1];
        let (text, rounded) = family.by_hand(&mut family.session(Cpu::new(1)), prompt, None);
        let (found, logits) = family.by_hand(&mut session, prompt, Some(&text));
        let (_, exact) = family.by_hand(&mut family.session(Cpu::reference()), prompt, Some(&text));
        // GPUs and the fast path of the CPU round activations to 8 bits next to weights in blocks.
        // The change by that on the CPU is the tolerance, and a near-tie is a lead that it can turn
        let least = 2e-3f32.max(8.0 * family.rounding);
        let (most, of_gpu) = (2.0 * change(&rounded, &exact), change(&logits, &exact));
        if of_gpu > least.max(most) {
            failed.push(format!("logits differ by {of_gpu}, expected at most {most}"));
        }
        let near = least.max(change(&leads(&rounded, &text), &leads(&exact, &text)));
        for (i, (&found, &token)) in found.iter().zip(&text).enumerate() {
            let lead = rounded[i][token as usize] - rounded[i][found as usize];
            if lead > near {
                failed.push(format!("token {i} leads by {lead} on the CPU, near-ties by {near}"));
            }
            near_ties.fetch_add(usize::from(found != token), Ordering::Relaxed);
        }
        tokens.fetch_add(text.len(), Ordering::Relaxed);
        failed
    });
    let (near_ties, tokens) = (near_ties.into_inner(), tokens.into_inner());
    assert!(100 * near_ties <= tokens, "{near_ties} of {tokens} tokens differ");
}
