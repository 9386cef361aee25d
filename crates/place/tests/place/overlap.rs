//! Passes that begin on a device before the results of those before them are taken.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, channel},
    },
    thread,
    time::Duration,
};

use pelton_cpu::Cpu;
use pelton_graph::{
    Backend, Error, Executable, Input, Limits, Needs, Op, Outputs, Pass, Phase, Pipeline, Plan,
    Row, TableEdit, Ticket, Want, build,
};
use pelton_place::Split;
use pelton_testing::ModelSpec;
use pelton_weights::Checkpoint;

use crate::common::limits_for;

/// A submission or the taking of a pass, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Submit(usize),
    Take(usize),
}

/// The events of a device, in their order.
type Events = Arc<Mutex<Vec<Event>>>;

/// A CPU that can have two passes in flight. An event can fail, and its first pass ends when
/// all passes are queued.
struct Queued {
    cpu: Cpu,
    events: Events,
    failing: Option<Event>,
    all_queued: Mutex<Option<Receiver<()>>>,
    /// As a GPU, it tells when a pass is done: the first one while two are submitted.
    is_gpu: bool,
}

struct QueuedExecutable {
    inner: Box<dyn Executable>,
    events: Events,
    failing: Option<Event>,
    all_queued: Receiver<()>,
    submitted: usize,
    done: VecDeque<(Ticket, Vec<f32>)>,
    hidden: Vec<f32>,
    taken: usize,
    is_gpu: bool,
}

impl Backend for Queued {
    fn name(&self) -> &'static str {
        "queued"
    }

    fn accepts(&self, op: &Op, plan: &Plan) -> bool {
        self.cpu.accepts(op, plan)
    }

    fn needs(&self, plan: &Plan, limits: &Limits) -> Result<Needs, Error> {
        self.cpu.needs(plan, limits)
    }

    fn rates_key(&self) -> Option<String> {
        self.is_gpu.then(|| self.name().to_owned())
    }

    fn load(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, Error> {
        Ok(Box::new(QueuedExecutable {
            inner: self.cpu.load(plan, checkpoint, limits, progress)?,
            events: Arc::clone(&self.events),
            failing: self.failing,
            all_queued: self.all_queued.lock().unwrap().take().unwrap(),
            submitted: 0,
            done: VecDeque::new(),
            hidden: Vec::new(),
            taken: 0,
            is_gpu: self.is_gpu,
        }))
    }
}

impl QueuedExecutable {
    fn note(&self, event: Event) -> Result<(), Error> {
        self.events.lock().unwrap().push(event);
        match self.failing == Some(event) {
            true => Err(Error::Pass("broken on purpose".to_owned())),
            false => Ok(()),
        }
    }
}

impl Executable for QueuedExecutable {
    fn pipeline(&self) -> Pipeline {
        Pipeline { depth: 2, ..self.inner.pipeline() }
    }

    fn submit(&mut self, pass: &Pass<'_>) -> Result<Ticket, Error> {
        let number = self.submitted;
        self.submitted += 1;
        if number == 0 {
            self.all_queued.recv_timeout(Duration::from_secs(20)).unwrap();
        }
        // a device that refuses a pass makes none of its edits
        self.note(Event::Submit(number))?;
        assert!(self.done.len() < 2, "three passes in flight");
        let ticket = self.inner.submit(pass)?;
        self.done.push_back((ticket, self.inner.take(ticket)?.hidden.to_vec()));
        Ok(ticket)
    }

    fn take(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        let (oldest, hidden) = self.done.pop_front().unwrap();
        assert_eq!(oldest, ticket);
        self.hidden = hidden;
        self.taken += 1;
        self.note(Event::Take(self.taken - 1))?;
        Ok(Outputs { logits: &[], samples: &[], hidden: &self.hidden, drafted: &[] })
    }

    fn is_done(&self, _: Ticket) -> bool {
        !self.is_gpu || self.taken > 0 || self.submitted > 1
    }

    fn copy_page(&mut self, group: usize, from: u32, to: u32) -> Result<(), Error> {
        self.inner.copy_page(group, from, to)
    }
}

/// The logits of passes that are submitted before any is taken, over a queued device and another
/// one, and what happened on the first. The passes have two rows each, of slots 0, 1 and 1 again,
/// whose last pass has no edit of its own.
fn run(failing: Option<Event>) -> (Vec<Result<Vec<f32>, String>>, Vec<Event>) {
    let checkpoint = Arc::new(ModelSpec::default().checkpoint());
    let plan = build(&checkpoint).unwrap();
    let (queue, all_queued) = channel();
    let events = Events::default();
    let first = Queued {
        cpu: Cpu::new(1),
        events: Arc::clone(&events),
        failing,
        all_queued: Mutex::new(Some(all_queued)),
        is_gpu: false,
    };
    let devices: Vec<Arc<dyn Backend>> = vec![Arc::new(first), Arc::new(Cpu::new(1))];
    let split = Split::new(devices, vec![1]).unwrap();
    let limits = limits_for(&plan);
    let mut executable = split.load(plan, checkpoint, limits, &mut |_, _| {}).unwrap();
    let tickets = [(0_u32, true), (1, true), (1, false)].map(|(slot, edits)| {
        let rows = [5, 9].map(Input::Token);
        let rows: Vec<Row> =
            (0..).zip(rows).map(|(position, input)| Row { input, position, slot }).collect();
        let pages = [slot];
        let edit = [TableEdit { group: 0, slot, first: 0, pages: &pages }];
        let wants = [Want::Logits { row: 1 }];
        let tables = if edits { &edit[..] } else { &[] };
        executable.submit(&Pass { tables, ..Pass::new(Phase::Prompt, &rows, &wants) }).unwrap()
    });
    queue.send(()).unwrap();
    let logits = tickets.map(|ticket| {
        let taken = executable.take(ticket);
        taken.map(|outputs| outputs.logits.to_vec()).map_err(|error| error.to_string())
    });
    drop(executable);
    let events = events.lock().unwrap().clone();
    (logits.to_vec(), events)
}

#[test]
fn a_pass_begins_before_the_one_before_it_is_taken() {
    use Event::{Submit, Take};

    let (logits, events) = run(None);
    assert_eq!(events, [Submit(0), Submit(1), Take(0), Submit(2), Take(1), Take(2)]);
    let first = logits[0].as_ref().unwrap();
    assert!(!first.is_empty());
    // the same text in another slot
    assert!(logits.iter().all(|of_pass| of_pass.as_ref() == Ok(first)));
}

/// A failure is that of its pass alone. The edits of a refused pass are made with the next one.
#[test]
fn passes_that_fail_while_others_are_in_flight() {
    use Event::{Submit, Take};

    let (expected, _) = run(None);
    for (failing, failed) in [(Take(0), 0), (Take(1), 1), (Submit(1), 1), (Submit(0), 0)] {
        let (logits, events) = run(Some(failing));
        assert!(events.contains(&failing));
        for (i, (got, expected)) in logits.iter().zip(&expected).enumerate() {
            match i == failed {
                true => assert!(got.as_ref().unwrap_err().contains("broken on purpose"), "{got:?}"),
                false => assert_eq!(got, expected, "pass {i}, {failing:?}"),
            }
        }
    }
}

/// A GPU tells that a pass runs, so that one which comes later begins before the first is taken.
#[test]
fn a_pass_begins_while_the_one_before_it_runs() {
    use Event::{Submit, Take};

    let checkpoint = Arc::new(ModelSpec::default().checkpoint());
    let plan = build(&checkpoint).unwrap();
    let events = [Events::default(), Events::default()];
    let devices = events.each_ref().map(|events| -> Arc<dyn Backend> {
        let (queue, all_queued) = channel();
        queue.send(()).unwrap();
        Arc::new(Queued {
            cpu: Cpu::new(1),
            events: Arc::clone(events),
            failing: None,
            all_queued: Mutex::new(Some(all_queued)),
            is_gpu: true,
        })
    });
    let split = Split::new(devices.to_vec(), vec![1]).unwrap();
    let limits = limits_for(&plan);
    let mut executable = split.load(plan, checkpoint, limits, &mut |_, _| {}).unwrap();
    let begun = |events: &Events| !events.lock().unwrap().is_empty();
    let tickets = [0_u32, 1].map(|slot| {
        let rows = [Row { input: Input::Token(5), position: 0, slot }];
        let pages = [slot];
        let tables = [TableEdit { group: 0, slot, first: 0, pages: &pages }];
        let ticket = executable
            .submit(&Pass { tables: &tables, ..Pass::new(Phase::Prompt, &rows, &[]) })
            .unwrap();
        while !begun(&events[0]) {
            thread::yield_now();
        }
        ticket
    });
    for ticket in tickets {
        executable.take(ticket).unwrap();
    }
    drop(executable);
    for events in events {
        assert_eq!(*events.lock().unwrap(), [Submit(0), Submit(1), Take(0), Take(1)]);
    }
}
