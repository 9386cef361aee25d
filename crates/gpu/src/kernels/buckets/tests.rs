//! Products with sorted buckets compared with arithmetic in f64, over the weights that the codes stand
//! for and the ranks that a sort of the products with probes selects.

use std::sync::Arc;

use pelton_graph::{Activation, Effort};
use pelton_quant::{
    BUCKET, BucketSource, DType, bucket_exponent, bucket_position, bucket_probe, bucket_value,
    decode, pack_buckets,
};
use pelton_testing::Random;

use super::*;
use crate::{
    device::Device,
    testing::{device, normals},
};

const SILU: Option<Gating> = Some(Gating::Product(Activation::Silu));

/// A matrix of one dtype, and what its codes stand for.
struct Matrix {
    shape: weights::Buckets,
    bytes: Vec<u8>,
    dtype: DType,
    weights: Vec<f32>,
    unit: f32,
    /// The codes `[16, buckets]` and the means of each input.
    columns: Vec<(Vec<u16>, [f32; BUCKET])>,
}

impl Matrix {
    fn new(dtype: DType, shape: weights::Buckets, scale: f32, random: &mut Random) -> Self {
        let weights::Buckets { rows, cols, .. } = shape;
        let mut bytes = Vec::new();
        let values = random.normals(rows * cols, 0.0, scale);
        pelton_quant::encode(dtype, &values, &mut bytes).unwrap();
        let mut weights = vec![0.0; rows * cols];
        decode(dtype, &bytes, &mut weights).unwrap();
        let greatest = weights.iter().fold(0.0_f32, |max, w| max.max(w.abs()));
        let unit = 2.0_f32.powi(-bucket_exponent(greatest));
        let columns = (0..cols).map(|input| {
            let column: Vec<f32> =
                (0..rows).map(|row| weights[row * cols + input] / unit).collect();
            let mut codes = vec![0; rows];
            let means = pack_buckets(&column, &mut codes);
            (codes, means.map(|mean| mean.to_f32()))
        });
        let columns = columns.collect();
        Self { shape, bytes, dtype, weights, unit, columns }
    }

    fn words(&self) -> Vec<u32> {
        let shape = (self.shape.rows, self.shape.cols);
        self.shape.packed(&BucketSource::new(self.dtype, shape, &self.bytes).unwrap(), 3)
    }

    /// The cutoff of a row by a sort.
    fn cutoff(&self, a: &[f32], effort: Effort) -> Option<f32> {
        let weights::Buckets { rows, cols, .. } = self.shape;
        let product = |probe| {
            let (input, output) = bucket_probe(probe, rows, cols);
            (a[input] * (self.weights[output * cols + input] / self.unit)).abs()
        };
        let mut products: Vec<f32> = (0..PROBES).map(product).collect();
        products.sort_by(f32::total_cmp);
        effort.cutoff(PROBES).map(|index| products[index])
    }

    /// The products of the selected ranks, and the sum of their magnitudes.
    fn product(&self, a: &[f32], effort: Effort) -> Vec<(f64, f64)> {
        let cutoff = self.cutoff(a, effort);
        let buckets = self.shape.rows / BUCKET;
        let mut sums = vec![(0.0, 0.0); self.shape.rows];
        for (a, (codes, means)) in a.iter().zip(&self.columns) {
            for rank in 0..self.shape.ranks {
                if cutoff.is_some_and(|cutoff| a.abs() * means[rank] <= cutoff) {
                    continue;
                }
                for (bucket, &code) in codes[rank * buckets..][..buckets].iter().enumerate() {
                    let product =
                        f64::from(bucket_value(code)) * f64::from(self.unit) * f64::from(*a);
                    let sum = &mut sums[bucket * BUCKET + bucket_position(code)];
                    sum.0 += product;
                    sum.1 += product.abs();
                }
            }
        }
        sums
    }
}

/// The words of rows of these efforts: 0 runs densely.
fn words(efforts: &[f64]) -> Vec<u32> {
    let word = |&effort: &f64| match Effort::new(effort) {
        None => 0,
        Some(effort) => effort.cutoff(PROBES).map_or(u32::MAX, |index| index as u32 | 1 << 31),
    };
    efforts.iter().map(word).collect()
}

struct Case {
    matrices: Vec<Matrix>,
    biases: Vec<Vec<f32>>,
    before: Vec<Vec<f32>>,
    norm: Vec<f32>,
    x: Vec<f32>,
    efforts: Vec<f64>,
}

impl Case {
    fn new(product: &Buckets, dtype: DType, scale: f32, efforts: &[f64]) -> Self {
        let mut random = Random::new(7);
        let k = product.shape().cols;
        let matrix = |side: &Side| Matrix::new(dtype, side.shape, scale, &mut random);
        let matrices: Vec<Matrix> = product.sides.iter().map(matrix).collect();
        let of = |seed, times: usize| -> Vec<Vec<f32>> {
            product.sides.iter().map(|side| normals(seed, side.shape.rows * times)).collect()
        };
        let biases = of(2, 1);
        let before = of(3, efforts.len());
        let x = normals(4, k * efforts.len()).into_iter().map(|x| x.powi(3)).collect();
        Self { matrices, biases, before, norm: normals(5, k), x, efforts: efforts.to_vec() }
    }

    /// The results; rows that run densely keep what was before.
    fn run(&self, device: &Arc<Device>, product: &Buckets) -> Vec<Vec<f32>> {
        let (capabilities, rows) = (&device.capabilities, self.efforts.len());
        let x = device.with(&self.x);
        let lives = device.with(&words(&self.efforts));
        let cutoffs = device.with(&vec![u32::MAX; 2 * rows * product.sides.len()]);
        let partial = device.with(&vec![f32::NAN; rows * product.partial_len()]);
        let norm = product.norm.map(|_| device.with(&self.norm));
        let matrices: Vec<_> = self.matrices.iter().map(|m| device.with(&m.words())).collect();
        let biases: Vec<_> = self.biases.iter().map(|bias| device.with(bias)).collect();
        let before: Vec<_> = self.before.iter().map(|y| device.with(y)).collect();
        let apart: Vec<_> =
            self.before.iter().map(|y| device.with(&vec![f32::NAN; y.len()])).collect();
        let run = |source: Result<KernelSource, Error>, buffers: &[_], groups| {
            let kernel = device.kernel("test", &source.unwrap()).unwrap();
            device.run(&kernel, buffers, [groups, rows as u32, 1]);
        };

        let mut buffers = vec![&x, &lives, &cutoffs];
        buffers.extend(&norm);
        buffers.extend(&matrices);
        let place = device.with(&[0_u32]);
        buffers.push(&place);
        let source = product.cutoff_source(capabilities);
        run(source, &buffers, product.cutoff_groups());

        buffers.pop();
        buffers.insert(3, &partial);
        let source = product.product_source(capabilities);
        run(source, &buffers, product.product_groups());

        let mut buffers = vec![&partial, &lives, &cutoffs];
        for i in 0..product.written().len() {
            match product.apart {
                true => buffers.extend([&apart[i], &before[i]]),
                false => buffers.push(&before[i]),
            }
        }
        let of_biases = product.sides.iter().zip(&biases).filter(|(side, _)| side.bias);
        buffers.extend(of_biases.map(|(_, bias)| bias));
        run(product.sum_source(), &buffers, product.sum_groups());
        let all = if product.apart { &apart } else { &before };
        all[..product.written().len()].iter().map(|y| device.content(y)).collect()
    }

    /// Compares the results with f64.
    fn check(&self, product: &Buckets, found: &[Vec<f32>]) {
        let k = product.shape().cols;
        for (row, &fraction) in self.efforts.iter().enumerate() {
            let x = &self.x[row * k..][..k];
            let Some(effort) = Effort::new(fraction) else {
                for (found, before) in found.iter().zip(&self.before) {
                    let width = before.len() / self.efforts.len();
                    let place = row * width..(row + 1) * width;
                    assert!(product.apart || found[place.clone()] == before[place]);
                }
                continue;
            };
            let a: Vec<f32> = match product.norm {
                Some(_) => x.iter().zip(&self.norm).map(|(x, weight)| x * weight).collect(),
                None => x.to_vec(),
            };
            let factor = product.norm.map_or(1.0, |eps| {
                let squares: f64 = x.iter().map(|&v| f64::from(v).powi(2)).sum();
                1.0 / (squares / k as f64 + f64::from(eps)).sqrt()
            });
            let sums: Vec<Vec<(f64, f64)>> = (self.matrices.iter().enumerate())
                .map(|(i, matrix)| {
                    let bias = |n: usize| match product.sides[i].bias {
                        true => f64::from(self.biases[i][n]),
                        false => 0.0,
                    };
                    let products = matrix.product(&a, effort).into_iter().enumerate();
                    products
                        .map(|(n, (sum, size))| (sum * factor + bias(n), size * factor + 1e-3))
                        .collect()
                })
                .collect();
            for (i, found) in found.iter().enumerate() {
                let width = sums[i].len();
                for (n, &(mut expected, mut size)) in sums[i].iter().enumerate() {
                    if product.glu.is_some() {
                        let (up, of_up) = sums[1][n];
                        size = (size * up.abs() + of_up * (expected.abs() + 1.0)) * 2.0;
                        expected *= up / (1.0 + (-expected).exp());
                    }
                    if product.add {
                        expected += f64::from(self.before[i][row * width + n]);
                    }
                    let found = f64::from(found[row * width + n]);
                    let bound = 1e-5 * size + 1e-6 * expected.abs();
                    assert!(
                        (found - expected).abs() <= bound,
                        "{product:?}, effort {fraction}, output {n}: {found} for {expected}"
                    );
                }
            }
        }
    }
}

fn plain(sides: Vec<Side>) -> Buckets {
    Buckets {
        sides,
        norm: None,
        add: false,
        apart: false,
        glu: None,
        rows_at: [0, 1],
        on_grid: true,
    }
}

fn bits(all: &[Vec<f32>]) -> Vec<Vec<u32>> {
    all.iter().map(|y| y.iter().map(|v| v.to_bits()).collect()).collect()
}

/// Products work for any shape and multiply all entries of a list and no more. Results repeat bit
/// for bit and do not depend on the work split. The original program does none of this.
#[test]
fn products_of_selected_ranks() {
    let Some(device) = device() else { return };
    let side =
        |rows, cols, ranks, bias| Side { shape: weights::Buckets { rows, cols, ranks }, bias };
    let one = |rows, cols, ranks| plain(vec![side(rows, cols, ranks, false)]);
    let norm = Some(1e-5);
    let three = vec![side(528, 130, 16, true), side(16, 130, 16, false), side(48, 130, 16, true)];
    let cases = [
        (DType::F16, 1.0, one(16, 1, 16)),
        // the smallest weights are subnormal in f16
        (DType::BF16, 1e-6, Buckets { add: true, ..one(272, 33, 16) }),
        (DType::F32, 1e6, Buckets { add: true, apart: true, ..one(512, 300, 11) }),
        (DType::F16, 1.0, one(48, 5000, 16)),
        (DType::F16, 1.0, one(48, 200, 1)),
        (DType::F16, 1.0, Buckets { norm, ..plain(three) }),
        (DType::F16, 0.1, Buckets { norm, glu: SILU, ..plain(vec![side(560, 96, 16, true); 2]) }),
    ];
    for (dtype, scale, product) in cases {
        let case = Case::new(&product, dtype, scale, &[0.5, 0.0, 0.05, 1.0, 0.25]);
        let found = case.run(&device, &product);
        case.check(&product, &found);
        assert_eq!(bits(&case.run(&device, &product)), bits(&found), "repeats");
        let alone = Buckets { on_grid: false, ..product.clone() };
        assert_eq!(bits(&case.run(&device, &alone)), bits(&found), "{product:?}");
    }
}

/// The cutoffs of rows are those of a sort, bit for bit: with other activations too, late inputs
/// among them, which the original never probes.
#[test]
fn cutoffs_are_those_of_a_sort() {
    let Some(device) = device() else { return };
    let shape = weights::Buckets { rows: 64, cols: 6000, ranks: 16 };
    let product = plain(vec![Side { shape, bias: false }]);
    let efforts = [0.9, 0.5, 0.25, 0.1, 1e-9, 1.0];
    let mut case = Case::new(&product, DType::F16, 1.0, &efforts);
    for (row, x) in case.x.chunks_mut(6000).enumerate() {
        match row {
            0 => x[4096..].iter_mut().for_each(|x| *x *= 100.0),
            // many equal products
            1 => x.fill(0.5),
            2 => x[..5990].fill(0.0),
            _ => {}
        }
    }
    let cutoffs = device.with(&vec![0_u32; 2 * efforts.len()]);
    let buffers = [
        &device.with(&case.x),
        &device.with(&words(&efforts)),
        &cutoffs,
        &device.with(&case.matrices[0].words()),
        &device.with(&[0_u32]),
    ];
    let source = product.cutoff_source(&device.capabilities).unwrap();
    let kernel = device.kernel("test", &source).unwrap();
    device.run(&kernel, &buffers, [1, efforts.len() as u32, 1]);
    let found: Vec<u32> = device.content(&cutoffs);
    for (row, effort) in efforts.into_iter().enumerate() {
        let x = &case.x[row * 6000..][..6000];
        let expected = case.matrices[0].cutoff(x, Effort::new(effort).unwrap());
        assert_eq!(found[2 * row], expected.map_or(u32::MAX, f32::to_bits), "{effort}");
    }
}

/// Activations that are no numbers reach the results, and end no loop.
#[test]
fn activations_that_are_no_numbers() {
    let Some(device) = device() else { return };
    let shape = weights::Buckets { rows: 32, cols: 64, ranks: 16 };
    let product = plain(vec![Side { shape, bias: false }]);
    for wrong in [f32::NAN, f32::INFINITY] {
        let mut case = Case::new(&product, DType::F16, 1.0, &[0.5]);
        case.x[7] = wrong;
        let found = case.run(&device, &product);
        assert!(found[0].iter().all(|value| !value.is_finite()), "{wrong}");
    }
}
