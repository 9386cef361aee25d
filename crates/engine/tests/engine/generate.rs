//! Requests to the built-in model.

use pelton::{Engine, Error, FinishReason, LoadOptions, Model, ModelSource, Sampling};
use pelton_cpu::Cpu;

use crate::request::{Request, Run};

fn model() -> Model {
    with_options(2, LoadOptions::default())
}

fn with_options(threads: usize, options: LoadOptions) -> Model {
    Engine::with_backend(Cpu::new(threads)).load(ModelSource::BuiltIn, &options).unwrap()
}

fn seeded(seed: u64) -> Sampling {
    Sampling::default().seed(seed)
}

fn text(model: &Model, request: Request) -> String {
    model.run(request).unwrap().text().unwrap()
}

const PROMPT: &str = "Once upon a time";

#[test]
fn same_seed_same_text_on_any_number_of_threads() {
    let request = |seed| Request::new(PROMPT).max_tokens(60).sampling(seeded(seed));
    let on = |threads, seed| text(&with_options(threads, LoadOptions::default()), request(seed));
    let first = on(1, 1);
    assert!(first.len() > 60, "{first}");
    for threads in [1, 2, 3] {
        assert_eq!(on(threads, 1), first, "{threads} threads");
    }
    assert_ne!(on(2, 2), first);
}

#[test]
fn a_random_seed_is_reported_and_gives_the_text_again() {
    let model = model();
    let request = Request::new(PROMPT).max_tokens(40);
    let mut stream = model.run(request.clone()).unwrap();
    let seed = stream.stats().seed;
    let first = stream.text().unwrap();
    assert_eq!(text(&model, request.sampling(seeded(seed))), first);
}

/// The result of a request does not depend on the requests that run at the same time.
#[test]
fn requests_together_give_what_each_gives_alone() {
    let options = LoadOptions::default().max_concurrent(3).context(256);
    let model = with_options(2, options);
    let request = |seed| {
        let prompt = ["Once upon a time", "One day", "Long ago, there was a", "A", "The fox"];
        Request::new(prompt[seed as usize % 5]).max_tokens(50).sampling(seeded(seed))
    };
    let alone: Vec<_> = (0..5).map(|seed| text(&model, request(seed))).collect();
    // more than there is room for at once: the rest waits
    let mut streams: Vec<_> = (0..5).map(|seed| model.run(request(seed)).unwrap()).collect();
    let together: Vec<_> = streams.iter_mut().map(|stream| stream.text().unwrap()).collect();
    assert_eq!(together, alone);
}

#[test]
fn finish_reasons() {
    let model = model();
    let greedy = || Request::new(PROMPT).sampling(Sampling::greedy());
    let finish = |request: Request| {
        let mut stream = model.run(request).unwrap();
        assert_eq!(stream.finish_reason(), None);
        let text = stream.text().unwrap();
        let stats = stream.stats();
        (stream.finish_reason().unwrap(), text, stats)
    };
    let (reason, story, stats) = finish(greedy());
    assert_eq!(reason, FinishReason::End, "{story}");
    assert!(stats.generated_tokens > 30 && stats.prompt_tokens > 1);
    assert!(stats.prefill_tokens_per_second().unwrap() > 0.0);
    assert!(stats.decode_tokens_per_second().unwrap() > 0.0);

    let (reason, start, stats) = finish(greedy().max_tokens(7));
    assert_eq!((reason, stats.generated_tokens), (FinishReason::Length, 7));
    assert!(story.starts_with(&start));

    let (middle, _) = story.char_indices().nth(40).unwrap();
    let stop = &story[middle..middle + 6];
    let (reason, before, _) = finish(greedy().stop(stop));
    assert_eq!(reason, FinishReason::Stop);
    assert_eq!(before, story[..story.find(stop).unwrap()]);

    let (reason, beyond, stats) = finish(greedy().max_tokens(600).ignore_eos(true));
    assert_eq!((reason, stats.generated_tokens), (FinishReason::Length, 600));
    assert!(beyond.starts_with(&story));
}

#[test]
fn the_context_ends_a_text() {
    let model = with_options(2, LoadOptions::default().context(40));
    let request = Request::new(PROMPT).ignore_eos(true);
    let mut stream = model.run(request).unwrap();
    stream.text().unwrap();
    assert_eq!(stream.finish_reason(), Some(FinishReason::Length));
    let stats = stream.stats();
    assert_eq!(stats.prompt_tokens + stats.generated_tokens, 40);
}

#[test]
fn a_dropped_stream_makes_room() {
    let model = model();
    for _ in 0..3 {
        let request = Request::new(PROMPT).ignore_eos(true);
        let mut stream = model.run(request).unwrap();
        stream.next().unwrap().unwrap();
    }
    // room for one sequence would make this wait until the context is full
    let mut stream = model.run(Request::new(PROMPT).max_tokens(2)).unwrap();
    stream.text().unwrap();
    assert_eq!(stream.stats().generated_tokens, 2);
}

#[test]
fn refusals() {
    let model = with_options(1, LoadOptions::default().context(16));
    let refused = |request| model.run(request).unwrap_err();
    assert!(matches!(refused(Request::from_tokens([])), Error::EmptyPrompt));
    assert!(matches!(
        refused(Request::from_tokens([u32::MAX])),
        Error::UnknownToken { token: u32::MAX, .. }
    ));
    assert!(matches!(
        refused(Request::from_tokens([5; 16])),
        Error::PromptTooLong { tokens: 16, context: 16 }
    ));
    let hot = Sampling::default().temperature(f32::NAN);
    let error = refused(Request::new("a").sampling(hot)).to_string();
    assert!(error.contains("temperature is NaN"), "{error}");
    let load = |context| {
        let options = LoadOptions::default().context(context);
        Engine::with_backend(Cpu::new(1))
            .load(ModelSource::BuiltIn, &options)
            .err()
            .unwrap()
            .to_string()
    };
    assert!(load(0).contains("'context' is 0"));
    assert!(load(1 << 40).contains("'context' is 1099511627776"));
    // none wanted, none made
    let mut none = model.run(Request::new("a").max_tokens(0)).unwrap();
    assert!(none.next().is_none());
    assert_eq!(none.finish_reason(), Some(FinishReason::Length));
}

#[test]
fn a_model_without_a_vocabulary_takes_tokens() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/logits/llama.gguf");
    let model = Engine::with_backend(Cpu::new(1)).load(file, &LoadOptions::default()).unwrap();
    let error = model.run(Request::new("text")).unwrap_err().to_string();
    assert!(error.contains("llama.gguf") && error.contains("no vocabulary"), "{error}");
    let mut stream = model.run(Request::from_tokens([1, 2, 3]).max_tokens(5)).unwrap();
    let tokens: Vec<_> = (&mut stream).map(|token| token.unwrap()).collect();
    assert_eq!(tokens.len(), 5);
    assert!(tokens.iter().all(|token| token.text.is_empty()));
}
