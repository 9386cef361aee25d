//! Plans with recurrent states, which are not in pages.

use pelton::{Engine, LoadOptions, Model, Request};
use pelton_testing::fake::{self, Fake};

use crate::harness::{
    CONTEXT, VOCAB, assert_all_pages_back, assert_sound, greedy, memory, prompt, submit,
};

fn load(fake: &Fake, options: &LoadOptions) -> Model {
    let (plan, checkpoint) = fake::recurrent_plan(VOCAB, CONTEXT, &[None]);
    Engine::with_backend(fake.clone()).load_plan(plan, checkpoint, options).unwrap()
}

fn alone(phases: bool, request: &Request) -> Vec<u32> {
    let fake = if phases { Fake::default().with_phases() } else { Fake::default() };
    let model = load(&fake, &LoadOptions::default().context(CONTEXT));
    let (tokens, _) = submit(&model, request.clone()).unwrap().finished();
    assert_sound(&fake);
    tokens
}

/// A hit would lack the state.
#[test]
fn prefixes_are_not_shared() {
    let fake = Fake::pipelined(2, 4);
    let model = load(&fake, &LoadOptions::default().context(2000).sequences(3));
    let requests: Vec<_> =
        (0..3).map(|i| greedy([prompt(500, 1), prompt(20, i)].concat(), 30)).collect();
    let runs: Vec<_> = requests.iter().map(|r| submit(&model, r.clone()).unwrap()).collect();
    for (run, request) in runs.iter().zip(&requests) {
        let (tokens, stats) = run.finished();
        assert_eq!((tokens, stats.cached_tokens), (alone(false, request), 0));
    }
    let again = submit(&model, requests[0].clone()).unwrap().finished();
    assert_eq!((again.0, again.1.cached_tokens), (alone(false, &requests[0]), 0));
    assert!(model.status().pages.iter().all(|pages| pages.cached == 0));
    assert_all_pages_back(&model);
    assert_sound(&fake);
}

/// The state of a preempted sequence is computed again from its first position on.
#[test]
fn preempted_requests_resume_to_the_same_text() {
    for (depth, phases) in [(1, false), (1, true), (2, true), (3, false)] {
        let fake = Fake::pipelined(depth, 4);
        let fake = if phases { fake.with_phases() } else { fake };
        let options = LoadOptions::default().context(1000).sequences(4).kv_memory(memory(1024));
        let model = load(&fake, &options);
        let requests: Vec<_> = (0..4).map(|i| greedy(prompt(70 + i, i), 700)).collect();
        let runs: Vec<_> = requests.iter().map(|r| submit(&model, r.clone()).unwrap()).collect();
        for (run, request) in runs.iter().zip(&requests) {
            assert_eq!(run.finished().0, alone(phases, request));
        }
        assert!(model.status().preemptions > 0);
        assert_all_pages_back(&model);
        assert_sound(&fake);
    }
}

#[test]
fn a_shortened_sequence_is_empty() {
    let fake = Fake::default();
    let model = load(&fake, &LoadOptions::default().context(1000));
    let expected: Vec<u32> = alone(false, &greedy(prompt(100, 1), 10));
    let (first, second) = model
        .session(500, |session| {
            let run = |session: &mut pelton::Session<'_>| -> Result<Vec<u32>, pelton::Error> {
                let logits = session.run(&prompt(100, 1))?;
                let top = (0..VOCAB).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
                let mut tokens = vec![top as u32];
                tokens.extend(session.decode(top as u32, 9)?);
                Ok(tokens)
            };
            let first = run(session)?;
            session.truncate(50);
            assert_eq!(session.position(), 0);
            Ok((first, run(session)?))
        })
        .unwrap();
    assert_eq!((&first, &second), (&expected, &expected));
    assert_sound(&fake);
}
