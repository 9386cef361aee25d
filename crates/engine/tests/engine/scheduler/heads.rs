//! Heads that draft: every row of one has the hidden state of the position that it stands for,
//! under preemption, prefix hits, passes ahead of the host and failures.

use std::path::{Path, PathBuf};

use pelton::{Engine, KvMemory, LoadOptions, Model, Sampling, Speculation, graph::Input};
use pelton_testing::{
    Random,
    fake::{Failure, Fake},
};

use super::harness::{End, assert_all_pages_back, assert_sound, ids, submit};
use crate::request::Request;

fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/heads");
    folder.join(name).join("model.gguf")
}

fn load(fake: &Fake, name: &str, options: &LoadOptions) -> Model {
    Engine::with_backend(fake.clone()).load(file(name), options).unwrap()
}

fn always() -> LoadOptions {
    LoadOptions::default().context(256).rows(64).speculation(Speculation::Always)
}

/// Requests of which some have a prefix in common.
fn requests(random: &mut Random, count: usize) -> Vec<Request> {
    let common: Vec<u32> = (0..130).map(|_| random.below(100) as u32).collect();
    let mut request = || {
        let shared = [0, 64, 100, 130][random.below(4)];
        let own = 1 + random.below(50);
        let mut tokens = common[..shared].to_vec();
        tokens.extend((0..own).map(|_| random.below(100) as u32));
        let sampling = match random.below(3) {
            0 => Sampling::greedy(),
            1 => Sampling::default().seed(random.bits()),
            _ => Sampling::default().seed(random.bits()).repetition_penalty(1.1),
        };
        let most = 1 + random.below(75);
        let request = Request::from_tokens(tokens).sampling(sampling).max_tokens(most);
        // some requests have no drafts: their positions are no rows of the head
        let off = random.below(5) == 0;
        let request = request.ignore_eos(true);
        if off { request.speculation(Speculation::Off) } else { request }
    };
    (0..count).map(|_| request()).collect()
}

fn texts_are_equal(fake: &Fake, name: &str, options: &LoadOptions) {
    let mut random = Random::new(3);
    let requests = requests(&mut random, 24);
    let plain = Fake::default();
    let plain = if fake.pipeline.phases_agree { plain } else { plain.with_phases() };
    let one = load(&plain, name, &always().speculation(Speculation::Off));
    let model = load(fake, name, options);
    let runs: Vec<_> =
        requests.iter().map(|request| submit(&model, request.clone()).unwrap()).collect();
    for (i, (run, request)) in runs.iter().zip(&requests).enumerate() {
        let expected =
            ids(&one, request.clone().speculation(Speculation::Off).cache_salt(i as u64));
        assert_eq!(run.finished().0, expected, "{name}: {request:?}");
    }
    let stats = model.status().speculation;
    assert!(stats.drafted > 500, "{stats:?}");
    assert_all_pages_back(&model);
    assert_sound(fake);
}

#[test]
fn hidden_states_of_all_schedules() {
    for name in ["glm4-moe", "glm4-moe-lite", "qwen3.5"] {
        for (depth, repeat, phases) in [(1, 1, false), (2, 4, true), (3, 32, false)] {
            let fake = Fake::pipelined(depth, repeat);
            let fake = if phases { fake.with_phases() } else { fake };
            // the model and its head do without the host between them
            let fake = if depth == 1 { fake } else { fake.with_partners() };
            texts_are_equal(&fake, name, &always().max_concurrent(if depth == 1 { 1 } else { 3 }));
            let log = fake.log();
            let rows = log.passes.iter().flat_map(|pass| &pass.rows);
            let found = rows.filter(|row| matches!(row.input, Input::Drafted(_))).count();
            assert_eq!(found > 500, depth > 1, "{found} drafted tokens were found");
        }
    }
}

/// Where drafts are not forced, passes run ahead of the host and the head misses their positions.
#[test]
fn passes_ahead_of_the_host() {
    let fake = Fake::pipelined(3, 32).with_partners();
    let mut random = Random::new(5);
    let requests = requests(&mut random, 12);
    let options = always().speculation(Speculation::Auto).max_concurrent(2);
    let model = load(&fake, "glm4-moe", &options);
    let one = load(&Fake::default(), "glm4-moe", &always().speculation(Speculation::Off));
    for (i, request) in requests.into_iter().enumerate() {
        let request = request.cache_salt(i as u64).speculation(Speculation::Auto);
        let expected = ids(&one, request.clone().speculation(Speculation::Off));
        assert_eq!(ids(&model, request.clone()), expected);
        // now and then drafts are forced
        let always = request.speculation(Speculation::Always);
        assert_eq!(ids(&model, always), expected);
    }
    assert_sound(&fake);
}

#[test]
fn preempted_sequences() {
    for name in ["glm4-moe", "glm4-moe-lite"] {
        let fake = Fake::pipelined(2, 4);
        // pages for less than two of four sequences
        let one = load(&Fake::default(), name, &always());
        let pages = one.status().pages[0].total as u64;
        let bytes = |n: u64| always().max_concurrent(4).kv_memory(KvMemory::Bytes(n));
        let enough = (1..).map(|n| n << 10).find(|&n| {
            let loaded = Engine::with_backend(Fake::default()).load(file(name), &bytes(n));
            loaded.is_ok_and(|model| model.status().pages[0].total as u64 > pages + 1)
        });
        texts_are_equal(&fake, name, &bytes(enough.unwrap()));
    }
}

/// A failed pass of the head ends drafts, not requests.
#[test]
fn a_head_that_fails() {
    for failure in [Failure::Submit, Failure::Take, Failure::SubmitPanic] {
        let fake = Fake::default();
        let model = load(&fake, "glm4-moe", &always());
        let request = Request::from_tokens(vec![5; 20]).sampling(Sampling::greedy()).max_tokens(60);
        let request = request.ignore_eos(true);
        let expected = ids(&model, request.clone().speculation(Speculation::Off));
        let running = submit(&model, request.clone().cache_salt(1)).unwrap();
        let before = running.finished();
        assert_eq!(before.0, expected);
        assert!(before.1.speculation.drafted > 0);
        // the pass of the prompt, then the head's
        fake.fail_after(1, failure);
        let (tokens, stats) = submit(&model, request.cache_salt(2)).unwrap().finished();
        assert_eq!(tokens, expected, "{failure:?}");
        assert_eq!(stats.speculation.drafted, 0, "{failure:?}");
    }
}

/// Wherever a pass of a model or of its partner fails, a text is right or its request fails, and
/// all pages come back.
#[test]
fn partners_that_fail() {
    let request = Request::from_tokens(vec![5; 20]).sampling(Sampling::greedy()).max_tokens(40);
    let request = request.ignore_eos(true);
    let plain = load(&Fake::default(), "glm4-moe", &always().speculation(Speculation::Off));
    let expected = ids(&plain, request.clone());
    for failure in [Failure::Submit, Failure::Take, Failure::SubmitPanic, Failure::TakePanic] {
        let (mut right, mut failed) = (0, 0);
        for n in 0..14 {
            let fake = Fake::pipelined(3, 4).with_partners();
            let model = load(&fake, "glm4-moe", &always());
            fake.fail_after(n, failure);
            match submit(&model, request.clone()).unwrap().end() {
                (tokens, End::Finished(..)) => {
                    let tokens: Vec<u32> = tokens.iter().map(|token| token.id).collect();
                    assert_eq!(tokens, expected, "{failure:?} of pass {n}");
                    right += 1;
                }
                (_, End::Failed(error)) => {
                    assert!(error.to_string().contains("of the test"), "{error}");
                    failed += 1;
                }
            }
            assert_eq!(ids(&model, request.clone().cache_salt(1)), expected, "{failure:?} {n}");
            assert_all_pages_back(&model);
            assert_sound(&fake);
        }
        assert!(right > 3 && failed > 3, "{failure:?}: {right} right, {failed} failed");
    }
}
