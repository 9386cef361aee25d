//! Streams that run while a long prompt is computed.

use std::time::Duration;

use pelton::{
    Client, Token,
    graph::{Input, Phase, Row},
};
use pelton_testing::fake::{Fake, PassRecord};

use super::harness::{alone, assert_sound, greedy, model, plain, prompt, submit};
use crate::request::Request;

fn decodes(pass: &PassRecord) -> bool {
    pass.phase == Phase::Decode
}

#[test]
fn streams_never_wait_for_more_than_one_budgeted_pass() {
    for depth in [1, 2] {
        // a budget of less than a page's time, so that a page it is
        let fake = Fake::pipelined(depth, 8).slow(Duration::from_micros(8));
        let options =
            plain().context(17_000).max_concurrent(4).prefill_budget(Duration::from_micros(1));
        let model = model(&fake, &options);
        let streams: Vec<_> =
            (0..3).map(|i| submit(&model, greedy(prompt(10, i), 700)).unwrap()).collect();
        streams.iter().for_each(|stream| drop(stream.token()));
        let long = submit(&model, greedy(prompt(16_000, 9), 5)).unwrap();
        long.finished();
        for stream in streams {
            stream.end();
        }
        let log = fake.log();
        let of_long = |pass: &PassRecord| pass.phase == Phase::Prompt && pass.rows.len() == 64;
        let begin = log.passes.iter().position(of_long).unwrap();
        let end = log.passes.iter().rposition(of_long).unwrap();
        let during = &log.passes[begin..=end];
        assert_eq!(during.iter().filter(|pass| of_long(pass)).count(), 250);
        for pair in during.windows(2) {
            assert!(decodes(&pair[0]) || decodes(&pair[1]), "two prompt passes one after another");
        }
        for pass in during {
            match decodes(pass) {
                true => assert_eq!((pass.rows.len(), pass.repeat), (3, 1)),
                false => assert!(pass.rows.len() <= 64, "more than the budget"),
            }
        }
        drop(log);
        assert_sound(&fake);
    }
}

#[test]
fn many_that_decode_share_passes_with_prompts() {
    for depth in [1, 3] {
        let mut fake = Fake::pipelined(depth, 8).slow(Duration::from_micros(8)).with_phases();
        fake.pipeline.exact_rows = 2;
        let options = plain().context(5000).max_concurrent(5).rows(512);
        let model = model(&fake, &options);
        let requests: Vec<Request> = (0..3).map(|i| greedy(prompt(10, i), 700)).collect();
        let streams: Vec<_> =
            requests.iter().map(|request| submit(&model, request.clone()).unwrap()).collect();
        streams.iter().for_each(|stream| drop(stream.token()));
        let long = greedy(prompt(4001, 9), 5);
        let run = submit(&model, long.clone()).unwrap();
        let ids = |tokens: Vec<Token>| tokens.iter().map(|token| token.id).collect::<Vec<_>>();
        assert_eq!(run.finished().0, ids(alone(&fake, &[None], &long)));
        for (stream, request) in streams.iter().zip(&requests) {
            let (rest, _) = stream.finished();
            assert_eq!(rest, ids(alone(&fake, &[None], request))[1..]);
        }
        let log = fake.log();
        let of_long = |row: &Row| row.slot == 3;
        let with_prompts =
            log.passes.iter().filter(|pass| pass.rows.iter().any(of_long) && pass.rows.len() > 8);
        let mut rows = 0;
        for pass in with_prompts {
            assert_eq!(pass.phase, Phase::Mixed { decoding: 3 }, "{} rows", pass.rows.len());
            assert!(!pass.rows[..3].iter().any(of_long) && pass.rows.len() <= 512);
            assert!(pass.samples >= 3, "each that decodes gets a token");
            rows += pass.rows.len() - 3;
        }
        assert_eq!(rows, 4001);
        drop(log);
        assert_sound(&fake);
    }
}

/// Over several devices half of the sequences, or a third, decode in each pass, and
/// all of them in turn.
#[test]
fn cohorts_decode_in_turn() {
    for (stages, most) in [(2, 3), (3, 2)] {
        let mut fake = Fake::pipelined(stages + 1, 1).slow(Duration::from_micros(20));
        fake.pipeline.stages = stages;
        let model = model(&fake, &plain().context(500).max_concurrent(6));
        let runs: Vec<_> =
            (0..6).map(|i| submit(&model, greedy(prompt(10, i), 200)).unwrap()).collect();
        runs.iter().for_each(|run| assert_eq!(run.finished().0.len(), 200));
        let log = fake.log();
        // while all six decode
        let decoding = log.passes.iter().filter(|pass| pass.phase == Phase::Decode);
        let rows: Vec<usize> = decoding.map(|pass| pass.rows.len()).collect();
        let middle = &rows[rows.len() / 4..rows.len() / 2];
        assert!(middle.iter().all(|&rows| rows == most), "{stages} devices: {middle:?}");
        drop(log);
        assert_sound(&fake);
    }
}

/// Over several devices no pass follows one of the same sequences too closely: a device would
/// wait for their tokens.
#[test]
fn cohorts_do_not_follow_themselves() {
    for (stages, sequences) in [(2, 2), (2, 3), (2, 5), (3, 3), (3, 4), (3, 7)] {
        let mut fake = Fake::pipelined(stages + 1, 1).slow(Duration::from_micros(20));
        fake.pipeline.stages = stages;
        let model = model(&fake, &plain().context(500).max_concurrent(sequences));
        let runs: Vec<_> =
            (0..sequences).map(|i| submit(&model, greedy(prompt(10, i), 200)).unwrap()).collect();
        runs.iter().for_each(|run| assert_eq!(run.finished().0.len(), 200));
        let log = fake.log();
        let decoding = log.passes.iter().filter(|pass| pass.phase == Phase::Decode);
        let slots = decoding.map(|pass| pass.rows.iter().map(|row| row.slot).collect());
        let slots: Vec<Vec<u32>> = slots.collect();
        // while all of them decode
        let middle = &slots[slots.len() / 4..slots.len() / 2];
        for passes in middle.windows(stages) {
            let mut all = passes.concat();
            all.sort_unstable();
            all.dedup();
            let rows: usize = passes.iter().map(Vec::len).sum();
            assert_eq!(all.len(), rows, "{stages} devices, {sequences} sequences: {passes:?}");
        }
        drop(log);
        assert_sound(&fake);
    }
}

/// While a prompt is read, those that decode over several devices have their turns.
#[test]
fn none_starves_beside_a_prompt() {
    for (stages, sequences) in [(2, 3), (3, 3), (3, 6), (4, 4)] {
        let mut fake = Fake::pipelined(stages + 1, 1).slow(Duration::from_micros(20));
        fake.pipeline.stages = stages;
        let options = plain().context(20_000).max_concurrent(sequences + 1).rows(64);
        let model = model(&fake, &options);
        let runs: Vec<_> =
            (0..sequences).map(|i| submit(&model, greedy(prompt(10, i), 60)).unwrap()).collect();
        let reader = submit(&model, greedy(prompt(19_000, 99), 1)).unwrap();
        runs.iter().for_each(|run| assert_eq!(run.finished().0.len(), 60));
        reader.finished();
        let log = fake.log();
        let mut counts = vec![0; sequences + 1];
        let decoding = log.passes.iter().filter(|pass| pass.phase == Phase::Decode);
        for row in decoding.flat_map(|pass| &pass.rows) {
            counts[row.slot as usize] += 1;
            if counts.contains(&50) {
                break;
            }
        }
        let least = counts.iter().filter(|count| **count > 0).min().unwrap();
        let all = counts.iter().filter(|count| **count > 0).count();
        assert!(all == sequences && *least > 30, "{stages} devices: {counts:?}");
        drop(log);
        assert_sound(&fake);
    }
}

#[test]
fn prompts_share_a_pass() {
    let fake = Fake::default().slow(Duration::from_micros(20));
    let options = plain().context(5000).max_concurrent(4).rows(512);
    let model = model(&fake, &options);
    // the blocker lets the three others arrive
    let blocker = submit(&model, greedy(prompt(1000, 0), 1)).unwrap();
    let runs: Vec<_> =
        (1..4).map(|i| submit(&model, greedy(prompt(3000, i), 2)).unwrap()).collect();
    blocker.finished();
    for run in runs {
        run.finished();
    }
    let log = fake.log();
    let shared = log.passes.iter().filter(|pass| pass.phase == Phase::Prompt).filter(|pass| {
        (1..3).all(|slot| pass.rows.iter().filter(|row| row.slot == slot).count() >= 128)
    });
    assert!(shared.count() > 5);
    for pass in &log.passes {
        let whole = pass.rows.len() <= 512;
        assert!(
            whole
                && pass
                    .rows
                    .iter()
                    .all(|row| matches!(row.input, Input::Token(_)) || pass.phase == Phase::Decode)
        );
    }
}

#[test]
fn a_prompt_longer_than_a_pass() {
    let fake = Fake::default();
    let model = model(&fake, &plain().context(2000).rows(128));
    let request = greedy(prompt(1000, 3), 20);
    let expected = super::harness::alone(&fake, &[None], &request);
    let got = submit(&model, request).unwrap().finished().0;
    assert_eq!(got, expected.iter().map(|token| token.id).collect::<Vec<_>>());
    let log = fake.log();
    let rows: Vec<usize> = log.passes.iter().map(|pass| pass.rows.len()).take(9).collect();
    assert_eq!(rows, [128, 128, 128, 128, 128, 128, 128, 104, 1]);
    assert!(log.passes[..7].iter().all(|pass| pass.samples == 0));
}

/// The order in which requests of a model with one slot start, by their numbers in `clients`.
fn order(clients: &[Client]) -> Vec<usize> {
    let fake = Fake::default().slow(Duration::from_micros(20));
    let model = model(&fake, &plain().context(2000).max_concurrent(1));
    // the blocker lets the others arrive; it is of the first client, and its work counts
    let blocker = submit(&model, greedy(prompt(1900, 0), 40).client(clients[0])).unwrap();
    while model.status().running == 0 {
        std::thread::yield_now();
    }
    let runs: Vec<_> = clients
        .iter()
        .enumerate()
        .map(|(i, client)| submit(&model, greedy(prompt(20, i), 4).client(*client)).unwrap())
        .collect();
    let waiting = model.status().queued;
    assert_eq!(waiting, clients.len(), "the blocker has ended too early");
    blocker.finished();
    let mut started: Vec<_> = runs
        .iter()
        .enumerate()
        .map(|(i, run)| (run.finished().1.queued.unwrap(), run.submitted, i))
        .map(|(queued, submitted, i)| (submitted + queued, i))
        .collect();
    started.sort();
    assert_sound(&fake);
    started.into_iter().map(|(_, i)| i).collect()
}

#[test]
fn clients_take_turns() {
    let (many, few) = (Client::new(1), Client::new(2));
    // the first has been served a long prompt, so the second's come first, and then they alternate
    let order = order(&[many, many, many, many, few, few]);
    let place = |i: usize| order.iter().position(|&other| other == i).unwrap();
    assert!(place(4) <= 1 && place(5) <= 3, "{order:?}");
    assert!(place(0) < place(1) && place(1) < place(2) && place(2) < place(3), "{order:?}");
}

#[test]
fn higher_priorities_start_first() {
    let client = |id, priority| Client::new(id).priority(priority);
    let order = order(&[client(1, 0), client(2, -1), client(2, -1), client(3, 5), client(1, 0)]);
    assert_eq!(order, [3, 0, 4, 1, 2]);
}
