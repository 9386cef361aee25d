//! Live inputs compared with arithmetic in f64, products with arithmetic in f64, and full rows with
//! the products of rows of matrices, bit for bit, on every instruction set of this machine.

use pelton_graph::{LOWER_HALF, Phase};
use pelton_quant::{DType::Q8_0, decode};
use pelton_testing::Random;

use super::super::activations::{ActivationKind, Activations};
use super::super::job::{MatrixRef, Output};
use super::super::matmul;
use super::super::tile::BLOCK;
use super::layout::OUTPUT_ALIGN;
use super::select::{OF_LOWER, mask};
use super::{Chosen, InputMajor, LiveRows, Task, multiply};
use crate::isa::Isa;
use crate::pool::{Pool, SharedMut};

/// The scores |x|·norm of the inputs, and those of their lower halves after them.
fn scores(x: &[f32], norms: &[f32]) -> Vec<f32> {
    let of = |factor: f32| x.iter().zip(norms).map(move |(x, norm)| (x * norm * factor).abs());
    of(1.0).chain(of(1.0 / LOWER_HALF)).collect()
}

/// The bits of the score of which `count` are as great, or as many as are equal to it.
fn least(x: &[f32], norms: &[f32], count: usize) -> u32 {
    let mut scores = scores(x, norms);
    scores.sort_by(|a, b| b.total_cmp(a));
    scores[count.clamp(1, scores.len()) - 1].to_bits()
}

/// Whether each candidate is live: the inputs, and their lower halves after them.
fn live_ones(x: &[f32], norms: &[f32], count: usize) -> Vec<bool> {
    let least = f32::from_bits(least(x, norms, count));
    scores(x, norms).iter().map(|score| *score >= least).collect()
}

/// An input is live where the score in f64 exceeds the threshold, but for those as near
/// to it as f32 rounds.
#[test]
fn live_inputs_exceed_the_threshold() {
    let mut random = Random::new(1);
    for len in [1, 31, 33, 1000, 5632] {
        let x: Vec<f32> = (0..len).map(|_| random.normal(0.0, 1.0).powi(3)).collect();
        let norms: Vec<f32> = (0..len).map(|_| random.normal(1.0, 0.1).abs()).collect();
        let score = |i: usize| f64::from(x[i].abs()) * f64::from(norms[i]);
        for threshold in [0.0_f32, 1e-3, 0.1, 0.7, 2.0, 1e9] {
            let found = live_inputs(&x, &norms, threshold.to_bits() + 1);
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
    let halves = |all: &[usize]| [all, &all.iter().map(|i| 5 + i).collect::<Vec<_>>()].concat();
    assert_eq!(live_inputs(&special, &ones, 1), halves(&[2, 3, 4]));
    assert_eq!(live_inputs(&special, &ones, f32::MAX.to_bits() + 1), halves(&[2, 3]));
    assert_eq!(live_inputs(&special, &ones, 0), halves(&[0, 1, 2, 3, 4]));
}

/// The indices of the inputs of `x` `[cols]` that are live, in ascending order, and then those of
/// the lower halves, `cols + i` of input `i`.
fn live_inputs(x: &[f32], norms: &[f32], least: u32) -> Vec<usize> {
    let of = |factor: f32, first: usize| {
        let is_live = move |(i, (x, norm)): (usize, (&f32, &f32))| {
            let is_live = mask(&[*x], &[*norm], factor, least) != 0;
            is_live.then_some(first + i)
        };
        x.iter().zip(norms).enumerate().filter_map(is_live)
    };
    of(1.0, 0).chain(of(OF_LOWER, x.len())).collect()
}

/// A matrix in both orders.
struct Both {
    rows: usize,
    cols: usize,
    bytes: Vec<u8>,
    lines: InputMajor,
}

impl Both {
    fn new(rows: usize, cols: usize, threads: usize, random: &mut Random) -> Self {
        let bytes = random.blocks(Q8_0, rows * cols, 0.0, 1.0);
        let pool = Pool::new(threads).unwrap();
        let lines = InputMajor::new(rows, cols, &bytes, &pool).unwrap();
        Self { rows, cols, bytes, lines }
    }

    fn prepare(&self, phase: Phase, x: &[f32]) -> Activations {
        let rows = x.len() / self.cols;
        let mut activations = Activations::new(ActivationKind::I8, rows, self.cols).unwrap();
        activations.set_phase(phase);
        // SAFETY: one thread.
        unsafe { activations.prepare(x, self.cols, 0..Activations::units(rows, self.cols)) };
        activations
    }

    /// The product of rows of matrices.
    fn dense(&self, activations: &Activations, batch: usize) -> Vec<f32> {
        let mut out = vec![f32::NAN; batch * self.rows];
        let output = output(&mut out, self.rows, None, false);
        let matrix = MatrixRef::new(Q8_0, self.rows, self.cols, &self.bytes).unwrap();
        // SAFETY: one thread.
        unsafe { matmul(Isa::detect(), &matrix, activations, batch, 0..self.rows, &output) };
        out
    }

    /// The live halves of some rows of `x`, `count` of each and those with equal scores.
    fn live(&self, x: &[f32], rows: &[u32], count: usize, activations: &Activations) -> LiveRows {
        let lists = LiveRows::new(rows.len(), self.cols).unwrap();
        for (to, &row) in rows.iter().enumerate() {
            let x = &x[row as usize * self.cols..][..self.cols];
            let least = least(x, self.lines.norms(), count);
            let activations = (activations, row as usize);
            let chosen = Chosen { x, matrix: &self.lines, least, activations };
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
        format!("{} x {}", self.rows, self.cols)
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

#[test]
fn results_are_added_to_biases_and_to_values() {
    let mut random = Random::new(5);
    let (rows, cols) = (200, 64);
    let both = Both::new(rows, cols, 1, &mut random);
    let (x, bias) = (random.normals(2 * cols, 0.0, 1.0), random.normals(rows, 0.0, 1.0));
    let activations = both.prepare(Phase::Decode, &x);
    let matrix = MatrixRef::new(Q8_0, rows, cols, &both.bytes).unwrap();
    for accumulate in [false, true] {
        let before = random.normals(2 * rows, 0.0, 1.0);
        let [mut expected, mut found] = [before.clone(), before];
        let to = output(&mut expected, rows, Some(&bias), accumulate);
        // SAFETY: one thread.
        unsafe { matmul(Isa::detect(), &matrix, &activations, 2, 0..rows, &to) };
        let to = output(&mut found, rows, Some(&bias), accumulate);
        let lists = both.live(&x, &[0, 1], 2 * cols, &activations);
        let (matrix, lists) = (&both.lines, (&lists, 0));
        let task = Task { matrix, activations: &activations, live: &[0, 1], lists, output: to };
        // SAFETY: as above.
        unsafe { multiply(Isa::detect(), &task, 0..rows) };
        assert_eq!(bits(&found), bits(&expected));
    }
}

#[test]
fn norms_and_sizes() {
    let mut random = Random::new(6);
    let (rows, cols) = (2100, 256);
    let both = Both::new(rows, cols, 2, &mut random);
    let mut weights = vec![0.0; rows * cols];
    decode(Q8_0, &both.bytes, &mut weights).unwrap();
    for (k, &norm) in both.lines.norms().iter().enumerate() {
        let squares = (0..rows).map(|n| f64::from(weights[n * cols + k]).powi(2));
        let expected = squares.sum::<f64>().sqrt();
        assert!((f64::from(norm) / expected - 1.0).abs() < 1e-6, "{norm} for {expected}");
    }
    assert_eq!(both.lines.bytes.len(), InputMajor::bytes_of(rows, cols).unwrap());
    // padding apart, the size of the file
    let whole = InputMajor::bytes_of(2048, cols).unwrap();
    assert_eq!(whole, Q8_0.bytes_of(2048 * cols).unwrap());
    assert_eq!(InputMajor::bytes_of(32, 33), None);
    let pool = Pool::new(1).unwrap();
    assert!(InputMajor::new(rows, cols + 32, &both.bytes, &pool).is_none());
}

/// Shapes with slabs that are not full and widths of one and of several blocks.
const SHAPES: [(usize, usize); 5] = [(1, 32), (130, 64), (520, 256), (1100, 96), (257, 1024)];

/// In each phase with each instruction set of this machine rows all of whose halves are live are
/// those of the product of rows.
#[test]
fn all_halves_are_those_of_the_dense_product() {
    let mut random = Random::new(8);
    for (rows, cols) in SHAPES {
        let both = Both::new(rows, cols, 3, &mut random);
        let batch = 7;
        let x = random.normals(batch * cols, 0.1, 1.0);
        for phase in [Phase::Prompt, Phase::Decode] {
            let activations = both.prepare(phase, &x);
            let expected = both.dense(&activations, batch);
            for (count, isa) in Isa::available().flat_map(|isa| [(1, isa), (5, isa)]) {
                // rows in another order, so that none is at its index
                let picked: Vec<u32> = (0..count).rev().collect();
                let lists = both.live(&x, &picked, 2 * cols, &activations);
                let mut out = vec![f32::NAN; batch * rows];
                both.product(isa, &activations, (&picked, &lists), 2, &mut out);
                let (found, others) = out.split_at(count as usize * rows);
                let same = bits(found) == bits(&expected[..found.len()]);
                assert!(same, "{}, {isa}, {count} rows", both.name());
                assert!(others.iter().all(|value| value.is_nan()), "{}", both.name());
            }
        }
    }
}

#[test]
fn live_halves_alone_are_multiplied() {
    let mut random = Random::new(9);
    for (rows, cols) in SHAPES {
        let both = Both::new(rows, cols, 1, &mut random);
        let batch = 3;
        let mut x: Vec<f32> = random.normals(batch * cols, 0.0, 1.0);
        x.iter_mut().for_each(|x| *x = x.powi(3));
        // equal scores, and inputs that are zero
        for (i, x) in x.iter_mut().enumerate().take(cols) {
            *x = (i % 3) as f32;
        }
        let activations = both.prepare(Phase::Decode, &x);
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
                let mut upper = live_ones(x, both.lines.norms(), count);
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
