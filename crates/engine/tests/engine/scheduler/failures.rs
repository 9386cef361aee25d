//! Passes that fail.

use std::time::Duration;

use pelton::Error;
use pelton_testing::fake::{Failure, Fake};

use super::harness::{
    End, alone, assert_all_pages_back, assert_sound, greedy, ids, model, plain, prompt, submit,
};

const ALL: [Failure; 4] =
    [Failure::Submit, Failure::SubmitPanic, Failure::Take, Failure::TakePanic];

fn reason(end: &End) -> &str {
    match end {
        End::Failed(Error::Pass(reason)) => reason,
        _ => panic!("{end:?}"),
    }
}

#[test]
fn a_failed_pass_fails_its_requests_and_no_others() {
    for depth in 1..=3 {
        for failure in ALL {
            let fake = Fake::pipelined(depth, 4).slow(Duration::from_micros(50));
            let options = plain().context(1000).max_concurrent(1);
            let model = model(&fake, &options);
            let first = submit(&model, greedy(prompt(10, 1), 500)).unwrap();
            let request = greedy(prompt(80, 2), 20);
            let second = submit(&model, request.clone()).unwrap();
            first.token();
            fake.fail_after(3, failure);
            let (tokens, end) = first.end();
            assert!(tokens.len() < 499);
            let panics = matches!(failure, Failure::SubmitPanic | Failure::TakePanic);
            let expected = if panics { "a panic of the test" } else { "a failure of the test" };
            assert!(reason(&end).contains(expected), "{end:?}");
            let expected = alone(&fake, &[None], &request);
            let expected: Vec<u32> = expected.iter().map(|token| token.id).collect();
            assert_eq!(second.finished().0, expected);
            assert_all_pages_back(&model);
            assert_eq!(model.status().failed_passes, 1);
            assert_sound(&fake);
        }
    }
}

/// Pages that a failed pass has written are not cached.
#[test]
fn a_failed_prompt_can_be_sent_again() {
    for failure in ALL {
        let fake = Fake::pipelined(2, 1);
        let model = model(&fake, &plain().context(1000).rows(64));
        let request = greedy(prompt(500, 1), 20);
        fake.fail_after(4, failure);
        reason(&submit(&model, request.clone()).unwrap().end().1);
        let expected = alone(&fake, &[None], &request);
        let expected: Vec<u32> = expected.iter().map(|token| token.id).collect();
        assert_eq!(ids(&model, request), expected);
        assert_sound(&fake);
    }
}

#[test]
fn after_three_failures_in_a_row_the_model_is_gone() {
    let fake = Fake::default();
    let model = model(&fake, &plain().context(1000));
    // failures with a success between them do not add up
    for _ in 0..5 {
        fake.fail_after(0, Failure::Take);
        reason(&submit(&model, greedy(prompt(10, 1), 2)).unwrap().end().1);
        ids(&model, greedy(prompt(10, 1), 2));
    }
    for i in 0..3 {
        fake.fail_after(i, Failure::TakePanic);
    }
    let run = |i| submit(&model, greedy(prompt(10, i), 200));
    let runs: Vec<_> = (0..5).map(run).collect();
    let mut gone = 0;
    for run in runs {
        // a later one may be refused already
        let error = match run.map(|run| run.end().1) {
            Ok(End::Failed(error)) | Err(error) => error,
            Ok(end) => panic!("{end:?}"),
        };
        gone += usize::from(matches!(&error, Error::Gone(reason) if reason.contains("panic")));
    }
    assert_eq!(gone, 2);
    loop {
        match submit(&model, greedy(prompt(10, 1), 2)) {
            Err(Error::Gone(reason)) => break assert!(reason.contains("a panic of the test")),
            Err(error) => panic!("{error}"),
            Ok(run) => assert!(matches!(run.end().1, End::Failed(Error::Gone(_)))),
        }
    }
    assert_all_pages_back(&model);
    assert!(matches!(model.into_session(), Err(Error::Gone(_))));
}

#[test]
fn logits_that_are_not_numbers() {
    for fake in [Fake::default(), Fake::pipelined(2, 8)] {
        let fake = fake.broken_from(30);
        let model = model(&fake, &plain().context(1000));
        let (tokens, end) = submit(&model, greedy(prompt(10, 1), 100)).unwrap().end();
        assert_eq!(tokens.len(), 21);
        let expected = alone(&Fake::default(), &[None], &greedy(prompt(10, 1), 21));
        assert_eq!(tokens, expected);
        assert!(matches!(end, End::Failed(Error::NotANumber { index: 21 })), "{end:?}");
        assert_all_pages_back(&model);
    }
}
