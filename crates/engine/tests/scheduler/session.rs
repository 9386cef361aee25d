//! Passes by hand.

use std::time::Duration;

use pelton::{Error, LoadOptions, graph::Phase};
use pelton_testing::fake::Fake;

use crate::harness::{
    assert_all_pages_back, assert_sound, greedy, ids, load, model, prompt, submit,
};

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
            let (got, logits) = model
                .session(600, |session| {
                    let first = top(session.run(&prompt(300, 1))?);
                    let mut tokens = vec![first];
                    tokens.extend(session.decode(first, 199)?);
                    session.truncate(300);
                    let mut next = first;
                    let mut logits = Vec::new();
                    for _ in 0..10 {
                        session.run_all(&[next], |row| logits.push(top(row)))?;
                        next = logits[logits.len() - 1];
                    }
                    Ok((tokens, logits))
                })
                .unwrap();
            assert_eq!(got, expected);
            assert_eq!(logits, expected[1..11]);
            assert_all_pages_back(&model);
            assert_sound(&fake);
        }
    }
}

#[test]
fn chunks_end_at_pages() {
    let fake = Fake::default();
    let model = model(&fake, &LoadOptions::default().context(1000).rows(128));
    let rows = model
        .session(500, |session| {
            session.run(&prompt(17, 1))?;
            session.run(&prompt(300, 2))?;
            let mut rows = 0;
            session.run_all(&prompt(100, 3), |_| rows += 1)?;
            session.run(&[3])?;
            Ok(rows)
        })
        .unwrap();
    assert_eq!(rows, 100);
    let log = fake.log();
    let chunks: Vec<(Phase, usize)> =
        log.passes.iter().map(|pass| (pass.phase, pass.rows.len())).collect();
    let prompts = [17, 111, 128, 61, 3, 64, 33].map(|rows| (Phase::Prompt, rows));
    assert_eq!(chunks, [&prompts[..], &[(Phase::Decode, 1)]].concat());
}

#[test]
fn positions_are_checked_without_overflow() {
    let model = model(&Fake::default(), &LoadOptions::default().context(100));
    for (positions, n) in [(10, usize::MAX), (10, 10), (100, usize::MAX - 1)] {
        let outcome = model.session(positions, move |session| {
            session.run(&[1])?;
            session.decode(2, n)
        });
        let Err(Error::CacheFull { available, .. }) = outcome else { panic!("{outcome:?}") };
        assert_eq!(available, positions);
    }
    for positions in [0, 101, usize::MAX] {
        assert!(matches!(model.session(positions, |_| Ok(())), Err(Error::CacheFull { .. })));
    }
    let unknown = model.session(10, |session| session.run(&[50]).map(drop));
    assert!(matches!(unknown, Err(Error::UnknownToken { token: 50, vocab: 50 })));
    let unknown = model.session(10, |session| session.decode(50, 2));
    assert!(matches!(unknown, Err(Error::UnknownToken { .. })));
}

#[test]
fn a_job_that_panics_is_an_error_and_the_model_goes_on() {
    let model = model(&Fake::default(), &LoadOptions::default().context(100));
    let outcome: Result<(), Error> = model.session(10, |session| {
        session.run(&[1, 2, 3])?;
        panic!("a panic of the test")
    });
    assert!(matches!(outcome, Err(Error::Panic(what)) if what == "a panic of the test"));
    assert_all_pages_back(&model);
    assert_eq!(ids(&model, greedy(prompt(10, 1), 5)).len(), 5);
}

/// It would wait for the thread that it runs on.
#[test]
fn a_job_cannot_wait_for_the_model() {
    let model = model(&Fake::default(), &LoadOptions::default().context(100));
    let inside = model.clone();
    let outside = model.generate(greedy(prompt(10, 2), 50)).unwrap();
    model
        .session(10, move |_| {
            let request = greedy(prompt(10, 1), 5);
            assert!(matches!(inside.generate(request.clone()), Err(Error::OwnThread)));
            assert!(matches!(inside.session(1, |_| Ok(())), Err(Error::OwnThread)));
            // a stream from elsewhere, too
            let mut outside = outside;
            assert!(matches!(outside.next(), Some(Err(Error::OwnThread))));
            assert!(outside.next().is_none());
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_job_runs_between_the_requests_before_and_after_it() {
    let fake = Fake::pipelined(2, 4).slow(Duration::from_micros(50));
    let model = model(&fake, &LoadOptions::default().context(1000).sequences(2));
    let first = submit(&model, greedy(prompt(10, 1), 300)).unwrap();
    let inside = model.clone();
    let status = model
        .session(10, move |session| {
            session.run(&[1, 2])?;
            Ok(inside.status())
        })
        .unwrap();
    assert_eq!(status.running, 0);
    assert_eq!(first.finished().0.len(), 300);
    assert_all_pages_back(&model);
}
