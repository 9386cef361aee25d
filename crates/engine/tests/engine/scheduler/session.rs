//! Passes by hand.

use std::{ops::ControlFlow, time::Duration};

use pelton::{Error, FinishReason, LoadOptions, graph::Phase};
use pelton_testing::fake::{Failure, Fake};

use super::harness::{
    End, assert_all_pages_back, assert_sound, greedy, ids, load, model, prompt, submit,
};
use crate::request::Run;

fn top(logits: &[f32]) -> u32 {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap() as u32
}

#[test]
fn by_hand_as_by_request() {
    for windows in [&[None][..], &[None, Some(100)]] {
        for fake in [Fake::default(), Fake::pipelined(3, 16).with_phases()] {
            let options = LoadOptions::default().context(1000).rows(128);
            let model = load(&fake, &options, windows);
            let expected = ids(&model, greedy(prompt(300, 1), 200));
            assert_all_pages_back(&model);
            let mut session = model.into_session().unwrap();
            let first = top(session.run(&prompt(300, 1)).unwrap());
            let mut tokens = vec![first];
            tokens.extend(session.decode(first, 199).unwrap());
            assert_eq!(tokens, expected);
            session.truncate(300);
            assert_eq!(session.position(), 300);
            let mut next = first;
            for &after in &expected[1..11] {
                session.run_all(&[next], |row| next = top(row)).unwrap();
                assert_eq!(next, after);
            }
            drop(session);
            assert_sound(&fake);
        }
    }
}

/// The pages before a window are freed. A row that needs them cannot follow.
#[test]
fn a_sequence_cut_to_before_its_window_is_empty() {
    let fake = Fake::default();
    let options = LoadOptions::default().context(1000).rows(128);
    let mut session = load(&fake, &options, &[None, Some(100)]).into_session().unwrap();
    let tokens = prompt(600, 1);
    let expected = session.run(&tokens).unwrap().to_vec();
    session.truncate(599);
    assert_eq!(session.position(), 599);
    assert_eq!(top(session.run(&tokens[599..]).unwrap()), top(&expected));
    session.truncate(300);
    assert_eq!(session.position(), 0);
    assert_eq!(session.run(&tokens).unwrap(), expected);
    assert_sound(&fake);
}

/// Each text of a session has the logits of the first, whatever ran before.
#[test]
fn texts_one_after_the_other() {
    for windows in [&[None][..], &[None, Some(100)]] {
        let fake = Fake::default();
        let model = load(&fake, &LoadOptions::default().context(1000).rows(128), windows);
        let mut session = model.into_session().unwrap();
        let mut texts = Vec::new();
        for _ in 0..5 {
            let mut logits = session.run(&prompt(700, 1)).unwrap().to_vec();
            session.run_all(&prompt(200, 2), |row| logits.extend_from_slice(row)).unwrap();
            texts.push(logits);
            session.truncate(0);
            assert_eq!(session.position(), 0);
        }
        assert!(texts.iter().all(|text| *text == texts[0]));
        assert_sound(&fake);
    }
}

#[test]
fn chunks_end_at_pages() {
    let fake = Fake::default();
    let model = model(&fake, &LoadOptions::default().context(1000).rows(128));
    let mut session = model.into_session().unwrap();
    session.run(&prompt(17, 1)).unwrap();
    session.run(&prompt(300, 2)).unwrap();
    let mut rows = 0;
    session.run_all(&prompt(100, 3), |_| rows += 1).unwrap();
    session.run(&[3]).unwrap();
    assert_eq!(rows, 100);
    let log = fake.log();
    let chunks: Vec<(Phase, usize)> =
        log.passes.iter().map(|pass| (pass.phase, pass.rows.len())).collect();
    let prompts = [17, 111, 128, 61, 3, 64, 33].map(|rows| (Phase::Prompt, rows));
    assert_eq!(chunks, [&prompts[..], &[(Phase::Decode, 1)]].concat());
}

#[test]
fn positions_are_checked_without_overflow() {
    for (positions, n) in [(10, usize::MAX), (10, 10), (100, usize::MAX - 1)] {
        let model = model(&Fake::default(), &LoadOptions::default().context(positions));
        let mut session = model.into_session().unwrap();
        session.run(&[1]).unwrap();
        let outcome = session.decode(2, n);
        let Err(Error::CacheFull { available, .. }) = outcome else { panic!("{outcome:?}") };
        assert_eq!(available, positions);
        let outcome = session.run(&vec![1; positions]);
        assert!(matches!(outcome, Err(Error::CacheFull { .. })));
        let outcome = session.run(&[50]);
        assert!(matches!(outcome, Err(Error::UnknownToken { token: 50, vocab: 50 })));
        assert!(matches!(session.decode(50, 2), Err(Error::UnknownToken { .. })));
        // a refused call has changed nothing
        assert_eq!(session.position(), 1);
    }
}

/// A clone or a stream would be left without a thread.
#[test]
fn a_model_in_use_is_refused() {
    let fake = Fake::default();
    let model = model(&fake, &LoadOptions::default().context(100));
    let clone = model.clone();
    let Err(error) = model.into_session() else { panic!("a clone is held") };
    assert!(matches!(error, Error::InUse { others: 1 }), "{error}");
    assert!(error.to_string().contains("1 other handles or streams"), "{error}");

    let more = clone.clone();
    let mut stream = clone.run(greedy(prompt(10, 1), 20)).unwrap();
    let Err(error) = clone.into_session() else { panic!("a stream is held") };
    assert!(matches!(error, Error::InUse { others: 2 }), "{error}");
    // the stream goes on, and so does the model
    assert_eq!(stream.by_ref().filter(|token| token.is_ok()).count(), 20);
    assert_eq!(ids(&more, greedy(prompt(10, 1), 5)).len(), 5);
    drop(stream);
    let mut session = more.into_session().unwrap();
    session.run(&prompt(10, 1)).unwrap();
    assert_sound(&fake);
}

#[test]
fn requests_that_have_not_finished_are_cancelled() {
    let fake = Fake::pipelined(2, 4).slow(Duration::from_micros(50));
    let model = model(&fake, &LoadOptions::default().context(10_000).max_concurrent(2));
    let runs = [1, 2, 3].map(|i| submit(&model, greedy(prompt(10, i), 9000)).unwrap());
    runs[0].token();
    let mut session = model.into_session().unwrap();
    for run in &runs {
        let (tokens, end) = run.end();
        assert!(matches!(end, End::Finished(FinishReason::Cancelled, _)), "{end:?}");
        assert!(tokens.len() < 9000);
    }
    // none of their pages is held
    session.run(&prompt(9990, 1)).unwrap();
    assert_sound(&fake);
}

/// It would wait for the thread that it runs on.
#[test]
fn a_callback_cannot_wait_for_the_model() {
    let model = model(&Fake::default(), &LoadOptions::default().context(100));
    let (sender, receiver) = std::sync::mpsc::channel();
    let mut inside = Some((model.clone(), model.run(greedy(prompt(10, 2), 50)).unwrap()));
    model
        .submit_request(greedy(prompt(10, 1), 5), move |_| {
            if let Some((inside, mut outside)) = inside.take() {
                let request = greedy(prompt(10, 1), 5);
                assert!(matches!(inside.run(request), Err(Error::OwnThread)));
                // a stream from elsewhere, too
                assert!(matches!(outside.next(), Some(Err(Error::OwnThread))));
                assert!(outside.next().is_none());
                drop(outside);
                assert!(matches!(inside.into_session(), Err(Error::OwnThread)));
                sender.send(()).unwrap();
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    receiver.recv_timeout(Duration::from_secs(60)).unwrap();
}

#[test]
fn passes_that_fail() {
    let fake = Fake::default();
    let model = model(&fake, &LoadOptions::default().context(1000));
    let mut session = model.into_session().unwrap();
    let expected = session.run(&prompt(100, 1)).unwrap().to_vec();
    for failure in [Failure::Submit, Failure::SubmitPanic, Failure::Take, Failure::TakePanic] {
        session.truncate(0);
        fake.fail_after(0, failure);
        let outcome = session.run(&prompt(100, 1));
        assert!(matches!(outcome, Err(Error::Pass(_))), "{outcome:?}");
        session.truncate(0);
        assert_eq!(session.run(&prompt(100, 1)).unwrap(), expected);
    }
    assert_sound(&fake);
}
