//! Log-probabilities of prompts.

use std::time::Duration;

use pelton::{Error, FinishReason, LoadOptions, PromptToken};
use pelton_testing::fake::Fake;

use super::harness::{
    End, alone_on, assert_all_pages_back, assert_sound, greedy, load, model, plain, prompt, submit,
};
use crate::request::{Request, Run};

/// A request for the log-probabilities of a prompt alone.
fn scored(prompt: Vec<u32>, top: usize) -> Request {
    Request::from_tokens(prompt).prompt_logprobs(top).max_tokens(0)
}

/// The log-probabilities of a token after each row of logits, and the likeliest one, in f64.
fn by_hand(tokens: &[u32], logits: &[Vec<f32>]) -> Vec<(f64, u32)> {
    let rows = tokens[1..].iter().zip(logits);
    rows.map(|(&id, row)| {
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = row.iter().map(|&logit| f64::from(logit - most).exp()).sum();
        let likeliest = row.iter().position(|&logit| logit == most).unwrap();
        (f64::from(row[id as usize] - most) - sum.ln(), likeliest as u32)
    })
    .collect()
}

#[test]
fn the_softmax_of_the_rows_before() {
    for windows in [&[None][..], &[None, Some(100)]] {
        for fake in [Fake::default(), Fake::pipelined(3, 16).with_phases()] {
            let options = LoadOptions::default().context(1000).rows(128);
            let model = load(&fake, &options, windows);
            let tokens = prompt(300, 1);
            let found = model.logprobs_of(scored(tokens.clone(), 2)).unwrap();
            assert_all_pages_back(&model);
            let mut session = model.into_session().unwrap();
            let mut logits = Vec::new();
            session.run_all(&tokens, |row| logits.push(row.to_vec())).unwrap();
            assert_eq!(found.iter().map(|token| token.id).collect::<Vec<_>>(), tokens);
            assert_eq!((found[0].logprob, &found[0].top), (None, &vec![]));
            for (token, (log_prob, likeliest)) in found[1..].iter().zip(by_hand(&tokens, &logits)) {
                let difference = f64::from(token.logprob.unwrap()) - log_prob;
                assert!(difference.abs() < 1e-5, "{difference}");
                assert_eq!((token.top.len(), token.top[0].id), (2, likeliest));
            }
            assert_sound(&fake);
        }
    }
}

/// One request scores its prompt and generates the text that it has without.
#[test]
fn with_a_text_after_the_prompt() {
    let fake = Fake::pipelined(2, 8);
    let model = model(&fake, &plain().context(1000).max_concurrent(2));
    let text = submit(&model, greedy(prompt(200, 1), 20)).unwrap().finished().0;
    let mut stream = model.run(greedy(prompt(200, 1), 20).prompt_logprobs(1)).unwrap();
    let first = stream.next().unwrap().unwrap();
    assert_eq!(stream.prompt().len(), 200);
    let rest: Vec<u32> = (&mut stream).map(|token| token.unwrap().id).collect();
    assert_eq!([&[first.id][..], &rest].concat(), text);
    assert_eq!(stream.stats().cached_tokens, 0, "all rows of the prompt are run");
    assert_eq!(stream.prompt(), model.logprobs_of(scored(prompt(200, 1), 1)).unwrap());
    // later requests share the pages
    let (_, stats) = submit(&model, greedy(prompt(200, 1), 5)).unwrap().finished();
    assert_eq!(stats.cached_tokens, 192);
    assert_all_pages_back(&model);
    assert_sound(&fake);
}

#[test]
fn short_prompts_and_a_full_context() {
    let fake = Fake::default();
    let model = model(&fake, &LoadOptions::default().context(100));
    let one = model.logprobs_of(scored(vec![7], 3)).unwrap();
    assert_eq!((one.len(), one[0].id, one[0].logprob), (1, 7, None));
    let mut stream = model.run(greedy(vec![7], 2).prompt_logprobs(0)).unwrap();
    assert_eq!(stream.by_ref().count(), 2);
    assert_eq!(stream.prompt().len(), 1);
    assert_eq!(model.logprobs_of(scored(prompt(100, 1), 0)).unwrap().len(), 100);
    let refused = |request| model.logprobs_of(request).unwrap_err();
    assert!(matches!(
        refused(scored(prompt(101, 1), 0)),
        Error::PromptTooLong { tokens: 101, context: 100 }
    ));
    assert!(matches!(refused(scored(vec![], 0)), Error::EmptyPrompt));
    assert!(matches!(refused(scored(vec![50], 0)), Error::UnknownToken { token: 50, vocab: 50 }));
    let error = refused(scored(prompt(10, 1), 21)).to_string();
    assert_eq!(error, "prompt_logprobs is 21, expected at most 20");
    // nothing is asked for: nothing is run
    let before = fake.log().passes.len();
    let mut none = model.run(greedy(prompt(50, 3), 0)).unwrap();
    assert!(none.next().is_none() && none.prompt().is_empty());
    assert_eq!(none.finish_reason(), Some(FinishReason::Length));
    assert_eq!(fake.log().passes.len(), before);
}

/// Texts decode, and a short request is answered, while long prompts are scored.
#[test]
fn others_run_meanwhile() {
    let fake = Fake::pipelined(2, 4).slow(Duration::from_millis(1));
    let options =
        plain().context(10_000).max_concurrent(6).prefill_budget(Duration::from_micros(1));
    let model = model(&fake, &options);
    let texts: Vec<_> =
        (0..3).map(|i| submit(&model, greedy(prompt(20, i), 9000)).unwrap()).collect();
    texts.iter().for_each(|text| drop(text.token()));
    let scores: Vec<_> =
        (0..2).map(|i| submit(&model, scored(prompt(9000, 10 + i), 0)).unwrap()).collect();
    // one pass of each long prompt at least
    while fake.log().passes.iter().filter(|pass| pass.rows.len() == 64).count() < 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let one = submit(&model, greedy(prompt(10, 5), 1)).unwrap();
    assert_eq!(one.finished().0.len(), 1);
    let status = model.status();
    assert!(status.running >= 5, "three texts and two prompts go on: {status:?}");
    for run in texts.iter().chain(&scores) {
        run.handle.cancel();
        assert!(matches!(run.end().1, End::Finished(FinishReason::Cancelled, _)));
    }
    assert_all_pages_back(&model);
    assert_sound(&fake);
}

#[test]
fn deadlines_and_abandoned_requests_free_everything() {
    let fake = Fake::default().slow(Duration::from_millis(2));
    let model = model(&fake, &plain().context(10_000).rows(64));
    let late = scored(prompt(9000, 1), 0).deadline(Duration::from_millis(20));
    assert!(matches!(model.logprobs_of(late), Err(Error::Deadline(_))));
    let stream = model.run(scored(prompt(9000, 2), 0)).unwrap();
    while model.status().running == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(stream);
    assert_all_pages_back(&model);
    assert!(fake.log().passes.len() < 100, "neither ran to its end");
}

/// Rows of another effort have other logits. A request that generates nothing has its effort in the
/// prompt.
#[test]
fn at_the_effort_of_the_request() {
    let fake = Fake::default();
    let of = |request: Request| -> Vec<PromptToken> { alone_on(load, &fake, &[None], &request).0 };
    let full = of(scored(prompt(150, 1), 1));
    let half = of(scored(prompt(150, 1), 1).effort(0.5));
    assert_ne!(full, half);
    let text = |request: Request| request.effort(0.5).max_tokens(3);
    assert_eq!(of(text(scored(prompt(150, 1), 1))), full, "the text alone has the effort");
    assert_eq!(of(text(scored(prompt(150, 1), 1).effort_in_prompt(true))), half);
}

#[test]
fn logits_that_are_no_numbers() {
    let fake = Fake::default().broken_from(70);
    let model = model(&fake, &LoadOptions::default().context(200));
    assert!(model.logprobs_of(scored(prompt(70, 1), 0)).is_ok());
    let outcome = model.logprobs_of(scored(prompt(100, 1), 0));
    assert!(matches!(outcome, Err(Error::PromptNotANumber { index: 71 })), "{outcome:?}");
    assert_all_pages_back(&model);
}
