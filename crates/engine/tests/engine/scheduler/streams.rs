//! Weights that are streamed for long prompts: short ones run as rows of decoding passes.

use pelton::{LoadOptions, graph::Phase};
use pelton_testing::fake::Fake;

use super::harness::{alone, assert_sound, greedy, load, model, prompt, submit};

/// The rows of passes of each phase since pass `before`: of prompts, and of decoding.
fn rows(fake: &Fake, before: usize) -> [usize; 2] {
    let log = fake.log();
    let rows = |phase| {
        let passes = log.passes[before..].iter().filter(move |pass| pass.phase == phase);
        passes.map(|pass| pass.rows.len()).sum()
    };
    [rows(Phase::Prompt), rows(Phase::Decode)]
}

#[test]
fn the_length_of_a_prompt_decides() {
    let fake = Fake::default().streaming_from(100);
    let model = model(&fake, &LoadOptions::default().context(2000));
    for (tokens, expected) in [(1, [0, 5]), (17, [0, 21]), (99, [0, 103]), (100, [100, 4])] {
        let before = fake.log().passes.len();
        let (text, stats) = submit(&model, greedy(prompt(tokens, 1), 5)).unwrap().finished();
        assert_eq!((text.len(), stats.prefilled_tokens), (5, tokens), "{tokens}");
        assert_eq!(rows(&fake, before), expected, "{tokens}");
    }
    assert_sound(&fake);
}

/// Prefixes of one kind are not those of the other, and among short ones generated
/// tokens are prefixes too.
#[test]
fn prefixes_are_of_one_kind() {
    for windows in [&[None][..], &[None, Some(70)]] {
        let fake = Fake::default().streaming_from(300);
        let model = load(&fake, &LoadOptions::default().context(2000), windows);
        let run = |tokens: &[u32], most| {
            let request = greedy(tokens.to_vec(), most);
            let expected: Vec<u32> =
                alone(&fake, windows, &request).iter().map(|token| token.id).collect();
            let (text, stats) = submit(&model, request).unwrap().finished();
            assert_eq!(text, expected, "{windows:?}: {} tokens", tokens.len());
            (text, stats.cached_tokens)
        };
        let begin = prompt(150, 1);
        let (text, cached) = run(&begin, 60);
        assert_eq!(cached, 0);
        // the turn after it: all but the newest token of 210 has run
        let next = [&begin[..], &text, &prompt(40, 2)].concat();
        assert_eq!(run(&next, 5).1, 192);
        // a long prompt with the same begin computes it again, and its begin is no
        // prefix of a short one
        let long = [&prompt(250, 3)[..], &prompt(100, 4)].concat();
        assert_eq!(run(&long, 5).1, 0);
        assert_eq!(run(&long[..250], 5).1, 0);
        assert_eq!(run(&[&long[..250], &begin].concat(), 5).1, 192);
        let after = [&next[..], &prompt(200, 5)].concat();
        assert_eq!(run(&after, 5).1, 0);
        assert_sound(&fake);
    }
}

/// A short prompt beside others has the text that it has alone.
#[test]
fn short_and_long_prompts_together() {
    let fake = Fake::default().streaming_from(100);
    let model = model(&fake, &LoadOptions::default().context(2000).max_concurrent(6));
    let requests: Vec<_> =
        [30, 400, 99, 100, 3, 70].map(|tokens| greedy(prompt(tokens, tokens), 40)).into();
    let runs: Vec<_> =
        requests.iter().map(|request| submit(&model, request.clone()).unwrap()).collect();
    for (run, request) in runs.iter().zip(&requests) {
        let expected = alone(&fake, &[None], request);
        let expected: Vec<u32> = expected.iter().map(|token| token.id).collect();
        assert_eq!(run.finished().0, expected);
    }
    assert_sound(&fake);
}
