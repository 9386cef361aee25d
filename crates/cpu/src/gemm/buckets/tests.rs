//! Products with sorted buckets compared with arithmetic in f64, selections with a sort, and a test
//! for each known fault of the program that the idea comes from.

use pelton_graph::Effort;
use pelton_quant::{BUCKET, DType, PROBES, bucket_exponent, decode, pack_buckets};
use pelton_testing::Random;

use super::multiply;
use super::pack::{BUCKET_OUTPUTS, BucketParts, Buckets};
use super::select::{Selections, cutoff};
use crate::gemm::Output;
use crate::isa::Isa;
use crate::pool::{Pool, SharedMut};

/// A matrix, its decoded weights, and the parts of a file of it, which are computed here.
struct Subject {
    rows: usize,
    cols: usize,
    dtype: DType,
    bytes: Vec<u8>,
    weights: Vec<f32>,
    codes: Vec<u16>,
    means: Vec<half::f16>,
    unit: f32,
}

impl Subject {
    fn new(dtype: DType, (rows, cols): (usize, usize), scale: f32, random: &mut Random) -> Self {
        let values = random.normals(rows * cols, 0.0, scale);
        let mut bytes = Vec::new();
        pelton_quant::encode(dtype, &values, &mut bytes).unwrap();
        let mut weights = vec![0.0; rows * cols];
        decode(dtype, &bytes, &mut weights).unwrap();
        let greatest = weights.iter().fold(0.0_f32, |max, w| max.max(w.abs()));
        let unit = 2.0_f32.powi(-bucket_exponent(greatest));
        let words = rows / BUCKET;
        let mut codes = vec![0; words * BUCKET * cols];
        let mut means = vec![half::f16::ZERO; BUCKET * cols];
        for input in 0..cols {
            let column: Vec<f32> =
                (0..rows).map(|row| weights[row * cols + input] / unit).collect();
            let mut packed = vec![0; words * BUCKET];
            let of_ranks = pack_buckets(&column, &mut packed);
            for (rank, mean) in of_ranks.into_iter().enumerate() {
                means[rank * cols + input] = mean;
                codes[(rank * cols + input) * words..][..words]
                    .copy_from_slice(&packed[rank * words..][..words]);
            }
        }
        Self { rows, cols, dtype, bytes, weights, codes, means, unit }
    }

    fn buckets(&self, ranks: usize, threads: usize) -> Buckets {
        let pool = Pool::new(threads).unwrap();
        Buckets::new(self.dtype, (self.rows, self.cols), &self.bytes, ranks, &pool).unwrap()
    }

    /// The output and the value that a code stands for.
    fn value(&self, rank: usize, input: usize, bucket: usize) -> (usize, f64) {
        let code = self.codes[(rank * self.cols + input) * (self.rows / BUCKET) + bucket];
        let value = half::f16::from_bits(code).to_f64() * f64::from(self.unit);
        (bucket * BUCKET + usize::from(code & 15), value)
    }

    /// The sums over the ranks below `ranks` whose mean product is above the cutoff.
    fn expected(&self, x: &[f32], cutoff: Option<f32>, ranks: usize) -> (Vec<f64>, f64, usize) {
        let (mut sums, mut magnitude, mut count) = (vec![0.0; self.rows], 0.0_f64, 0);
        for rank in 0..ranks {
            for (input, x) in x.iter().enumerate() {
                let mean = self.means[rank * self.cols + input].to_f32();
                if cutoff.is_some_and(|cutoff| x.abs() * mean <= cutoff) {
                    continue;
                }
                count += 1;
                for bucket in 0..self.rows / BUCKET {
                    let (output, value) = self.value(rank, input, bucket);
                    sums[output] += f64::from(*x) * value;
                    magnitude = magnitude.max((f64::from(*x) * value).abs());
                }
            }
        }
        (sums, magnitude * self.cols as f64, count)
    }
}

fn level(fraction: f64) -> Effort {
    Effort::new(fraction).unwrap()
}

/// The product, computed in parts that begin at whole tiles.
fn product(isa: Isa, matrix: &Buckets, selections: &Selections, parts: usize) -> Vec<f32> {
    let rows = matrix.rows();
    let mut out = vec![f32::NAN; rows];
    let output =
        Output { values: SharedMut::new(&mut out), stride: rows, bias: None, accumulate: false };
    let step = rows.div_ceil(parts).next_multiple_of(BUCKET_OUTPUTS);
    for first in (0..rows).step_by(step) {
        let part = first..rows.min(first + step);
        // SAFETY: one thread.
        unsafe { multiply(isa, matrix, (selections, 0), 0, part, &output) };
    }
    out
}

fn select(matrix: &Buckets, x: &[f32], level: Effort) -> Selections {
    let selections = Selections::new(1, matrix.cols(), 1);
    // SAFETY: one thread.
    unsafe { selections.select(0, 0, matrix, x, level) };
    selections
}

const SHAPES: [(usize, usize); 5] = [(16, 1), (272, 33), (512, 300), (1024, 128), (48, 5000)];

/// Also: results repeat over thread counts and instruction sets, which atomics do not; all entries
/// are multiplied and no more, whatever multiple their number is of; and shapes are any.
#[test]
fn products_of_selected_ranks() {
    let mut random = Random::new(1);
    // the smallest weights are subnormal in f16
    for (dtype, scale) in [(DType::F16, 1.0), (DType::BF16, 1e-6), (DType::F32, 1e6)] {
        for (rows, cols) in SHAPES {
            let subject = Subject::new(dtype, (rows, cols), scale, &mut random);
            let x: Vec<f32> = random.normals(cols, 0.0, 1.0).iter().map(|x| x.powi(3)).collect();
            for ranks in [BUCKET, 12, 1] {
                let matrix = subject.buckets(ranks, 2);
                assert_eq!(matrix.unit, subject.unit);
                for e in [1.0, 0.5, 0.25, 0.05] {
                    let selections = select(&matrix, &x, level(e));
                    let cutoff = cutoff(&matrix, &x, level(e), &mut Vec::new());
                    assert_eq!(cutoff.is_none(), e == 1.0);
                    // means are in units
                    let (sums, magnitude, count) = subject.expected(&x, cutoff, ranks);
                    // SAFETY: one thread.
                    let fraction = unsafe { selections.fraction(0, &matrix) };
                    assert_eq!((fraction * (BUCKET * cols) as f64).round() as usize, count);
                    let mut first: Option<Vec<f32>> = None;
                    for (isa, parts) in Isa::available().flat_map(|isa| [(isa, 1), (isa, 3)]) {
                        let found = product(isa, &matrix, &selections, parts);
                        let first = first.get_or_insert_with(|| found.clone());
                        assert!(found == *first, "{isa}");
                    }
                    for (found, sum) in first.unwrap().iter().zip(&sums) {
                        let far = (f64::from(*found) - sum).abs();
                        assert!(far <= 1e-5 * magnitude, "{rows} x {cols}: {found} for {sum}");
                    }
                }
            }
        }
    }
}

/// The original leaves out products below the smallest probe, at any level.
#[test]
fn effort_1_has_all_weights() {
    let mut random = Random::new(2);
    let subject = Subject::new(DType::F16, (512, 256), 1.0, &mut random);
    let matrix = subject.buckets(BUCKET, 1);
    let x = random.normals(256, 0.0, 1.0);
    let found = product(Isa::detect(), &matrix, &select(&matrix, &x, Effort::FULL), 1);
    let (mut error, mut energy) = (0.0, 0.0);
    for (row, found) in found.iter().enumerate() {
        let weights = &subject.weights[row * 256..][..256];
        let sum: f64 = weights.iter().zip(&x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
        error += (f64::from(*found) - sum).powi(2);
        energy += sum * sum;
    }
    // the errors of the positions in the codes; those of the original are 6e-3
    assert!(error < 1e-4 * energy && error > 0.0, "{error} of {energy}");
}

#[test]
fn cutoffs_are_exact_order_statistics_of_probes() {
    let mut random = Random::new(3);
    for (rows, cols) in [(1024, 128), (64, 6000)] {
        let subject = Subject::new(DType::F16, (rows, cols), 1.0, &mut random);
        let matrix = subject.buckets(BUCKET, 1);
        assert_eq!(matrix.probes.len(), PROBES);
        // each probe is the weight of its own input: with 1024 outputs the original mixes them up
        for (probe, &(input, weight)) in matrix.probes.iter().enumerate() {
            let (i, output) = pelton_quant::bucket_probe(probe, rows, cols);
            assert_eq!(i, input as usize);
            assert_eq!(weight * subject.unit, subject.weights[output * cols + i]);
        }
        let x = random.normals(cols, 0.0, 1.0);
        let mut sorted: Vec<f32> =
            matrix.probes.iter().map(|&(i, weight)| (x[i as usize] * weight).abs()).collect();
        sorted.sort_by(f32::total_cmp);
        for e in [0.9, 0.5, 0.1, 1e-9] {
            let found = cutoff(&matrix, &x, level(e), &mut Vec::new());
            assert_eq!(found, Some(sorted[(4095.0 * (1.0 - e)) as usize]), "{e}");
        }
    }
}

/// Activations of which the last ones are large, as those that the original never probes.
#[test]
fn fractions_are_those_of_the_effort() {
    let mut random = Random::new(4);
    let (rows, cols) = (256, 6000);
    for late in [1.0, 8.0] {
        let subject = Subject::new(DType::F16, (rows, cols), 0.02, &mut random);
        let matrix = subject.buckets(BUCKET, 2);
        let mut x = random.normals(cols, 0.0, 1.0);
        x[4096..].iter_mut().for_each(|x| *x *= late);
        for e in [0.8, 0.5, 0.25, 0.1] {
            // SAFETY: one thread.
            let found = unsafe { select(&matrix, &x, level(e)).fraction(0, &matrix) };
            // the mean of a rank varies less than the weights that are probed
            assert!((found - e).abs() < 0.04, "{found} for {e}");
        }
    }
}

/// The parts of a file, owned.
struct Parts {
    codes: Vec<u8>,
    means: Vec<u8>,
    probes: Vec<u8>,
    unit: [u8; 4],
}

impl Parts {
    fn of(subject: &Subject) -> Self {
        let bytes =
            |words: &mut dyn Iterator<Item = u16>| words.flat_map(u16::to_le_bytes).collect();
        let halves = |halves: &[half::f16]| bytes(&mut halves.iter().map(|half| half.to_bits()));
        let probes = subject.buckets(1, 1).probes;
        let pairs = probes.iter().flat_map(|&(input, weight)| [input as f32, weight]);
        Self {
            codes: bytes(&mut subject.codes.iter().copied()),
            means: halves(&subject.means),
            probes: pairs.flat_map(f32::to_le_bytes).collect(),
            unit: subject.unit.to_le_bytes(),
        }
    }

    fn borrowed(&self) -> BucketParts<'_> {
        let Self { codes, means, probes, unit } = self;
        BucketParts { codes, means, probes, unit }
    }
}

/// Also: the first ranks alone are as if the others were zero.
#[test]
fn parts_of_a_file() {
    let mut random = Random::new(5);
    let (rows, cols) = (272, 40);
    let subject = Subject::new(DType::BF16, (rows, cols), 1.0, &mut random);
    let all = Parts::of(&subject);
    let pool = Pool::new(2).unwrap();
    let x = random.normals(cols, 0.0, 1.0);
    for ranks in [BUCKET, 5, 3] {
        let found = Buckets::from_parts((rows, cols), &all.borrowed(), ranks, &pool).unwrap();
        let own = subject.buckets(ranks, 1);
        assert!(found.codes[..] == own.codes[..] && found.means == own.means);
        assert_eq!((found.probes, found.unit), (own.probes.clone(), own.unit));
        assert_eq!(own.codes.len(), 2 * ranks * cols * 32);
        let (sums, magnitude, _) = subject.expected(&x, None, ranks);
        let found = product(Isa::detect(), &own, &select(&own, &x, Effort::FULL), 1);
        for (found, sum) in found.iter().zip(sums) {
            assert!((f64::from(*found) - sum).abs() <= 1e-5 * magnitude);
        }
    }
    for (shape, ranks) in [((17, 32), 16), ((24, 32), 8), ((16, 32), 17), ((1 << 62, 1 << 62), 16)]
    {
        assert_eq!(Buckets::bytes_of(shape, ranks), None);
    }
}

#[test]
fn parts_that_no_sorted_matrix_has() {
    let mut random = Random::new(7);
    let (rows, cols) = (272, 40);
    let pool = Pool::new(2).unwrap();
    let changed = |bytes: &[u8], at: usize, to: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes[at..at + to.len()].copy_from_slice(to);
        bytes
    };
    let subject = Subject::new(DType::BF16, (rows, cols), 1.0, &mut random);
    let all = Parts::of(&subject);
    let refused = |parts: BucketParts<'_>, what: &str| {
        let error = Buckets::from_parts((rows, cols), &parts, BUCKET, &pool);
        let error = error.err().unwrap_or_default();
        assert!(error.contains(what), "{error}");
    };
    let parts = all.borrowed();
    refused(BucketParts { codes: &all.codes[2..], ..parts }, "another shape");
    refused(BucketParts { probes: &all.probes[8..], ..parts }, "another shape");
    let two = changed(&all.codes, 0, &all.codes[2 * cols * rows / 16..][..2]);
    refused(BucketParts { codes: &two, ..parts }, "a position twice");
    for wrong in [half::f16::NAN, half::f16::NEG_ONE, half::f16::INFINITY] {
        let means = changed(&all.means, 2 * cols, &wrong.to_le_bytes());
        refused(BucketParts { means: &means, ..parts }, "of rank 1, expected");
    }
    for wrong in [f32::NAN, -1.0, 0.5, 40.0, f32::INFINITY] {
        let probes = changed(&all.probes, 8, &wrong.to_le_bytes());
        refused(BucketParts { probes: &probes, ..parts }, "a probe of input");
    }
    for wrong in [0.0_f32, -1.0, 3.0, f32::NAN, f32::INFINITY, 1e-44] {
        refused(BucketParts { unit: &wrong.to_le_bytes(), ..parts }, "a power of two");
    }
    // codes of eight bits would become larger
    assert!(Buckets::new(DType::Q8_0, (32, 64), &[0; 64 * 34], BUCKET, &pool).is_none());
}

/// Activations that are no numbers reach the results, and end no loop.
#[test]
fn activations_that_are_no_numbers() {
    let mut random = Random::new(6);
    for wrong in [f32::NAN, f32::INFINITY] {
        let subject = Subject::new(DType::F16, (32, 64), 1.0, &mut random);
        let matrix = subject.buckets(BUCKET, 1);
        let mut x = random.normals(64, 0.0, 1.0);
        x[7] = wrong;
        let found = product(Isa::detect(), &matrix, &select(&matrix, &x, level(0.5)), 1);
        assert!(found.iter().all(|value| !value.is_finite()), "{wrong}");
    }
}
