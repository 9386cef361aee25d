//! Passes in flight, and passes that run several times over.

use std::time::Duration;

use pelton::{
    Sampling,
    graph::{Input, Phase},
};
use pelton_testing::fake::{Fake, PassRecord};

use super::harness::{alone, assert_sound, greedy, ids, model, plain, prompt, submit};

fn repeats(passes: &[PassRecord]) -> Vec<u32> {
    passes.iter().filter(|pass| pass.phase == Phase::Decode).map(|pass| pass.repeat).collect()
}

#[test]
fn repeats_grow_and_no_pass_is_too_many() {
    for (tokens, expected) in [
        (1, vec![]),
        (2, vec![1]),
        (3, vec![1, 1]),
        (8, vec![1, 2, 4]),
        (100, vec![1, 2, 4, 8, 16, 32, 32, 4]),
    ] {
        let fake = Fake::pipelined(1, 32);
        let model = model(&fake, &plain().context(1000));
        let request = greedy(prompt(10, 1), tokens);
        let got = ids(&model, request.clone());
        let alone = alone(&fake, &[None], &request);
        assert_eq!(got, alone.iter().map(|token| token.id).collect::<Vec<_>>());
        assert_eq!(repeats(&fake.log().passes), expected);
        assert_sound(&fake);
    }
}

#[test]
fn a_pass_is_submitted_before_the_one_before_is_taken() {
    for depth in 1..=3 {
        for repeat in [1, 8, 32] {
            let fake = Fake::pipelined(depth, repeat);
            let model = model(&fake, &plain().context(1000).max_concurrent(3));
            let requests = [1, 2, 3].map(|i| greedy(prompt(10 * i, i), 40 * i));
            let runs = requests.each_ref().map(|r| submit(&model, r.clone()).unwrap());
            for (run, request) in runs.iter().zip(&requests) {
                let expected = alone(&fake, &[None], request);
                let expected: Vec<u32> = expected.iter().map(|token| token.id).collect();
                assert_eq!(run.finished().0, expected);
            }
            let log = fake.log();
            assert_eq!(log.deepest, depth);
            let decodes = log.passes.iter().filter(|pass| pass.phase == Phase::Decode);
            let sampled = |pass: &&PassRecord| pass.rows.iter().any(|r| r.input == Input::Sampled);
            let ahead = decodes.filter(sampled).count();
            assert_eq!(ahead > 0, depth > 1);
            drop(log);
            assert_sound(&fake);
        }
    }
}

/// Newcomers wait for at most 10 ms of passes, or for two that are longer.
#[test]
fn newcomers_wait_for_few_passes() {
    for (milliseconds, repeat, in_flight) in [(2, 2, 3), (20, 1, 2)] {
        let fake = Fake::pipelined(3, 32).slow(Duration::from_millis(milliseconds));
        let model = model(&fake, &plain().context(1000));
        ids(&model, greedy(prompt(1, 1), 20));
        let log = fake.log();
        // before a pass is measured, the pipeline is filled
        let measured = log.passes.iter().skip(4);
        assert!(measured.clone().count() > 4);
        for pass in measured {
            assert!(pass.repeat <= repeat && pass.in_flight <= in_flight, "{pass:?}");
        }
    }
}

#[test]
fn a_newcomer_ends_the_repeats() {
    let fake = Fake::pipelined(1, 32).slow(Duration::from_micros(100));
    let model = model(&fake, &plain().context(1000).max_concurrent(2));
    let first = submit(&model, greedy(prompt(10, 1), 600)).unwrap();
    for _ in 0..40 {
        first.token();
    }
    ids(&model, greedy(prompt(12, 2), 30));
    first.end();
    let log = fake.log();
    let prompts: Vec<usize> =
        (0..log.passes.len()).filter(|&i| log.passes[i].phase == Phase::Prompt).collect();
    assert_eq!(prompts.len(), 2);
    // both decode, and repeats begin again
    let after = &log.passes[prompts[1] + 1];
    assert_eq!((after.rows.len(), after.repeat), (2, 1));
    assert!(log.passes[..prompts[1]].iter().any(|pass| pass.repeat > 4));
}

/// A request that there is no slot for does not slow down the one that runs.
#[test]
fn a_request_that_waits_does_not_end_the_repeats() {
    let fake = Fake::pipelined(1, 32);
    let model = model(&fake, &plain().context(1000));
    let first = submit(&model, greedy(prompt(10, 1), 300)).unwrap();
    let second = submit(&model, greedy(prompt(10, 2), 5)).unwrap();
    first.finished();
    second.finished();
    let of_first = repeats(&fake.log().passes);
    assert_eq!(of_first[..8], [1, 2, 4, 8, 16, 32, 32, 32]);
}

/// Penalties depend on tokens that the host does not know yet.
#[test]
fn penalties_in_flight() {
    for window in [1, 5, 64, 4096] {
        let fake = Fake::pipelined(3, 32);
        let model = model(&fake, &plain().context(1000));
        let sampling = Sampling::greedy()
            .frequency_penalty(1.5)
            .repetition_penalty(1.3)
            .presence_penalty(-0.5)
            .penalty_window(window);
        let request = greedy(prompt(20, 1), 300).sampling(sampling);
        let expected = alone(&fake, &[None], &request);
        let expected: Vec<u32> = expected.iter().map(|token| token.id).collect();
        assert_eq!(ids(&model, request), expected, "{window}");
        assert_sound(&fake);
    }
}
