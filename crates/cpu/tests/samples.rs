//! Tokens that passes sample, compared with a `Sampler` that draws from the logits of single rows.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use pelton_cpu::Cpu;
use pelton_graph::Phase::{Decode, Prompt};
use pelton_graph::{
    Backend, Error, Executable, Input, Limits, Op, Pass, Plan, RECENT, Row, Sample, TableEdit,
    Ticket, Want,
};
use pelton_quant::DType;
use pelton_sampling::{Draw, FixedParams, Penalties, Sampled, Sampler};
use pelton_testing::{
    ModelSpec,
    backend::{limits, load, rows, tokens},
};

/// Tokens that can be drawn: fewer than the vocabulary has.
const TOKENS: usize = 77;

fn spec() -> ModelSpec {
    ModelSpec { context: 512, ..ModelSpec::wide(DType::Q8_0) }
}

fn executable(cpu: &Cpu) -> Box<dyn Executable> {
    let limits = Limits { tokens: TOKENS, ..limits(&spec()) };
    load(cpu, &spec(), &|op: &Op, plan: &Plan| cpu.accepts(op, plan), limits)
}

/// Both paths, and the fast one on more threads.
fn cpus() -> [Cpu; 3] {
    [Cpu::reference(), Cpu::new(1), Cpu::new(3)]
}

const PENALTIES: Penalties =
    Penalties { repetition: 1.3, presence: 0.2, frequency: 0.1, window: 160 };

/// Draws of every kind, with the index of a sequence's token.
fn draws<'a>(mask: &'a [u32], bias: &'a [(u32, f32)], index: u64) -> Vec<Draw<'a>> {
    let params = |top_k, top_p, min_p| FixedParams::new(1.5, top_k, top_p, min_p);
    let base = Draw { seed: 5, index, ..Draw::GREEDY };
    vec![
        base,
        Draw { log_probs: Some(3), ..base },
        Draw { params: params(0, 1.0, 0.0), log_probs: Some(0), ..base },
        Draw { params: params(20, 0.9, 0.05), penalties: Some(PENALTIES), ..base },
        Draw { params: params(0, 1.0, 0.1), mask: Some(mask), ..base },
        Draw { bias, penalties: Some(PENALTIES), log_probs: Some(20), ..base },
    ]
}

fn run(
    executable: &mut dyn Executable,
    pass: &Pass<'_>,
) -> Result<(Vec<f32>, Vec<Sampled>), Error> {
    let ticket = executable.submit(pass)?;
    let outputs = executable.take(ticket)?;
    Ok((outputs.logits.to_vec(), outputs.samples.to_vec()))
}

fn edits(pages: &[[u32; 4]]) -> Vec<TableEdit<'_>> {
    let edit = |(slot, pages)| TableEdit { group: 0, slot, first: 0, pages };
    (0..).zip(pages.iter().map(|pages| &pages[..])).map(edit).collect()
}

/// One pass with draws of every kind and the logits of their rows: every draw is
/// that of a `Sampler`.
#[test]
fn draws_are_those_of_a_sampler() {
    let text = tokens(&spec(), 40);
    let rows = rows(&text, 0, 0);
    let mask = [0x0f0f_3511, 0xffff_0000, 0];
    let bias = [(3, 4.0), (70, -2.5), (79, 9.0)];
    let kinds = draws(&mask, &bias, 9);
    let draws = &kinds[..];
    let earlier = [1, 5, 5, 60];
    let mut wants = Vec::new();
    // a row for each draw
    let wanted = || [4_u32, 17, 34].into_iter().flat_map(move |first| (first..).zip(draws));
    for (row, &draw) in wanted() {
        let (recent, pending) = match draw.penalties {
            Some(_) => (&earlier[..], row.min(6) + 1),
            None => (&[][..], 0),
        };
        wants.push(Want::Logits { row });
        wants.push(Want::Sample(Sample { row, draw, recent, pending }));
    }
    let pages = [[3, 1, 0, 2]];
    let edits = edits(&pages);
    let pass = Pass { tables: &edits, ..Pass::new(Prompt, &rows, &wants) };
    let mut results = Vec::new();
    for cpu in cpus() {
        let (logits, samples) = run(&mut *executable(&cpu), &pass).unwrap();
        let vocab = spec().vocab;
        let count = 3 * draws.len();
        assert_eq!((logits.len(), samples.len()), (count * vocab, count));
        let found = logits.chunks_exact(vocab).zip(&samples);
        for ((row, draw), (logits, sampled)) in wanted().zip(found) {
            let at = row as usize;
            let history = [&earlier[..], &text[at - at.min(6)..=at]].concat();
            let expected = Sampler::new().sample(logits, TOKENS, draw, &history);
            assert_eq!(sampled, &expected, "{cpu:?} row {row}: {draw:?}");
            assert!(expected.token.unwrap() < TOKENS as u32);
        }
        results.push((logits, samples));
    }
    assert_eq!(results[1], results[2], "one thread and three");
}

/// A generated text whose inputs stay in the executable, and the same text from known tokens: past
/// [`RECENT`] tokens, with penalties on more than those.
#[test]
fn sampled_inputs_are_the_sampled_tokens() {
    const PROMPT: usize = 30;
    const STEPS: u32 = 150;
    let prompt = tokens(&spec(), PROMPT);
    let draw = |index| Draw {
        params: FixedParams::new(1.2, 40, 0.95, 0.0),
        penalties: Some(PENALTIES),
        seed: 3,
        index,
        log_probs: Some(2),
        ..Draw::GREEDY
    };
    let pages = [[9, 4, 11, 7]];
    let edits = edits(&pages);
    let cpu = Cpu::new(2);
    let (mut known, mut sampled) = (executable(&cpu), executable(&cpu));
    let mut text = prompt.clone();
    for step in 0..STEPS {
        let last = text.len() - 1;
        let (known_rows, sampled_rows, phase, edits) = match step {
            0 => (rows(&text, 0, 0), rows(&text, 0, 0), Prompt, &edits[..]),
            _ => {
                let row = Row { input: Input::Sampled, position: last as u32, slot: 0 };
                (rows(&text[last..], last, 0), vec![row], Decode, &[][..])
            }
        };
        let want = |pending: usize| {
            let recent = &text[text.len().saturating_sub(160)..text.len() - pending];
            let (row, pending) = (known_rows.len() as u32 - 1, pending as u32);
            Want::Sample(Sample { row, draw: draw(u64::from(step)), recent, pending })
        };
        let wants = [want(1), Want::Logits { row: known_rows.len() as u32 - 1 }];
        let pass = Pass { tables: edits, ..Pass::new(phase, &known_rows, &wants) };
        let expected = run(&mut *known, &pass).unwrap();
        let by_hand = Sampler::new().sample(&expected.0, TOKENS, &draw(u64::from(step)), &text);
        assert_eq!(expected.1, [by_hand], "step {step}");

        let wants = [want(text.len().min(RECENT)), wants[1]];
        let pass = Pass { tables: edits, ..Pass::new(phase, &sampled_rows, &wants) };
        assert_eq!(run(&mut *sampled, &pass).unwrap(), expected, "step {step}");
        text.push(expected.1[0].token.unwrap());
    }
    assert!(text.len() > RECENT + PROMPT);
}

/// Repeated passes of three sequences, compared with single passes.
#[test]
fn repeats_are_single_passes() {
    let pages = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]];
    let edits = edits(&pages);
    let texts = [tokens(&spec(), 7), tokens(&spec(), 60), tokens(&spec(), 33)];
    let penalties = Penalties { window: 12, ..PENALTIES };
    let bias = [(8, 1.5)];
    let draws = |index| {
        let params = FixedParams::new(1.1, 30, 1.0, 0.02);
        let draw = Draw { params, seed: 8, index, ..Draw::GREEDY };
        [
            Draw { penalties: Some(penalties), log_probs: Some(1), ..draw },
            Draw { bias: &bias, ..draw },
            Draw { penalties: Some(penalties), params: None, ..draw },
        ]
    };
    for cpu in cpus() {
        let (mut single, mut repeated) = (executable(&cpu), executable(&cpu));
        for executable in [&mut single, &mut repeated] {
            for (slot, text) in (0..).zip(&texts) {
                let rows = rows(text, 0, slot);
                let draw = draws(0)[slot as usize];
                let pending = if draw.penalties.is_some() { text.len() as u32 } else { 0 };
                let row = rows.len() as u32 - 1;
                let wants = [Want::Sample(Sample { row, draw, recent: &[], pending })];
                let pass = Pass { tables: &edits, ..Pass::new(Prompt, &rows, &wants) };
                run(&mut **executable, &pass).unwrap();
            }
        }
        // tokens after the prompts that are known: one each
        let mut done = 1;
        for repeat in [1, 5, 32, 2] {
            let recents = texts.each_ref().map(|text| &text[text.len() - 5..]);
            let wants_at = |index: u32| -> Vec<Want<'_>> {
                let wants = draws(u64::from(index)).into_iter().enumerate().map(|(i, draw)| {
                    let (recent, pending) = match draw.penalties {
                        Some(_) => (recents[i], index),
                        None => (&[][..], 0),
                    };
                    Want::Sample(Sample { row: i as u32, draw, recent, pending })
                });
                wants.collect()
            };
            let rows_at = |index: u32| -> Vec<Row> {
                let row = |(slot, text): (u32, &Vec<u32>)| Row {
                    input: Input::Sampled,
                    position: text.len() as u32 + index - 1,
                    slot,
                };
                (0..).zip(&texts).map(row).collect()
            };
            let mut expected = Vec::new();
            for index in done..done + repeat {
                let (rows, wants) = (rows_at(index), wants_at(index));
                expected.extend(run(&mut *single, &Pass::new(Decode, &rows, &wants)).unwrap().1);
            }
            let (rows, wants) = (rows_at(done), wants_at(done));
            let pass = Pass { repeat, ..Pass::new(Decode, &rows, &wants) };
            assert_eq!(run(&mut *repeated, &pass).unwrap().1, expected, "{repeat} from {done}");
            done += repeat;
        }
    }
}

/// Rows of one sequence with a draft: the history of each ends at its own row.
#[test]
fn drafted_rows_have_histories_of_their_own() {
    let text = tokens(&spec(), 12);
    let pages = [[0, 1, 2, 3]];
    let edits = edits(&pages);
    let cpu = Cpu::new(2);
    let mut executable = executable(&cpu);
    let prompt = rows(&text[..8], 0, 0);
    run(&mut *executable, &Pass { tables: &edits, ..Pass::new(Prompt, &prompt, &[]) }).unwrap();
    let draft = rows(&text[8..], 8, 0);
    let draw = |row: u32| Draw {
        params: FixedParams::new(2.0, 0, 1.0, 0.0),
        penalties: Some(PENALTIES),
        index: u64::from(row),
        ..Draw::GREEDY
    };
    let mut wants = Vec::new();
    for row in 0..4 {
        let (recent, pending) = (&text[..3], 6 + row);
        wants.push(Want::Sample(Sample { row, draw: draw(row), recent, pending }));
        wants.push(Want::Logits { row });
    }
    let (logits, samples) = run(&mut *executable, &Pass::new(Decode, &draft, &wants)).unwrap();
    for (row, (logits, sample)) in (0..).zip(logits.chunks(spec().vocab).zip(&samples)) {
        let history = &text[..9 + row as usize];
        assert_eq!(*sample, Sampler::new().sample(logits, TOKENS, &draw(row), history));
    }
}

/// A mask that allows no token gives none, and token 0 is the input of the next row.
#[test]
fn a_mask_that_allows_nothing() {
    let text = tokens(&spec(), 3);
    let pages = [[0, 1, 2, 3]];
    let edits = edits(&pages);
    let cpu = Cpu::new(1);
    let mut executable = executable(&cpu);
    // only a token that cannot be drawn
    let mask = [0, 0, 1 << (TOKENS % 32)];
    let draw = Draw { mask: Some(&mask), ..Draw::GREEDY };
    let wants = [Want::Sample(Sample { row: 2, draw, recent: &[], pending: 0 })];
    let rows = rows(&text, 0, 0);
    let pass = Pass { tables: &edits, ..Pass::new(Prompt, &rows, &wants) };
    let sampled = run(&mut *executable, &pass).unwrap().1;
    assert_eq!(sampled, [Sampled { token: None, log_probs: None }]);
    let next = |input| [Row { input, position: 3, slot: 0 }];
    let wants = [Want::Logits { row: 0 }];
    let mut logits =
        |input| run(&mut *executable, &Pass::new(Decode, &next(input), &wants)).unwrap().0;
    assert_eq!(logits(Input::Sampled), logits(Input::Token(0)));
}

/// One pass at a time, taken once.
#[test]
fn tickets() {
    for cpu in cpus() {
        let mut executable = executable(&cpu);
        assert_eq!(executable.pipeline().depth, 1);
        let rows = rows(&[1], 0, 0);
        let wants = [Want::Logits { row: 0 }];
        let pages = [[0, 1, 2, 3]];
        let edits = edits(&pages);
        let pass = Pass { tables: &edits, ..Pass::new(Decode, &rows, &wants) };
        let is_refused = |error: Option<Error>, what: &str| {
            let error = error.unwrap();
            assert!(matches!(error, Error::Pass(_)), "{error}");
            assert!(error.to_string().contains(what), "{error}");
        };
        is_refused(executable.take(Ticket(0)).err(), "every pass has been taken");
        let first = executable.submit(&pass).unwrap();
        is_refused(executable.submit(&pass).err(), "has not been taken");
        is_refused(executable.take(Ticket(first.0 + 1)).err(), "the oldest pass");
        let logits = executable.take(first).unwrap().logits.to_vec();
        is_refused(executable.take(first).err(), "every pass has been taken");
        // a pass that was refused leaves nothing to take
        let far = [Row { position: 511, ..rows[0] }];
        is_refused(executable.submit(&Pass::new(Decode, &far, &wants)).err(), "past the 4 pages");
        let second = executable.submit(&pass).unwrap();
        assert!(second > first);
        assert_eq!(executable.take(second).unwrap().logits, logits);
    }
}
