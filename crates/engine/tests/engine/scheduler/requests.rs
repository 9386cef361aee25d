//! Options of requests, the queue, streams and the status.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};

use futures_core::Stream;
use pelton::{Error, FinishReason, LoadOptions, LogitBias, Sampling};
use pelton_testing::fake::Fake;

use super::harness::{
    End, VOCAB, alone, assert_all_pages_back, greedy, ids, model, prompt, submit,
};
use crate::request::Run;

fn slow() -> Fake {
    Fake::default().slow(Duration::from_micros(100))
}

#[test]
fn the_queue_is_bounded() {
    let options = LoadOptions::default().context(20_000).queue_requests(2).queue_tokens(1000);
    let model = model(&slow(), &options);
    let running = submit(&model, greedy(prompt(10, 1), 15_000)).unwrap();
    running.token();
    let waiting = submit(&model, greedy(prompt(700, 2), 2)).unwrap();
    let error = submit(&model, greedy(prompt(400, 3), 2)).err().unwrap();
    assert!(
        matches!(error, Error::Busy { what: "prompt tokens", found: 1100, limit: 1000 }),
        "{error}"
    );
    let small = submit(&model, greedy(prompt(10, 3), 2)).unwrap();
    let error = submit(&model, greedy(prompt(1, 3), 2)).err().unwrap();
    assert!(matches!(error, Error::Busy { what: "requests", found: 3, limit: 2 }), "{error}");
    let status = model.status();
    assert_eq!((status.queued, status.queued_tokens, status.running), (2, 710, 1));
    running.handle.cancel();
    waiting.finished();
    small.finished();
    assert_all_pages_back(&model);
    ids(&model, greedy(prompt(1, 3), 2));
}

#[test]
fn deadlines_queued_and_running() {
    let model = model(&slow(), &LoadOptions::default().context(15_000));
    let time = Duration::from_millis(30);
    let running = submit(&model, greedy(prompt(10, 1), 10_000).deadline(time)).unwrap();
    let late = Duration::from_millis(1);
    let queued = submit(&model, greedy(prompt(10, 2), 10).deadline(late)).unwrap();
    let (tokens, end) = queued.end();
    assert!(tokens.is_empty() && matches!(end, End::Failed(Error::Deadline(d)) if d == late));
    let (tokens, end) = running.end();
    assert!(!tokens.is_empty() && matches!(end, End::Failed(Error::Deadline(d)) if d == time));
    assert_all_pages_back(&model);
}

#[test]
fn values_out_of_range_are_refused() {
    let model = model(&Fake::default(), &LoadOptions::default().context(100));
    let good = || greedy(prompt(5, 1), 2);
    for (request, name) in [
        (good().logprobs(21), "logprobs"),
        (good().logit_bias(1, f32::NAN), "logit_bias"),
        ((0..600).fold(good(), |r, i| r.logit_bias(i % 50, i as f32)), ""),
        (good().sampling(Sampling::default().top_p(2.0)), "top_p"),
    ] {
        match submit(&model, request) {
            Err(error) => assert!(error.to_string().contains(name), "{error}"),
            Ok(run) => assert_eq!((name, run.finished().0.len()), ("", 2)),
        }
    }
    let mut twice = good();
    twice.logit_bias = vec![LogitBias::new(1, 0.5), LogitBias::new(1, 0.5)];
    assert!(matches!(submit(&model, twice), Err(Error::Sampling(_))));
    for request in [greedy(vec![VOCAB as u32], 1), good().logit_bias(VOCAB as u32, 1.0)] {
        let error = submit(&model, request).err().unwrap();
        assert!(matches!(error, Error::UnknownToken { token: 50, vocab: 50 }));
    }
    assert!(matches!(submit(&model, greedy(vec![], 1)), Err(Error::EmptyPrompt)));
    assert_eq!(model.status().queued, 0);
}

#[test]
fn no_tokens_are_a_text_too() {
    let model = model(&Fake::default(), &LoadOptions::default().context(100));
    let (tokens, stats) = submit(&model, greedy(prompt(5, 1), 0)).unwrap().finished();
    assert_eq!((tokens.len(), stats.prompt_tokens, stats.generated_tokens), (0, 5, 0));
}

#[test]
fn biases_and_log_probabilities() {
    let fake = Fake::pipelined(2, 4);
    let model = model(&fake, &LoadOptions::default().context(100));
    let request = greedy(prompt(5, 1), 20).logit_bias(7, 100.0).logprobs(3);
    let (tokens, _) = submit(&model, request).unwrap().end();
    for token in &tokens {
        assert_eq!((token.id, token.top.len()), (7, 3));
        let sum: f32 = token.top.iter().map(|top| top.logprob.exp()).sum();
        let descends = token.top.is_sorted_by(|a, b| a.logprob >= b.logprob);
        assert!(sum <= 1.0 + 1e-6 && descends, "{token:?}");
        assert!(token.logprob.unwrap() <= token.top[0].logprob);
    }
    let request = greedy(prompt(5, 1), 20).logprobs(1);
    for token in submit(&model, request).unwrap().end().0 {
        assert_eq!((token.top[0].id, token.top[0].logprob), (token.id, token.logprob.unwrap()));
    }
    let plain = submit(&model, greedy(prompt(5, 1), 3)).unwrap().end().0;
    assert!(plain.iter().all(|token| token.logprob.is_none() && token.top.is_empty()));
}

#[test]
fn a_status_of_what_runs() {
    let model = model(&slow(), &LoadOptions::default().context(2000).max_concurrent(2).rows(64));
    let first = submit(&model, greedy(prompt(64, 1), 1000)).unwrap();
    first.token();
    let second = submit(&model, greedy(prompt(1900, 2), 10)).unwrap();
    let third = submit(&model, greedy(prompt(100, 3), 10)).unwrap();
    let status = loop {
        let status = model.status();
        if status.prefilling == 1 {
            break status;
        }
        thread::yield_now();
    };
    assert_eq!((status.queued, status.running, status.preempted), (1, 2, 0));
    let pages = status.pages[0];
    assert_eq!(pages.total, 2 * 32);
    assert_eq!(pages.free + pages.private + pages.cached, pages.total);
    assert!(pages.private >= 1 && pages.cached >= 1 && pages.evictable == 0, "{pages:?}");
    assert!(status.generated_tokens >= 1);
    for run in [first, second, third] {
        run.handle.cancel();
        run.end();
    }
    assert_all_pages_back(&model);
    assert_eq!(model.status().ended, 3);
}

#[test]
fn the_iterator() {
    let fake = Fake::pipelined(2, 4);
    let model = model(&fake, &LoadOptions::default().context(1000));
    let request = greedy(prompt(70, 1), 30);
    let mut stream = model.run(request.clone()).unwrap();
    let tokens: Vec<_> = (&mut stream).map(|token| token.unwrap()).collect();
    assert_eq!(tokens, alone(&fake, &[None], &request));
    assert_eq!(stream.finish_reason(), Some(FinishReason::Length));
    assert!(stream.next().is_none());
    let stats = stream.stats();
    assert_eq!((stats.prompt_tokens, stats.generated_tokens), (70, 30));
    assert!(stats.time_to_first_token.unwrap() >= stats.queued.unwrap());
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park_timeout(Duration::from_secs(60)),
        }
    }
}

#[test]
fn the_asynchronous_stream() {
    let fake = slow();
    let model = model(&fake, &LoadOptions::default().context(1000));
    let request = greedy(prompt(70, 1), 30);
    let mut stream = model.run_async(request.clone()).unwrap();
    let tokens = block_on(async {
        let mut tokens = Vec::new();
        while let Some(token) = poll_fn(|cx| Pin::new(&mut stream).poll_next(cx)).await {
            tokens.push(token.unwrap());
        }
        tokens
    });
    assert_eq!(tokens, alone(&Fake::default(), &[None], &request));
    assert_eq!(stream.finish_reason(), Some(FinishReason::Length));
    let dropped = model.run_async(greedy(prompt(10, 2), 900)).unwrap();
    drop(dropped);
    assert_all_pages_back(&model);
}
