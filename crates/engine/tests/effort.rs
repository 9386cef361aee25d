//! Effort in whole models: at 1 the results of a load without it, bit for bit; below 1 those of
//! transformers with the other inputs set to zero.

#![allow(clippy::unwrap_used, reason = "tests fail by panic")]

use std::{fs, path::PathBuf, sync::Arc};

use pelton::{
    Checkpoint, Engine, KvType, LoadOptions, Model, Request, Sampling, Speculation,
    graph::{Backend, Effort, build},
};
use pelton_cpu::Cpu;
use pelton_quant::DType::{BF16, F16, F32, Q4_0, Q4_1, Q4_K, Q5_K, Q6_K, Q8_0};
use pelton_testing::ModelSpec;

fn load(options: &LoadOptions) -> Model {
    Engine::with_backend(Cpu::new(2)).load_built_in(options).unwrap()
}

fn fixture(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(path)
}

/// The elements of a .npy file of 4-byte values after its header of 128 bytes.
fn npy<T>(path: &str, element: fn([u8; 4]) -> T) -> Vec<T> {
    let bytes = fs::read(fixture(path)).unwrap();
    let values = bytes[128..].chunks_exact(4);
    values.map(|bytes| element(bytes.try_into().unwrap())).collect()
}

/// The bits of the logits of a prompt, and of the tokens after it one by one.
fn logits(model: &Model, ids: &[u32], prompt: usize, effort: f64) -> Vec<u32> {
    let ids = ids.to_vec();
    let all = model.session(ids.len(), move |session| {
        session.set_effort(effort)?;
        let mut all = Vec::new();
        session.run_all(&ids[..prompt], |row| all.extend(row.iter().map(|x| x.to_bits())))?;
        for id in &ids[prompt..] {
            all.extend(session.run(&[*id])?.iter().map(|x| x.to_bits()));
        }
        Ok(all)
    });
    all.unwrap()
}

#[test]
fn effort_1_is_the_dense_model() {
    let options = LoadOptions::default().context(64);
    for dtype in [Q4_0, Q4_1, Q8_0, Q4_K, Q5_K, Q6_K, F16, BF16, F32] {
        let checkpoint = Arc::new(ModelSpec::wide(dtype).checkpoint());
        let cpu = Cpu::new(2);
        let plan = build(&checkpoint).unwrap().fuse(&|op, plan| cpu.accepts(op, plan));
        let marked = plan.clone().with_effort().unwrap();
        assert!(marked.has_effort() && !plan.has_effort());
        let engine = Engine::with_backend(cpu);
        let [dense, full] = [plan, marked]
            .map(|plan| engine.load_plan(plan, Arc::clone(&checkpoint), &options).unwrap());
        let ids: Vec<u32> = (0..40).map(|i| i * 37 % 80).collect();
        let expected = logits(&dense, &ids, 30, 1.0);
        let at_1 = logits(&full, &ids, 30, 1.0);
        assert_eq!(at_1, expected, "{dtype}");
        // the split of the rows into passes changes nothing at any effort
        let below = logits(&full, &ids, 30, 0.6);
        if dtype.block_len() > 1 {
            assert_eq!(logits(&full, &ids, 11, 0.6), below, "{dtype}");
        }
        assert_ne!(below, expected, "{dtype}");
    }
}

#[test]
fn logits_of_transformers_with_other_inputs_zero() {
    let options = LoadOptions::default().context(16).kv(KvType::F32).effort(1.0);
    let ids = npy("effort/ids.npy", i32::from_le_bytes);
    let ids: Vec<u32> = ids.into_iter().map(|id| id as u32).collect();
    let path = fixture("models/llama3/model.gguf");
    let model = Engine::with_backend(Cpu::new(2)).load(path, &options).unwrap();
    for effort in [0.25, 0.5, 0.8] {
        let expected = npy(&format!("effort/logits-{effort}.npy"), f32::from_le_bytes);
        for prompt in [1, 7, ids.len()] {
            let found = logits(&model, &ids, prompt, effort);
            assert_eq!(found.len(), expected.len());
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let found = f32::from_bits(*found);
                assert!((found - expected).abs() < 2e-3, "{effort}, {i}: {found} for {expected}");
            }
        }
    }
}

fn request(i: usize, effort: f64) -> Request {
    let starts = ["Once upon a time", "One day a fox", "The rain", "Far away in the hills"];
    Request::new(starts[i % 4]).max_tokens(30).sampling(Sampling::greedy()).effort(effort)
}

#[test]
fn texts_of_any_effort_are_those_of_each_alone() {
    let options = LoadOptions::default().context(128).speculation(Speculation::Off);
    let text = |model: &Model, request: Request| model.generate(request).unwrap().text().unwrap();
    let requests: Vec<Request> =
        (0..8).map(|i| request(i, [1.0, 0.7, 0.5, 1.0, 0.3][i % 5])).collect();
    let alone = load(&options.clone().effort(1.0));
    let expected: Vec<String> = requests.iter().map(|r| text(&alone, r.clone())).collect();
    let together = load(&options.clone().sequences(8).effort(0.5));
    let mut streams: Vec<_> =
        requests.iter().map(|r| together.generate(r.clone()).unwrap()).collect();
    for (stream, expected) in streams.iter_mut().zip(&expected) {
        assert_eq!(stream.text().unwrap(), *expected);
    }
    // the load's effort is that of requests that do not say
    let mut unsaid = request(2, 1.0);
    unsaid.effort = None;
    assert_eq!(text(&together, unsaid), expected[2]);
    let dense = load(&options);
    for i in [0, 3] {
        assert_eq!(text(&dense, request(i, 1.0)), expected[i]);
    }
    assert_ne!(expected[4], text(&dense, request(4, 1.0)));
}

#[test]
fn drafts_are_verified_at_the_effort_of_the_request() {
    let options = LoadOptions::default().context(256).effort(1.0);
    let text = |speculation| {
        let request = request(0, 0.5).max_tokens(80).speculation(speculation);
        load(&options).generate(request).unwrap().text().unwrap()
    };
    assert_eq!(text(Speculation::Always), text(Speculation::Off));
}

/// Draws of any kind, at effort 1 and below, alone and in a batch: the texts are those without drafts.
#[test]
fn a_model_that_drafts_for_itself() {
    let sampling = |i: usize| match i % 4 {
        0 => Sampling::greedy(),
        1 => Sampling::default().seed(i as u64).repetition_penalty(1.2),
        2 => Sampling::default().seed(i as u64).temperature(1.3).top_k(0),
        _ => Sampling::default().seed(i as u64).temperature(0.3).frequency_penalty(0.3),
    };
    let options = LoadOptions::default().context(192);
    let plain = load(&options.clone().effort(1.0).speculation(Speculation::Off));
    let drafting = options.draft_effort(0.4).speculation(Speculation::Always);
    let [alone, batch] = [1, 8].map(|count| load(&drafting.clone().sequences(count)));
    let tokens = |stream: pelton::TokenStream| -> Vec<u32> {
        stream.map(|token| token.unwrap().id).collect()
    };
    let mut streams = Vec::new();
    for i in 0..24 {
        let effort = [1.0, 0.7, 1.0, 0.3][i / 2 % 4];
        let request = request(i, effort).sampling(sampling(i)).max_tokens(10 + i * 5);
        let expected = tokens(plain.generate(request.clone()).unwrap());
        assert_eq!(tokens(alone.generate(request.clone()).unwrap()), expected, "{i}");
        streams.push((batch.generate(request).unwrap(), expected));
        if streams.len() == 8 {
            for (stream, expected) in streams.drain(..) {
                assert_eq!(tokens(stream), expected, "in a batch");
            }
        }
    }
    for model in [&alone, &batch] {
        let stats = model.status().speculation;
        let rejected = stats.drafted - stats.accepted;
        assert!(stats.accepted > 100 && rejected > 20, "{stats:?}");
    }
}

#[test]
fn efforts_that_are_refused() {
    let dense = load(&LoadOptions::default());
    let error = dense.generate(request(0, 0.5)).unwrap_err().to_string();
    assert!(error.contains("0.5") && error.contains("loaded"), "{error}");
    dense.generate(request(0, 1.0)).unwrap();
    let full = load(&LoadOptions::default().effort(1.0));
    for effort in [0.0, -0.5, 1.1, f64::NAN] {
        let error = full.generate(request(0, effort)).unwrap_err().to_string();
        assert!(error.contains("above 0 and at most 1"), "{error}");
        let options = LoadOptions::default().effort(effort);
        let error = Engine::with_backend(Cpu::new(1)).load_built_in(&options).err().unwrap();
        assert!(error.to_string().contains("above 0 and at most 1"), "{error}");
    }
    // the reference path is of effort 1 alone
    let options = LoadOptions::default().effort(1.0);
    let error = Engine::with_backend(Cpu::reference()).load_built_in(&options).err().unwrap();
    assert!(error.to_string().contains("effort below 1"), "{error}");
    assert!(!Cpu::reference().has_effort());
    for effort in [0.0, 1.0, f64::NAN] {
        let options = LoadOptions::default().draft_effort(effort);
        let error = Engine::with_backend(Cpu::new(1)).load_built_in(&options).err().unwrap();
        assert!(error.to_string().contains("above 0 and below 1"), "{error}");
    }
    // a model without text
    let bert = fixture("models/bert/model.gguf");
    let error = Engine::with_backend(Cpu::new(1)).load(bert, &options).err().unwrap();
    assert!(error.to_string().contains("generates no text"), "{error}");
    assert_eq!(Effort::new(0.0), None);
    // experts have no order by inputs
    let checkpoint = Checkpoint::open(fixture("models/mixtral/model.gguf")).unwrap();
    assert!(pelton::graph::build(&checkpoint).unwrap().with_effort().is_ok());
}
