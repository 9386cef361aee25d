//! Decoding of one sequence by kinds of draws: with the pass, many passes in a submission, and late.
use std::{sync::Arc, time::Instant};

use pelton_gpu::{Gpu, choose};
use pelton_graph::{
    Backend, Error, Executable, Input, KvType, Limits, Pass, Phase, Row, Sample, TableEdit, Want,
    build, pages_for,
};
use pelton_sampling::Draw;
use pelton_weights::Checkpoint;

const CONTEXT: usize = 1024;

fn main() {
    if let Err(error) = run(&std::env::args().nth(1).unwrap_or_default()) {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run(file: &str) -> Result<(), Error> {
    let gpu = Gpu::open(&choose(None)?)?;
    let checkpoint = Arc::new(Checkpoint::open(file)?);
    let plan = build(&checkpoint)?.fuse(&|op, plan| gpu.accepts(op, plan));
    let vocab = plan.vocab;
    let limits = Limits {
        rows: 512,
        wants: 64,
        sequences: 4,
        context: CONTEXT,
        pages: vec![4 * pages_for(CONTEXT)],
        snapshots: 0,
        kv: KvType::F16,
        tokens: vocab,
        bias: 0,
    };
    let mut executable = gpu.load(plan, checkpoint, limits, &mut |_, _| {})?;
    let e = &mut *executable;
    let pages: Vec<u32> = (0..pages_for(CONTEXT) as u32).collect();
    let edits = [TableEdit { group: 0, slot: 0, first: 0, pages: &pages }];
    let rows: Vec<Row> =
        (0..64).map(|p| Row { input: Input::Token(p), position: p, slot: 0 }).collect();
    let mask: Vec<u32> = vec![0x5a5a_5a5a; vocab.div_ceil(32)];
    let count: u32 = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(512);
    let per = |seconds: f64| 1e6 * seconds / f64::from(count);
    for round in 0..4 {
        let start = |e: &mut dyn Executable| -> Result<(), Error> {
            let want =
                [Want::Sample(Sample { row: 63, draw: Draw::GREEDY, recent: &[], pending: 0 })];
            let pass = Pass { tables: &edits, ..Pass::new(Phase::Prompt, &rows, &want) };
            let ticket = e.submit(&pass)?;
            e.take(ticket).map(drop)
        };
        let row = |i: u32| [Row { input: Input::Sampled, position: 64 + i, slot: 0 }];
        let sample = |i: u32, mask| Sample {
            row: 0,
            draw: Draw { index: u64::from(i) + 1, mask, ..Draw::GREEDY },
            recent: &[],
            pending: 0,
        };
        start(e)?;
        let begin = Instant::now();
        let mut tickets = std::collections::VecDeque::new();
        for i in (0..count).step_by(32) {
            let (row, wants) = (row(i), [Want::Sample(sample(i, None))]);
            tickets.push_back(
                e.submit(&Pass { repeat: 32, ..Pass::new(Phase::Decode, &row, &wants) })?,
            );
            if tickets.len() == 2 {
                e.take(tickets.pop_front().unwrap_or(pelton_graph::Ticket(0)))?;
            }
        }
        while let Some(ticket) = tickets.pop_front() {
            e.take(ticket)?;
        }
        let repeated = begin.elapsed().as_secs_f64();
        for masked in [false, true] {
            start(e)?;
            let begin = Instant::now();
            for i in 0..count {
                let (row, wants) = (row(i), [Want::Sample(sample(i, masked.then_some(&mask[..])))]);
                tickets.push_back(e.submit(&Pass::new(Phase::Decode, &row, &wants))?);
                if tickets.len() == 3 {
                    e.take(tickets.pop_front().unwrap_or(pelton_graph::Ticket(0)))?;
                }
            }
            while let Some(ticket) = tickets.pop_front() {
                e.take(ticket)?;
            }
            println!("{round} single, mask {masked}: {:.1} µs", per(begin.elapsed().as_secs_f64()));
        }
        start(e)?;
        let (mut submit, mut draw, mut take) = (0.0, 0.0, 0.0);
        let begin = Instant::now();
        let mut before = None;
        for i in 0..count {
            let (row, wants) = (row(i), [Want::Later { row: 0 }]);
            let at = Instant::now();
            let ticket = e.submit(&Pass::new(Phase::Decode, &row, &wants))?;
            submit += at.elapsed().as_secs_f64();
            let at = Instant::now();
            if let Some(before) = before {
                e.take(before)?;
            }
            take += at.elapsed().as_secs_f64();
            let at = Instant::now();
            e.draw(ticket, Some(&sample(i, Some(&mask))))?;
            draw += at.elapsed().as_secs_f64();
            before = Some(ticket);
        }
        if let Some(before) = before {
            e.take(before)?;
        }
        let late = begin.elapsed().as_secs_f64();
        println!(
            "{round} repeat 32: {:.1} µs; late: {:.1} µs, ratio {:.3} (submit {:.1}, take {:.1}, draw {:.1})",
            per(repeated),
            per(late),
            repeated / late,
            per(submit),
            per(take),
            per(draw)
        );
    }
    Ok(())
}
