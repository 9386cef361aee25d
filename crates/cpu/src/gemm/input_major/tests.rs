//! Live inputs compared with arithmetic in f64, products with arithmetic in f64, and rows of effort 1 with the
//! products of rows of matrices, bit for bit, on every instruction set of this machine.

use pelton_graph::{LOWER_HALF, Phase};
use pelton_quant::{DType, decode};
use pelton_testing::Random;

use super::super::activations::{ActivationKind, Activations};
use super::super::job::{MatrixRef, Output};
use super::super::matmul;
use super::super::tile::BLOCK;
use super::layout::OUTPUT_ALIGN;
use super::{Chosen, InputMajor, LiveRows, Task, has_lines, live_inputs, multiply};
use crate::isa::Isa;
use crate::pool::{Pool, SharedMut};

/// Every type that has lines.
fn types() -> impl Iterator<Item = DType> {
    DType::ALL.into_iter().filter(|&dtype| has_lines(dtype))
}

/// The scores |x|·norm of the inputs, and with `nested` those of their lower halves after them.
fn scores(x: &[f32], norms: &[f32], nested: bool) -> Vec<f32> {
    let of = |factor: f32| x.iter().zip(norms).map(move |(x, norm)| (x * norm * factor).abs());
    let lower = of(1.0 / LOWER_HALF).filter(|_| nested);
    of(1.0).chain(lower).collect()
}

/// The bits of the score of which `count` are as great, or as many as are equal to it.
fn least(x: &[f32], norms: &[f32], count: usize, nested: bool) -> u32 {
    let mut scores = scores(x, norms, nested);
    scores.sort_by(|a, b| b.total_cmp(a));
    scores[count.clamp(1, scores.len()) - 1].to_bits()
}

/// Whether each candidate is live: the inputs, and with `nested` their lower halves after them.
fn live_ones(x: &[f32], norms: &[f32], count: usize, nested: bool) -> Vec<bool> {
    let least = f32::from_bits(least(x, norms, count, nested));
    scores(x, norms, nested).iter().map(|score| *score >= least).collect()
}

/// An input is live where the score in f64 exceeds the threshold, but for those as near to it as f32 rounds.
#[test]
fn live_inputs_exceed_the_threshold() {
    let mut random = Random::new(1);
    for len in [1, 31, 33, 1000, 5632] {
        let x: Vec<f32> = (0..len).map(|_| random.normal(0.0, 1.0).powi(3)).collect();
        let norms: Vec<f32> = (0..len).map(|_| random.normal(1.0, 0.1).abs()).collect();
        let score = |i: usize| f64::from(x[i].abs()) * f64::from(norms[i]);
        for threshold in [0.0_f32, 1e-3, 0.1, 0.7, 2.0, 1e9] {
            let found = live_inputs(&x, &norms, threshold.to_bits() + 1, true);
            let (mut near, mut at) = (0, found.iter().peekable());
            for i in 0..2 * len {
                let of = score(i % len) / if i < len { 1.0 } else { f64::from(LOWER_HALF) };
                let is_live = at.next_if_eq(&&i).is_some();
                if (of - f64::from(threshold)).abs() < 1e-6 * f64::from(threshold) {
                    near += 1;
                } else {
                    assert_eq!(is_live, of > f64::from(threshold), "{i} of {len}, {threshold}");
                }
            }
            assert!(at.next().is_none() && near <= 1 + len / 1000, "{near} of {len}");
        }
    }
    // zeros have no score, a NaN has the greatest, and 0 stands for all
    let (special, ones) = ([0.0, -0.0, f32::NAN, f32::INFINITY, -3.0], [1.0; 5]);
    assert_eq!(live_inputs(&special, &ones, 1, false), [2, 3, 4]);
    assert_eq!(live_inputs(&special, &ones, f32::MAX.to_bits() + 1, false), [2, 3]);
    assert_eq!(live_inputs(&special, &ones, 0, false), [0, 1, 2, 3, 4]);
}

/// A matrix in both orders, and its decoded weights.
struct Both {
    dtype: DType,
    rows: usize,
    cols: usize,
    bytes: Vec<u8>,
    lines: InputMajor,
    weights: Vec<f32>,
}

impl Both {
    fn new(dtype: DType, rows: usize, cols: usize, threads: usize, random: &mut Random) -> Self {
        let bytes = random.blocks(dtype, rows * cols, 0.0, 1.0);
        let mut weights = vec![0.0; rows * cols];
        decode(dtype, &bytes, &mut weights).unwrap();
        let pool = Pool::new(threads).unwrap();
        let lines = InputMajor::new(dtype, rows, cols, &bytes, &pool).unwrap();
        Self { dtype, rows, cols, bytes, lines, weights }
    }

    /// Q8_0 with the halves of its codes apart.
    fn nested(rows: usize, cols: usize, threads: usize, random: &mut Random) -> Self {
        let both = Self::new(DType::Q8_0, rows, cols, threads, random);
        let pool = Pool::new(threads).unwrap();
        let lines = InputMajor::nested(rows, cols, &both.bytes, &pool).unwrap();
        assert!(lines.is_nested() && lines.norms() == both.lines.norms());
        Self { lines, ..both }
    }

    fn prepare(&self, x: &[f32]) -> Activations {
        self.prepare_for(Phase::Decode, x)
    }

    fn prepare_for(&self, phase: Phase, x: &[f32]) -> Activations {
        let rows = x.len() / self.cols;
        let kind = ActivationKind::of(self.dtype);
        let mut activations = Activations::new(kind, rows, self.cols).unwrap();
        activations.set_phase(phase);
        // SAFETY: one thread.
        unsafe { activations.prepare(x, self.cols, 0..Activations::units(rows, self.cols)) };
        activations
    }

    /// The product of rows of matrices.
    fn dense(&self, isa: Isa, activations: &Activations, batch: usize) -> Vec<f32> {
        let mut out = vec![f32::NAN; batch * self.rows];
        let output = output(&mut out, self.rows, None, false);
        let matrix = MatrixRef::new(self.dtype, self.rows, self.cols, &self.bytes).unwrap();
        // SAFETY: one thread.
        unsafe { matmul(isa, &matrix, activations, batch, 0..self.rows, &output) };
        out
    }

    /// The live inputs of some rows of `x`, `count` of each and those with equal scores.
    fn live(&self, x: &[f32], rows: &[u32], count: usize, activations: &Activations) -> LiveRows {
        let (blocks, floats) = match ActivationKind::of(self.dtype) {
            ActivationKind::I8 => (self.cols, 0),
            ActivationKind::F32 => (0, self.cols),
        };
        let lists = LiveRows::new(rows.len(), blocks, floats).unwrap();
        for (to, &row) in rows.iter().enumerate() {
            let x = &x[row as usize * self.cols..][..self.cols];
            let of_blocks = (blocks > 0).then_some((activations, row as usize));
            let least = least(x, self.lines.norms(), count, self.lines.is_nested());
            let chosen = Chosen { x, matrix: &self.lines, least, activations: of_blocks };
            // in two parts, as two threads do
            let units = LiveRows::units(self.cols);
            for part in [0..units / 2, units / 2..units] {
                // SAFETY: one thread.
                unsafe { lists.choose(Isa::detect(), to, &chosen, part) };
            }
        }
        lists
    }

    /// The product in input-major order, computed in parts that begin at whole runs.
    fn product(
        &self,
        isa: Isa,
        activations: &Activations,
        (live, lists): (&[u32], &LiveRows),
        parts: usize,
        out: &mut [f32],
    ) {
        let output = output(out, self.rows, None, false);
        let task = Task { matrix: &self.lines, activations, live, lists: (lists, 0), output };
        let step = self.rows.div_ceil(parts).next_multiple_of(OUTPUT_ALIGN);
        for first in (0..self.rows).step_by(step) {
            // SAFETY: one thread.
            unsafe { multiply(isa, &task, first..self.rows.min(first + step)) };
        }
    }

    fn name(&self) -> String {
        format!("{} {} x {}", self.dtype, self.rows, self.cols)
    }
}

fn output<'a>(
    out: &'a mut [f32],
    stride: usize,
    bias: Option<&'a [f32]>,
    accumulate: bool,
) -> Output<'a> {
    Output { values: SharedMut::new(out), stride, bias, accumulate }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Shapes with slabs that are not full and widths of one and of several super-blocks.
fn shapes(dtype: DType) -> [(usize, usize); 4] {
    match dtype.block_len() {
        1 => [(1, 1), (130, 33), (1100, 300), (64, 512)],
        block => [(1, block), (130, 2 * block), (2100, 256), (257, 1024)],
    }
}

/// Each phase with each instruction set of this machine.
fn phases_and_sets() -> impl Iterator<Item = (Phase, Isa)> {
    [Phase::Prompt, Phase::Decode]
        .into_iter()
        .flat_map(|phase| Isa::available().map(move |isa| (phase, isa)))
}

/// Each phase with each instruction set of this machine: rows all of whose inputs are live are those of the product of rows.
#[test]
fn all_inputs_are_those_of_the_dense_product() {
    let mut random = Random::new(2);
    for dtype in types() {
        for (rows, cols) in shapes(dtype) {
            let both = Both::new(dtype, rows, cols, 3, &mut random);
            let batch = 7;
            let x = random.normals(batch * cols, 0.1, 1.0);
            for (phase, isa) in phases_and_sets() {
                let activations = both.prepare_for(phase, &x);
                let expected = both.dense(Isa::detect(), &activations, batch);
                for count in [1, 5] {
                    // rows in another order, so that none is at its index
                    let picked: Vec<u32> = (0..count).rev().collect();
                    let lists = both.live(&x, &picked, cols, &activations);
                    let mut out = vec![f32::NAN; batch * rows];
                    both.product(isa, &activations, (&picked, &lists), 2, &mut out);
                    let len = count as usize * rows;
                    let same = bits(&out[..len]) == bits(&expected[..len]);
                    assert!(same, "{}, {isa}, {count} rows", both.name());
                    assert!(out[len..].iter().all(|value| value.is_nan()), "{}", both.name());
                }
            }
        }
    }
}

#[test]
fn live_inputs_alone_are_multiplied() {
    let mut random = Random::new(3);
    for dtype in types() {
        for (rows, cols) in shapes(dtype) {
            let both = Both::new(dtype, rows, cols, 1, &mut random);
            let batch = 3;
            let x: Vec<f32> =
                random.normals(batch * cols, 0.0, 1.0).iter().map(|x| x * x * x).collect();
            for phase in [Phase::Prompt, Phase::Decode] {
                let activations = both.prepare_for(phase, &x);
                for count in [1, cols / 10, cols / 2, cols - cols / 8, cols] {
                    let count = count.clamp(1, cols);
                    let lists = both.live(&x, &[0, 1, 2], count, &activations);
                    let mut expected: Option<Vec<f32>> = None;
                    for isa in Isa::available() {
                        for parts in [1, 3] {
                            let mut out = vec![f32::NAN; batch * rows];
                            let picked = (&[0, 1, 2][..], &lists);
                            both.product(isa, &activations, picked, parts, &mut out);
                            if let Some(expected) = &expected {
                                assert_eq!(bits(&out), bits(expected), "{}, {isa}", both.name());
                                continue;
                            }
                            compare_with_f64(&both, &x, count, &activations, &out);
                            expected = Some(out);
                        }
                    }
                }
            }
        }
    }
}

/// Compares results with sums over the live inputs.
fn compare_with_f64(both: &Both, x: &[f32], count: usize, activations: &Activations, out: &[f32]) {
    let (rows, cols) = (both.rows, both.cols);
    for (r, x) in x.chunks(cols).enumerate() {
        let is_live = live_ones(x, both.lines.norms(), count, false);
        let live: Vec<usize> = (0..cols).filter(|&k| is_live[k]).collect();
        let seen = |k: usize| match activations.kind() {
            ActivationKind::F32 => f64::from(x[k]),
            ActivationKind::I8 => {
                // SAFETY: one thread, and it has prepared the block.
                let block = unsafe { &*activations.blocks().add(activations.place(r, k / BLOCK)) };
                f64::from(block.scale) * f64::from(block.codes[k % BLOCK])
            }
        };
        for n in 0..rows {
            let products = live.iter().map(|&k| f64::from(both.weights[n * cols + k]) * seen(k));
            let (sum, magnitude) =
                products.fold((0.0, 0.0), |(sum, all), p| (sum + p, all + f64::abs(p)));
            // codes and minima are added up apart, each larger than their difference
            let largest = live.iter().map(|&k| seen(k).abs()).sum::<f64>() * 10.0;
            let found = f64::from(out[r * rows + n]);
            assert!(
                (found - sum).abs() <= 1e-5 * (magnitude + largest),
                "{}, {count} live, result {n} of row {r}: {found} instead of {sum}",
                both.name()
            );
        }
    }
}

#[test]
fn results_are_added_to_biases_and_to_values() {
    let mut random = Random::new(5);
    for dtype in [DType::Q8_0, DType::BF16] {
        let (rows, cols) = (200, 64);
        let both = Both::new(dtype, rows, cols, 1, &mut random);
        let (x, bias) = (random.normals(2 * cols, 0.0, 1.0), random.normals(rows, 0.0, 1.0));
        let activations = both.prepare(&x);
        let matrix = MatrixRef::new(dtype, rows, cols, &both.bytes).unwrap();
        for accumulate in [false, true] {
            let before = random.normals(2 * rows, 0.0, 1.0);
            let [mut expected, mut found] = [before.clone(), before];
            let to = output(&mut expected, rows, Some(&bias), accumulate);
            // SAFETY: one thread.
            unsafe { matmul(Isa::detect(), &matrix, &activations, 2, 0..rows, &to) };
            let to = output(&mut found, rows, Some(&bias), accumulate);
            let lists = both.live(&x, &[0, 1], cols, &activations);
            let (matrix, lists) = (&both.lines, (&lists, 0));
            let task = Task { matrix, activations: &activations, live: &[0, 1], lists, output: to };
            // SAFETY: as above.
            unsafe { multiply(Isa::detect(), &task, 0..rows) };
            assert_eq!(bits(&found), bits(&expected), "{dtype}");
        }
    }
}

#[test]
fn norms_and_sizes() {
    let mut random = Random::new(6);
    for dtype in types() {
        let (rows, cols) = (2100, 256);
        let both = Both::new(dtype, rows, cols, 2, &mut random);
        for (k, &norm) in both.lines.norms().iter().enumerate() {
            let squares = (0..rows).map(|n| f64::from(both.weights[n * cols + k]).powi(2));
            let expected = squares.sum::<f64>().sqrt();
            assert!((f64::from(norm) / expected - 1.0).abs() < 1e-6, "{dtype}");
        }
        // a whole slab has no padding
        let (kept, stored) =
            (InputMajor::bytes_of(dtype, 2048, 256).unwrap(), dtype.bytes_of(2048 * 256).unwrap());
        assert!(kept >= stored && kept * 20 < stored * 21, "{dtype}: {kept} for {stored}");
    }
    assert_eq!(InputMajor::bytes_of(DType::Q4_0, 10, 33), None);
    assert_eq!(InputMajor::bytes_of(DType::Q5_0, 10, 32), None);
    assert_eq!(InputMajor::bytes_of(DType::Q4_K, usize::MAX, 256), None);
}

const NESTED: [(usize, usize); 5] = [(1, 32), (130, 64), (520, 256), (1100, 96), (257, 1024)];

#[test]
fn all_halves_are_those_of_q8_0() {
    let mut random = Random::new(8);
    for (rows, cols) in NESTED {
        let both = Both::nested(rows, cols, 2, &mut random);
        let batch = 7;
        let x = random.normals(batch * cols, 0.1, 1.0);
        let activations = both.prepare(&x);
        let expected = both.dense(Isa::detect(), &activations, batch);
        let all = [0, 1, 2, 3, 4, 5, 6];
        let lists = both.live(&x, &all, 2 * cols, &activations);
        for isa in Isa::available() {
            let mut out = vec![f32::NAN; batch * rows];
            both.product(isa, &activations, (&all, &lists), 2, &mut out);
            assert!(bits(&out) == bits(&expected), "{isa}, {}", both.name());
        }
        assert_eq!(both.lines.bytes.len(), InputMajor::bytes_of(DType::Q8_0, rows, cols).unwrap());
    }
}

#[test]
fn live_halves_alone_are_multiplied() {
    let mut random = Random::new(9);
    for (rows, cols) in NESTED {
        let both = Both::nested(rows, cols, 1, &mut random);
        let batch = 3;
        let mut x: Vec<f32> = random.normals(batch * cols, 0.0, 1.0);
        x.iter_mut().for_each(|x| *x = x.powi(3));
        // equal scores, and inputs that are zero
        for (i, x) in x.iter_mut().enumerate().take(cols) {
            *x = (i % 3) as f32;
        }
        let activations = both.prepare(&x);
        let codes: Vec<(f64, i8)> = both
            .bytes
            .chunks_exact(34)
            .flat_map(|block| {
                let scale = half::f16::from_le_bytes([block[0], block[1]]).to_f64();
                block[2..].iter().map(move |&code| (scale, code as i8))
            })
            .collect();
        for count in [1, cols / 5, cols / 2, cols, cols + cols / 3, 2 * cols - 1] {
            let lists = both.live(&x, &[0, 1, 2], count, &activations);
            let mut first: Option<Vec<f32>> = None;
            for (isa, parts) in Isa::available().flat_map(|isa| [(isa, 1), (isa, 3)]) {
                let mut out = vec![f32::NAN; batch * rows];
                both.product(isa, &activations, (&[0, 1, 2], &lists), parts, &mut out);
                let first = first.get_or_insert_with(|| out.clone());
                assert!(bits(&out) == bits(first), "{isa}, {}", both.name());
            }
            let found = first.unwrap();
            for (r, x) in x.chunks(cols).enumerate() {
                let mut upper = live_ones(x, both.lines.norms(), count, true);
                let lower = upper.split_off(cols);
                assert!(lower.iter().zip(&upper).all(|(lower, upper)| *upper || !lower));
                for n in 0..rows {
                    let (mut sum, mut magnitude) = (0.0, 0.0);
                    for k in 0..cols {
                        // SAFETY: one thread, and it has prepared the block.
                        let block =
                            unsafe { &*activations.blocks().add(activations.place(r, k / BLOCK)) };
                        let x = f64::from(block.scale) * f64::from(block.codes[k % BLOCK]);
                        let (scale, code) = codes[n * cols + k];
                        let code = match (upper[k], lower[k]) {
                            (false, _) => 0.0,
                            (true, false) => f64::from(code >> 4) * 16.0 + 7.5,
                            (true, true) => f64::from(code),
                        };
                        sum += scale * code * x;
                        magnitude += (scale * code * x).abs();
                    }
                    let found = f64::from(found[r * rows + n]);
                    assert!(
                        (found - sum).abs() <= 1e-5 * magnitude + 1e-12,
                        "{}, {count}, result {n} of row {r}: {found} for {sum}",
                        both.name()
                    );
                }
            }
        }
    }
}
