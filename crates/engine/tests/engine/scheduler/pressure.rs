//! More sequences than there are pages for.

use pelton::Error;
use pelton_testing::fake::Fake;

use super::harness::{
    alone, assert_all_pages_back, assert_sound, greedy, ids, load, memory, model, plain, prompt,
    submit,
};

/// Four sequences of up to 1000 positions with memory for one of that length.
#[test]
fn preempted_requests_resume_to_the_same_text() {
    for (depth, phases) in [(1, false), (1, true), (2, true), (3, false)] {
        let fake = Fake::pipelined(depth, 4);
        let fake = if phases { fake.with_phases() } else { fake };
        let options = plain().context(1000).max_concurrent(4).kv_memory(memory(1024));
        let model = model(&fake, &options);
        let requests: Vec<_> = (0..4).map(|i| greedy(prompt(70 + i, i), 700)).collect();
        let runs: Vec<_> =
            requests.iter().map(|request| submit(&model, request.clone()).unwrap()).collect();
        let mut preemptions = Vec::new();
        for (run, request) in runs.iter().zip(&requests) {
            let (tokens, stats) = run.finished();
            let expected = alone(&fake, &[None], request);
            assert_eq!(tokens, expected.iter().map(|token| token.id).collect::<Vec<_>>());
            preemptions.push(stats.preemptions);
        }
        assert!(preemptions[1..].iter().sum::<usize>() > 0, "no pressure: {preemptions:?}");
        assert_eq!(preemptions[0], 0, "the oldest is never preempted");
        assert_eq!(model.status().preemptions, preemptions.iter().sum::<usize>() as u64);
        assert_all_pages_back(&model);
        assert_sound(&fake);
    }
}

#[test]
fn cached_prefixes_are_evicted_for_running_sequences() {
    let fake = Fake::default();
    let options = plain().context(1000).kv_memory(memory(1024));
    let model = model(&fake, &options);
    for i in 0..10 {
        assert_eq!(ids(&model, greedy(prompt(400, i), 300)).len(), 300);
    }
    assert!(model.status().evictions > 10);
    assert_all_pages_back(&model);
    assert_sound(&fake);
}

/// The windowed group has pages for windows, far fewer than the text is long.
#[test]
fn windowed_groups_free_what_no_row_sees() {
    for phases in [false, true] {
        let fake = Fake::pipelined(2, 8);
        let fake = if phases { fake.with_phases() } else { fake };
        let windows = [None, Some(100)];
        let options = plain().context(4000).max_concurrent(2).rows(128);
        let model = load(&fake, &options, &windows);
        let total = model.status().pages[1].total;
        assert_eq!(total, 2 * 2 * (2 + 2) + 2);
        let requests = [greedy(prompt(2500, 1), 300), greedy(prompt(2200, 2), 700)];
        let runs = requests.each_ref().map(|request| submit(&model, request.clone()).unwrap());
        for (run, request) in runs.iter().zip(&requests) {
            let expected = alone(&fake, &windows, request);
            let expected: Vec<u32> = expected.iter().map(|token| token.id).collect();
            assert_eq!(run.finished().0, expected);
        }
        assert_eq!(model.status().preemptions, 0);
        assert_all_pages_back(&model);
        assert_sound(&fake);
    }
}

#[test]
fn what_can_never_fit_is_refused_at_once() {
    let fake = Fake::default();
    let options = plain().context(300).max_concurrent(2).kv_memory(memory(320));
    let model = model(&fake, &options);
    let error = submit(&model, greedy(prompt(300, 1), 10)).err().unwrap();
    assert!(matches!(error, Error::PromptTooLong { tokens: 300, context: 300 }), "{error}");
    assert!(error.to_string().contains("300 tokens"), "{error}");
    // a text that just fits ends with the context
    assert_eq!(submit(&model, greedy(prompt(299, 1), 10)).unwrap().finished().0.len(), 1);
    assert_eq!(model.status().queued, 0);
}
