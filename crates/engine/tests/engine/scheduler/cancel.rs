//! Cancelling in every state.

use std::{ops::ControlFlow, thread, time::Duration};

use pelton::FinishReason;
use pelton_testing::{Random, fake::Fake};

use super::harness::{
    End, assert_all_pages_back, assert_sound, greedy, model, plain, prompt, submit,
};
use crate::request::Run;

/// A fake on which a page of rows takes milliseconds.
fn slow(depth: usize) -> Fake {
    Fake::pipelined(depth, 1).slow(Duration::from_micros(30))
}

fn cancelled(end: &End) -> bool {
    matches!(end, End::Finished(FinishReason::Cancelled, _))
}

#[test]
fn a_queued_request_runs_nothing() {
    let fake = slow(1);
    let model = model(&fake, &plain().context(512));
    let first = submit(&model, greedy(prompt(10, 1), 300)).unwrap();
    first.token();
    let second = submit(&model, greedy(prompt(100, 2), 10)).unwrap();
    second.handle.cancel();
    let (tokens, end) = second.end();
    assert!(tokens.is_empty() && cancelled(&end), "{end:?}");
    assert_eq!(first.end().0.len(), 299);
    // the first one's prompt, and nothing of the second's
    assert_eq!(fake.log().passes[0].rows.len(), 10);
    assert!(fake.log().passes[1..].iter().all(|pass| pass.rows.len() == 1));
    assert_all_pages_back(&model);
}

#[test]
fn a_prompt_is_left_at_the_next_pass() {
    for depth in 1..=3 {
        let fake = slow(depth);
        let model = model(&fake, &plain().context(20_000).rows(64));
        let run = submit(&model, greedy(prompt(16_000, 1), 10)).unwrap();
        while fake.log().passes.len() < 5 {
            thread::sleep(Duration::from_micros(100));
        }
        run.handle.cancel();
        let before = fake.log().passes.len();
        assert!(cancelled(&run.end().1));
        assert_all_pages_back(&model);
        // one may have been on its way when the flag was set
        let after = fake.log().passes.len();
        assert!(after <= before + 2, "{before} to {after}");
        assert_sound(&fake);
    }
}

#[test]
fn decoding_is_left_at_the_next_pass() {
    let fake = slow(2);
    let model = model(&fake, &plain().context(10_000));
    let run = submit(&model, greedy(prompt(10, 1), 9000)).unwrap();
    for _ in 0..5 {
        run.token();
    }
    run.handle.cancel();
    let before = fake.log().passes.len();
    assert!(cancelled(&run.end().1));
    assert_all_pages_back(&model);
    assert!(fake.log().passes.len() <= before + 2);
}

#[test]
fn a_dropped_stream_cancels_without_a_token_to_send() {
    let fake = slow(1);
    let model = model(&fake, &plain().context(20_000).rows(64));
    let stream = model.run(greedy(prompt(16_000, 1), 10)).unwrap();
    while fake.log().passes.len() < 3 {
        thread::sleep(Duration::from_micros(100));
    }
    drop(stream);
    assert_all_pages_back(&model);
    assert!(fake.log().passes.len() < 20);
}

#[test]
fn a_callback_that_stops_is_called_no_more() {
    for panics in [false, true] {
        let fake = Fake::pipelined(2, 4);
        let model = model(&fake, &plain().context(512));
        let (sender, receiver) = std::sync::mpsc::channel();
        let mut events = 0;
        let handle = model
            .submit_request(greedy(prompt(10, 1), 300), move |_| {
                events += 1;
                sender.send(events).unwrap();
                match events {
                    3 if panics => panic!("a panic of the test"),
                    3 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            })
            .unwrap();
        assert_eq!(receiver.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
        assert_all_pages_back(&model);
        assert!(handle.is_cancelled());
        assert_eq!(submit(&model, greedy(prompt(10, 1), 30)).unwrap().finished().0.len(), 30);
    }
}

#[test]
fn a_thousand_requests_cancelled_at_random_phases() {
    let mut random = Random::new(5);
    let fake = Fake::pipelined(2, 4);
    let options = plain().context(512).max_concurrent(4).rows(64);
    let model = model(&fake, &options);
    let mut runs = Vec::new();
    for i in 0..1000 {
        let request = greedy(prompt(1 + random.below(400), i % 7), 1 + random.below(100));
        runs.push(submit(&model, request).unwrap());
        let victim: &super::harness::Running = &runs[random.below(runs.len())];
        victim.handle.cancel();
        if random.below(20) == 0 {
            thread::sleep(Duration::from_micros(random.below(3000) as u64));
        }
        if runs.len() >= 100 {
            for run in runs.drain(..50) {
                run.handle.cancel();
                run.end();
            }
        }
    }
    for run in runs {
        run.handle.cancel();
        run.end();
    }
    assert_all_pages_back(&model);
    assert_eq!(model.status().ended, 1000);
    assert_sound(&fake);
}

#[test]
fn an_unloaded_model_ends_its_requests() {
    let fake = slow(1);
    let model = model(&fake, &plain().context(10_000));
    let run = submit(&model, greedy(prompt(10, 1), 9000)).unwrap();
    let waiting = submit(&model, greedy(prompt(10, 2), 9000)).unwrap();
    run.token();
    drop(model);
    assert!(cancelled(&run.end().1) && cancelled(&waiting.end().1));
}
