//! Sorted buckets of experts in whole models.

use std::{fs, path::PathBuf};

use crate::steps::logits;
use pelton::{
    BucketFile, Checkpoint, EffortOptions, Engine, Error, LoadOptions, Model, Session,
    graph::{EffortForm, build},
};
use pelton_cpu::Cpu;
use pelton_quant::DType::{self, BF16, F16};
use pelton_testing::{ModelSpec, Random};
use pelton_weights::GgufWriter;

/// A file of this test.
fn temporary(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Loads with buckets.
fn load(options: &EffortOptions, path: &PathBuf, threads: usize) -> Session {
    let options = LoadOptions::default().context(32).effort(options.clone());
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

/// The file of a model with several versions of its feed-forward networks: of one alone, or of all
/// as experts of which a router chooses one.
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
    for dtype in [F16, BF16] {
        let spec = ModelSpec { layers: 1, ..ModelSpec::wide(dtype) };
        let networks = [2, 3, 4].map(|seed| ModelSpec { seed, ..spec.clone() }.checkpoint());
        let networks: Vec<&Checkpoint> = networks.iter().collect();
        let path = temporary(&format!("experts-{dtype}.gguf"));
        fs::write(&path, with_networks(&spec, &networks, true)).unwrap();
        let options = EffortOptions::default();
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
        let plan = build(&checkpoint).unwrap().with_effort(&|form| form == EffortForm::Bucket);
        let experts = plan.weights.iter().filter(|weight| weight.marked && weight.count() > 1);
        let experts = experts.count();
        assert!(experts > 0, "{name}");
        let file = temporary(&format!("{name}-buckets.gguf"));
        BucketFile::write(&file, &checkpoint, &mut |_, _| {}).unwrap();
        let dense =
            Engine::with_backend(Cpu::new(2)).load(&path, &LoadOptions::default().context(32));
        let dense = logits(&mut by_hand(dense), &ids, ids.len() / 2, 1.0);
        let packed = plain.clone().buckets(&file);
        let mut model = load(&plain, &path, 1);
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
