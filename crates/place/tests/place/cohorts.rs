//! Passes of several sequences over two devices: each waits for its own tokens alone.

use std::{
    sync::{Arc, Mutex, mpsc::channel},
    time::Duration,
};

use pelton_cpu::Cpu;
use pelton_graph::{Backend, Input, Pass, Phase, Row, Sample, TableEdit, Want, build};
use pelton_place::Split;
use pelton_sampling::Draw;
use pelton_testing::ModelSpec;

use crate::common::{Hook, Hooked, limits_for};

/// The pass at which the last device waits until the first one has begun the next.
const MEETING: usize = 1;

fn device(hook: Hook) -> Arc<dyn Backend> {
    let hook = Mutex::new(Some(hook));
    Arc::new(Hooked(Cpu::new(1), move || hook.lock().unwrap().take().unwrap()))
}

#[test]
fn a_pass_waits_for_its_own_tokens_alone() {
    let checkpoint = Arc::new(ModelSpec::default().checkpoint());
    let plan = build(&checkpoint).unwrap();
    let (begun, meets) = channel();
    let first: Hook = Box::new(move |number| {
        begun.send(number).unwrap();
        Ok(())
    });
    let last: Hook = Box::new(move |number| {
        let next = || meets.recv_timeout(Duration::from_secs(20)).ok();
        let met = number != MEETING || std::iter::from_fn(next).any(|begun| begun > MEETING);
        assert!(met, "the first device waits for a pass of another sequence");
        Ok(())
    });
    let devices = vec![device(first), device(last)];
    let split = Split::new(devices, vec![1]).unwrap();
    let mut executable =
        split.load(plan.clone(), checkpoint, limits_for(&plan), &mut |_, _| {}).unwrap();
    let mut submit = |slot: u32, input: Input, position: u32| {
        let rows = [Row { input, position, slot }];
        let want = Sample { row: 0, draw: Draw::GREEDY, recent: &[], pending: 0 };
        let wants = [Want::Sample(want)];
        let pages = [slot];
        let edits = [TableEdit { group: 0, slot, first: 0, pages: &pages }];
        let tables = if position == 0 { &edits[..] } else { &[] };
        executable.submit(&Pass { tables, ..Pass::new(Phase::Decode, &rows, &wants) }).unwrap()
    };
    let tickets = [
        submit(0, Input::Token(5), 0),
        submit(1, Input::Token(7), 0),
        submit(0, Input::Sampled, 1),
    ];
    for ticket in tickets {
        let outputs = executable.take(ticket).unwrap();
        assert!(outputs.samples[0].token.is_some());
    }
}
