//! Effort in whole models: at 1 the results of a load without it, bit for bit. Below 1 it gives
//! those of transformers with the same halves of codes left out.

mod calibrations;

use std::{fs, path::PathBuf, sync::Arc};

use crate::request::{Request, Run};
use crate::steps::logits;
use pelton::{
    BucketFile, Checkpoint, EffortOptions, EffortTables, EffortUse, Engine, Error, ErrorKind,
    KvType, LoadOptions, Model, ModelSource, Quantize, Sampling, Session, Speculation,
    graph::{
        Backend, EffortForm, EffortTable, Error as GraphError, Executable, InputScores, Limits,
        MatrixScores, Needs, Op, Plan, build,
    },
};
use pelton_cpu::Cpu;
use pelton_quant::DType::{BF16, F16, F32, Q4_0, Q4_K, Q8_0};
use pelton_testing::ModelSpec;

fn load(options: &LoadOptions) -> Model {
    Engine::with_backend(Cpu::new(2)).load(ModelSource::BuiltIn, options).unwrap()
}

fn by_hand(model: Result<Model, Error>) -> Session {
    model.unwrap().into_session().unwrap()
}

fn fixture(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(path)
}

#[test]
fn effort_1_is_the_dense_model() {
    let options = LoadOptions::default().context(64);
    for dtype in [Q8_0, F16, BF16, F32] {
        let checkpoint = Arc::new(ModelSpec::wide(dtype).checkpoint());
        let cpu = Cpu::new(2);
        let built = build(&checkpoint).unwrap();
        let plan = built.clone().fuse(&|op, plan| cpu.accepts(op, plan));
        let mut marked = plan.clone().with_effort(&|form| cpu.has_effort(form));
        let windows = [(0..40).collect()];
        let scores = pelton_cpu::effort_scores(built, &checkpoint, &windows, 2, &mut |_, _| {});
        marked.marks.table = Some(Arc::new(EffortTable::new(scores.unwrap())));
        assert!(marked.has_effort() && !plan.has_effort());
        let engine = Engine::with_backend(cpu);
        let [mut dense, mut full] = [plan, marked]
            .map(|plan| by_hand(engine.load_plan(plan, Arc::clone(&checkpoint), &options)));
        let ids: Vec<u32> = (0..40).map(|i| i * 37 % 80).collect();
        let expected = logits(&mut dense, &ids, 30, 1.0);
        let at_1 = logits(&mut full, &ids, 30, 1.0);
        assert_eq!(at_1, expected, "{dtype}");
        // the split of the rows into passes changes nothing at any effort
        let below = logits(&mut full, &ids, 30, 0.6);
        if dtype.block_len() > 1 {
            assert_eq!(logits(&mut full, &ids, 11, 0.6), below, "{dtype}");
        }
        assert_ne!(below, expected, "{dtype}");
    }
}

/// A GPU in whose memory the weights for efforts do not fit next to those of the file.
struct Small(Cpu);

impl Backend for Small {
    fn name(&self) -> &str {
        "small"
    }

    fn accepts(&self, op: &Op, plan: &Plan) -> bool {
        self.0.accepts(op, plan)
    }

    fn has_effort(&self, form: EffortForm) -> bool {
        self.0.has_effort(form)
    }

    fn effort_bytes(&self, plan: &Plan) -> u64 {
        if plan.has_effort() { 1 << 20 } else { 0 }
    }

    fn needs(&self, plan: &Plan, limits: &Limits) -> Result<Needs, GraphError> {
        self.0.needs(plan, limits)
    }

    fn load(
        &self,
        plan: Plan,
        checkpoint: Arc<Checkpoint>,
        limits: Limits,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Box<dyn Executable>, GraphError> {
        let needed = u128::from(self.effort_bytes(&plan));
        match needed {
            0 => self.0.load(plan, checkpoint, limits, progress),
            _ => Err(GraphError::Memory { what: "effort", needed, available: Some(0) }),
        }
    }
}

/// Without memory for efforts the whole model runs, unless the effort is to run always.
#[test]
fn weights_that_do_not_fit_leave_the_whole_model() {
    let load = |effort: Option<EffortOptions>| {
        let options = LoadOptions::default().context(64);
        let options = match effort {
            Some(effort) => options.effort(effort),
            None => options,
        };
        Engine::with_backend(Small(Cpu::new(2))).load(ModelSource::BuiltIn, &options)
    };
    let text = |model: &Model| -> String {
        let request = Request::new("Once upon a time").max_tokens(8);
        model.run(request.sampling(Sampling::greedy())).unwrap().text().unwrap()
    };
    let (whole, half) = (load(None).unwrap(), load(Some(0.5.into())).unwrap());
    assert_eq!(half.effort_use(), Some(&EffortUse::TooLittleMemory));
    assert_eq!(whole.effort_use(), None);
    assert_eq!(text(&half), text(&whole));
    let error = load(Some(EffortOptions::new(0.5).always(true))).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
}

/// The elements of a .npy file of 4-byte values after its header of 128 bytes.
fn npy<T>(path: &str, element: fn([u8; 4]) -> T) -> Vec<T> {
    let bytes = fs::read(fixture(path)).unwrap();
    let values = bytes[128..].chunks_exact(4);
    values.map(|bytes| element(bytes.try_into().unwrap())).collect()
}

#[test]
fn logits_of_transformers_with_halves_left_out() {
    logits_of_transformers(Cpu::new(2));
}

#[cfg(feature = "gpu")]
#[test]
fn logits_of_transformers_with_halves_left_out_on_a_gpu() {
    let Some(adapter) = pelton::gpu::adapters().into_iter().next() else {
        let what = "no Vulkan, Metal or DX12 adapter, not even in software";
        return pelton_testing::skip(pelton_testing::Need::Gpu, what);
    };
    logits_of_transformers(pelton::gpu::Gpu::open_checked(&adapter).unwrap());
}

/// The quantiles of scores that transformers were given.
fn scores_of_transformers() -> EffortTable {
    let text = fs::read_to_string(fixture("effort/scores.json")).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let matrix = |(tensor, scores): (&String, &serde_json::Value)| {
        let scores = scores.as_array().unwrap().iter().map(|score| score.as_f64().unwrap() as f32);
        let scores: Vec<f32> = scores.collect();
        let scores = InputScores::new(scores.try_into().unwrap()).unwrap();
        MatrixScores { tensor: tensor.clone(), first: 0, scores }
    };
    EffortTable::new(value.as_object().unwrap().iter().map(matrix).collect())
}

/// The model is converted to Q8_0 as it is loaded, and its halves are left out by given scores.
fn logits_of_transformers(backend: impl Backend + 'static) {
    let table = EffortTables::Table(Arc::new(scores_of_transformers()));
    let effort = EffortOptions::new(1.0).tables(table).always(true);
    let options = LoadOptions::default().context(16).kv(KvType::F32).effort(effort);
    let options = options.quantize(Quantize::Q8_0);
    let ids = npy("effort/ids.npy", i32::from_le_bytes);
    let ids: Vec<u32> = ids.into_iter().map(|id| id as u32).collect();
    let path = fixture("models/llama-wide");
    let mut session = by_hand(Engine::with_backend(backend).load(path, &options));
    for effort in [1.0, 0.8, 0.5, 0.25] {
        let expected = npy(&format!("effort/logits-{effort}.npy"), f32::from_le_bytes);
        for prompt in [1, 5, ids.len()] {
            let found = logits(&mut session, &ids, prompt, effort);
            assert_eq!(found.len(), expected.len());
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let found = f32::from_bits(*found);
                assert!((found - expected).abs() < 0.02, "{effort}, {i}: {found} for {expected}");
            }
        }
    }
}

/// Thresholds of one part of a text leave the fraction of the other that they are for.
#[test]
fn the_mean_fraction_is_the_effort() {
    let text = fs::read_to_string(fixture("perplexity/windows.txt")).unwrap();
    let checkpoint = Arc::new(pelton::built_in().unwrap());
    let plain = load(&LoadOptions::default());
    let tokens = plain.tokenizer().unwrap().encode_prompt(&text).unwrap();
    let windows: Vec<Vec<u32>> = tokens.chunks_exact(48).map(<[u32]>::to_vec).take(8).collect();
    assert_eq!(windows.len(), 8, "{} tokens", tokens.len());
    let built = build(&checkpoint).unwrap();
    let scores = pelton_cpu::effort_scores(built, &checkpoint, &windows[..4], 2, &mut |_, _| {});
    let table = Arc::new(EffortTable::new(scores.unwrap()));
    for effort in [0.25, 0.5, 0.7, 0.9] {
        let tables = EffortTables::Table(Arc::clone(&table));
        let options = LoadOptions::default().effort(EffortOptions::new(effort).tables(tables));
        let mut session = by_hand(Ok(load(&options)));
        session.set_effort(effort).unwrap();
        for window in &windows[4..] {
            session.truncate(0);
            session.run(window).unwrap();
        }
        let live = session.live_share().unwrap();
        assert!((live - effort).abs() < 0.02, "{effort}: {live}");
    }
}

#[test]
fn nested_effort() {
    nested_effort_on(|| Cpu::new(2), 5);
}

#[cfg(feature = "gpu")]
#[test]
fn nested_effort_on_a_gpu() {
    let Some(adapter) = pelton::gpu::adapters().into_iter().next() else {
        let what = "no Vulkan, Metal or DX12 adapter, not even in software";
        return pelton_testing::skip(pelton_testing::Need::Gpu, what);
    };
    let gpu = pelton::gpu::Gpu::open_checked(&adapter).unwrap();
    nested_effort_on(|| gpu.clone(), 14);
}

/// Below effort 1 a prompt of `again` tokens, in place of 14, has the same logits. Less effort is
/// farther from the model.
fn nested_effort_on<B: Backend + 'static>(backend: impl Fn() -> B, again: usize) {
    let options = LoadOptions::default().context(64);
    let load = |options: &LoadOptions| {
        by_hand(Engine::with_backend(backend()).load(ModelSource::BuiltIn, options))
    };
    let mut nested = load(&options.clone().effort(EffortOptions::new(1.0).always(true)));
    let ids: Vec<u32> = (0..20).map(|i| 1 + i * 37 % 80).collect();
    let expected = logits(&mut load(&options), &ids, 14, 1.0);
    assert_eq!(logits(&mut nested, &ids, 14, 1.0), expected);
    let distance = |found: &[u32]| -> f64 {
        let values = found.iter().zip(&expected);
        let squares =
            values.map(|(a, b)| f64::from(f32::from_bits(*a) - f32::from_bits(*b)).powi(2));
        squares.sum::<f64>().sqrt()
    };
    let mut before = 0.0;
    for effort in [0.8, 0.5, 0.25] {
        let found = logits(&mut nested, &ids, 14, effort);
        assert!(distance(&found) > before, "{effort}: {} {before}", distance(&found));
        before = distance(&found);
        assert_eq!(logits(&mut nested, &ids, again, effort), found);
    }
}

/// Weights in formats without a form are read whole: every effort is effort 1, by
/// sessions and requests.
#[test]
fn formats_without_a_form_run_whole() {
    for dtype in [Q4_0, Q4_K] {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("whole-{dtype}.gguf"));
        fs::write(&path, ModelSpec::wide(dtype).file(&[])).unwrap();
        let options = LoadOptions::default().context(32);
        let load = |options: &LoadOptions| Engine::with_backend(Cpu::new(2)).load(&path, options);
        let model = load(&options.clone().effort(0.5)).unwrap();
        let found = model.effort_use().unwrap();
        assert_eq!(*found, EffortUse::NoForm { formats: dtype.to_string() });
        assert!(found.to_string().contains(dtype.name()), "{found}");
        let ids: Vec<u32> = (0..20).map(|i| i * 37 % 80).collect();
        let expected = logits(&mut by_hand(load(&options)), &ids, 14, 1.0);
        assert_eq!(logits(&mut by_hand(Ok(model)), &ids, 14, 0.5), expected);
    }
}

/// The bits of the logits of a model in buckets.
fn bucket_logits(options: &EffortOptions, path: &PathBuf, threads: usize, effort: f64) -> Vec<u32> {
    let ids: Vec<u32> = (0..24).map(|i| i * 37 % 80).collect();
    let options = LoadOptions::default().context(32).effort(options.clone());
    let model = Engine::with_backend(Cpu::new(threads)).load(path, &options);
    logits(&mut by_hand(model), &ids, 14, effort)
}

#[test]
fn buckets_of_a_model() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("float.gguf");
    fs::write(&path, ModelSpec::wide(F16).file(&[])).unwrap();
    let plain = EffortOptions::default();
    let ids: Vec<u32> = (0..24).map(|i| i * 37 % 80).collect();
    let dense = Engine::with_backend(Cpu::new(2)).load(&path, &LoadOptions::default().context(32));
    let expected = logits(&mut by_hand(dense), &ids, 14, 1.0);
    // effort 1 is the dense model, and below it neither threads nor the file change anything
    assert_eq!(bucket_logits(&plain, &path, 2, 1.0), expected);
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("buckets.gguf");
    let checkpoint = Checkpoint::open(&path).unwrap();
    let mut done = (0, 0);
    BucketFile::write(&file, &checkpoint, &mut |part, all| done = (part, all)).unwrap();
    assert!(done.0 == done.1 && done.0 > 0);
    let packed = plain.clone().buckets(&file);
    let distance = |found: &[u32]| -> f64 {
        let values = found.iter().zip(&expected);
        let squares =
            values.map(|(a, b)| f64::from(f32::from_bits(*a) - f32::from_bits(*b)).powi(2));
        squares.sum::<f64>().sqrt()
    };
    let [high, low] = [0.8, 0.3].map(|effort| {
        let found = bucket_logits(&plain, &path, 1, effort);
        assert_eq!(bucket_logits(&packed, &path, 2, effort), found);
        distance(&found)
    });
    assert!(0.0 < high && high < low, "{high} {low}");
    // fewer ranks are less of the model at effort 1 too; all of them but the positions in the codes
    let ranks = |ranks| {
        let found = bucket_logits(&plain.clone().ranks(ranks), &path, 1, 1.0);
        let file = bucket_logits(&packed.clone().ranks(ranks), &path, 2, 1.0);
        assert_eq!(found, file, "{ranks}");
        distance(&found)
    };
    let [few, many] = [4, 14].map(ranks);
    assert!(0.0 < many && many < few, "{many} {few}");
    // refused loads
    let refused = |options: &EffortOptions, what: &str| {
        let options = LoadOptions::default().context(32).effort(options.clone());
        let error = Engine::with_backend(Cpu::new(1)).load(&path, &options).err();
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(what), "{error}");
    };
    refused(&plain.clone().ranks(0), "expected 1 to 16");
    refused(&plain.clone().ranks(17), "expected 1 to 16");
    refused(&plain.clone().buckets("/none.gguf"), "/none.gguf");
    refused(&plain.clone().buckets(&path), "expected a file of `pelton");
    let bytes = fs::read(&file).unwrap();
    let bad = file.with_file_name("bad-buckets.gguf");
    let other = plain.clone().buckets(&bad);
    let at = bytes.windows(7).position(|bytes| bytes == b"bucket-").unwrap();
    let mut changed = bytes.clone();
    changed[at + 7] ^= 1;
    fs::write(&bad, changed).unwrap();
    refused(&other, "is of the model");
    fs::write(&bad, &bytes[..bytes.len() / 2]).unwrap();
    refused(&other, "bad-buckets.gguf");
    let mut changed = bytes.clone();
    let len = changed.len();
    changed[len - 200..].fill(0xff);
    fs::write(&bad, changed).unwrap();
    refused(&other, "the file of buckets of");
    // Q8_0 has no buckets
    for options in [plain.clone().ranks(4), packed] {
        let options = LoadOptions::default().effort(options);
        let error = Engine::with_backend(Cpu::new(1)).load(ModelSource::BuiltIn, &options);
        let error = error.err().unwrap().to_string();
        assert!(error.contains("no matrix is kept in sorted buckets"), "{error}");
    }
    let built_in = pelton::built_in().unwrap();
    let error = BucketFile::write(&bad, &built_in, &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("expected matrices in F16, BF16 or F32"), "{error}");
}

fn request(i: usize, effort: f64) -> Request {
    let starts = ["Once upon a time", "One day a fox", "The rain", "Far away in the hills"];
    Request::new(starts[i % 4]).max_tokens(30).sampling(Sampling::greedy()).effort(effort)
}

#[test]
fn texts_of_any_effort_are_those_of_each_alone() {
    let plain = LoadOptions::default().context(128).speculation(Speculation::Off);
    let text = |model: &Model, request: Request| model.run(request).unwrap().text().unwrap();
    let requests: Vec<Request> =
        (0..8).map(|i| request(i, [1.0, 0.7, 0.5, 1.0, 0.3][i % 5])).collect();
    let dense = load(&plain);
    let alone = load(&plain.clone().effort(1.0));
    let expected: Vec<String> = requests.iter().map(|r| text(&alone, r.clone())).collect();
    let together = load(&plain.clone().max_concurrent(8).effort(0.5));
    let mut streams: Vec<_> = requests.iter().map(|r| together.run(r.clone()).unwrap()).collect();
    for (stream, expected) in streams.iter_mut().zip(&expected) {
        assert_eq!(stream.text().unwrap(), *expected);
    }
    // the load's effort is that of requests that do not say
    let mut unsaid = request(2, 1.0);
    unsaid.effort = None;
    assert_eq!(text(&together, unsaid), expected[2]);
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
        load(&options).run(request).unwrap().text().unwrap()
    };
    assert_eq!(text(Speculation::Always), text(Speculation::Off));
}

#[test]
fn efforts_that_are_refused() {
    let dense = load(&LoadOptions::default());
    let error = dense.run(request(0, 0.5)).unwrap_err().to_string();
    assert!(error.contains("0.5") && error.contains("loaded"), "{error}");
    dense.run(request(0, 1.0)).unwrap();
    let full = load(&LoadOptions::default().effort(1.0));
    for effort in [0.0, -0.5, 1.1, f64::NAN] {
        let error = full.run(request(0, effort)).unwrap_err().to_string();
        assert!(error.contains("above 0 and at most 1"), "{error}");
        let options = LoadOptions::default().effort(effort);
        let error =
            Engine::with_backend(Cpu::new(1)).load(ModelSource::BuiltIn, &options).err().unwrap();
        assert!(error.to_string().contains("above 0 and at most 1"), "{error}");
    }
    // the reference path reads all weights whole
    let options = LoadOptions::default().effort(1.0);
    let whole = Engine::with_backend(Cpu::reference()).load(ModelSource::BuiltIn, &options);
    let formats = "Q8_0".to_owned();
    assert_eq!(whole.unwrap().effort_use(), Some(&EffortUse::NoForm { formats }));
    // a model without text
    let bert = fixture("models/bert/model.gguf");
    let error = Engine::with_backend(Cpu::new(1)).load(bert, &options).err().unwrap();
    assert!(error.to_string().contains("generates no text"), "{error}");
    assert_eq!(pelton::graph::Effort::new(0.0), None);
}
