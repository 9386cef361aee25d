//! Requests on a backend that has chains, against the same without.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panic")]

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use pelton::{
    Checkpoint, Engine, Error, FinishReason, LoadOptions, Model, Request, Sampling, graph,
};
use pelton_cpu::Cpu;
use pelton_graph::{Backend, Batch, Choice, Executable, Fusion, Limits, NO_TOKEN, PAGE, Plan, Row};
use pelton_sampling::Sampler;

/// What was asked of the executable.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    Forward { rows: usize },
    Begin { index: u64 },
    Extend(usize),
    Read,
    End,
}

/// The processor, with chains that are passes and the sampler, one after the other.
#[derive(Clone, Default)]
struct Chained {
    calls: Arc<Mutex<Vec<Call>>>,
    /// From this position on no logit is a number.
    broken_from: Option<u32>,
    /// Whether it says that it has chains.
    without: bool,
}

struct Chains {
    inner: Box<dyn Executable>,
    shared: Chained,
    vocab: usize,
    logits: Vec<f32>,
    open: Option<Open>,
}

struct Open {
    row: Row,
    tables: Vec<Vec<u32>>,
    sampler: Sampler,
    index: u64,
    parts: VecDeque<Vec<u32>>,
    read: Vec<u32>,
}

impl Backend for Chained {
    fn name(&self) -> &str {
        "chained"
    }

    fn fusions(&self) -> &[Fusion] {
        pelton_cpu::FUSIONS
    }

    fn load(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, graph::Error> {
        let vocab = plan.vocab;
        let inner = Cpu::new(2).load(plan, checkpoint, limits, progress)?;
        let shared = self.clone();
        Ok(Box::new(Chains { inner, shared, vocab, logits: Vec::new(), open: None }))
    }
}

impl Chains {
    fn note(&self, call: Call) {
        self.shared.calls.lock().unwrap().push(call);
    }

    fn pass(&mut self, batch: &Batch<'_>) -> Result<(), graph::Error> {
        self.logits.clear();
        self.logits.extend_from_slice(self.inner.forward(batch)?);
        for (logits, &i) in self.logits.chunks_mut(self.vocab).zip(batch.selected) {
            if self.shared.broken_from.is_some_and(|at| batch.rows[i as usize].position >= at) {
                logits.fill(f32::NAN);
            }
        }
        Ok(())
    }
}

impl Executable for Chains {
    fn forward(&mut self, batch: &Batch<'_>) -> Result<&[f32], graph::Error> {
        self.note(Call::Forward { rows: batch.rows.len() });
        assert!(self.open.is_none(), "a pass in the middle of a chain");
        self.pass(batch)?;
        Ok(&self.logits)
    }

    fn chains(&self) -> bool {
        !self.shared.without
    }

    fn begin_chain(
        &mut self,
        row: Row,
        table: &[u32],
        choice: &Choice,
    ) -> Result<(), graph::Error> {
        self.note(Call::Begin { index: choice.index });
        assert!(self.open.is_none(), "a chain in the middle of a chain");
        let sampling = Sampling {
            temperature: choice.temperature,
            top_k: choice.top_k,
            top_p: choice.top_p,
            min_p: choice.min_p,
            seed: Some(choice.seed),
            ..Sampling::default()
        };
        self.open = Some(Open {
            row: Row { sequence: 0, ..row },
            tables: vec![table.to_vec()],
            sampler: Sampler::new(sampling),
            index: choice.index,
            parts: VecDeque::new(),
            read: Vec::new(),
        });
        Ok(())
    }

    fn extend_chain(&mut self, n: usize) -> Result<(), graph::Error> {
        self.note(Call::Extend(n));
        let mut open = self.open.take().unwrap();
        assert!(n > 0 && open.parts.len() < 2, "{n} more after {} parts", open.parts.len());
        assert!(open.row.position as usize + n <= open.tables[0].len() * PAGE, "past the pages");
        let mut part = Vec::new();
        for _ in 0..n {
            self.pass(&Batch { rows: &[open.row], tables: &open.tables, selected: &[0] })?;
            let token = open.sampler.choose(&self.logits, &[], open.index);
            part.push(token.unwrap_or(NO_TOKEN));
            open.row.token = token.unwrap_or(0);
            open.row.position += 1;
            open.index += 1;
        }
        open.parts.push_back(part);
        self.open = Some(open);
        Ok(())
    }

    fn read_chain(&mut self) -> Result<&[u32], graph::Error> {
        self.note(Call::Read);
        let open = self.open.as_mut().unwrap();
        open.read = open.parts.pop_front().unwrap();
        Ok(&open.read)
    }

    fn end_chain(&mut self) {
        self.note(Call::End);
        self.open = None;
    }
}

impl Chained {
    fn model(&self, options: LoadOptions) -> Model {
        Engine::with_backend(self.clone()).load_built_in(&options).unwrap()
    }

    /// What was asked since the last time, once all requests have ended.
    fn take_calls(&self, model: &Model) -> Vec<Call> {
        model.session(1, |_| Ok(())).unwrap();
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

/// A model with chains, its calls, and one without.
fn models(options: &LoadOptions) -> (Model, Chained, Model) {
    let with = Chained::default();
    let without = Chained { without: true, ..Chained::default() };
    (with.model(options.clone()), with, without.model(options.clone()))
}

/// The tokens of a request and why they ended.
fn answer(model: &Model, request: Request) -> (Vec<pelton::Token>, Option<FinishReason>) {
    let mut stream = model.generate(request).unwrap();
    let tokens = (&mut stream).map(|token| token.unwrap()).collect();
    (tokens, stream.finish_reason())
}

fn request(sampling: Sampling) -> Request {
    Request { ignore_end: true, ..Request::new("Once upon a time").sampling(sampling) }
}

fn samplings() -> [Sampling; 4] {
    let seeded = |seed| Sampling { seed: Some(seed), ..Sampling::default() };
    [
        Sampling::greedy(),
        seeded(1),
        Sampling { top_k: 0, top_p: 0.7, ..seeded(2) },
        Sampling { temperature: 1.5, top_p: 1.0, min_p: 0.0, ..seeded(u64::MAX) },
    ]
}

/// What lies between the first pass and the end of a request.
fn extensions(calls: &[Call]) -> Vec<usize> {
    calls.iter().filter_map(|c| if let Call::Extend(n) = c { Some(*n) } else { None }).collect()
}

#[test]
fn same_tokens_and_no_pass_too_many() {
    let (with, calls, without) = models(&LoadOptions::default());
    for sampling in samplings() {
        for (most, expected) in [
            (1, vec![]),
            (2, vec![1]),
            (3, vec![1, 1]),
            (8, vec![1, 2, 4]),
            (100, vec![1, 2, 4, 8, 16, 32, 32, 4]),
        ] {
            let request = request(sampling.clone()).max_tokens(most);
            assert_eq!(answer(&with, request.clone()), answer(&without, request), "{most}");
            let calls = calls.take_calls(&with);
            assert!(matches!(calls[0], Call::Forward { .. }));
            assert_eq!(extensions(&calls), expected, "{calls:?}");
            if most > 1 {
                assert_eq!(calls[1], Call::Begin { index: 1 });
            }
            if most > 3 {
                // one part ahead of the one that is read
                assert_eq!(calls[2..5], [Call::Extend(1), Call::Extend(2), Call::Read]);
            }
        }
    }
}

#[test]
fn ends_of_texts() {
    let options = LoadOptions { context: Some(150), ..LoadOptions::default() };
    let (with, calls, without) = models(&options);
    for sampling in &samplings()[..2] {
        // the context is full
        let whole = request(sampling.clone());
        let (tokens, reason) = answer(&without, whole.clone());
        assert_eq!(reason, Some(FinishReason::Length));
        assert_eq!(answer(&with, whole.clone()), (tokens.clone(), reason));
        // the model ends it
        let ending = Request { ignore_end: false, ..whole.clone() };
        assert_eq!(answer(&with, ending.clone()), answer(&without, ending));
        // a stop string, wherever it falls in a part
        let text: String = tokens.iter().map(|token| token.text.as_str()).collect();
        for at in [0, 9, 77] {
            let stop: String = text.chars().skip(at).take(5).collect();
            let stopping = whole.clone().stop(stop);
            let expected = answer(&without, stopping.clone());
            assert_eq!(expected.1, Some(FinishReason::Stop));
            assert_eq!(answer(&with, stopping), expected);
        }
    }
    assert!(extensions(&calls.take_calls(&with)).len() > 10);
}

/// A penalty depends on all tokens before, which a chain does not look at.
#[test]
fn a_penalty_takes_the_ordinary_way() {
    let (with, calls, without) = models(&LoadOptions::default());
    let sampling = Sampling { repetition_penalty: 1.2, ..Sampling::greedy() };
    let request = request(sampling).max_tokens(20);
    assert_eq!(answer(&with, request.clone()), answer(&without, request));
    assert!(calls.take_calls(&with).iter().all(|call| matches!(call, Call::Forward { .. })));
}

#[test]
fn a_dropped_stream_ends_the_chain() {
    let (with, calls, without) = models(&LoadOptions::default());
    let long = request(samplings()[1].clone());
    for taken in [1, 2, 3, 20] {
        let mut stream = with.generate(long.clone()).unwrap();
        for _ in 0..taken {
            stream.next().unwrap().unwrap();
        }
        drop(stream);
        // with room for one sequence this waits for the end of the other
        let short = request(samplings()[2].clone()).max_tokens(10);
        assert_eq!(answer(&with, short.clone()), answer(&without, short));
    }
    let calls = calls.take_calls(&with);
    let count = |call| calls.iter().filter(|&&c| c == call).count();
    assert!(count(Call::Begin { index: 1 }) >= 5, "{calls:?}");
    assert!(calls.iter().filter(|c| matches!(c, Call::Begin { .. })).count() == count(Call::End));
}

#[test]
fn a_second_request_in_the_middle() {
    let options = LoadOptions { sequences: 2, context: Some(700), ..LoadOptions::default() };
    let (with, calls, without) = models(&options);
    let first = request(samplings()[1].clone()).max_tokens(600);
    let second = request(samplings()[2].clone()).max_tokens(12);
    let expected = [answer(&without, first.clone()), answer(&without, second.clone())];
    let mut stream = with.generate(first).unwrap();
    let mut tokens: Vec<_> = (&mut stream).take(40).map(|token| token.unwrap()).collect();
    assert_eq!(answer(&with, second), expected[1]);
    tokens.extend((&mut stream).map(|token| token.unwrap()));
    assert_eq!((tokens, stream.finish_reason()), expected[0]);
    let calls = calls.take_calls(&with);
    let ends: Vec<usize> = (0..calls.len()).filter(|&i| calls[i] == Call::End).collect();
    assert_eq!(ends.len(), 2, "{calls:?}");
    // the second's prompt and the first's token, then both decode, then the first alone
    assert!(matches!(calls[ends[0] + 1], Call::Forward { rows: 3.. }), "{calls:?}");
    assert_eq!(calls[ends[0] + 2], Call::Forward { rows: 2 });
    assert!(matches!(calls[ends[0] + 13], Call::Begin { .. }), "{calls:?}");
    assert_eq!(calls[ends[0] + 14], Call::Extend(1));
}

/// A request that there is no room for does not slow down the one that runs.
#[test]
fn a_request_that_waits() {
    let (with, calls, without) = models(&LoadOptions::default());
    let first = request(samplings()[1].clone()).max_tokens(300);
    let second = request(samplings()[2].clone()).max_tokens(5);
    let mut running = with.generate(first.clone()).unwrap();
    let mut waiting = with.generate(second.clone()).unwrap();
    let texts = [running.text().unwrap(), waiting.text().unwrap()];
    let alone = [first, second].map(|r| without.generate(r).unwrap().text().unwrap());
    assert_eq!(texts, alone);
    let forwards =
        calls.take_calls(&with).iter().filter(|c| matches!(c, Call::Forward { .. })).count();
    assert_eq!(forwards, 2, "two prompts");
}

#[test]
fn logits_that_are_no_numbers() {
    let prompt = [5u32, 6, 7, 8];
    for broken in [3, 4, 5, 9, 30] {
        let outcome = |without| {
            let backend = Chained { broken_from: Some(broken), without, ..Chained::default() };
            let model = backend.model(LoadOptions::default());
            let mut request = Request::from_tokens(prompt).sampling(samplings()[1].clone());
            request.ignore_end = true;
            let items: Vec<_> = model.generate(request).unwrap().collect();
            let made = items.len() - 1;
            let Err(Error::NotANumber { index }) = items[made] else { panic!("{items:?}") };
            assert_eq!(index, made);
            items.into_iter().filter_map(Result::ok).collect::<Vec<_>>()
        };
        let tokens = outcome(false);
        assert_eq!(tokens.len(), broken as usize - 3);
        assert_eq!(tokens, outcome(true));
    }
}
