//! Every instruction set of this machine and every format compared with arithmetic in f64.

use half::f16;
use pelton_graph::Phase;
use pelton_quant::{DType, decode};
use pelton_testing::Random;

use super::activations::Block;
use super::tile::BLOCK;
use super::*;
use crate::isa::Isa;
use crate::pool::{Pool, SharedMut, split};

/// A value from -1 to 1, evenly distributed.
fn uniform(random: &mut Random) -> f32 {
    (random.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
}

/// The offsets of the f16 scales and minima of a block.
fn f16_fields(dtype: DType) -> &'static [usize] {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => &[],
        DType::Q4_0 | DType::Q5_0 | DType::Q8_0 | DType::Q2_0 | DType::Q1_0 => &[0],
        DType::IQ4_NL | DType::IQ4_XS => &[0],
        DType::IQ3_S | DType::IQ3_XXS | DType::IQ2_S | DType::IQ2_XS | DType::IQ2_XXS => &[0],
        DType::IQ1_S => &[0],
        DType::TQ1_0 => &[52],
        DType::TQ2_0 => &[64],
        DType::MXFP4 | DType::NVFP4 | DType::IQ1_M => &[],
        DType::Q4_1 | DType::Q5_1 | DType::Q4_K | DType::Q5_K => &[0, 2],
        DType::Q2_K => &[80, 82],
        DType::Q3_K => &[108],
        DType::Q6_K => &[208],
    }
}

/// A stored matrix whose codes are random bytes.
fn random_matrix(dtype: DType, rows: usize, cols: usize, random: &mut Random) -> Vec<u8> {
    let elements = rows * cols;
    match dtype {
        DType::F32 => (0..elements).flat_map(|_| uniform(random).to_le_bytes()).collect(),
        DType::F16 => {
            (0..elements).flat_map(|_| f16::from_f32(uniform(random)).to_le_bytes()).collect()
        }
        DType::BF16 => (0..elements)
            .flat_map(|_| half::bf16::from_f32(uniform(random)).to_le_bytes())
            .collect(),
        _ => {
            let len = dtype.bytes_of(elements).unwrap();
            let bytes = (0..len).map(|_| random.bits() as u8).collect();
            with_scales(dtype, bytes, || f16::from_f32(uniform(random)))
        }
    }
}

fn with_scales(dtype: DType, mut bytes: Vec<u8>, mut value: impl FnMut() -> f16) -> Vec<u8> {
    for block in bytes.chunks_exact_mut(dtype.block_bytes()) {
        for &field in f16_fields(dtype) {
            block[field..][..2].copy_from_slice(&value().to_le_bytes());
        }
        if dtype == DType::IQ1_M {
            let bits = value().to_bits();
            for word in 0..4 {
                let high = &mut block[48 + 2 * word + 1];
                *high = *high & 15 | ((bits >> (4 * word) & 15) << 4) as u8;
            }
        }
        if dtype == DType::MXFP4 {
            // the exponent of an E8M0 scale from that of the f16
            block[0] = (value().to_bits() >> 10 & 31) as u8 + (128 - 15);
        }
    }
    bytes
}

/// Prepared activations, their values, and the greatest error of each.
fn prepare(dtype: DType, x: &[f32], cols: usize) -> (Activations, Vec<f64>, Vec<f64>) {
    let rows = x.len() / cols;
    let activations = Activations::new(ActivationKind::of(dtype), rows, cols).unwrap();
    // SAFETY: one thread.
    unsafe { activations.prepare(x, cols, 0..Activations::units(rows, cols)) };
    if activations.kind() == ActivationKind::F32 {
        return (activations, x.iter().map(|&x| x.into()).collect(), vec![0.0; x.len()]);
    }
    let (mut values, mut errors) = (Vec::new(), Vec::new());
    for unit in 0..x.len() / BLOCK {
        let (row, block) = (unit / (cols / BLOCK), unit % (cols / BLOCK));
        let place = activations.place(row, block);
        // SAFETY: one thread, and it has prepared that many.
        let block: &Block = unsafe { &*activations.blocks().add(place) };
        values.extend(block.codes.iter().map(|&code| f64::from(block.scale) * f64::from(code)));
        errors.extend([f64::from(block.scale) * 0.5001; BLOCK]);
        let sum: i32 = block.codes.iter().map(|&code| i32::from(code)).sum();
        let codes = block.codes.map(i32::from);
        for (i, minus) in block.minus_half_pairs.iter().flatten().enumerate() {
            let of = |k: &usize| k / 16 == i / 2 && k / 2 % 2 == i % 2;
            let pairs: i32 = (0..BLOCK).filter(of).map(|k| codes[k]).sum();
            assert_eq!(i32::from(*minus), -pairs);
        }
        let [even, odd] = block.minus_pairs.map(i32::from);
        let [[a, b], [c, d]] = block.minus_half_pairs.map(|pair| pair.map(i32::from));
        assert_eq!([even, odd], [a + c, b + d]);
        assert_eq!(even + odd, -sum);
    }
    for ((value, error), x) in values.iter().zip(&errors).zip(x) {
        assert!((value - f64::from(*x)).abs() <= *error, "{x} was quantized to {value}");
    }
    (activations, values, errors)
}

/// The phases whose kernels for a type differ.
fn phases(dtype: DType) -> &'static [Phase] {
    match ActivationKind::of(dtype) {
        ActivationKind::F32 => &[Phase::Prompt, Phase::Decode],
        ActivationKind::I8 => &[Phase::Prompt],
    }
}

/// The product of the first `batch` rows.
fn product(isa: Isa, matrix: &MatrixRef<'_>, activations: &Activations, batch: usize) -> Vec<f32> {
    let mut out = vec![f32::NAN; batch * matrix.rows()];
    let values = SharedMut::new(&mut out);
    let output = Output { values, stride: matrix.rows(), bias: None, accumulate: false };
    // SAFETY: one thread.
    unsafe { matmul(isa, matrix, activations, batch, 0..matrix.rows(), &output) };
    out
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// The rows of a matrix in panels, if its type and shape have them.
fn packed(dtype: DType, rows: usize, bytes: &[u8], panels: Panels) -> Option<Vec<u8>> {
    let mut packed = can_pack(dtype, rows, panels).then(|| vec![0; bytes.len()])?;
    let panel = bytes.len() / rows * panels.rows();
    for (rows, to) in bytes.chunks(panel).zip(packed.chunks_mut(panel)) {
        pack(dtype, rows, to, panels);
    }
    Some(packed)
}

/// Multiplies with every phase, instruction set and batch, and compares with f64.
fn check(dtype: DType, rows: usize, cols: usize, bytes: &[u8], x: &[f32], batches: &[usize]) {
    let name = format!("{dtype} {rows} x {cols}");
    // formats are readable at any address
    let mut shifted = vec![0; bytes.len() + 1];
    shifted[1..].copy_from_slice(bytes);
    let matrix = MatrixRef::new(dtype, rows, cols, &shifted[1..]).unwrap();
    let mut weights = vec![0.0; rows * cols];
    decode(dtype, bytes, &mut weights).unwrap();
    let (mut activations, seen, errors) = prepare(dtype, x, cols);

    let mut expected = None;
    let sets = Isa::available().collect::<Vec<_>>();
    for (&phase, &isa) in phases(dtype).iter().flat_map(|p| sets.iter().map(move |i| (p, i))) {
        if activations.phase() != phase {
            activations.set_phase(phase);
            expected = None;
        }
        for &batch in batches {
            let found = product(isa, &matrix, &activations, batch);
            // The first, which is Portable and the largest batch, is compared with f64; all
            // others with it, bit for bit.
            let Some(expected) = &expected else {
                assert_eq!(batch, x.len() / cols);
                for (i, found) in found.iter().enumerate() {
                    let (r, n) = (i / rows, i % rows);
                    let (mut sum, mut true_sum, mut magnitude, mut error) = (0.0, 0.0, 0.0, 0.0);
                    for k in 0..cols {
                        let w = f64::from(weights[n * cols + k]);
                        sum += w * seen[r * cols + k];
                        true_sum += w * f64::from(x[r * cols + k]);
                        magnitude += (w * seen[r * cols + k]).abs();
                        error += w.abs() * errors[r * cols + k];
                    }
                    let found = f64::from(*found);
                    assert!(
                        (found - sum).abs() <= 1e-5 * magnitude,
                        "{name}, result {n} of row {r}: {found} instead of {sum}"
                    );
                    assert!((found - true_sum).abs() <= error + 1e-5 * magnitude, "{name}");
                }
                expected = Some(found);
                continue;
            };
            let same = bits(&found) == bits(&expected[..found.len()]);
            assert!(same, "{name}, {isa}: other results for batch {batch}");
        }
        if let (Some(panels), Some(expected)) = (Panels::of(isa), &expected)
            && let Some(packed) = packed(dtype, rows, bytes, panels)
        {
            let packed = MatrixRef::packed(dtype, rows, cols, &packed, panels).unwrap();
            for &batch in batches {
                let found = product(isa, &packed, &activations, batch);
                let same = bits(&found) == bits(&expected[..found.len()]);
                assert!(same, "{name} packed, {isa}: other results for batch {batch}");
            }
        }
    }
}

/// The instruction set of an emulated CPU must be detected, or another would be tested instead.
#[test]
fn the_expected_instruction_set_is_found() {
    if let Ok(expected) = std::env::var("PELTON_EXPECTED_ISA") {
        assert_eq!(Isa::detect().to_string(), expected);
    }
}

#[test]
fn odd_shapes_of_every_format() {
    let mut random = Random::new(1);
    for dtype in DType::ALL {
        let block = dtype.block_len();
        let cols: &[usize] = if block == 1 { &[1, 15, 16, 33, 100] } else { &[1, 2, 3, 4, 5] };
        for rows in [1, 3, 7, 65, 72] {
            for cols in cols.iter().map(|blocks| blocks * block) {
                let bytes = random_matrix(dtype, rows, cols, &mut random);
                let x: Vec<f32> = (0..33 * cols).map(|_| uniform(&mut random)).collect();
                check(dtype, rows, cols, &bytes, &x, &[33, 17, 16, 9, 5, 4, 3, 2, 1]);
            }
        }
    }
}

#[test]
fn more_weights_than_are_unpacked_at_once() {
    let mut random = Random::new(2);
    let shapes = [(DType::Q4_0, 230, 2048), (DType::F16, 200, 3000), (DType::F16, 21, 4403)];
    for (dtype, rows, cols) in shapes {
        let bytes = random_matrix(dtype, rows, cols, &mut random);
        let x: Vec<f32> = (0..9 * cols).map(|_| uniform(&mut random)).collect();
        check(dtype, rows, cols, &bytes, &x, &[9, 3, 1]);
    }
}

#[test]
fn more_rows_than_are_multiplied_at_once() {
    let mut random = Random::new(6);
    let (rows, cols, batch) = (40, 768, 1100);
    let decode = (DType::F16, Phase::Decode);
    for (dtype, phase) in [DType::Q4_0, DType::Q6_K, DType::F16]
        .map(|d| (d, Phase::Prompt))
        .into_iter()
        .chain([decode])
    {
        let bytes = random_matrix(dtype, rows, cols, &mut random);
        let matrix = MatrixRef::new(dtype, rows, cols, &bytes).unwrap();
        let x: Vec<f32> = (0..batch * cols).map(|_| uniform(&mut random)).collect();
        let prepared = |x: &[f32]| {
            let mut activations = prepare(dtype, x, cols).0;
            activations.set_phase(phase);
            activations
        };
        let activations = prepared(&x);
        let alone: Vec<f32> =
            x.chunks(cols).flat_map(|x| product(Isa::detect(), &matrix, &prepared(x), 1)).collect();
        // accumulation shows a result that is written twice
        let expected: Vec<f32> = alone.iter().map(|value| value + 0.5).collect();
        for isa in Isa::available() {
            let mut out = vec![0.5; batch * rows];
            let values = SharedMut::new(&mut out);
            let output = Output { values, stride: rows, bias: None, accumulate: true };
            // SAFETY: one thread.
            unsafe { matmul(isa, &matrix, &activations, batch, 0..rows, &output) };
            assert_eq!(bits(&out), bits(&expected), "{dtype} {isa}");
        }
    }
}

#[test]
fn extreme_codes_do_not_overflow() {
    for dtype in DType::ALL.into_iter().filter(|dtype| dtype.block_len() > 1) {
        let (rows, cols) = (17, 2 * dtype.block_len());
        for byte in [0x00, 0xff, 0x80, 0x7f, 0xf0] {
            let bytes = vec![byte; dtype.bytes_of(rows * cols).unwrap()];
            for scale in [f16::MAX, f16::MIN] {
                let bytes = with_scales(dtype, bytes.clone(), || scale);
                let signs = [|_| 1.0, |_| -1.0, |k| if k % 2 == 0 { 1.0 } else { -1.0 }];
                let x: Vec<f32> =
                    signs.iter().flat_map(|sign| (0..cols).map(|k| 3e20 * sign(k))).collect();
                check(dtype, rows, cols, &bytes, &x, &[3, 1]);
                let x: Vec<f32> = x.iter().cycle().take(9 * cols).copied().collect();
                check(dtype, rows, cols, &bytes, &x, &[9]);
            }
        }
    }
}

#[test]
fn infinities_stay_in_their_row() {
    let mut random = Random::new(3);
    for dtype in DType::ALL {
        let (rows, cols) = (20, 256);
        let bytes = random_matrix(dtype, rows, cols, &mut random);
        let matrix = MatrixRef::new(dtype, rows, cols, &bytes).unwrap();
        let x: Vec<f32> = (0..3 * cols).map(|_| uniform(&mut random)).collect();
        for poison in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut poisoned = x.clone();
            poisoned[cols + 77] = poison;
            for isa in Isa::available() {
                let clean = product(isa, &matrix, &prepare(dtype, &x, cols).0, 3);
                let activations = Activations::new(ActivationKind::of(dtype), 3, cols).unwrap();
                // SAFETY: one thread.
                unsafe { activations.prepare(&poisoned, cols, 0..Activations::units(3, cols)) };
                let found = product(isa, &matrix, &activations, 3);
                assert!(found[rows..2 * rows].iter().all(|value| !value.is_finite()));
                assert_eq!(bits(&found[..rows]), bits(&clean[..rows]));
                assert_eq!(bits(&found[2 * rows..]), bits(&clean[2 * rows..]));
            }
        }
    }
}

#[test]
fn tiny_activations_are_zeros() {
    let x = [f32::MIN_POSITIVE / 8.0; BLOCK];
    let activations = Activations::new(ActivationKind::I8, 1, BLOCK).unwrap();
    // SAFETY: one thread.
    unsafe { activations.prepare(&x, BLOCK, 0..1) };
    let bytes = [0x3c; 34];
    let matrix = MatrixRef::new(DType::Q8_0, 1, BLOCK, &bytes).unwrap();
    assert_eq!(product(Isa::detect(), &matrix, &activations, 1), [0.0]);
}

#[test]
fn threads_and_partitions_change_nothing() {
    let mut random = Random::new(4);
    let (rows, cols, batch) = (152, 512, 3);
    for dtype in [DType::Q4_0, DType::Q6_K, DType::F16] {
        let bytes = random_matrix(dtype, rows, cols, &mut random);
        let matrix = MatrixRef::new(dtype, rows, cols, &bytes).unwrap();
        let x: Vec<f32> = (0..batch * cols).map(|_| uniform(&mut random)).collect();
        for isa in Isa::available() {
            let packed = Panels::of(isa)
                .and_then(|panels| Some((panels, packed(dtype, rows, &bytes, panels)?)));
            let matrix = match &packed {
                Some((panels, bytes)) => {
                    MatrixRef::packed(dtype, rows, cols, bytes, *panels).unwrap()
                }
                None => matrix,
            };
            let expected = product(isa, &matrix, &prepare(dtype, &x, cols).0, batch);
            for (threads, align) in [(1, 1), (2, ROW_ALIGN), (3, 1), (5, 7)] {
                let pool = Pool::new(threads).unwrap();
                let activations = Activations::new(ActivationKind::of(dtype), batch, cols).unwrap();
                let mut out = vec![f32::NAN; batch * rows];
                let values = SharedMut::new(&mut out);
                let output = Output { values, stride: rows, bias: None, accumulate: false };
                pool.run(|worker| {
                    let units = worker.split(Activations::units(batch, cols), 1);
                    // SAFETY: partitions are disjoint, and a barrier is between writes and reads.
                    unsafe { activations.prepare(&x, cols, units) };
                    worker.barrier();
                    let part = split(rows, align, worker.index(), threads);
                    // SAFETY: as above.
                    unsafe { matmul(isa, &matrix, &activations, batch, part, &output) };
                });
                assert_eq!(bits(&out), bits(&expected));
            }
        }
    }
}

#[test]
fn bias_and_sum_are_added() {
    let mut random = Random::new(5);
    let (rows, cols, batch, stride) = (35, 256, 2, 40);
    for dtype in [DType::Q4_K, DType::F32] {
        let bytes = random_matrix(dtype, rows, cols, &mut random);
        let matrix = MatrixRef::new(dtype, rows, cols, &bytes).unwrap();
        let x: Vec<f32> = (0..batch * cols).map(|_| uniform(&mut random)).collect();
        let bias: Vec<f32> = (0..rows).map(|_| uniform(&mut random)).collect();
        let activations = prepare(dtype, &x, cols).0;
        for isa in Isa::available() {
            let plain = product(isa, &matrix, &activations, batch);
            for (bias, accumulate) in [(None, true), (Some(&bias[..]), false), (Some(&bias), true)]
            {
                let mut out = vec![0.5; batch * stride];
                let output = Output { values: SharedMut::new(&mut out), stride, bias, accumulate };
                // SAFETY: one thread.
                unsafe { matmul(isa, &matrix, &activations, batch, 0..rows, &output) };
                for (r, out) in out.chunks(stride).enumerate() {
                    for n in 0..rows {
                        let mut expected = plain[r * rows + n];
                        expected += bias.map_or(0.0, |bias| bias[n]);
                        expected += if accumulate { 0.5 } else { 0.0 };
                        assert_eq!(out[n].to_bits(), expected.to_bits());
                    }
                    assert!(out[rows..].iter().all(|&value| value == 0.5));
                }
            }
        }
    }
}

#[test]
fn matrices_of_wrong_size_are_refused() {
    let error = |dtype, rows, cols, bytes| {
        MatrixRef::new(dtype, rows, cols, &vec![0; bytes]).unwrap_err().to_string()
    };
    assert_eq!(
        error(DType::Q4_K, 1, 32, 18),
        "a row of 32 columns is not a whole number of Q4_K blocks of 256"
    );
    assert_eq!(error(DType::Q4_0, 2, 32, 35), "a 2 x 32 matrix of Q4_0 does not have 35 bytes");
    assert!(MatrixRef::new(DType::F32, usize::MAX, 1, &[]).is_err());
    assert!(MatrixRef::new(DType::F32, 0, 0, &[]).is_err());
}

#[test]
#[should_panic(expected = "rows beyond the matrix")]
fn rows_are_checked() {
    let bytes = [0; 8];
    let matrix = MatrixRef::new(DType::F32, 2, 1, &bytes).unwrap();
    let activations = Activations::new(ActivationKind::F32, 1, 1).unwrap();
    let mut out = [0.0; 3];
    let values = SharedMut::new(&mut out);
    let output = Output { values, stride: 3, bias: None, accumulate: false };
    // SAFETY: one thread.
    unsafe { matmul(Isa::PORTABLE, &matrix, &activations, 1, 0..3, &output) };
}

/// A router's product has the same bits in both phases: those of decoding.
#[test]
fn a_matrix_of_one_phase() {
    let (rows, cols, batch) = (40, 300, 19);
    let random = &mut Random::new(11);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let bytes = random_matrix(dtype, rows, cols, random);
        let x: Vec<f32> = (0..batch * cols).map(|_| uniform(random)).collect();
        let (mut activations, ..) = prepare(dtype, &x, cols);
        let matrix = MatrixRef::new(dtype, rows, cols, &bytes).unwrap();
        for isa in Isa::available() {
            let mut product_in = |matrix: &MatrixRef<'_>, phase| {
                activations.set_phase(phase);
                bits(&product(isa, matrix, &activations, batch))
            };
            let decoded = product_in(&matrix, Phase::Decode);
            assert_ne!(product_in(&matrix, Phase::Prompt), decoded, "{dtype} {isa:?}");
            for phase in [Phase::Prompt, Phase::Decode] {
                assert_eq!(product_in(&matrix.in_one_phase(), phase), decoded, "{dtype} {isa:?}");
            }
        }
    }
}
