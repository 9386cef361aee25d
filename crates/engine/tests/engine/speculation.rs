//! Speculation with the built-in model: texts are those of plain decoding, whatever drafts the
//! tokens, on the CPU and on the first GPU, or else a software driver.

use std::{fs, path::PathBuf};

use pelton::{
    Constraint, Engine, LoadOptions, Model, ModelSource, Sampling, Speculation, Token, built_in,
    graph::Backend,
};
use pelton_cpu::Cpu;
use pelton_testing::Random;

use crate::request::{Request, Run};
#[cfg(feature = "gpu")]
use pelton_testing::{Need, skip};
use serde_json::json;

fn load(backend: &(impl Backend + Clone + 'static), options: &LoadOptions) -> Model {
    Engine::with_backend(backend.clone()).load(ModelSource::BuiltIn, options).unwrap()
}

fn options() -> LoadOptions {
    LoadOptions::default().context(512).speculation(Speculation::Always)
}

fn tokens(model: &Model, request: Request) -> Vec<Token> {
    model.run(request).unwrap().map(Result::unwrap).collect()
}

const STORY: &str = "Once upon a time there was a little fox who lived near the river. Every \
    morning she walked to the old bridge and looked for her friend, the heron. One day the heron \
    was not there, and the fox was sad.";

/// A request with any kind of draw, stop string and log-probabilities.
fn request(random: &mut Random) -> Request {
    let sampling = match random.below(5) {
        0 => Sampling::greedy(),
        1 => Sampling::default().seed(random.bits()).repetition_penalty(1.2),
        2 => Sampling::default().seed(random.bits()).temperature(1.3).top_k(0),
        3 => Sampling::default().seed(random.bits()).temperature(0.3).frequency_penalty(0.3),
        _ => Sampling::greedy().presence_penalty(1.0).penalty_window(1 + random.below(40)),
    };
    let start = ["Long ago, there was a", "One day", STORY][random.below(3)];
    let mut request = Request::new(start).sampling(sampling).max_tokens(1 + random.below(50));
    if random.below(4) == 0 {
        request = request.logprobs(random.below(3));
    }
    if random.below(4) == 0 {
        request = request.stop([" she", ".", " friend", "!"][random.below(4)]);
    }
    if random.below(6) == 0 {
        request = request.logit_bias(random.below(200) as u32, 2.0);
    }
    request
}

/// The text with a few other tokens, or some other text.
fn predicted(random: &mut Random, text: &[Token]) -> Vec<u32> {
    let wrong = [4, 12, 1000][random.below(3)];
    let token = |token: &Token| match random.below(wrong) {
        0 => 1 + random.below(100) as u32,
        _ => token.id,
    };
    text.iter().map(token).collect()
}

/// A constraint in whose texts some tokens are forced, and some are not.
fn constraint(random: &mut Random) -> Constraint {
    let record = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "kind": {"enum": ["fox", "heron", "frog", "frogmouth"]},
            "friends": {"type": "array", "items": {"type": "integer"}, "maxItems": 4},
            "is_often_seen": {"type": "boolean"}
        },
        "required": ["name", "kind", "friends", "is_often_seen"],
        "additionalProperties": false
    });
    match random.below(6) {
        0 => Constraint::JsonSchema(json!({"type": "array", "items": record, "minItems": 2})),
        1 => Constraint::JsonSchema(record),
        2 => Constraint::JsonObject,
        3 => Constraint::Regex("((The|A) [a-z]{3,8} (ran|sat) by the river\\. ?){2,5}".into()),
        4 => Constraint::Gbnf(
            "root ::= \"(\" item (\", \" item)* \")\"\nitem ::= root | [a-z]{2,5}".into(),
        ),
        // one that cannot be rolled back
        _ => Constraint::Lark(
            "start: (WORD \" \")+ w\nw[max_tokens=2]: /.*/\nWORD: /[a-z]{1,6}/".into(),
        ),
    }
}

/// A request with a constraint, from the beginning on or after a text.
fn constrained(random: &mut Random) -> Request {
    let mut request = request(random).constraint(constraint(random));
    request.stop.clear();
    if random.below(4) == 0 {
        let text = ["the", ".", "a", " w"][random.below(4)];
        request = match random.below(2) {
            0 => request.constrain_after(text),
            _ => request.constrain_after(text).constrain_after("she"),
        };
    }
    request
}

fn runs_alone_and_in_a_batch(
    backend: &(impl Backend + Clone + 'static),
    runs: usize,
    request: fn(&mut Random) -> Request,
) {
    let mut random = Random::new(7);
    let plain = load(backend, &options().speculation(Speculation::Off));
    let alone = load(backend, &options());
    let batch = load(backend, &options().max_concurrent(8));
    let mut streams = Vec::new();
    for i in 0..runs {
        let request = request(&mut random);
        let expected = tokens(&plain, request.clone());
        let mut drafted = request.clone();
        if random.below(3) > 0 {
            drafted = drafted.prediction(predicted(&mut random, &expected));
        }
        assert_eq!(tokens(&alone, drafted.clone()), expected, "run {i}: {request:?}");
        streams.push((batch.run(drafted).unwrap(), expected));
        if streams.len() == 8 {
            for (stream, expected) in streams.drain(..) {
                let tokens: Vec<Token> = stream.map(Result::unwrap).collect();
                assert_eq!(tokens, expected);
            }
        }
    }
    for model in [&alone, &batch] {
        let stats = model.status().speculation;
        println!("{stats:?}");
        let rejected = stats.drafted - stats.accepted;
        assert!(stats.accepted > 3 * runs as u64 && rejected > 2 * runs as u64, "{stats:?}");
    }
    assert_eq!(plain.status().speculation.drafted, 0);
}

/// Two hundred runs with `PELTON_FULL`.
#[test]
fn runs_on_the_cpu() {
    let runs = if std::env::var_os("PELTON_FULL").is_some() { 200 } else { 64 };
    runs_alone_and_in_a_batch(&Cpu::new(2), runs, request);
}

#[test]
fn runs_with_constraints_on_the_cpu() {
    runs_alone_and_in_a_batch(&Cpu::new(2), 96, constrained);
}

#[cfg(feature = "gpu")]
#[test]
fn runs_on_a_gpu() {
    let Some(adapter) = pelton::gpu::adapters().into_iter().next() else {
        skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        return;
    };
    runs_alone_and_in_a_batch(&pelton::gpu::Gpu::open_checked(&adapter).unwrap(), 24, request);
}

fn model_file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny/pelton-tiny.gguf")
}

/// A copy of the built-in model's file with other values in the feed-forward layers.
struct Noised(PathBuf);

impl Noised {
    /// Changes the lowest bit of one byte in `each`.
    fn new(each: usize) -> Self {
        let mut file = fs::read(model_file()).unwrap();
        let mut random = Random::new(5);
        let checkpoint = built_in().unwrap();
        for tensor in checkpoint.tensors().filter(|tensor| tensor.name.contains("ffn_down")) {
            let bytes = &tensor.bytes;
            let at = file.windows(64).position(|window| window == &bytes[..64]).unwrap();
            for _ in 0..bytes.len() / each {
                file[at + random.below(bytes.len())] ^= 1;
            }
        }
        let thread = std::thread::current().id();
        let name = format!("pelton-noised-{}-{thread:?}.gguf", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, file).unwrap();
        Self(path)
    }
}

impl Drop for Noised {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Greedy drafts of the same model are all accepted; with the same noise sampled ones are too.
#[test]
fn a_draft_model_that_is_the_model() {
    let backend = Cpu::new(2);
    let plain = load(&backend, &options().speculation(Speculation::Off));
    let model = load(&backend, &options().draft(model_file()));
    for sampling in [Sampling::greedy(), Sampling::default().seed(3).temperature(1.2)] {
        let request = Request::new("One day a").sampling(sampling).max_tokens(80);
        let expected = tokens(&plain, request.clone());
        assert_eq!(tokens(&model, request), expected);
    }
    let stats = model.status().speculation;
    assert!(stats.accepted > 60, "{stats:?}");
    assert!(stats.acceptance().unwrap() > 0.9, "{stats:?}");
}

#[test]
fn a_draft_model_that_differs() {
    a_noised_draft_model(&Cpu::new(2), request, 24);
}

/// Tokens of the draft model are cut where a constraint does not allow them.
#[test]
fn a_draft_model_that_knows_no_constraints() {
    a_noised_draft_model(&Cpu::new(2), constrained, 24);
}

/// On a GPU the pass that verifies finds the tokens of the draft model where they were sampled, if
/// no constraint has to see them; in half of the runs a persistent kernel drafts.
#[cfg(feature = "gpu")]
#[test]
fn a_draft_model_on_a_gpu() {
    let Some(adapter) = pelton::gpu::adapters().into_iter().next() else {
        skip(Need::Gpu, "no Vulkan, Metal or DX12 adapter, not even in software");
        return;
    };
    let any = |random: &mut Random| match random.below(4) {
        0 => constrained(random),
        _ => request(random),
    };
    let gpu = pelton::gpu::Gpu::open_checked(&adapter).unwrap();
    a_noised_draft_model(&gpu.clone().without_persistent(), any, 8);
    a_noised_draft_model(&gpu.with_persistent(1, 10_000, 4), any, 8);
}

fn a_noised_draft_model(
    backend: &(impl Backend + Clone + 'static),
    request: fn(&mut Random) -> Request,
    runs: usize,
) {
    let noised = Noised::new(3);
    let plain = load(backend, &options().speculation(Speculation::Off));
    let model = load(backend, &options().max_concurrent(4).draft(&noised.0));
    let mut random = Random::new(2);
    let requests: Vec<Request> = (0..runs).map(|_| request(&mut random)).collect();
    let mut streams: Vec<_> =
        requests.iter().map(|request| model.run(request.clone()).unwrap()).collect();
    for (stream, request) in streams.iter_mut().zip(&requests) {
        let got: Vec<Token> = stream.map(Result::unwrap).collect();
        assert_eq!(got, tokens(&plain, request.clone()));
    }
    let stats = model.status().speculation;
    let acceptance = stats.acceptance().unwrap();
    assert!(acceptance > 0.2 && acceptance < 0.99, "{stats:?}");
}

#[test]
fn a_draft_model_of_another_vocabulary_is_refused() {
    let draft =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/logits/llama.gguf");
    let engine = Engine::with_backend(Cpu::new(1));
    let error =
        engine.load(ModelSource::BuiltIn, &options().draft(draft)).err().unwrap().to_string();
    assert!(error.starts_with("the draft model ") && error.contains("vocabulary"), "{error}");
}
