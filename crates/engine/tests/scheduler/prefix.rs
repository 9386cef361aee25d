//! Cached prefixes.

use std::time::Duration;

use pelton::{LoadOptions, graph::Phase};
use pelton_testing::fake::{Fake, PassRecord};

use crate::harness::{alone, assert_sound, greedy, ids, load, model, prompt, submit};

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
    let model = model(&fake, &LoadOptions::default().context(4000).sequences(8).rows(128));
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
