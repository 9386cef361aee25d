//! Requests for embeddings and scores.

use std::{
    collections::BTreeSet,
    ops::ControlFlow,
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use pelton::{
    EmbedOptions, Embedding, Engine, Error, LoadOptions, Model, Pooling, Prompt, RerankOptions,
    graph::{self, OutputKind, Phase},
};
use pelton_testing::{
    Random,
    fake::{self, Failure, Fake, Results},
};

use super::harness::{
    CONTEXT, VOCAB, assert_all_pages_back, assert_sound, memory, model as decoder, prompt,
};
use crate::request::{Request, Run};

const WIDTH: usize = 6;

const ENCODER: Results = Results {
    output: OutputKind::Embedding,
    width: WIDTH,
    whole: true,
    pooling: Some(graph::Pooling::Mean),
};
/// An encoder with one embedding for each token.
const TOKENS: Results = Results { pooling: None, ..ENCODER };
/// A causal model: any row can be wanted.
const CAUSAL: Results = Results { whole: false, ..TOKENS };
const SCORES: Results = Results { output: OutputKind::Scores, width: 1, ..ENCODER };

fn load(fake: &Fake, options: &LoadOptions, results: Results) -> Model {
    try_load(fake, options, results).unwrap()
}

fn try_load(fake: &Fake, options: &LoadOptions, results: Results) -> Result<Model, Error> {
    let (plan, checkpoint) = fake::values_plan(VOCAB, CONTEXT, &[None], results);
    Engine::with_backend(fake.clone()).load_plan(plan, checkpoint, options)
}

fn texts(lengths: &[usize]) -> Vec<Prompt> {
    lengths.iter().enumerate().map(|(i, &len)| Prompt::Tokens(prompt(len, i))).collect()
}

fn raw() -> EmbedOptions {
    EmbedOptions::default().normalize(false)
}

/// The embeddings of texts that run one after the other, each in passes of its own.
fn alone(texts: &[Prompt], results: Results, load_options: &LoadOptions) -> Vec<Embedding> {
    let fake = Fake::default();
    let mut options = LoadOptions::default().context(4096).max_concurrent(1);
    options.pooling = load_options.pooling;
    let model = load(&fake, &options, results);
    let one = |text: &Prompt| model.embed(std::slice::from_ref(text), &raw()).unwrap().remove(0);
    texts.iter().map(one).collect()
}

fn submit(
    model: &Model,
    len: usize,
) -> (pelton::RequestHandle, Receiver<Result<Embedding, Error>>) {
    let (sender, receiver) = channel();
    let text = Prompt::Tokens(prompt(len, 1));
    let handle = model
        .submit_embedding(&text, &raw(), move |outcome| sender.send(outcome).unwrap())
        .unwrap();
    (handle, receiver)
}

fn wait(receiver: &Receiver<Result<Embedding, Error>>) -> Result<Embedding, Error> {
    let outcome = receiver.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(receiver.recv().is_err(), "called twice");
    outcome
}

#[test]
fn whole_texts_share_passes() {
    for depth in 1..=3 {
        let fake = Fake::pipelined(depth, 4);
        let model = load(&fake, &LoadOptions::default().context(512).max_concurrent(8), ENCODER);
        let mut random = Random::new(3);
        let lengths: Vec<usize> = (0..60).map(|_| 1 + random.below(512)).collect();
        let texts = texts(&lengths);
        let got = model.embed(&texts, &raw()).unwrap();
        assert_eq!(got, alone(&texts, ENCODER, &LoadOptions::default()));
        for (embedding, &len) in got.iter().zip(&lengths) {
            assert_eq!((embedding.tokens, embedding.dimensions), (len, WIDTH));
            assert_eq!(embedding.vectors().len(), 1);
        }
        let log = fake.log();
        for pass in &log.passes {
            assert!(pass.rows.len() <= 512 && pass.phase == Phase::Prompt && pass.repeat == 1);
            let slots: BTreeSet<u32> = pass.rows.iter().map(|row| row.slot).collect();
            assert_eq!((pass.results, pass.samples), (slots.len(), 0));
        }
        let rows: usize = log.passes.iter().map(|pass| pass.rows.len()).sum();
        assert_eq!(rows, lengths.iter().sum::<usize>(), "each row runs once");
        assert!(log.passes.len() < 60, "{} passes of 60 texts", log.passes.len());
        drop(log);
        // no page of a text whose rows see later ones is shared
        assert!(model.status().pages.iter().all(|pages| pages.cached == 0));
        assert_eq!(model.status().prefix_hit_tokens, 0);
        assert_all_pages_back(&model);
        assert_sound(&fake);
    }
}

/// Equal beginnings of texts whose rows see later ones: nobody waits for another's pages.
#[test]
fn whole_texts_with_a_common_prefix_run_at_once() {
    let fake = Fake::default().slow(Duration::from_micros(100));
    let model =
        load(&fake, &LoadOptions::default().context(512).max_concurrent(4).rows(2048), ENCODER);
    let texts: Vec<Prompt> =
        (0..4).map(|i| [prompt(200, 1), prompt(100, i)].concat().into()).collect();
    let first = submit(&model, 100);
    while fake.log().passes.is_empty() {
        thread::sleep(Duration::from_micros(50));
    }
    let got = model.embed(&texts, &raw()).unwrap();
    wait(&first.1).unwrap();
    assert_eq!(got, alone(&texts, ENCODER, &LoadOptions::default()));
    assert!(fake.log().passes.len() <= 3, "{}", fake.log().passes.len());
    assert_sound(&fake);
}

#[test]
fn a_causal_embedder_runs_in_chunks_and_shares_prefixes() {
    for depth in 1..=3 {
        let fake = Fake::pipelined(depth, 1);
        let options = LoadOptions::default().context(4096).max_concurrent(4).rows(128);
        let model = load(&fake, &options, CAUSAL);
        assert_eq!(model.pooling().unwrap(), Pooling::Last);
        let instruction = prompt(400, 9);
        let texts: Vec<Prompt> = [700, 30, 1, 900, 64]
            .iter()
            .enumerate()
            .map(|(i, &len)| [instruction.clone(), prompt(len, i)].concat().into())
            .collect();
        let got = model.embed(&texts, &raw()).unwrap();
        assert_eq!(got, alone(&texts, CAUSAL, &options));
        // 6 whole pages of the instruction, for all but the first
        assert!(model.status().prefix_hit_tokens >= 4 * 384, "{:?}", model.status());
        let results: usize = fake.log().passes.iter().map(|pass| pass.results).sum();
        assert_eq!(results, 5, "the last row of each text");
        assert_all_pages_back(&model);
        assert_sound(&fake);
    }
}

/// Every row's result is needed, so that no cached prefix can stand for rows.
#[test]
fn poolings_of_a_causal_embedder() {
    for pooling in [Pooling::None, Pooling::Mean, Pooling::Cls, Pooling::Last] {
        let fake = Fake::pipelined(2, 1);
        let options =
            LoadOptions::default().context(1000).max_concurrent(4).rows(128).pooling(pooling);
        let model = load(&fake, &options, CAUSAL);
        let texts: Vec<Prompt> = vec![prompt(300, 1).into(); 3];
        let got = model.embed(&texts, &raw()).unwrap();
        let expected = alone(&texts, CAUSAL, &options);
        assert_eq!(got, expected, "{pooling}");
        let shared = model.status().prefix_hit_tokens > 0;
        assert_eq!(shared, pooling == Pooling::Last, "{pooling}");
        let vectors = if pooling == Pooling::None { 300 } else { 1 };
        assert!(got.iter().all(|embedding| embedding.vectors().len() == vectors));
        assert_all_pages_back(&model);
        assert_sound(&fake);
    }
    // the first, the last and the mean of the vectors of single tokens
    let of = |pooling| {
        let options = LoadOptions::default().context(1000).pooling(pooling);
        let model = load(&Fake::default(), &options, CAUSAL);
        model.embed(&texts(&[100]), &raw()).unwrap().remove(0)
    };
    let each = of(Pooling::None);
    let vectors: Vec<&[f32]> = each.vectors().collect();
    assert_eq!(of(Pooling::Cls).values, vectors[0]);
    assert_eq!(of(Pooling::Last).values, vectors[99]);
    for (i, mean) in of(Pooling::Mean).values.iter().enumerate() {
        let sum: f64 = vectors.iter().map(|vector| f64::from(vector[i])).sum();
        assert!((f64::from(*mean) - sum / 100.0).abs() < 1e-5);
    }
}

#[test]
fn vectors_of_all_tokens_of_an_encoder() {
    let fake = Fake::pipelined(2, 1);
    let model = load(&fake, &LoadOptions::default().context(512).max_concurrent(4), TOKENS);
    let texts = texts(&[512, 3, 100, 400]);
    let got = model.embed(&texts, &raw().dimensions(2)).unwrap();
    assert_eq!(got.iter().map(|e| e.vectors().len()).collect::<Vec<_>>(), [512, 3, 100, 400]);
    let expected = alone(&texts, TOKENS, &LoadOptions::default());
    for (got, expected) in got.iter().zip(&expected) {
        for (got, expected) in got.vectors().zip(expected.vectors()) {
            assert_eq!(got, &expected[..2]);
        }
    }
    assert_all_pages_back(&model);
    assert_sound(&fake);
}

#[test]
fn embeddings_have_norm_1() {
    let model = load(&Fake::default(), &LoadOptions::default().context(512), ENCODER);
    for dimensions in [None, Some(3)] {
        let mut options = EmbedOptions::default();
        options.dimensions = dimensions;
        let embedding = model.embed(&texts(&[20]), &options).unwrap().remove(0);
        assert_eq!(embedding.values.len(), dimensions.unwrap_or(WIDTH));
        let norm: f64 = embedding.values.iter().map(|&v| f64::from(v).powi(2)).sum();
        assert!((norm - 1.0).abs() < 1e-6);
    }
}

#[test]
fn what_does_not_fit_is_refused_with_the_numbers() {
    let options = LoadOptions::default().context(1000).rows(256);
    let model = load(&Fake::default(), &options, ENCODER);
    let refused = |len| model.embed(&texts(&[5, len]), &raw()).unwrap_err();
    let error = refused(257);
    assert!(
        matches!(error, Error::TextTooLong { text: 1, tokens: 257, limit: 256, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("rows of a pass"), "{error}");
    let error = refused(1001);
    assert!(matches!(error, Error::TextTooLong { tokens: 1001, limit: 1000, .. }), "{error}");
    assert!(matches!(refused(0), Error::EmptyPrompt));
    assert_eq!(model.embed(&texts(&[256]), &raw()).unwrap()[0].tokens, 256);
    let unknown = [Prompt::Tokens(vec![VOCAB as u32])];
    assert!(matches!(model.embed(&unknown, &raw()), Err(Error::UnknownToken { .. })));
    let text = [Prompt::from("text")];
    assert!(matches!(model.embed(&text, &raw()), Err(Error::NoVocabulary { .. })));
    for dimensions in [0, WIDTH + 1, usize::MAX] {
        let error = model.embed(&texts(&[5]), &raw().dimensions(dimensions)).unwrap_err();
        assert!(error.to_string().contains("expected 1 to the model's 6"), "{error}");
    }
    assert!(model.embed(&[], &raw()).unwrap().is_empty());
    // a causal text may be longer than a pass, and as long as the context
    let model = load(&Fake::default(), &options, CAUSAL);
    assert_eq!(model.embed(&texts(&[1000]), &raw()).unwrap()[0].tokens, 1000);
    let error = model.embed(&texts(&[1001]), &raw()).unwrap_err();
    assert!(matches!(error, Error::TextTooLong { limit: 1000, .. }), "{error}");
}

#[test]
fn requests_for_other_results_are_refused_by_name() {
    let options = LoadOptions::default().context(512);
    let embedder = load(&Fake::default(), &options, ENCODER);
    let error = embedder.run(Request::from_tokens(prompt(5, 1))).unwrap_err();
    assert!(error.to_string().contains("computes embeddings, expected"), "{error}");
    let error = embedder.rerank("q", &["d"], &RerankOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Output { .. }), "{error}");
    let reranker = load(&Fake::default(), &options, SCORES);
    let error = reranker.embed(&texts(&[5]), &raw()).unwrap_err();
    assert!(error.to_string().contains("computes relevance scores, expected"), "{error}");
    let decoder = decoder(&Fake::default(), &options);
    for error in [
        decoder.embed(&texts(&[5]), &raw()).unwrap_err(),
        decoder.submit_embedding(&Prompt::Tokens(vec![1]), &raw(), |_| ()).unwrap_err(),
        decoder.pooling().unwrap_err(),
    ] {
        assert!(error.to_string().contains("computes logits"), "{error}");
    }
    let three = Results { width: 3, ..SCORES };
    let error = load(&Fake::default(), &options, three)
        .rerank("q", &["d"], &RerankOptions::default())
        .unwrap_err();
    assert!(error.to_string().contains("has 3 labels"), "{error}");
}

#[test]
fn a_pooling_that_the_plan_has_not_is_refused() {
    let fake = Fake::default();
    let options = LoadOptions::default().context(512);
    let with = |pooling, results| try_load(&fake, &options.clone().pooling(pooling), results);
    assert!(with(Pooling::Mean, ENCODER).is_ok());
    let error = with(Pooling::Cls, ENCODER).err().unwrap();
    assert!(matches!(error, Error::Option { option: "pooling", .. }), "{error}");
    assert!(error.to_string().contains("is cls, expected mean"), "{error}");
    assert!(with(Pooling::Mean, SCORES).is_err());
    assert!(with(Pooling::Cls, TOKENS).is_ok());
}

#[test]
fn a_long_call_waits_for_the_queue() {
    let fake = Fake::default().slow(Duration::from_micros(20));
    let options = LoadOptions::default().context(512).max_concurrent(8).queue_requests(3);
    let model = load(&fake, &options, ENCODER);
    let texts = texts(&(0..100).map(|i| 1 + i % 50).collect::<Vec<_>>());
    assert_eq!(model.embed(&texts, &raw()).unwrap().len(), 100);
    // single requests are refused instead
    let many: Vec<_> = (0..100)
        .map(|_| model.submit_embedding(&Prompt::Tokens(prompt(400, 1)), &raw(), |_| ()))
        .collect();
    assert!(many.iter().any(|outcome| matches!(outcome, Err(Error::Busy { .. }))));
    for handle in many.into_iter().flatten() {
        handle.cancel();
    }
    assert_all_pages_back(&model);
    assert_sound(&fake);
}

#[test]
fn little_memory_makes_less_run_at_once() {
    for results in [ENCODER, CAUSAL] {
        let fake = Fake::pipelined(2, 1);
        let options = LoadOptions::default().context(512).max_concurrent(8).kv_memory(memory(768));
        let model = load(&fake, &options, results);
        let texts = texts(&[500, 400, 300, 1, 512, 30, 64, 128, 65, 2]);
        let got = model.embed(&texts, &raw()).unwrap();
        assert_eq!(got, alone(&texts, results, &options));
        assert_all_pages_back(&model);
        assert_sound(&fake);
    }
}

#[test]
fn cancelled_in_the_queue_and_in_a_pass() {
    for depth in 1..=3 {
        let fake = Fake::pipelined(depth, 1).slow(Duration::from_micros(100));
        let model = load(&fake, &LoadOptions::default().context(512).max_concurrent(1), ENCODER);
        let (running, first) = submit(&model, 400);
        let (queued, second) = submit(&model, 300);
        let (_, third) = submit(&model, 200);
        while fake.log().passes.is_empty() {
            thread::sleep(Duration::from_micros(50));
        }
        running.cancel();
        queued.cancel();
        assert!(running.is_cancelled());
        // the first one's pass may have been taken before
        assert!(matches!(wait(&first), Ok(_) | Err(Error::Cancelled)));
        assert!(matches!(wait(&second), Err(Error::Cancelled)));
        assert_eq!(wait(&third).unwrap().tokens, 200);
        assert_all_pages_back(&model);
        assert_sound(&fake);
    }
}

#[test]
fn a_call_that_stops_cancels_the_texts_that_are_left() {
    let fake = Fake::default().slow(Duration::from_micros(20));
    let model = load(&fake, &LoadOptions::default().context(512).max_concurrent(2), ENCODER);
    let mut seen = 0;
    model
        .embed_each(&texts(&[400; 50]), &raw(), |_, _| {
            seen += 1;
            if seen == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!(seen, 3);
    assert_all_pages_back(&model);
    assert!(fake.log().passes.len() < 20);
}

#[test]
fn deadlines_count_from_the_call() {
    let fake = Fake::default().slow(Duration::from_micros(50));
    let model = load(&fake, &LoadOptions::default().context(512).max_concurrent(1), ENCODER);
    let time = Duration::from_millis(60);
    let error = model.embed(&texts(&[400; 50]), &raw().deadline(time)).unwrap_err();
    assert!(matches!(error, Error::Deadline(deadline) if deadline == time), "{error}");
    assert_all_pages_back(&model);
    assert!(model.embed(&texts(&[4]), &raw().deadline(Duration::from_secs(60))).is_ok());
}

#[test]
fn a_failed_pass_fails_its_own_texts() {
    for failure in [Failure::Submit, Failure::SubmitPanic, Failure::Take, Failure::TakePanic] {
        let fake = Fake::pipelined(2, 1);
        let model = load(&fake, &LoadOptions::default().context(512).max_concurrent(1), ENCODER);
        fake.fail_after(1, failure);
        let runs: Vec<_> = (0..3).map(|i| submit(&model, 100 + i)).collect();
        let outcomes: Vec<_> = runs.iter().map(|(_, receiver)| wait(receiver)).collect();
        assert!(outcomes[0].is_ok() && outcomes[2].is_ok(), "{outcomes:?}");
        assert!(matches!(outcomes[1], Err(Error::Pass(_))), "{outcomes:?}");
        assert_all_pages_back(&model);
        assert_sound(&fake);
    }
}

#[test]
fn values_that_are_not_finite_are_an_error() {
    let model =
        load(&Fake::default().broken_from(50), &LoadOptions::default().context(512), ENCODER);
    assert!(model.embed(&texts(&[50]), &raw()).is_ok());
    assert!(matches!(model.embed(&texts(&[51]), &raw()), Err(Error::NotFinite)));
}

#[test]
fn callbacks_that_panic_and_models_that_are_unloaded() {
    let fake = Fake::default().slow(Duration::from_micros(100));
    let model = load(&fake, &LoadOptions::default().context(512).max_concurrent(1), ENCODER);
    let text = Prompt::Tokens(prompt(100, 1));
    model.submit_embedding(&text, &raw(), |_| panic!("a panic of the test")).unwrap();
    assert_eq!(wait(&submit(&model, 10).1).unwrap().tokens, 10);
    let inside = model.clone();
    let (sender, receiver) = channel();
    model
        .submit_embedding(&text, &raw(), move |_| {
            sender.send(inside.embed(&texts(&[4]), &raw()).unwrap_err()).unwrap();
        })
        .unwrap();
    assert!(matches!(receiver.recv().unwrap(), Error::OwnThread));
    let runs: Vec<_> = (0..5).map(|_| submit(&model, 500)).collect();
    drop(model);
    let ends: Vec<_> = runs.iter().map(|(_, receiver)| wait(receiver)).collect();
    assert!(matches!(ends[4], Err(Error::Cancelled)), "{ends:?}");
}

#[test]
fn sequences_by_hand_are_whole() {
    let fake = Fake::default();
    let model = load(&fake, &LoadOptions::default().context(512), ENCODER);
    let expected = model.embed(&texts(&[300]), &raw()).unwrap().remove(0).values;
    let mut session = model.into_session().unwrap();
    session.run(&prompt(1, 5)).unwrap();
    assert_eq!(session.run(&prompt(300, 0)).unwrap(), expected);
    assert!(session.decode(1, 2).is_err());
    assert_sound(&fake);
}

#[test]
fn limits_of_a_load() {
    let limits = |options: &LoadOptions, results| {
        let model = load(&Fake::default(), options, results);
        model.status().pages[0].total
    };
    // two passes of 512 rows, and the ends of 32 texts in each
    assert_eq!(limits(&LoadOptions::default().context(512), ENCODER), 2 * (8 + 32));
    // as long a pass as the context
    let long = LoadOptions::default().context(4096).max_concurrent(2);
    assert_eq!(limits(&long, ENCODER), 2 * 64);
    assert_eq!(limits(&LoadOptions::default().context(4096), CAUSAL), 2 * (8 + 32));
}
