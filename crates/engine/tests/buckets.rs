//! Sorted buckets with codes of eight bits, and those of experts, in whole models.

#![allow(clippy::unwrap_used, reason = "tests fail by panic")]

mod steps;

use std::{fs, path::PathBuf};

use pelton::{
    BucketFile, BucketFormat, Checkpoint, EffortMode, EffortOptions, Engine, Error, LoadOptions,
    Model, Session, graph::build,
};
use pelton_cpu::Cpu;
use pelton_quant::DType::{self, F16, Q8_0};
use pelton_testing::{ModelSpec, Random};
use pelton_weights::GgufWriter;
use steps::logits;

/// A file of this test.
fn temporary(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Loads with buckets.
fn load(options: &EffortOptions, path: &PathBuf, threads: usize) -> Session {
    let options = options.clone().mode(EffortMode::Bucket);
    let options = LoadOptions::default().context(32).effort(options);
    by_hand(Engine::with_backend(Cpu::new(threads)).load(path, &options))
}

fn by_hand(model: Result<Model, Error>) -> Session {
    model.unwrap().into_session().unwrap()
}

fn distance(found: &[u32], expected: &[u32]) -> f64 {
    let values = found.iter().zip(expected);
    let squares = values.map(|(a, b)| f64::from(f32::from_bits(*a) - f32::from_bits(*b)).powi(2));
    squares.sum::<f64>().sqrt()
}

/// The error of a refused load for buckets.
fn refused(options: &EffortOptions, path: &PathBuf, what: &str) {
    let options = LoadOptions::default().context(32).effort(options.clone());
    let error = Engine::with_backend(Cpu::new(1)).load(path, &options).err();
    let error = error.map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains(what), "{error}");
}

#[test]
fn codes_of_eight_bits() {
    let ids: Vec<u32> = (0..20).map(|i| i * 37 % 80).collect();
    let plain = EffortOptions::default();
    for dtype in [F16, Q8_0] {
        let path = temporary(&format!("eight-bits-{dtype}.gguf"));
        fs::write(&path, ModelSpec::wide(dtype).file(&[])).unwrap();
        let dense =
            Engine::with_backend(Cpu::new(2)).load(&path, &LoadOptions::default().context(32));
        let expected = logits(&mut by_hand(dense), &ids, ids.len() / 2, 1.0);
        let sorted = plain.clone().bucket_format(BucketFormat::Q8);
        // effort 1 is the dense model, and below it neither threads nor the file change anything
        let mut model = load(&sorted, &path, 2);
        assert_eq!(logits(&mut model, &ids, ids.len() / 2, 1.0), expected);
        let file = temporary(&format!("eight-bits-{dtype}-buckets.gguf"));
        let checkpoint = Checkpoint::open(&path).unwrap();
        let mut done = (0, 0);
        let show = &mut |part, all| done = (part, all);
        BucketFile::write(&file, &checkpoint, BucketFormat::Q8, show).unwrap();
        // a byte for each weight
        let marked = build(&checkpoint).unwrap().with_effort().unwrap();
        let marked = marked.weights.iter().filter(|weight| weight.effort);
        assert_eq!(done, (done.1, marked.map(|weight| weight.len() as u64).sum()));
        let packed = plain.clone().buckets(&file);
        let mut of_file = load(&packed, &path, 1);
        let [high, low] = [0.8, 0.3].map(|effort| {
            let found = logits(&mut model, &ids, ids.len() / 2, effort);
            assert_eq!(logits(&mut of_file, &ids, ids.len() / 2, effort), found, "{dtype}");
            distance(&found, &expected)
        });
        assert!(0.0 < high && high < low, "{high} {low}");
        // fewer ranks are less of the model at effort 1 too
        let [few, many] = [2, 7].map(|ranks| {
            let found =
                logits(&mut load(&sorted.clone().ranks(ranks), &path, 1), &ids, ids.len() / 2, 1.0);
            let mut of_file = load(&packed.clone().ranks(ranks), &path, 2);
            assert_eq!(logits(&mut of_file, &ids, ids.len() / 2, 1.0), found, "{ranks}");
            distance(&found, &expected)
        });
        assert!(0.0 < many && many < few, "{many} {few}");

        let bucket = |options: &EffortOptions| options.clone().mode(EffortMode::Bucket);
        refused(&bucket(&sorted.clone().ranks(9)), &path, "expected 1 to 8");
        refused(&bucket(&packed.clone().ranks(9)), &path, "expected 1 to 8");
        refused(&sorted, &path, "none but in mode bucket");
        let other = packed.clone().bucket_format(BucketFormat::F16);
        refused(&bucket(&other), &path, "expected q8, the format of the file");
        // a file that says the other format, one that says none that there is, and wrong levels
        let bytes = fs::read(&file).unwrap();
        let bad = temporary(&format!("eight-bits-{dtype}-bad.gguf"));
        let packed = bucket(&plain.clone().buckets(&bad));
        let changed = |after: &[u8], skipped: usize, to: &[u8]| {
            let at = bytes.windows(after.len()).position(|bytes| bytes == after).unwrap();
            let (mut bytes, at) = (bytes.clone(), at + after.len() + skipped);
            bytes[at..at + to.len()].copy_from_slice(to);
            fs::write(&bad, bytes).unwrap();
        };
        // after the key are the type of the value and its length
        changed(b"pelton-buckets.format", 12, b"q9");
        refused(&packed, &path, "has the format \"q9\"");
        changed(b"pelton-buckets.format", 4, b"\x01");
        refused(&packed, &path, "eight-bits");
        fs::write(&bad, &bytes[..bytes.len() / 2]).unwrap();
        refused(&packed, &path, "eight-bits");
        BucketFile::write(
            &bad,
            &Checkpoint::open(&path).unwrap(),
            BucketFormat::Q8,
            &mut |_, _| {},
        )
        .unwrap();
        let mut wrong = fs::read(&bad).unwrap();
        let len = wrong.len();
        wrong[len - 200..].fill(0xff);
        fs::write(&bad, wrong).unwrap();
        refused(&packed, &path, "the file of buckets of");
    }
}

/// A GPU has codes in f16 alone, and says so.
#[cfg(feature = "gpu")]
#[test]
fn codes_of_eight_bits_on_a_gpu() {
    let Some(adapter) = pelton::gpu::adapters().into_iter().next() else {
        let what = "no Vulkan, Metal or DX12 adapter, not even in software";
        return pelton_testing::skip(pelton_testing::Need::Gpu, what);
    };
    let gpu = pelton::gpu::Gpu::open_checked(&adapter).unwrap();
    let path = temporary("eight-bits-gpu.gguf");
    fs::write(&path, ModelSpec::wide(F16).file(&[])).unwrap();
    let effort = EffortOptions::new(0.5).mode(EffortMode::Bucket).bucket_format(BucketFormat::Q8);
    let options = LoadOptions::default().context(32).effort(effort);
    let error = Engine::with_backend(gpu).load(&path, &options).err().unwrap().to_string();
    assert!(error.contains("has no effort by buckets of q8"), "{error}");
}

/// The file of a model with several versions of its feed-forward networks: of one alone, or of all as
/// experts of which a router chooses one.
fn with_networks(spec: &ModelSpec, networks: &[&Checkpoint], experts: bool) -> Vec<u8> {
    let base = spec.checkpoint();
    let mut writer = GgufWriter::new();
    for (key, value) in base.metadata().iter() {
        writer.set(key, value.clone()).unwrap();
    }
    if experts {
        writer.set("llama.expert_count", networks.len() as u32).unwrap();
        writer.set("llama.expert_used_count", 1_u32).unwrap();
    }
    let is_network = |name: &str| {
        ["gate", "up", "down"].iter().any(|part| name.ends_with(&format!("ffn_{part}.weight")))
    };
    let mut tensors: Vec<(String, DType, Vec<usize>, Vec<u8>)> = Vec::new();
    for tensor in base.tensors() {
        let (mut name, mut shape) = (tensor.name.to_owned(), tensor.shape.to_vec());
        let mut bytes = tensor.bytes.to_vec();
        if is_network(tensor.name) {
            let of = |network: &&Checkpoint| network.tensor(tensor.name).unwrap().bytes.to_vec();
            bytes = networks.iter().flat_map(of).collect();
            if experts {
                name = name.replace(".weight", "_exps.weight");
                shape.push(networks.len());
            }
        }
        tensors.push((name, tensor.dtype, shape, bytes));
    }
    if experts {
        for layer in 0..spec.layers {
            let (name, shape) =
                (format!("blk.{layer}.ffn_gate_inp.weight"), [spec.hidden, networks.len()]);
            let bytes = Random::new(9).blocks(DType::F32, shape.iter().product(), 0.0, 1.0);
            tensors.push((name, DType::F32, shape.to_vec(), bytes));
        }
    }
    for (name, dtype, shape, _) in &tensors {
        writer.declare(name, *dtype, shape).unwrap();
    }
    let mut body = writer.begin(Vec::new()).unwrap();
    tensors.iter().for_each(|(.., bytes)| body.write(bytes).unwrap());
    body.finish().unwrap()
}

/// Each token of a model with one layer, and one token a text, has the logits of the model with the
/// network of the expert that the router chose, bit for bit at any effort.
#[test]
fn experts_are_networks_of_their_own() {
    for (dtype, format) in [(F16, BucketFormat::F16), (Q8_0, BucketFormat::Q8)] {
        let spec = ModelSpec { layers: 1, ..ModelSpec::wide(dtype) };
        let networks = [2, 3, 4].map(|seed| ModelSpec { seed, ..spec.clone() }.checkpoint());
        let networks: Vec<&Checkpoint> = networks.iter().collect();
        let path = temporary(&format!("experts-{dtype}.gguf"));
        fs::write(&path, with_networks(&spec, &networks, true)).unwrap();
        let options = EffortOptions::default().bucket_format(format);
        for (effort, ranks) in
            [(1.0, None), (0.6, None), (0.2, None), (1.0, Some(3)), (0.5, Some(3))]
        {
            let mut options = options.clone();
            options.ranks = ranks;
            let mut alone: Vec<Session> = (networks.iter().enumerate())
                .map(|(i, network)| {
                    let path = temporary(&format!("expert-{dtype}-{i}.gguf"));
                    fs::write(&path, with_networks(&spec, &[network], false)).unwrap();
                    load(&options, &path, 1)
                })
                .collect();
            let mut model = load(&options, &path, 2);
            let mut chosen = [0; 3];
            for token in 0..24 {
                let found = logits(&mut model, &[token], 1, effort);
                let mut alone = alone.iter_mut();
                let expert = alone.position(|alone| logits(alone, &[token], 1, effort) == found);
                chosen[expert.expect("the logits of one of the networks")] += 1;
            }
            assert!(chosen.iter().filter(|count| **count > 0).count() > 1, "{chosen:?}");
        }
    }
}

/// Experts with biases, shared ones, and several of a row, in models of transformers.
#[test]
fn experts_of_a_row() {
    let ids: Vec<u32> = (0..20).map(|i| i * 7 % 60).collect();
    let plain = EffortOptions::default();
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models");
    for name in ["olmoe", "qwen2-moe", "gpt-oss-plain"] {
        let path = fixtures.join(name).join("model.gguf");
        let checkpoint = Checkpoint::open(&path).unwrap();
        let plan = build(&checkpoint).unwrap().with_effort().unwrap().with_expert_effort();
        let experts = plan.weights.iter().filter(|weight| weight.effort && weight.count() > 1);
        let experts = experts.count();
        assert!(experts > 0, "{name}");
        let file = temporary(&format!("{name}-buckets.gguf"));
        let format = BucketFormat::Q8;
        BucketFile::write(&file, &checkpoint, format, &mut |_, _| {}).unwrap();
        let dense =
            Engine::with_backend(Cpu::new(2)).load(&path, &LoadOptions::default().context(32));
        let dense = logits(&mut by_hand(dense), &ids, ids.len() / 2, 1.0);
        let [sorted, packed] = [plain.clone().bucket_format(format), plain.clone().buckets(&file)];
        let mut model = load(&sorted, &path, 1);
        assert_eq!(logits(&mut model, &ids, ids.len() / 2, 1.0), dense, "{name}");
        let mut of_file = load(&packed, &path, 2);
        let [high, low] = [0.8, 0.2].map(|effort| {
            let found = logits(&mut model, &ids, ids.len() / 2, effort);
            assert_eq!(logits(&mut of_file, &ids, ids.len() / 2, effort), found, "{name}");
            distance(&found, &dense)
        });
        assert!(0.0 < high && high < low, "{name}: {high} {low}");
    }
}
