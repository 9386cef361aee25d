//! Products over live inputs compared with arithmetic in f64, over the inputs whose
//! scores exceed a threshold.

use std::sync::Arc;

use pelton_graph::Activation;
use pelton_quant::{DType, decode};
use pelton_testing::Random;

use super::*;
use crate::{
    device::Device,
    testing::{device, normals},
};

const SILU: Option<Gating> = Some(Gating::Product(Activation::Silu));
const NORM: Option<f32> = Some(1e-5);

/// The matrix of most products.
const LINES: InputMajorLayout = InputMajorLayout { rows: 1040, cols: 1280 };

/// Products of every form.
pub(super) fn products(lines: InputMajorLayout) -> Vec<LiveProduct> {
    let side =
        |rows, lives_at, bias| Side { lines: InputMajorLayout { rows, ..lines }, bias, lives_at };
    let plain = |sides| LiveProduct {
        sides,
        norm: None,
        add: false,
        apart: false,
        glu: None,
        gated: None,
        rows_at: [0, 3],
        mixed: true,
        on_grid: true,
        teams: 1,
        is_phase: false,
    };
    let one = plain(vec![side(lines.rows, 1, false)]);
    let three = vec![side(600, 0, true), side(16, 1, false), side(40, 2, true)];
    let two = vec![side(560, 0, true), side(560, 2, false)];
    vec![
        one.clone(),
        LiveProduct { add: true, apart: true, ..one.clone() },
        LiveProduct { add: true, on_grid: false, ..one },
        LiveProduct { norm: NORM, ..plain(three) },
        LiveProduct { norm: NORM, glu: SILU, ..plain(two) },
        LiveProduct { gated: Some(gates(lines.cols)), ..plain(vec![side(lines.rows, 1, false)]) },
    ]
}

/// The partial sums of a gate and its value, in three slices with gaps.
fn gates(width: usize) -> GatedSums {
    let gating = Gating::Product(Activation::Silu);
    GatedSums { gating, splits: 3, len: 2 * width + 24, up: width + 8 }
}

/// The inputs of a product, the matrices of its sides, and what it adds to.
struct Case {
    x: Vec<f32>,
    /// The partial sums of x, if it is a gated product.
    gates: Vec<f32>,
    norm: Vec<f32>,
    files: Vec<Vec<u8>>,
    biases: Vec<Vec<f32>>,
    before: Vec<Vec<f32>>,
    /// The thresholds `[rows, 3]`, by words: 0 for a full row.
    lives: Vec<u32>,
}

/// The word of a threshold.
fn word(threshold: f32) -> u32 {
    1 << 31 | (threshold.to_bits() + 1)
}

impl Case {
    fn new(product: &LiveProduct) -> Self {
        let mut random = Random::new(3);
        let lines = product.lines();
        // few, about half, and all inputs; and a full row
        let typical = (lines.rows as f32).sqrt() * if product.norm.is_some() { 0.05 } else { 0.1 };
        let rows = [word(0.3 * typical), 0, word(0.0), 1 << 31, word(2.0 * typical), word(1e9)];
        let lives = rows.iter().flat_map(|&word| [word; 3]).collect();
        let of = |seed, times: usize| -> Vec<Vec<f32>> {
            product.sides.iter().map(|side| normals(seed, side.lines.rows * times)).collect()
        };
        let file = |side: &Side| random.blocks(DType::Q8_0, lines.cols * side.lines.rows, 0.0, 0.1);
        let mut x: Vec<f32> =
            normals(1, lines.cols * rows.len()).into_iter().map(|x| x.powi(3)).collect();
        let gates =
            product.gated.map_or_else(Vec::new, |of| normals(6, rows.len() * of.splits * of.len));
        if let Some(GatedSums { splits, len, up, .. }) = product.gated {
            for (i, x) in x.iter_mut().enumerate() {
                let (row, at) = (i / lines.cols, i % lines.cols);
                let sum = |at: usize| -> f64 {
                    (0..splits).map(|s| f64::from(gates[(row * splits + s) * len + at])).sum()
                };
                *x = (sum(at) * sum(up + at) / (1.0 + (-sum(at)).exp())) as f32;
            }
        }
        Self {
            files: product.sides.iter().map(file).collect(),
            x,
            gates,
            norm: normals(2, lines.cols),
            biases: of(4, 1),
            before: of(5, rows.len()),
            lives,
        }
    }

    fn rows(&self) -> usize {
        self.lives.len() / 3
    }

    /// The results; full rows keep what was before.
    fn run(&self, device: &Arc<Device>, product: &LiveProduct) -> Vec<Vec<f32>> {
        let (capabilities, rows) = (&device.capabilities, self.rows());
        let x = if product.gated.is_some() { &self.gates } else { &self.x };
        let (x, lives) = (device.with(x), device.with(&self.lives));
        let norm = product.norm.map(|_| device.with(&self.norm));
        let lines: Vec<InputMajorLayout> = product.sides.iter().map(|side| side.lines).collect();
        let (firsts, end) = places(&lines);
        let mut matrices = vec![0_u8; end];
        for ((lines, file), first) in lines.iter().zip(&self.files).zip(firsts) {
            let packed = lines.packed(file, 3);
            matrices[first..first + packed.len()].copy_from_slice(&packed);
        }
        let matrices = device.with(&matrices);
        let partial = device.with(&vec![f32::NAN; rows * product.partial_len()]);
        let biases: Vec<_> = self.biases.iter().map(|bias| device.with(bias)).collect();
        let before: Vec<_> = self.before.iter().map(|y| device.with(y)).collect();
        let apart: Vec<_> =
            self.before.iter().map(|y| device.with(&vec![f32::NAN; y.len()])).collect();
        let run = |source: Result<KernelSource, Error>, buffers: &[_], groups| {
            let kernel = device.kernel("test", &source.unwrap()).unwrap();
            device.run(&kernel, buffers, [groups, rows as u32, 1]);
        };

        let place = device.with(&[0_u32]);
        let mut buffers = vec![&x, &lives, &place];
        buffers.extend(&norm);
        buffers.push(&matrices);
        buffers.push(&partial);
        run(product.product_source(capabilities), &buffers, product.product_groups());

        let mut buffers = vec![&partial, &lives];
        let written = product.written().len();
        for i in 0..written {
            match product.apart {
                true => buffers.extend([&apart[i], &before[i]]),
                false => buffers.push(&before[i]),
            }
        }
        let of_biases = product.sides.iter().zip(&biases).filter(|(side, _)| side.bias);
        buffers.extend(of_biases.map(|(_, bias)| bias));
        run(product.sum_source(), &buffers, product.sum_groups());
        let all = if product.apart { &apart } else { &before };
        all[..written].iter().map(|y| device.content(y)).collect()
    }

    /// The sums of a side for a row in f64, and for each what f32 and codes may change.
    fn sums(&self, product: &LiveProduct, side: usize, row: usize) -> Vec<(f64, f64)> {
        let lines = product.sides[side].lines;
        let k = lines.cols;
        let mut weights = vec![0.0; lines.rows * k];
        decode(DType::Q8_0, &self.files[side], &mut weights).unwrap();
        let x = &self.x[row * k..][..k];
        let mean = x.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / k as f64;
        let factor = product.norm.map_or(1.0, |eps| 1.0 / (mean + f64::from(eps)).sqrt());
        let a = |i: usize| match product.norm {
            Some(_) => f64::from(x[i]) * f64::from(self.norm[i]) * factor,
            None => f64::from(x[i]),
        };
        let least = self.lives[row * 3 + product.sides[side].lives_at as usize] & (u32::MAX >> 1);
        let threshold = least.checked_sub(1).map_or(-1.0, |bits| f64::from(f32::from_bits(bits)));
        let mut sums = vec![(0.0, 0.0); lines.rows];
        // an activation in 8 bits is off by half of a step of its block
        let greatest = |i: usize| {
            let block = i / 32 * 32..i / 32 * 32 + 32;
            block.map(|i| a(i).abs()).fold(0.0, f64::max)
        };
        for i in 0..k {
            let column = || (0..lines.rows).map(|n| f64::from(weights[n * k + i]));
            let norm = column().map(|weight| weight * weight).sum::<f64>().sqrt();
            let score = a(i).abs() * norm;
            assert!((score / threshold - 1.0).abs() > 1e-6, "a score at the threshold");
            if score <= threshold {
                continue;
            }
            let has_lower = score / f64::from(LOWER_HALF) > threshold;
            let off = greatest(i) / 250.0;
            for (n, (weight, (sum, size))) in column().zip(&mut sums).enumerate() {
                let weight = match !has_lower {
                    true => upper(&self.files[side], (n * k + i) / 32, i % 32),
                    false => weight,
                };
                *sum += weight * a(i);
                *size += (weight * off).powi(2);
            }
        }
        sums.into_iter().map(|(sum, size)| (sum, 4.0 * size.sqrt() + 1e-5)).collect()
    }

    /// Compares results with f64.
    fn check(&self, product: &LiveProduct, found: &[Vec<f32>]) {
        for row in 0..self.rows() {
            if self.lives[row * 3] == 0 {
                for (found, before) in found.iter().zip(&self.before) {
                    let width = before.len() / self.rows();
                    let place = row * width..(row + 1) * width;
                    assert!(product.apart || found[place.clone()] == before[place]);
                }
                continue;
            }
            let sums: Vec<_> =
                (0..product.sides.len()).map(|side| self.sums(product, side, row)).collect();
            for (i, found) in found.iter().enumerate() {
                let width = sums[i].len();
                for (n, &(sum, mut size)) in sums[i].iter().enumerate() {
                    let bias = |side: usize| match product.sides[side].bias {
                        true => f64::from(self.biases[side][n]),
                        false => 0.0,
                    };
                    let mut expected = sum + bias(i);
                    if product.glu.is_some() {
                        let (up, of_up) = sums[1][n];
                        let up = up + bias(1);
                        size = 2.0 * (size * up.abs() + of_up * (expected.abs() + 1.0));
                        expected *= up / (1.0 + (-expected).exp());
                    }
                    if product.add {
                        expected += f64::from(self.before[i][row * width + n]);
                    }
                    let found = f64::from(found[row * width + n]);
                    assert!(
                        (found - expected).abs() <= size + 1e-5 * expected.abs(),
                        "{product:?}, row {row}, output {n}: {found} for {expected} to {size}"
                    );
                }
            }
        }
    }
}

/// A weight of Q8_0 with the mean in place of its lower half.
fn upper(file: &[u8], block: usize, at: usize) -> f64 {
    let block = &file[34 * block..][..34];
    let scale = half::f16::from_le_bytes([block[0], block[1]]).to_f64();
    scale * (f64::from(block[2 + at] as i8 >> 4) * 16.0 + 7.5)
}

fn bits(all: &[Vec<f32>]) -> Vec<Vec<u32>> {
    all.iter().map(|y| y.iter().map(|v| v.to_bits()).collect()).collect()
}

/// Live inputs alone are multiplied. Results repeat bit for bit, and do not depend on the work
/// split.
#[test]
fn products_of_live_inputs() {
    let Some(device) = device() else { return };
    // a slice and a half of inputs, and a part of the first
    for cols in [1280, 192, 32] {
        for product in products(InputMajorLayout { cols, ..LINES }) {
            if cols < 1280 && product.sides.len() != 1 {
                continue;
            }
            let case = Case::new(&product);
            let found = case.run(&device, &product);
            case.check(&product, &found);
            let other = LiveProduct { on_grid: !product.on_grid, ..product.clone() };
            let teams = LiveProduct { on_grid: true, teams: 2, ..product.clone() };
            for other in [other, teams] {
                assert_eq!(bits(&case.run(&device, &other)), bits(&found), "{other:?}");
            }
        }
    }
}

/// Activations that are no numbers are live, and reach the results.
#[test]
fn activations_that_are_no_numbers() {
    let Some(device) = device() else { return };
    for wrong in [f32::NAN, f32::INFINITY] {
        let product = products(LINES).remove(0);
        let mut case = Case::new(&product);
        case.x[7] = wrong;
        let found = case.run(&device, &product);
        assert!(found[0][..LINES.rows].iter().all(|value| !value.is_finite()), "{wrong}");
    }
}

/// The norms are those of the columns, and the sections have the size of the file
/// but for whole tiles.
#[test]
fn norms_and_sizes() {
    let lines = InputMajorLayout { rows: 1024, cols: 96 };
    let InputMajorLayout { rows, cols } = lines;
    let file = Random::new(6).blocks(DType::Q8_0, rows * cols, 0.0, 1.0);
    let mut weights = vec![0.0; rows * cols];
    decode(DType::Q8_0, &file, &mut weights).unwrap();
    let packed = lines.packed(&file, 3);
    assert_eq!(packed.len(), file.len() + 4 * cols);
    let norms: &[f32] = bytemuck::cast_slice(&packed[lines.sections().norms..]);
    for (k, &norm) in norms.iter().enumerate() {
        let squares = (0..rows).map(|n| f64::from(weights[n * cols + k]).powi(2));
        let expected = squares.sum::<f64>().sqrt();
        assert!((f64::from(norm) / expected - 1.0).abs() < 1e-6, "{lines:?}");
    }
    assert_eq!(InputMajorLayout::new(DType::F16, 32, 32), None);
    assert_eq!(InputMajorLayout::new(DType::Q8_0, 32, 33), None);
}
