//! Cached prefixes.

use std::time::Duration;

use pelton::{Engine, LoadOptions, graph::Phase};
use pelton_testing::fake::{self, Fake, PassRecord};

use super::harness::{VOCAB, alone, assert_sound, greedy, ids, load, model, prompt, submit};
use crate::request::Run;

fn prompt_rows(passes: &[PassRecord]) -> usize {
    let prompts = passes.iter().filter(|pass| pass.phase == Phase::Prompt);
    prompts.map(|pass| pass.rows.len()).sum()
}

#[test]
fn common_prompts_run_once() {
    for windows in [&[None][..], &[None, Some(100)], &[Some(64)]] {
        let fake = Fake::default().with_phases();
        let model = load(&fake, &LoadOptions::default().context(8000), windows);
        let common = prompt(4000, 1);
        let first = greedy([common.clone(), prompt(50, 2)].concat(), 5);
        let second = greedy([common, prompt(50, 3)].concat(), 5);
        let (tokens, stats) = submit(&model, first).unwrap().finished();
        assert_eq!((tokens.len(), stats.cached_tokens), (5, 0));
        let expected = alone(&fake, windows, &second);
        let before = fake.log().passes.len();
        let (tokens, stats) = submit(&model, second).unwrap().finished();
        assert_eq!(tokens, expected.iter().map(|token| token.id).collect::<Vec<_>>());
        // less than a tenth: 3968 of 4050 are cached
        assert_eq!(stats.cached_tokens, 4000 / 64 * 64, "{windows:?}");
        assert_eq!(prompt_rows(&fake.log().passes[before..]), 4050 - 3968);
        let status = model.status();
        assert_eq!((status.prefix_hit_tokens, status.prefix_lookup_tokens), (3968, 8100));
        assert_sound(&fake);
    }
}

#[test]
fn the_leader_goes_first() {
    let fake = Fake::default().slow(Duration::from_micros(5));
    let model = model(&fake, &LoadOptions::default().context(4000).max_concurrent(8).rows(128));
    let common = prompt(1000, 1);
    let request = |i| greedy([common.clone(), prompt(30, 50 + i)].concat(), 10);
    let other = greedy(prompt(300, 4), 3);
    let runs: Vec<_> = (0..5).map(|i| submit(&model, request(i)).unwrap()).collect();
    let stranger = submit(&model, other).unwrap();
    let mut cached = Vec::new();
    for (i, run) in runs.iter().enumerate() {
        let (tokens, stats) = run.finished();
        let expected = alone(&fake, &[None], &request(i));
        assert_eq!(tokens, expected.iter().map(|token| token.id).collect::<Vec<_>>());
        cached.push(stats.cached_tokens);
    }
    stranger.finished();
    assert_eq!(cached, [0, 960, 960, 960, 960]);
    // one common prefix, five ends, and the stranger, who did not wait
    assert_eq!(prompt_rows(&fake.log().passes), 960 + 5 * 70 + 300);
    assert_sound(&fake);
}

#[test]
fn another_salt_shares_nothing() {
    let fake = Fake::default();
    let model = model(&fake, &LoadOptions::default().context(4000));
    let request = |salt| greedy(prompt(500, 1), 4).cache_salt(salt);
    let first = ids(&model, request(0));
    for (salt, cached) in [(0, 448), (1, 0), (1, 448), (0, 448)] {
        let (tokens, stats) = submit(&model, request(salt)).unwrap().finished();
        assert_eq!((&tokens, stats.cached_tokens), (&first, cached));
    }
}

#[test]
fn an_answer_is_a_prefix_where_phases_agree() {
    for (fake, cached) in [(Fake::default(), 256), (Fake::default().with_phases(), 64)] {
        let model = model(&fake, &LoadOptions::default().context(4000));
        let question = prompt(100, 1);
        let answer = ids(&model, greedy(question.clone(), 190));
        let next = greedy([question, answer, prompt(20, 2)].concat(), 20);
        let (tokens, stats) = submit(&model, next.clone()).unwrap().finished();
        assert_eq!(stats.cached_tokens, cached);
        let expected = alone(&fake, &[None], &next);
        assert_eq!(tokens, expected.iter().map(|token| token.id).collect::<Vec<_>>());
        assert_sound(&fake);
    }
}

/// Requests share prefixes with those of the same adapters, and a slot has the adapters of the
/// request that runs in it.
#[test]
fn other_adapters_share_nothing() {
    let load = |fake: &Fake, sequences| {
        let (plan, checkpoint) = fake::adapters_plan(VOCAB, 4000, &[None], 3);
        let options = LoadOptions::default().context(4000).max_concurrent(sequences);
        let options = options.lora("a", 1.0).lora("b", 0.0).lora("c", 0.0);
        Engine::with_backend(fake.clone()).load_plan(plan, checkpoint, &options).unwrap()
    };
    let fake = Fake::pipelined(2, 4);
    let model = load(&fake, 3);
    let plain = || greedy(prompt(300, 1), 30);
    let requests = [
        plain(),
        plain().without_loras(),
        plain().lora("b", 1.0),
        plain().lora("b", 0.5),
        plain().lora("c", 1.0).lora("b", 1.0),
        plain().lora("b", 1.0).lora("c", 1.0),
        plain().lora("a", 1.0),
    ];
    let runs: Vec<_> = requests.iter().map(|r| submit(&model, r.clone()).unwrap()).collect();
    let texts: Vec<_> = runs.iter().map(|run| run.finished()).collect();
    let cached: Vec<_> = texts.iter().map(|(_, stats)| stats.cached_tokens).collect();
    // the order of names does not matter, and the first request has the adapter of the load
    assert_eq!(cached, [0, 0, 0, 0, 0, 256, 256]);
    for (request, (text, _)) in requests.iter().zip(&texts) {
        let alone = Fake::default();
        assert_eq!(*text, ids(&load(&alone, 1), request.clone()));
    }
    let mut different: Vec<_> = texts.iter().map(|(text, _)| text).collect();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), 5);
    let error = model.run(plain().lora("a", 1.0).lora("b", 1.0).lora("c", 1.0)).unwrap_err();
    assert!(error.to_string().contains("at most 2"), "{error}");
    assert_sound(&fake);
}

/// The prompt of a request whose answer alone has an effort below 1 is shared with all others, its
/// answer with none. One whose prompt has it too shares both with those of the same effort.
#[test]
fn other_efforts_share_full_prompts_alone() {
    for fake in [Fake::default(), Fake::pipelined(3, 8), Fake::pipelined(2, 4).with_phases()] {
        let model = model(&fake, &LoadOptions::default().context(4000));
        let agree = fake.pipeline.phases_agree;
        let question = prompt(300, 1);
        let request = || greedy(question.clone(), 200);
        let half = || request().effort(0.5);
        let mut answers = Vec::new();
        for (request, cached) in [
            (request(), 0),
            (half(), 256),
            (half().effort(0.25), 256),
            (half().effort_in_prompt(true), 0),
            (half().effort_in_prompt(true), 256),
            (half().effort(0.25).effort_in_prompt(true), 0),
            (request().effort(1.0).effort_in_prompt(true), 256),
        ] {
            let (tokens, stats) = submit(&model, request.clone()).unwrap().finished();
            let expected = alone(&fake, &[None], &request);
            assert_eq!(tokens, expected.iter().map(|token| token.id).collect::<Vec<_>>());
            assert_eq!(stats.cached_tokens, cached, "{request:?}");
            answers.push(tokens);
        }
        let mut different = answers.clone();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), 5, "every effort is seen");
        // the next question after each answer: only answers of the prompt's effort are prefixes
        for (answer, effort, in_prompt, cached) in [
            (0, 1.0, false, if agree { 448 } else { 256 }),
            (1, 0.5, false, 256),
            (3, 0.5, true, if agree { 448 } else { 256 }),
            (3, 0.25, true, 256),
        ] {
            let next = [&question[..], &answers[answer][..], &prompt(20, 2)[..]].concat();
            let next = greedy(next, 20).effort(effort).effort_in_prompt(in_prompt);
            let (tokens, stats) = submit(&model, next.clone()).unwrap().finished();
            let expected = alone(&fake, &[None], &next);
            assert_eq!(tokens, expected.iter().map(|token| token.id).collect::<Vec<_>>());
            assert_eq!(stats.cached_tokens, cached, "answer {answer} at {effort}");
        }
        assert_sound(&fake);
    }
}

#[test]
fn efforts_out_of_range() {
    let fake = Fake::default();
    let model = model(&fake, &LoadOptions::default().context(400));
    for effort in [0.0, -1.0, 1.5, f64::NAN, f64::INFINITY] {
        let error = model.run(greedy(prompt(10, 1), 2).effort(effort)).unwrap_err();
        assert!(error.to_string().contains("above 0 and at most 1"), "{error}");
    }
    ids(&model, greedy(prompt(10, 1), 2).effort(1e-9));
}
