//! Constrained texts on a backend whose passes are submitted before their draws are known: they
//! equal those of plain passes on the CPU.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use pelton::{
    Constraint, Engine, LoadOptions, Model, ModelSource, Sampling, Speculation, Token,
    graph::{
        Backend, Effort, Error, Executable, Limits, Needs, Op, Outputs, Pass, Phase, Pipeline,
        Plan, Row, Sample, Ticket, Want,
    },
};
use pelton_cpu::Cpu;
use pelton_sampling::Sampled;
use pelton_testing::Random;
use serde_json::json;

use crate::request::{Request, Run};

/// The CPU as a queue of passes, of which some wait for their draws.
#[derive(Clone)]
struct Queued {
    cpu: Cpu,
    /// Late draws with a sample, and without one.
    drawn: Arc<[AtomicUsize; 2]>,
}

impl Queued {
    fn new() -> Self {
        Self { cpu: Cpu::new(2), drawn: Arc::default() }
    }

    fn counts(&self) -> [usize; 2] {
        [0, 1].map(|i| self.drawn[i].load(Ordering::Relaxed))
    }
}

/// A pass that waits for its draw.
struct Waiting {
    phase: Phase,
    row: Row,
    efforts: Vec<Effort>,
}

struct QueuedExecutable {
    inner: Box<dyn Executable>,
    drawn: Arc<[AtomicUsize; 2]>,
    waiting: Option<Waiting>,
    /// The results of the passes that are not taken yet.
    results: VecDeque<(Ticket, Vec<f32>, Vec<Sampled>)>,
    next: u64,
    logits: Vec<f32>,
    samples: Vec<Sampled>,
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

    fn load(
        &self,
        plan: Plan,
        checkpoint: Arc<pelton_weights::Checkpoint>,
        limits: Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, Error> {
        Ok(Box::new(QueuedExecutable {
            inner: self.cpu.load(plan, checkpoint, limits, progress)?,
            drawn: Arc::clone(&self.drawn),
            waiting: None,
            results: VecDeque::new(),
            next: 0,
            logits: Vec::new(),
            samples: Vec::new(),
        }))
    }
}

impl QueuedExecutable {
    fn run(&mut self, pass: &Pass<'_>) -> Result<(Vec<f32>, Vec<Sampled>), Error> {
        let ticket = self.inner.submit(pass)?;
        let outputs = self.inner.take(ticket)?;
        Ok((outputs.logits.to_vec(), outputs.samples.to_vec()))
    }
}

impl Executable for QueuedExecutable {
    fn pipeline(&self) -> Pipeline {
        Pipeline { depth: 3, late_draws: true, ..self.inner.pipeline() }
    }

    fn submit(&mut self, pass: &Pass<'_>) -> Result<Ticket, Error> {
        assert!(self.waiting.is_none(), "a pass waits for its draw");
        assert!(self.results.len() < 3, "three passes are not taken");
        let (logits, samples) = match (pass.draws_later(), pass.rows) {
            (false, _) => self.run(pass)?,
            (true, [row]) => {
                // its keys and values are written now, as by a GPU
                self.run(&Pass { wants: &[], ..*pass })?;
                let efforts = pass.efforts.to_vec();
                self.waiting = Some(Waiting { phase: pass.phase, row: *row, efforts });
                (Vec::new(), Vec::new())
            }
            (true, rows) => unreachable!("{} rows of a late draw", rows.len()),
        };
        let ticket = Ticket(self.next);
        self.next += 1;
        self.results.push_back((ticket, logits, samples));
        Ok(ticket)
    }

    fn draw(&mut self, ticket: Ticket, sample: Option<&Sample<'_>>) -> Result<(), Error> {
        let Waiting { phase, row, efforts } = self.waiting.take().unwrap();
        assert_eq!(self.results.back().unwrap().0, ticket);
        self.drawn[usize::from(sample.is_none())].fetch_add(1, Ordering::Relaxed);
        let Some(&sample) = sample else { return Ok(()) };
        let wants = [Want::Sample(sample)];
        let pass =
            Pass { efforts: &efforts, ..Pass::new(phase, std::slice::from_ref(&row), &wants) };
        let (_, samples) = self.run(&pass)?;
        self.results.back_mut().unwrap().2 = samples;
        Ok(())
    }

    fn take(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        let (oldest, logits, samples) = self.results.pop_front().unwrap();
        assert_eq!(oldest, ticket);
        assert!(!self.results.is_empty() || self.waiting.is_none(), "its draw is awaited");
        (self.logits, self.samples) = (logits, samples);
        Ok(Outputs { logits: &self.logits, samples: &self.samples, hidden: &[], drafted: &[] })
    }

    fn copy_page(&mut self, group: usize, from: u32, to: u32) -> Result<(), Error> {
        self.inner.copy_page(group, from, to)
    }
}

fn options() -> LoadOptions {
    LoadOptions::default().context(400)
}

fn constraint(random: &mut Random) -> Constraint {
    match random.below(6) {
        0 => Constraint::JsonObject,
        1 => Constraint::JsonSchema(json!({
            "type": "object",
            "properties": {
                "the_name_of_it": {"type": "string", "maxLength": 12},
                "the_kind_of_it": {"enum": ["grey heron", "grey fox"]},
                "years": {"type": "array", "items": {"type": "integer"}, "maxItems": 4}
            },
            "required": ["the_name_of_it", "the_kind_of_it", "years"],
            "additionalProperties": false
        })),
        2 => Constraint::Regex("(The|A) [a-z]{3,8} (ran|sat) by the river, [0-9]{2}\\.".into()),
        3 => Constraint::Regex("nothing to choose: 1, 2, 3\\.".into()),
        4 => Constraint::Gbnf("root ::= \"(\" (root | [a-z]{2,5})* \")\"".into()),
        _ => Constraint::Lark("start: WORD (\" \" WORD)*\nWORD: /[a-z]{1,6}/".into()),
    }
}

fn request(random: &mut Random, salt: u64) -> Request {
    let seeded = Sampling::default().seed(random.bits());
    let sampling = match random.below(6) {
        0 => Sampling::greedy(),
        1 => seeded.mirostat(2),
        2 => seeded.repetition_penalty(1.3).frequency_penalty(0.4),
        3 => seeded.temperature(1.5).top_k(0).top_p(1.0).min_p(0.0),
        _ => seeded,
    };
    let mut request = Request::new(["Once upon a time", "The little fox"][random.below(2)])
        .sampling(sampling)
        .constraint(constraint(random))
        .max_tokens(1 + random.below(80))
        .cache_salt(salt);
    match random.below(6) {
        0 => request = request.constrain_after(["the", ".", "a"][random.below(3)]),
        1 => request = request.logprobs(3),
        2 => request = request.stop(["e", "1"][random.below(2)]),
        _ => {}
    }
    request
}

fn tokens(model: &Model, request: &Request) -> Vec<Token> {
    model.run(request.clone()).unwrap().map(Result::unwrap).collect()
}

#[test]
fn texts_equal_those_of_plain_passes() {
    let queued = Queued::new();
    let late = Engine::with_backend(queued.clone()).load(ModelSource::BuiltIn, &options()).unwrap();
    let plain = Engine::with_backend(Cpu::new(2)).load(ModelSource::BuiltIn, &options()).unwrap();
    let mut random = Random::new(5);
    for salt in 0..16 {
        let request = request(&mut random, salt);
        let unassisted = request.clone().speculation(Speculation::Off);
        let expected = tokens(&plain, &unassisted);
        assert_eq!(tokens(&late, &unassisted), expected, "{request:?}");
        assert_eq!(
            tokens(&late, &request.clone().cache_salt(1000 + salt)),
            expected,
            "{request:?}"
        );
        let drafts = request.clone().speculation(Speculation::Always).cache_salt(2000 + salt);
        assert_eq!(tokens(&late, &drafts), expected, "{request:?}");
    }
    let [with, without] = queued.counts();
    assert!(with > 100 && without > 15, "{with} draws, {without} tokens that were forced");
}

#[test]
fn requests_come_and_go_while_a_draw_is_awaited() {
    let queued = Queued::new();
    let late = Engine::with_backend(queued.clone());
    let late = late.load(ModelSource::BuiltIn, &options().max_concurrent(3)).unwrap();
    let plain = Engine::with_backend(Cpu::new(2)).load(ModelSource::BuiltIn, &options()).unwrap();
    let mut random = Random::new(6);
    for salt in 0..8 {
        let requests: [Request; 3] = std::array::from_fn(|i| {
            let request = request(&mut random, 3 * salt + i as u64);
            if i == 1 { request } else { request.max_tokens(120) }
        });
        let expected = requests.clone().map(|request| tokens(&plain, &request));
        let mut first = late.run(requests[0].clone()).unwrap();
        let begun: Vec<Token> = first.by_ref().take(random.below(12)).map(Result::unwrap).collect();
        let others = [1, 2].map(|i| late.run(requests[i].clone()).unwrap());
        if random.below(3) == 0 {
            first.handle().cancel();
            let all: Vec<Token> = begun.into_iter().chain(first.map(Result::unwrap)).collect();
            assert_eq!(all, expected[0][..all.len()]);
        } else {
            let all: Vec<Token> = begun.into_iter().chain(first.map(Result::unwrap)).collect();
            assert_eq!(all, expected[0], "{:?}", requests[0]);
        }
        for (stream, i) in others.into_iter().zip([1, 2]) {
            let all: Vec<Token> = stream.map(Result::unwrap).collect();
            assert_eq!(all, expected[i], "{:?}", requests[i]);
        }
    }
    assert!(queued.counts()[0] > 15, "{:?}", queued.counts());
}
