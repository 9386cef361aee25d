//! Speed of the products with chosen experts in decode, next to dense products of as many bytes.
//!
//! `cargo bench -p pelton-cpu --bench experts -- [THREADS]`
//!
//! The experts have the shapes of Qwen3-30B-A3B: 8 of 128, 768 outputs of 2048 inputs. Every layer
//! has weights of its own, more than caches hold. The time of a plan with one layer is subtracted.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panic")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use pelton_cpu::Cpu;
use pelton_cpu::pool::default_threads;
use pelton_graph::{
    Backend, Buffer, BufferId, Executable, ExpertLinear, Input, KvType, Limits, Linear, Op,
    OutputKind, Pass, Phase, Plan, Route, Row, Rows, Scores, Shape, Step, Want, Weight, WeightId,
    WeightKind,
};
use pelton_quant::DType;
use pelton_testing::Random;
use pelton_weights::{Checkpoint, GgufWriter};

const EXPERTS: usize = 128;
const USED: usize = 8;
const COLS: usize = 2048;
const OUTPUTS: usize = 768;
/// Tokens, each with a choice of its own.
const VOCAB: usize = 64;
const PASSES: usize = 200;

/// The matrices of a layer.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Experts,
    Dense,
}

/// A plan of products with `layers` weights.
fn plan(kind: Kind, dtype: DType, layers: usize) -> Plan {
    let weight = |name: String, dtype, kind, rows, row_len| Weight {
        name,
        dtype,
        kind,
        rows,
        row_len,
        part: None,
        marked: false,
    };
    let mut weights = vec![
        weight("x".to_owned(), DType::F32, WeightKind::Matrix, VOCAB, COLS),
        weight("logits".to_owned(), DType::F32, WeightKind::Matrix, VOCAB, EXPERTS),
    ];
    let buffer = |name, width| Buffer { name, width, rows: Rows::All };
    let [x, logits, ids, chosen, y, last] = [0, 1, 2, 3, 4, 5].map(BufferId);
    let buffers = vec![
        buffer("x", COLS),
        buffer("logits", EXPERTS),
        buffer("ids", USED),
        buffer("weights", USED),
        buffer("y", USED * OUTPUTS),
        Buffer { name: "last", width: USED * OUTPUTS, rows: Rows::Selected },
    ];
    let step = |op, inputs: &[BufferId], outputs: &[BufferId]| Step {
        op,
        inputs: inputs.to_vec(),
        outputs: outputs.to_vec(),
        layer: None,
    };
    let route = Route {
        experts: EXPERTS,
        used: USED,
        scores: Scores::Softmax,
        bias: None,
        groups: None,
        normalize: true,
        scale: 1.0,
        expert_scale: None,
    };
    let mut steps = vec![
        step(Op::Embed { table: WeightId(0) }, &[], &[x]),
        step(Op::Embed { table: WeightId(1) }, &[], &[logits]),
        step(Op::Route(route), &[logits], &[ids, chosen]),
    ];
    for layer in 0..layers {
        let id = WeightId(weights.len());
        let name = format!("layer{layer}");
        match kind {
            Kind::Experts => {
                let matrices = WeightKind::Matrices { count: EXPERTS };
                weights.push(weight(name, dtype, matrices, OUTPUTS, COLS));
                let linear = ExpertLinear { weight: id, bias: None, used: USED };
                steps.push(step(Op::ExpertLinear(linear), &[x, ids], &[y]));
            }
            Kind::Dense => {
                weights.push(weight(name, dtype, WeightKind::Matrix, USED * OUTPUTS, COLS));
                let linear = Linear { weight: id, bias: None };
                steps.push(step(Op::Linear(linear), &[x], &[y]));
            }
        }
    }
    steps.push(step(Op::Select, &[y], &[last]));
    let shape = Shape {
        architecture: "experts".to_owned(),
        layers,
        hidden: COLS,
        heads: 1,
        kv_heads: 1,
        head_dim: 1,
        ffn: OUTPUTS,
        tied: false,
    };
    Plan {
        shape,
        weights,
        buffers,
        caches: Vec::new(),
        groups: Vec::new(),
        states: Vec::new(),
        ropes: Vec::new(),
        steps,
        vocab: VOCAB,
        token_types: 1,
        context: 1,
        whole_sequences: false,
        entry: Vec::new(),
        exit: Vec::new(),
        injected: None,
        encoder: None,
        host: Vec::new(),
        marks: Default::default(),
        output: OutputKind::Embedding,
        logits: last,
    }
}

fn load(plan: Plan, threads: usize) -> Box<dyn Executable> {
    let mut writer = GgufWriter::new();
    writer.set("general.architecture", "experts").unwrap();
    for weight in &plan.weights {
        writer.declare(&weight.name, weight.dtype, &weight.dims()).unwrap();
    }
    let mut random = Random::new(1);
    let mut body = writer.begin(Vec::new()).unwrap();
    for weight in &plan.weights {
        let bytes = match weight.dtype {
            DType::F32 => random.blocks(DType::F32, weight.len(), 0.0, 1.0),
            // codes and scales that are finite and normal in all formats
            dtype => vec![0x2c; dtype.bytes_of(weight.len()).unwrap()],
        };
        body.write(&bytes).unwrap();
    }
    let checkpoint = Checkpoint::from_bytes("experts", body.finish().unwrap()).unwrap();
    let limits = Limits {
        rows: 1,
        wants: 1,
        sequences: 1,
        context: 1,
        pages: Vec::new(),
        snapshots: 0,
        kv: KvType::F16,
        tokens: VOCAB,
        bias: 0,
    };
    Cpu::new(threads).load(plan, Arc::new(checkpoint), limits, &mut |_, _| {}).unwrap()
}

/// The first decile of the times of a pass, in seconds.
fn seconds(executable: &mut dyn Executable) -> f64 {
    let mut times: Vec<f64> = (0..PASSES)
        .map(|i| {
            let rows = [Row { input: Input::Token((i % VOCAB) as u32), position: 0, slot: 0 }];
            let wants = [Want::Logits { row: 0 }];
            let begun = Instant::now();
            let ticket = executable.submit(&Pass::new(Phase::Decode, &rows, &wants)).unwrap();
            black_box(executable.take(ticket).unwrap());
            begun.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[PASSES / 10]
}

fn main() {
    let threads = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let threads = threads.unwrap_or_else(default_threads);
    println!("{threads} threads, {USED} of {EXPERTS} experts of {OUTPUTS} x {COLS}");
    for dtype in [DType::Q4_K, DType::Q8_0, DType::F16] {
        let bytes = dtype.bytes_of(USED * OUTPUTS * COLS).unwrap() as f64;
        let speed = |kind, layers: usize| {
            let time = |layers| seconds(&mut *load(plan(kind, dtype, layers), threads));
            bytes * (layers - 1) as f64 / (time(layers) - time(1)) / 1e9
        };
        let (experts, dense) = (speed(Kind::Experts, 5), speed(Kind::Dense, 40));
        println!(
            "{dtype}: experts {experts:.1} GB/s, dense {dense:.1} GB/s, {:.0} %",
            100.0 * experts / dense
        );
    }
}
