use std::sync::Arc;

use pelton_cpu::{
    gemm::input_major::{Live, live_inputs},
    isa::Isa,
};
use pelton_graph::Activation;
use pelton_quant::DType;
use pelton_testing::Random;

use super::*;
use crate::{
    device::Device,
    kernels::matvec::{FusedMatrix, MatVec, Tuning},
    testing::{device, normals},
};

const DTYPES: [DType; 9] = [
    DType::Q4_0,
    DType::Q4_1,
    DType::Q8_0,
    DType::Q4_K,
    DType::Q5_K,
    DType::Q6_K,
    DType::F16,
    DType::BF16,
    DType::F32,
];

const SILU: Option<Gating> = Some(Gating::Product(Activation::Silu));

/// Lines of the usual length, and so short ones that two or four groups of lanes divide a block.
fn all_lines(device: &Device, dtype: DType, rows: usize, cols: usize) -> Vec<Lines> {
    let lines = Lines::new(dtype, rows, cols).unwrap();
    let lanes = device.capabilities.subgroup as usize;
    let mut all = vec![lines];
    if lines.fields().blocks() && lanes >= 8 {
        all.push(Lines { line: lanes / 2, ..lines });
        // a word has upper bits of its own only together with others
        all.extend((dtype == DType::Q4_0).then_some(Lines { line: lanes / 4, ..lines }));
    }
    all
}

fn product(sides: Vec<Side>) -> InputMajor {
    InputMajor {
        sides,
        norm: None,
        add: false,
        apart: false,
        glu: None,
        chosen: true,
        lives_at: [0, 1],
        only_below: false,
        threads: 512,
    }
}

/// The inputs of a product, and what it adds to.
struct Case {
    x: Vec<f32>,
    norm: Vec<f32>,
    /// Of each side.
    files: Vec<Vec<u8>>,
    biases: Vec<Vec<f32>>,
    before: Vec<Vec<f32>>,
}

impl Case {
    fn new(product: &InputMajor, count: usize) -> Self {
        let mut random = Random::new(3);
        let k = product.lines().cols;
        let of = |seed, times: usize| -> Vec<Vec<f32>> {
            product.sides.iter().map(|side| normals(seed, side.lines.rows * times)).collect()
        };
        let file = |side: &Side| random.blocks(side.lines.dtype, k * side.lines.rows, 0.0, 0.1);
        Self {
            x: normals(1, k * count),
            norm: normals(2, k),
            files: product.sides.iter().map(file).collect(),
            biases: of(4, 1),
            before: of(5, count),
        }
    }

    /// The y of each side for rows with these numbers of live inputs; all inputs of as many rows if the
    /// product has no lists.
    fn run(&self, device: &Arc<Device>, product: &InputMajor, lives: &[u32]) -> Vec<Vec<f32>> {
        let capabilities = &device.capabilities;
        let rows = lives.len();
        let row_vectors = product.sides.len() * list_vectors(&product.lines()) + 3;
        let x = device.with(&self.x);
        let lives_buffer = device.with(lives);
        let norm = device.with(&self.norm);
        // what is not written shows
        let lists = device.with(&vec![u32::MAX; 4 * row_vectors * rows]);
        let mut sides = Vec::new();
        for (i, side) in product.sides.iter().enumerate() {
            let norms_at = side.lines.sections().norms;
            let packed = side.lines.packed(&self.files[i], 2);
            let y = if product.add {
                self.before[i].clone()
            } else {
                vec![f32::NAN; self.before[i].len()]
            };
            sides.push((
                device.with(&packed),
                device.with(&packed[norms_at..]),
                device.with(&y),
                device.with(&self.biases[i]),
            ));
        }
        if product.chosen {
            let choice = product.choice();
            let mut buffers = vec![&x, &lives_buffer, &lists];
            buffers.extend(product.norm.map(|_| &norm));
            buffers.extend(sides.iter().map(|(_, norms, ..)| norms));
            let source = choice.source(capabilities, row_vectors).unwrap();
            let kernel = device.kernel("test", &source, &choice.bindings()).unwrap();
            device.run(&kernel, &buffers, [choice.groups(capabilities), rows as u32, 1]);
        }
        let mut buffers = vec![if product.chosen { &lists } else { &x }];
        buffers.extend(product.norm.filter(|_| !product.chosen).map(|_| &norm));
        for (i, (matrix, _, y, bias)) in sides.iter().enumerate() {
            buffers.push(matrix);
            buffers.extend((product.glu.is_none() || i == 0).then_some(y));
            buffers.extend(product.sides[i].bias.then_some(bias));
        }
        let source = product.source(capabilities, row_vectors).unwrap();
        let kernel = device.kernel("test", &source, &product.bindings()).unwrap();
        device.run(&kernel, &buffers, [product.groups(capabilities), rows as u32, 1]);
        let written = if product.glu.is_some() { 1 } else { sides.len() };
        sides[..written].iter().map(|(_, _, y, _)| device.content(y)).collect()
    }

    /// The same by the kernel for matrices row by row, of all inputs.
    fn dense(&self, device: &Arc<Device>, product: &InputMajor, count: usize) -> Vec<Vec<f32>> {
        let capabilities = &device.capabilities;
        let side = |side: &Side| FusedMatrix {
            layout: Layout::of(side.lines.dtype),
            rows: side.lines.rows,
        };
        let first = side(&product.sides[0]);
        let fused = |i: usize| product.sides.get(i).filter(|_| product.glu.is_none()).map(side);
        let matvec = MatVec {
            layout: first.layout,
            k: product.lines().cols,
            rows: first.rows,
            offset: 0,
            stride: first.rows,
            batch: 1,
            norm: product.norm,
            bias: product.sides[0].bias,
            add: product.add,
            glu: product.glu,
            fused_with: [fused(1), fused(2)],
            count_at: 0,
            experts: None,
            tuning: Tuning { threads: product.threads, ..Tuning::CANDIDATES[0] },
        };
        let x = device.with(&self.x);
        let pass = device.with(&[count as u32, count as u32]);
        let norm = device.with(&self.norm);
        let biases: Vec<_> = self.biases.iter().map(|bias| device.with(bias)).collect();
        let ys: Vec<_> = self.before.iter().map(|y| device.with(y)).collect();
        let planes: Vec<_> = (product.sides.iter().zip(&self.files))
            .flat_map(|(side, file)| {
                let lines = &side.lines;
                Layout::of(lines.dtype).packed(file, lines.rows, lines.cols)
            })
            .map(|plane| device.with(&plane))
            .collect();
        let written = if product.glu.is_some() { 1 } else { product.sides.len() };
        let mut buffers = vec![&x, &ys[0], &pass];
        buffers.extend(product.norm.map(|_| &norm));
        buffers.extend(product.sides[0].bias.then_some(&biases[0]));
        for i in 1..written {
            buffers.push(&ys[i]);
            buffers.extend(product.sides[i].bias.then_some(&biases[i]));
        }
        buffers.extend(&planes);
        let source = matvec.source(capabilities).unwrap();
        let kernel = device.kernel("test", &source, &matvec.bindings()).unwrap();
        device.run(&kernel, &buffers, [matvec.groups(capabilities), count as u32, 1]);
        ys[..written].iter().map(|y| device.content(y)).collect()
    }
}

fn bits(all: &[Vec<f32>]) -> Vec<Vec<u32>> {
    all.iter().map(|y| y.iter().map(|v| v.to_bits()).collect()).collect()
}

/// Products of every form with matrices of one format, and of many shapes with one format of each kind:
/// the others differ in what a block has.
fn products(device: &Device, dtype: DType) -> Vec<InputMajor> {
    let step = dtype.block_len().max(4);
    let side = |lines: Lines, bias, rows| Side { lines: Lines { rows, ..lines }, bias };
    let plain = |lines, rows| product(vec![side(lines, false, rows)]);
    let lines = all_lines(device, dtype, 300, 1280);
    let [usual, short @ ..] = &lines[..] else { return Vec::new() };
    let three = vec![side(*usual, true, 300), side(*usual, true, 70), side(*usual, true, 5)];
    let gated = |lines| {
        let two = vec![side(lines, false, 300); 2];
        InputMajor { norm: Some(1e-5), glu: SILU, threads: 256, ..product(two) }
    };
    let mut all = vec![
        InputMajor { add: true, threads: 256, ..plain(*usual, 300) },
        InputMajor { norm: Some(1e-5), ..product(three) },
        gated(*usual),
    ];
    if matches!(dtype, DType::Q4_0 | DType::Q6_K | DType::F16) {
        all.extend(short.iter().map(|lines| gated(*lines)));
        all.push(product(vec![side(*usual, true, 300)]));
        for (k, rows) in [(step, 3), (5 * step, 130)] {
            all.push(plain(Lines::new(dtype, rows, k).unwrap(), rows));
        }
    }
    if dtype == DType::Q4_0 {
        // enough outputs for workgroups of whole slabs
        all.push(plain(Lines::new(dtype, 12_800, step).unwrap(), 12_800));
    }
    all
}

#[test]
fn all_inputs_are_the_dense_product() {
    let Some(device) = device() else { return };
    for dtype in DTYPES {
        for product in products(&device, dtype) {
            let case = Case::new(&product, 1);
            let expected = bits(&case.dense(&device, &product, 1));
            for chosen in [false, true] {
                let product = InputMajor { chosen, ..product.clone() };
                let found = case.run(&device, &product, &[product.lines().cols as u32]);
                assert!(bits(&found) == expected, "{product:?}");
            }
        }
    }
}

/// The same planes as those of a load without effort.
#[test]
fn copies_row_by_row() {
    let Some(device) = device() else { return };
    for dtype in DTYPES {
        let step = dtype.block_len().max(4);
        for (k, rows) in [(step, 1), (step, 3), (3 * step, 137), (8 * step, 70)] {
            for lines in all_lines(&device, dtype, rows, k) {
                let file = Random::new(8).blocks(dtype, k * rows, 0.0, 1.0);
                let layout = Layout::of(dtype);
                let (planes, end) = layout.placed(rows, k);
                let copy = RowMajor { lines, start: 256 };
                let to = device.with(&vec![0_u8; end as usize + 256]);
                let source = copy.source().unwrap();
                let kernel = device.kernel("test", &source, &RowMajor::bindings()).unwrap();
                let [x, y] = copy.groups();
                device.run(&kernel, &[&device.with(&lines.packed(&file, 3)), &to], [x, y, 1]);
                let found: Vec<u8> = device.content(&to);
                for (expected, (at, _)) in layout.packed(&file, rows, k).iter().zip(planes) {
                    let found = &found[256 + at as usize..][..expected.len()];
                    assert!(found == expected, "{dtype} {rows}x{k}");
                }
            }
        }
    }
}

/// The live inputs by a sort of the scores, of equal ones the lowest first.
fn sorted(x: &[f32], norms: &[f32], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..x.len()).collect();
    let score = |i: &usize| f64::from((x[*i] * norms[*i]).abs());
    order.sort_by(|a, b| score(b).total_cmp(&score(a)).then(a.cmp(b)));
    let mut live = order[..count].to_vec();
    live.sort_unstable();
    live
}

/// With a diagonal matrix the outputs that are not zero are the live inputs.
#[test]
fn live_inputs_are_those_of_a_sort_and_of_the_cpu() {
    let Some(device) = device() else { return };
    let mut random = Random::new(9);
    for k in [4, 36, 512, 2304] {
        for kind in 0..4 {
            let diagonal = normals(20 + kind, k).into_iter().map(|v| v.abs() + 0.1);
            let diagonal: Vec<f32> = diagonal.map(|v| if kind == 1 { 0.5 } else { v }).collect();
            let mut file = vec![0.0_f32; k * k];
            (0..k).for_each(|i| file[i * k + i] = diagonal[i]);
            let x: Vec<f32> = (0..k)
                .map(|_| match kind {
                    // many equal scores
                    1 => [0.25, -0.25, 1.0][random.below(3)],
                    // of very different size
                    2 => random.normal(0.0, 1.0).powi(9) + 1e-20,
                    3 => 2.0,
                    _ => random.normal(0.0, 1.0),
                })
                .collect();
            let lines = Lines::new(DType::F32, k, k).unwrap();
            let product = product(vec![Side { lines, bias: false }]);
            let case = Case {
                x: x.repeat(5),
                norm: Vec::new(),
                files: vec![bytemuck::cast_slice(&file).to_vec()],
                biases: vec![vec![0.0; k]],
                before: vec![vec![0.0; 5 * k]],
            };
            let counts = [1, k / 3, k / 2, k - 1, k].map(|count| count.max(1));
            let found = case.run(&device, &product, &counts.map(|count| count as u32));
            for (row, count) in found[0].chunks(k).zip(counts) {
                let live: Vec<usize> = (0..k).filter(|&i| row[i] != 0.0).collect();
                assert_eq!(live, sorted(&x, &diagonal, count), "{count} of {k}, {kind}");
                let of_cpu = live_inputs(Isa::detect(), &x, &diagonal, Live::Count(count));
                assert_eq!(live, of_cpu, "{count} of {k}, {kind}");
            }
        }
    }
}

/// Rows of any number of live inputs in one dispatch, compared with f64: activations in 8 bits as for
/// the whole row, products of the others left out.
#[test]
fn other_inputs_are_left_out() {
    let Some(device) = device() else { return };
    for dtype in DTYPES {
        for product in products(&device, dtype) {
            let k = product.lines().cols;
            if product.glu.is_some() || k < 64 {
                continue;
            }
            let lives = [k, k / 2, 1, k * 9 / 10, k / 4];
            let case = Case::new(&product, lives.len());
            let lives_of = lives.map(|live| live as u32 | if live < k { 1 << 31 } else { 0 });
            let found = case.run(&device, &product, &lives_of);
            assert_eq!(bits(&found), bits(&case.run(&device, &product, &lives_of)), "repeats");
            for (i, side) in product.sides.iter().enumerate() {
                compare_left_out(&product, &case, side, i, &lives, &found[i]);
            }
        }
    }
}

fn compare_left_out(
    product: &InputMajor,
    case: &Case,
    side: &Side,
    i: usize,
    lives: &[usize],
    found: &[f32],
) {
    let (k, rows) = (side.lines.cols, side.lines.rows);
    let mut weights = vec![0.0_f32; k * rows];
    pelton_quant::decode(side.lines.dtype, &case.files[i], &mut weights).unwrap();
    let norms: Vec<f32> = (0..k)
        .map(|c| {
            let squares = (0..rows).map(|r| f64::from(weights[r * k + c]).powi(2));
            squares.sum::<f64>().sqrt() as f32
        })
        .collect();
    for (r, x) in case.x.chunks(k).enumerate() {
        let a: Vec<f32> = match product.norm {
            Some(_) => x.iter().zip(&case.norm).map(|(v, w)| v * w).collect(),
            None => x.to_vec(),
        };
        let factor = product.norm.map_or(1.0, |eps| {
            let squares: f64 = x.iter().map(|&v| f64::from(v).powi(2)).sum();
            1.0 / (squares / k as f64 + f64::from(eps)).sqrt()
        });
        let live = sorted(&a, &norms, lives[r]);
        let rounded: Vec<f32> = match side.lines.fields().blocks() {
            true => a
                .chunks(32)
                .flat_map(|block| {
                    let most = block.iter().fold(0.0f32, |m, v| m.max(v.abs()));
                    block
                        .iter()
                        .map(move |v| (v * (127.0 / most)).round_ties_even() * (most / 127.0))
                })
                .collect(),
            false => a,
        };
        let expected: Vec<f64> = (0..rows)
            .map(|n| {
                let products =
                    live.iter().map(|&c| f64::from(weights[n * k + c]) * f64::from(rounded[c]));
                products.sum::<f64>() * factor
                    + if side.bias { f64::from(case.biases[i][n]) } else { 0.0 }
                    + if product.add { f64::from(case.before[i][r * rows + n]) } else { 0.0 }
            })
            .collect();
        let squares: f64 = expected.iter().map(|v| v * v).sum();
        let scale = (squares / rows as f64).sqrt();
        for (n, (got, expected)) in found[r * rows..][..rows].iter().zip(&expected).enumerate() {
            let difference = (f64::from(*got) - expected).abs();
            // a value halfway between two codes may round to either
            assert!(
                difference < 5e-3 * scale,
                "{product:?} row {r} output {n}: {got} for {expected}"
            );
        }
    }
}
