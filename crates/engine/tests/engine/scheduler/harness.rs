//! Models on the fake, and requests whose events are collected.

use std::{
    ops::ControlFlow,
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use pelton::{
    Engine, Error, Event, FinishReason, KvMemory, LoadOptions, Model, PromptToken, RequestHandle,
    Sampling, Speculation, Stats, Token,
};
use pelton_testing::fake::{self, Fake};

use crate::request::{Request, Run};

pub(crate) const VOCAB: usize = 50;
/// Positions of the plan; models are loaded with less, mostly.
pub(crate) const CONTEXT: usize = 20_000;
/// Bytes of the cache of one position in one group.
pub(crate) const PER_POSITION: u64 = 2 * 2 * 16 * 2;

/// Options without speculation, for tests of the passes of plain decoding.
pub(crate) fn plain() -> LoadOptions {
    LoadOptions::default().speculation(Speculation::Off)
}

pub(crate) fn load(fake: &Fake, options: &LoadOptions, windows: &[Option<usize>]) -> Model {
    let (plan, checkpoint) = fake::plan(VOCAB, CONTEXT, windows);
    Engine::with_backend(fake.clone()).load_plan(plan, checkpoint, options).unwrap()
}

/// As [`load`], with a recurrent state next to the caches.
pub(crate) fn load_recurrent(
    fake: &Fake,
    options: &LoadOptions,
    windows: &[Option<usize>],
) -> Model {
    let (plan, checkpoint) = fake::recurrent_plan(VOCAB, CONTEXT, windows);
    Engine::with_backend(fake.clone()).load_plan(plan, checkpoint, options).unwrap()
}

pub(crate) fn model(fake: &Fake, options: &LoadOptions) -> Model {
    load(fake, options, &[None])
}

/// Memory for this many positions in one group.
pub(crate) fn memory(positions: usize) -> KvMemory {
    KvMemory::Bytes(positions as u64 * PER_POSITION)
}

/// A prompt of `len` tokens.
pub(crate) fn prompt(len: usize, seed: usize) -> Vec<u32> {
    (0..len).map(|i| ((i * i + i * seed + seed * 7) % VOCAB) as u32).collect()
}

pub(crate) fn greedy(prompt: Vec<u32>, tokens: usize) -> Request {
    Request::from_tokens(prompt).max_tokens(tokens).sampling(Sampling::greedy())
}

/// How a request ended.
#[derive(Debug)]
pub(crate) enum End {
    Finished(FinishReason, Stats),
    Failed(Error),
}

/// A submitted request.
pub(crate) struct Running {
    pub(crate) handle: RequestHandle,
    pub(crate) submitted: Instant,
    events: Receiver<Event>,
}

pub(crate) fn submit(model: &Model, request: Request) -> Result<Running, Error> {
    let submitted = Instant::now();
    let (sender, events) = channel();
    let handle = model.submit_request(request, move |event| {
        let _ = sender.send(event);
        ControlFlow::Continue(())
    })?;
    Ok(Running { handle, submitted, events })
}

impl Running {
    /// Waits for the next token.
    pub(crate) fn token(&self) -> Token {
        match self.events.recv_timeout(Duration::from_secs(60)).unwrap() {
            Event::Token(token) => token,
            event => panic!("{event:?}"),
        }
    }

    /// Waits for the end.
    pub(crate) fn end(&self) -> (Vec<Token>, End) {
        let (_, tokens, end) = self.all();
        (tokens, end)
    }

    /// Waits for the end, and returns the tokens of the prompt too, if they come.
    pub(crate) fn all(&self) -> (Vec<PromptToken>, Vec<Token>, End) {
        let (mut prompt, mut tokens) = (Vec::new(), Vec::new());
        let end = loop {
            match self.events.recv_timeout(Duration::from_secs(60)).unwrap() {
                Event::Prompt(all) => {
                    assert!(prompt.is_empty() && tokens.is_empty(), "once, before the text");
                    prompt = all;
                }
                Event::Token(token) => tokens.push(token),
                Event::Finished { reason, stats } => break End::Finished(reason, stats),
                Event::Failed(error) => break End::Failed(error),
                event => panic!("{event:?}"),
            }
        };
        assert!(
            self.events.recv_timeout(Duration::from_secs(60)).is_err(),
            "an event after the end"
        );
        (prompt, tokens, end)
    }

    /// Waits for the end, which must be that all tokens are there.
    pub(crate) fn finished(&self) -> (Vec<u32>, Stats) {
        let (tokens, end) = self.end();
        let End::Finished(FinishReason::Length, stats) = end else { panic!("{end:?}") };
        (tokens.iter().map(|token| token.id).collect(), stats)
    }
}

/// The ids of a request's tokens.
pub(crate) fn ids(model: &Model, request: Request) -> Vec<u32> {
    submit(model, request).unwrap().finished().0
}

/// The result of a request alone, uncached, one pass after the other.
pub(crate) fn alone(fake: &Fake, windows: &[Option<usize>], request: &Request) -> Vec<Token> {
    alone_on(load, fake, windows, request).1
}

/// Loads a plan with these windows.
pub(crate) type Load = fn(&Fake, &LoadOptions, &[Option<usize>]) -> Model;

/// As [`alone`], on another kind of plan, with the tokens of the prompt.
pub(crate) fn alone_on(
    load: Load,
    fake: &Fake,
    windows: &[Option<usize>],
    request: &Request,
) -> (Vec<PromptToken>, Vec<Token>) {
    let unbatched = Fake::default();
    let mut unbatched =
        if fake.pipeline.phases_agree { unbatched } else { unbatched.with_phases() };
    unbatched.pipeline.streams = fake.pipeline.streams;
    let model = load(&unbatched, &plain().context(CONTEXT), windows);
    let mut request = request.clone();
    request.deadline = None;
    let (prompt, tokens, end) = submit(&model, request).unwrap().all();
    assert!(matches!(end, End::Finished(FinishReason::Length, _)), "{end:?}");
    assert_sound(&unbatched);
    (prompt, tokens)
}

/// No contract was broken.
pub(crate) fn assert_sound(fake: &Fake) {
    let log = fake.log();
    assert!(log.violations.is_empty(), "{:?}", &log.violations[..log.violations.len().min(5)]);
}

/// Waits until nothing runs; then no page may be held.
pub(crate) fn assert_all_pages_back(model: &Model) {
    let begun = Instant::now();
    loop {
        let status = model.status();
        let held = status.pages.iter().any(|pages| pages.private > 0);
        let busy = status.running + status.queued + status.preempted > 0;
        if !held && !busy {
            for pages in &status.pages {
                assert_eq!(pages.free + pages.cached, pages.total);
                assert_eq!(pages.evictable, pages.cached);
            }
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{status:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
