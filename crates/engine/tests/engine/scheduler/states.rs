//! Plans with recurrent states, which are not in pages.

use pelton::{LoadOptions, Model};
use pelton_testing::fake::Fake;

use super::harness::{
    CONTEXT, VOCAB, assert_all_pages_back, assert_sound, greedy, load_recurrent, memory, prompt,
    submit,
};
use crate::request::Request;

fn load(fake: &Fake, options: &LoadOptions) -> Model {
    load_recurrent(fake, options, &[None])
}

fn alone(phases: bool, request: &Request) -> Vec<u32> {
    let fake = if phases { Fake::default().with_phases() } else { Fake::default() };
    let model = load(&fake, &LoadOptions::default().context(CONTEXT));
    let (tokens, _) = submit(&model, request.clone()).unwrap().finished();
    assert_sound(&fake);
    tokens
}

/// Three requests with a common prompt: the first one saves its states where the others branch off.
#[test]
fn prefixes_are_shared_with_their_states() {
    for (depth, phases) in [(1, false), (2, true), (3, false)] {
        let fake = Fake::pipelined(depth, 4);
        let fake = if phases { fake.with_phases() } else { fake };
        let model = load(&fake, &LoadOptions::default().context(2000).max_concurrent(3).rows(256));
        let requests: Vec<_> =
            (0..3).map(|i| greedy([prompt(500, 1), prompt(20, i)].concat(), 30)).collect();
        let runs: Vec<_> = requests.iter().map(|r| submit(&model, r.clone()).unwrap()).collect();
        for (i, (run, request)) in runs.iter().zip(&requests).enumerate() {
            let (tokens, stats) = run.finished();
            // one that comes after the first chunk of 256 rows need not wait for the second
            let cached: &[usize] = if i == 0 { &[0] } else { &[256, 448] };
            assert_eq!(tokens, alone(phases, request));
            assert!(cached.contains(&stats.cached_tokens), "{i}: {}", stats.cached_tokens);
        }
        // the whole of its prompt but the last page
        let (again, stats) = submit(&model, requests[0].clone()).unwrap().finished();
        assert_eq!((again, stats.cached_tokens), (alone(phases, &requests[0]), 512));
        // a prompt that branches off where nobody has before
        let branch = |i| greedy([prompt(140, 1), prompt(200, i)].concat(), 20);
        for (i, cached) in [(7, 0), (8, 128), (9, 128)] {
            let (tokens, stats) = submit(&model, branch(i)).unwrap().finished();
            assert_eq!((tokens, stats.cached_tokens), (alone(phases, &branch(i)), cached));
        }
        assert_all_pages_back(&model);
        let snapshots = model.status().snapshots;
        assert_eq!((snapshots.private, snapshots.evictable), (0, snapshots.cached));
        assert!(snapshots.cached > 0);
        assert_sound(&fake);
    }
}

/// Where phases agree, the next turn of a chat continues after the answer's last full page.
#[test]
fn an_answer_is_a_prefix() {
    for (phases, cached) in [(false, 256), (true, 64)] {
        let fake = if phases { Fake::default().with_phases() } else { Fake::default() };
        let model = load(&fake, &LoadOptions::default().context(1000));
        let question = prompt(100, 1);
        let answer = submit(&model, greedy(question.clone(), 190)).unwrap().finished().0;
        let next = greedy([question, answer, prompt(20, 2)].concat(), 20);
        let (tokens, stats) = submit(&model, next.clone()).unwrap().finished();
        assert_eq!((tokens, stats.cached_tokens), (alone(phases, &next), cached));
        assert_sound(&fake);
    }
}

/// More prompts than snapshots: the oldest ones are replaced, texts stay the same.
#[test]
fn the_oldest_snapshots_are_evicted() {
    let fake = Fake::pipelined(2, 4);
    let model = load(&fake, &LoadOptions::default().context(300).kv_memory(memory(6000)));
    let total = model.status().snapshots.total;
    assert_eq!(total, 2 + 8);
    let request = |i| greedy(prompt(150, i), 5);
    let cached = |i| {
        let (tokens, stats) = submit(&model, request(i)).unwrap().finished();
        assert_eq!(tokens, alone(false, &request(i)));
        stats.cached_tokens
    };
    assert!((0..total).all(|i| cached(i) == 0));
    assert!((0..total).all(|i| cached(i) == 128));
    assert_eq!((cached(33), cached(0), cached(2)), (0, 0, 128));
    let counts = model.status().snapshots;
    assert_eq!((counts.cached, counts.private), (total, 0));
    assert_sound(&fake);
}

/// The state of a preempted sequence is computed again from its first position on.
#[test]
fn preempted_requests_resume_to_the_same_text() {
    for (depth, phases) in [(1, false), (1, true), (2, true), (3, false)] {
        let fake = Fake::pipelined(depth, 4);
        let fake = if phases { fake.with_phases() } else { fake };
        let options =
            LoadOptions::default().context(1000).max_concurrent(4).kv_memory(memory(1024));
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
    let mut session = model.into_session().unwrap();
    for _ in 0..2 {
        let logits = session.run(&prompt(100, 1)).unwrap();
        let top = (0..VOCAB).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
        let mut tokens = vec![top as u32];
        tokens.extend(session.decode(top as u32, 9).unwrap());
        assert_eq!(tokens, expected);
        session.truncate(50);
        assert_eq!(session.position(), 0);
    }
    assert_sound(&fake);
}
