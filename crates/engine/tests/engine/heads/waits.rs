//! The order in which passes of a model and its head are submitted and taken, on a GPU.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use pelton::gpu::Gpu;
use pelton::graph::{
    Backend, Error, Executable, Limits, Needs, Op, Outputs, Pass, Pipeline, Plan, Shared, Ticket,
};
use pelton::{Checkpoint, Engine, Speculation};
use pelton_testing::{Need, skip};

use super::texts::{Right, options};
use crate::request::{Request, Run};

/// The executable of an event: the model is loaded before its head.
const MODEL: usize = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Submit {
        of: usize,
        ticket: Ticket,
        /// Rows with drafted tokens that it finds on the device, and whether hidden states come
        /// back.
        drafted: usize,
        keeps_hidden: bool,
    },
    Take {
        of: usize,
        ticket: Ticket,
    },
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Event>>>);

impl Log {
    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A GPU whose executables write down what happens.
struct Logged {
    gpu: Gpu,
    loads: Mutex<usize>,
    log: Log,
}

impl Backend for Logged {
    fn name(&self) -> &str {
        self.gpu.name()
    }

    fn accepts(&self, op: &Op, plan: &Plan) -> bool {
        self.gpu.accepts(op, plan)
    }

    fn needs(&self, plan: &Plan, limits: &Limits) -> Result<Needs, Error> {
        self.gpu.needs(plan, limits)
    }

    fn load(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, Error> {
        let executable = self.gpu.load(plan, checkpoint, limits, progress)?;
        let mut loads = self.loads.lock().unwrap();
        let of = *loads;
        *loads += 1;
        Ok(Box::new(LoggedExecutable { executable, of, log: self.log.clone() }))
    }
}

struct LoggedExecutable {
    executable: Box<dyn Executable>,
    of: usize,
    log: Log,
}

impl Executable for LoggedExecutable {
    fn pipeline(&self) -> Pipeline {
        self.executable.pipeline()
    }

    fn shared(&self) -> Option<Shared> {
        self.executable.shared()
    }

    fn pair(&mut self, partner: Shared) -> bool {
        self.executable.pair(partner)
    }

    fn submit(&mut self, pass: &Pass<'_>) -> Result<Ticket, Error> {
        let ticket = self.executable.submit(pass)?;
        let (of, drafted, keeps_hidden) = (self.of, pass.drafted(), pass.keeps_hidden);
        self.log.lock().push(Event::Submit { of, ticket, drafted, keeps_hidden });
        Ok(ticket)
    }

    fn take(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        self.log.lock().push(Event::Take { of: self.of, ticket });
        self.executable.take(ticket)
    }

    fn copy_page(&mut self, group: usize, from: u32, to: u32) -> Result<(), Error> {
        self.executable.copy_page(group, from, to)
    }
}

/// While a lone sequence has drafts, the host waits once for the tokens of a pass: for the pass
/// that verifies them. Passes of the head that it takes were submitted before the pass that it
/// waited for last, so they have ended.
#[test]
fn a_step_with_drafts_waits_once() {
    let Some(adapter) = pelton::gpu::adapters().into_iter().next() else {
        skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        return;
    };
    let gpu = Gpu::open_checked(&adapter).unwrap();
    let log = Log::default();
    let backend = Logged { gpu, loads: Mutex::new(0), log: log.clone() };
    let right = Right::new();
    let options = options().speculation(Speculation::Always);
    let model = Engine::with_backend(backend).load(right.path(), &options).unwrap();
    let request = Request::from_tokens([5, 9, 17]).max_tokens(60).ignore_eos(true);
    let tokens: Vec<u32> = model.run(request).unwrap().map(|token| token.unwrap().id).collect();
    assert_eq!(tokens.len(), 60);
    let stats = model.status().speculation;
    assert!(stats.drafted > 30 && stats.accepted + 4 >= stats.drafted, "{stats:?}");
    drop(model);

    let events = log.lock().clone();
    let mut ended: HashSet<(usize, Ticket)> = HashSet::new();
    let (mut submitted, mut verifying, mut steps) = (Vec::new(), None, 0);
    for event in events {
        match event {
            Event::Submit { of, ticket, drafted, keeps_hidden } => {
                submitted.push((of, ticket));
                if drafted > 0 {
                    assert_eq!(of, MODEL);
                    assert!(!keeps_hidden, "its hidden states stay on the device");
                    assert_eq!(verifying, None);
                    verifying = Some(ticket);
                    steps += 1;
                }
            }
            Event::Take { of: MODEL, ticket } => {
                if verifying.take_if(|verifying| *verifying == ticket).is_some() {
                    // the queue is in order
                    ended.extend(submitted.drain(..));
                }
            }
            Event::Take { of, ticket } if steps > 0 => {
                assert!(ended.contains(&(of, ticket)), "a wait for {ticket:?} of the head");
            }
            Event::Take { .. } => {}
        }
    }
    assert!(steps > 10, "{steps} steps with drafts");
}
