//! Passes of several sequences over two devices: each waits for its own tokens alone.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

mod common;

use std::{
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    time::Duration,
};

use pelton_cpu::Cpu;
use pelton_graph::{
    Backend, Error, Executable, Input, Limits, Needs, Op, Outputs, Pass, Phase, Pipeline, Plan,
    Row, Sample, TableEdit, Ticket, Want, build,
};
use pelton_place::Split;
use pelton_sampling::Draw;
use pelton_testing::ModelSpec;
use pelton_weights::Checkpoint;

use common::limits_for;

/// The pass at which the last device waits until the first one has begun the next.
const MEETING: usize = 1;

/// The part that a device has in the meeting.
enum Role {
    /// It tells the number of each pass.
    First(Sender<usize>),
    /// It waits.
    Last(Receiver<usize>),
}

/// A CPU as a device with a role.
struct Device(Cpu, Mutex<Option<Role>>);

struct Part {
    inner: Box<dyn Executable>,
    role: Role,
    number: usize,
}

impl Backend for Device {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn accepts(&self, op: &Op, plan: &Plan) -> bool {
        self.0.accepts(op, plan)
    }

    fn needs(&self, plan: &Plan, limits: &Limits) -> Result<Needs, Error> {
        self.0.needs(plan, limits)
    }

    fn load(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, Error> {
        let inner = self.0.load(plan, checkpoint, limits, progress)?;
        let role = self.1.lock().unwrap().take().unwrap();
        Ok(Box::new(Part { inner, role, number: 0 }))
    }
}

impl Executable for Part {
    fn pipeline(&self) -> Pipeline {
        self.inner.pipeline()
    }

    fn submit(&mut self, pass: &Pass<'_>) -> Result<Ticket, Error> {
        match &self.role {
            Role::First(begun) => begun.send(self.number).unwrap(),
            Role::Last(begun) if self.number == MEETING => {
                let next = || begun.recv_timeout(Duration::from_secs(20));
                let met = std::iter::from_fn(|| next().ok()).any(|number| number > MEETING);
                assert!(met, "the first device waits for a pass of another sequence");
            }
            Role::Last(_) => {}
        }
        self.number += 1;
        self.inner.submit(pass)
    }

    fn take(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        self.inner.take(ticket)
    }

    fn copy_page(&mut self, group: usize, from: u32, to: u32) -> Result<(), Error> {
        self.inner.copy_page(group, from, to)
    }
}

#[test]
fn a_pass_waits_for_its_own_tokens_alone() {
    let checkpoint = Arc::new(ModelSpec::default().checkpoint());
    let plan = build(&checkpoint).unwrap();
    let (begun, meets) = channel();
    let device =
        |role| -> Arc<dyn Backend> { Arc::new(Device(Cpu::new(1), Mutex::new(Some(role)))) };
    let devices = vec![device(Role::First(begun)), device(Role::Last(meets))];
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
