//! The live inputs of a text on the CPU and on the GPU: the same but for near-ties. Before each
//! matrix both have the same input again, so that its own arithmetic alone tells the two apart.

use std::sync::Mutex;

use pelton_cpu::Cpu;
use pelton_graph::{EffortTable, InputScores, LOWER_HALF, Linear, MatrixScores, TableEdit};

use super::{
    persistent::{with_effort, with_limits},
    *,
};

const TOKENS: usize = 48;
/// How far a score may lie from the threshold if the backends disagree about it, relative to the
/// threshold. A sum of `K` products in f32 is off by at most `K · 2⁻²⁴` of their magnitudes: 3e-5
/// for the widest matrix, of 512 inputs. At most three such sums lie between two inputs.
const NEAR: f64 = 1e-4;

/// The elements of a matrix, also with the mean in place of the lower halves of their codes, its
/// column norms and its threshold.
struct Matrix {
    elements: Vec<f32>,
    uppers: Vec<f32>,
    norms: Vec<f64>,
    threshold: f64,
}

impl Matrix {
    fn new(plan: &Plan, checkpoint: &Checkpoint, id: WeightId, level: Effort) -> Self {
        let weight = plan.weight(id);
        let tensor = weight.tensor(checkpoint).unwrap();
        let elements = tensor.decode();
        let uppers = tensor.bytes.chunks_exact(34).flat_map(|block| {
            let scale = half::f16::from_le_bytes([block[0], block[1]]).to_f32();
            let upper = |&code: &u8| f32::from(code as i8 >> 4) * 16.0 + 7.5;
            block[2..].iter().map(move |code| scale * upper(code))
        });
        let uppers = uppers.collect();
        let mut squares = vec![0.0; weight.row_len];
        for row in elements.chunks_exact(weight.row_len) {
            for (square, &element) in squares.iter_mut().zip(row) {
                *square += f64::from(element).powi(2);
            }
        }
        let norms = squares.into_iter().map(|square: f64| f64::from(square.sqrt() as f32));
        let least = plan.effort_curve(id).least(level);
        let threshold = f64::from(f32::from_bits(least - 1));
        Self { elements, uppers, norms: norms.collect(), threshold }
    }

    fn scores(&self, x: &[f32]) -> Vec<f64> {
        x.iter().zip(&self.norms).map(|(&x, norm)| f64::from(x).abs() * norm).collect()
    }

    /// The distance of results from the products of the live inputs of `x`, in thresholds. An input
    /// that is live elsewhere moves them by its score, which is about one threshold or more.
    fn distance(&self, x: &[f32], results: &[f32]) -> f64 {
        let scores = self.scores(x);
        let coded = |i: usize| {
            let block = &x[i / 32 * 32..][..32];
            let scale = f64::from(block.iter().fold(0.0_f32, |most, x| most.max(x.abs()))) / 127.0;
            (f64::from(x[i]) / scale).round() * scale
        };
        let a = |i: usize| if scores[i] > self.threshold { coded(i) } else { 0.0 };
        let a: Vec<f64> = (0..x.len()).map(a).collect();
        let has_lower = |i: usize| scores[i] / f64::from(LOWER_HALF) > self.threshold;
        let has_lower: Vec<bool> = (0..x.len()).map(has_lower).collect();
        let of = |row: usize, i: usize| {
            let weights = if has_lower[i] { &self.elements } else { &self.uppers };
            f64::from(weights[row * x.len() + i]) * a[i]
        };
        let squares = results.iter().enumerate().map(|(row, &found)| {
            let sum: f64 = (0..x.len()).map(|i| of(row, i)).sum();
            (f64::from(found) - sum).powi(2)
        });
        squares.sum::<f64>().sqrt() / self.threshold
    }
}

/// The agreement of two backends on a text.
#[derive(Debug, Default)]
struct Found {
    /// Inputs of matrices, and those which one backend alone multiplies.
    inputs: usize,
    differing: usize,
    /// The greatest difference of the two scores of an input, in thresholds.
    apart: f64,
    /// The greatest distance of the score of such an input from the threshold, relative to it.
    farthest: f64,
    /// The greatest distance of the GPU's results from those of the CPU's live
    /// inputs, in thresholds.
    distance: f64,
}

impl Found {
    fn compare(&mut self, [cpu, gpu]: [&[f64]; 2], [of_cpu, of_gpu]: [f64; 2]) {
        self.inputs += cpu.len();
        let apart = cpu.iter().zip(gpu).map(|(cpu, gpu)| (cpu - gpu).abs() / of_cpu);
        self.apart = apart.fold(self.apart, f64::max);
        for (cpu, gpu) in cpu.iter().zip(gpu).filter(|(a, b)| (**a > of_cpu) != (**b > of_gpu)) {
            self.differing += 1;
            let far = [cpu / of_cpu, gpu / of_cpu].map(|ratio| (ratio - 1.0).abs());
            self.farthest = self.farthest.max(far[0]).max(far[1]);
        }
    }

    /// Whether the backends disagree about near-ties alone.
    fn agrees(&self) -> bool {
        self.apart.max(self.farthest) < NEAR && self.distance < 0.5
    }
}

/// The pass of one token of a text.
fn of_token<T>(tokens: &[u32], at: usize, level: Effort, run: impl FnOnce(&Pass<'_>) -> T) -> T {
    let rows = [Row { input: Input::Token(tokens[at]), position: at as u32, slot: 0 }];
    let tables = [TableEdit { group: 0, slot: 0, first: 0, pages: &[2, 1, 0] }];
    let tables = if at == 0 { &tables[..] } else { &[] };
    let wants = [Want::Logits { row: 0 }];
    run(&Pass { tables, efforts: &[level], ..Pass::new(Phase::Decode, &rows, &wants) })
}

/// Limits of a cache whose keys and values are not rounded.
fn exact(spec: &ModelSpec) -> Limits {
    Limits { kv: KvType::F32, ..limits(spec) }
}

/// The inputs of all marked matrices on the CPU, in the order of tokens and steps.
fn inputs_on_cpu(spec: &ModelSpec, plan: Plan, tokens: &[u32], level: Effort) -> Vec<Vec<f32>> {
    let all = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&all);
    let cpu = Cpu::new(1).observing(move |input| {
        if input.weight.marked {
            seen.lock().unwrap().push(input.values.to_vec());
        }
    });
    let checkpoint = Arc::new(spec.checkpoint());
    let mut executable = cpu.load(plan, checkpoint, exact(spec), &mut |_, _| {}).unwrap();
    for at in 0..tokens.len() {
        of_token(tokens, at, level, |pass| {
            let ticket = executable.submit(pass).unwrap();
            executable.take(ticket).unwrap();
        });
    }
    let all = all.lock().unwrap();
    all.clone()
}

/// Runs a text step by step on a GPU, and gives each marked matrix the input that it has on the
/// CPU. `shift` is the factor of the thresholds by which the GPU's own inputs are judged.
fn compared(
    gpu: &mut GpuExecutable,
    spec: &ModelSpec,
    (plan, shift): (&Plan, f64),
    tokens: &[u32],
    level: Effort,
) -> Found {
    let checkpoint = spec.checkpoint();
    let on_cpu = inputs_on_cpu(spec, plan.clone(), tokens, level);
    let mut on_cpu = on_cpu.iter();
    let matrices: Vec<Option<Matrix>> = (0..plan.weights.len())
        .map(|i| (WeightId(i), plan.weights[i].marked))
        .map(|(id, marked)| marked.then(|| Matrix::new(plan, &checkpoint, id, level)))
        .collect();
    let mut found = Found::default();
    for at in 0..tokens.len() {
        let shape = of_token(tokens, at, level, |pass| gpu.begin(pass).unwrap().0);
        // matrices that read one input read what the GPU computed
        let mut own = (None, Vec::new());
        for (i, step) in plan.steps.iter().enumerate() {
            let matrix = match step.op {
                Op::Linear(Linear { weight, bias: None }) => matrices[weight.0].as_ref(),
                _ => None,
            };
            let x = buffer(gpu, step.inputs.first().copied());
            if let (Some(matrix), Some((id, x))) = (matrix, x) {
                let values = on_cpu.next().unwrap();
                if own.0 != Some(id) {
                    own = (Some(id), gpu.device.content(x));
                }
                let scores = [values, &own.1[..values.len()]].map(|x| matrix.scores(x));
                let thresholds = [matrix.threshold, matrix.threshold * shift];
                found.compare(scores.each_ref().map(Vec::as_slice), thresholds);
                gpu.device.queue.write_buffer(x, 0, bytemuck::cast_slice(values));
            } else {
                own = (None, Vec::new());
            }
            let mut encoder = gpu.device.device.create_command_encoder(&Default::default());
            let mut compute = encoder.begin_compute_pass(&Default::default());
            gpu.dispatches(&shape, i..i + 1).for_each(|step| step.record(&mut compute));
            drop(compute);
            gpu.device.queue.submit([encoder.finish()]);
            if let (Some(matrix), Some((_, x))) = (matrix, x) {
                let (_, y) = buffer(gpu, step.outputs.first().copied()).unwrap();
                let cols = matrix.norms.len();
                let (x, y) = (gpu.device.content::<f32>(x), gpu.device.content::<f32>(y));
                let y = &y[..matrix.elements.len() / cols];
                found.distance = found.distance.max(matrix.distance(&x[..cols], y));
            }
        }
    }
    assert!(on_cpu.next().is_none());
    found
}

/// The buffer of the one row of a pass, in place of that of selected rows.
fn buffer(gpu: &GpuExecutable, id: Option<BufferId>) -> Option<(BufferId, &wgpu::Buffer)> {
    let of = |step: &Step| {
        let is_source = matches!(step.op, Op::Select) && Some(step.outputs[0]) == id;
        is_source.then(|| step.inputs[0])
    };
    let id = gpu.plan.steps.iter().find_map(of).or(id)?;
    Some((id, &gpu.buffers[id.0]))
}

/// A plan whose thresholds are greater by a factor.
fn shifted(plan: &Plan, factor: f32) -> Plan {
    let mut plan = plan.clone();
    let of = |one: &MatrixScores| {
        let scores = InputScores::new(one.scores.quantiles().map(|score| score * factor));
        MatrixScores { scores: scores.unwrap(), ..one.clone() }
    };
    let table = plan.marks.table.as_ref().unwrap();
    plan.marks.table = Some(Arc::new(EffortTable::new(table.matrices().iter().map(of).collect())));
    plan
}

fn fraction(level: f64) -> Effort {
    Effort::new(level).unwrap()
}

#[test]
fn live_sets_are_those_of_the_cpu_but_for_near_ties() {
    let Some(device) = device() else { return };
    let spec = ModelSpec::wide(DType::Q8_0);
    let tokens = tokens(&spec, TOKENS);
    let plan = with_effort(&spec, false);
    let mut gpu = with_limits(&device, &spec, (plan.clone(), exact(&spec)), Mode::Off);
    for level in [0.5, 0.25, 0.1].map(fraction) {
        let found = compared(&mut gpu, &spec, (&plan, 1.0), &tokens, level);
        println!("{level}: {found:?}");
        assert!(found.inputs > 100_000 && found.agrees(), "{level}: {found:?}");
    }
}

/// Thresholds of another backend show in the rule and in the results of kernels, unless
/// they are almost equal.
#[test]
fn other_thresholds_are_other_live_sets() {
    let Some(device) = device() else { return };
    let spec = ModelSpec::wide(DType::Q8_0);
    let tokens = tokens(&spec, TOKENS);
    let plan = with_effort(&spec, false);
    let load = |plan: Plan| with_limits(&device, &spec, (plan, exact(&spec)), Mode::Off);
    let mut gpu = load(plan.clone());
    let [near, far] = [1.00005, 1.001]
        .map(|shift| compared(&mut gpu, &spec, (&plan, shift), &tokens, fraction(0.5)));
    assert!(near.differing > 0 && near.agrees(), "{near:?}");
    assert!(far.differing > near.differing && !far.agrees(), "{far:?}");
    let found =
        compared(&mut load(shifted(&plan, 1.001)), &spec, (&plan, 1.0), &tokens, fraction(0.5));
    assert!(found.distance > 0.5, "{found:?}");
}
