use std::sync::Arc;

use pelton_cpu::{
    gemm::input_major::{Live, live_inputs},
    isa::Isa,
};
use pelton_graph::{Activation, Effort, LOWER_HALF};
use pelton_quant::DType;
use pelton_testing::Random;

use super::*;
use crate::{
    device::Device,
    kernels::matvec::{FusedMatrix, MatVec, Tuning},
    testing::{device, normals},
};

/// A format, and whether its codes are nested.
type Kind = (DType, bool);

const KINDS: [Kind; 10] = [
    (DType::Q4_0, false),
    (DType::Q4_1, false),
    (DType::Q8_0, false),
    (DType::Q8_0, true),
    (DType::Q4_K, false),
    (DType::Q5_K, false),
    (DType::Q6_K, false),
    (DType::F16, false),
    (DType::BF16, false),
    (DType::F32, false),
];

fn lines_of((dtype, nested): Kind, rows: usize, cols: usize) -> Lines {
    let lines = if nested { Lines::nested } else { Lines::new };
    lines(dtype, rows, cols).unwrap()
}

const SILU: Option<Gating> = Some(Gating::Product(Activation::Silu));

/// Lines of the usual length, and so short ones that two or four groups of lanes divide a block.
fn all_lines(device: &Device, kind: Kind, rows: usize, cols: usize) -> Vec<Lines> {
    let lines = lines_of(kind, rows, cols);
    let lanes = device.capabilities.subgroup as usize;
    let mut all = vec![lines];
    if lines.fields().blocks() && lanes >= 8 {
        all.push(Lines { line: lanes / 2, ..lines });
        // a word has upper bits of its own only together with others
        all.extend((kind.0 == DType::Q4_0 || kind.1).then_some(Lines { line: lanes / 4, ..lines }));
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
    /// The bytes of the matrix of each side.
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

    /// The lists of rows with these numbers of live candidates, or shares, in words.
    fn lists(&self, device: &Arc<Device>, product: &InputMajor, lives: &[u32]) -> wgpu::Buffer {
        let capabilities = &device.capabilities;
        let rows = lives.len();
        let row_vectors = row_vectors(product);
        // values that are not written show
        let lists = device.with(&vec![u32::MAX; 4 * row_vectors * rows]);
        let choice = product.choice(true);
        let [x, norm] = [&self.x, &self.norm].map(|values| device.with(values));
        let lives = device.with(lives);
        let norms = (product.sides.iter().zip(&self.files)).map(|(side, file)| {
            device.with(&side.lines.packed(file, 2)[side.lines.sections().norms..])
        });
        let norms: Vec<wgpu::Buffer> = norms.collect();
        let mut buffers = vec![&x, &lives, &lists];
        buffers.extend(product.norm.map(|_| &norm));
        buffers.extend(&norms);
        let source = choice.source(capabilities, row_vectors).unwrap();
        let kernel = device.kernel("test", &source).unwrap();
        device.run(&kernel, &buffers, [choice.groups(capabilities), rows as u32, 1]);
        lists
    }

    /// The y of each side for such rows; all inputs of as many rows if the product has no lists.
    fn run(&self, device: &Arc<Device>, product: &InputMajor, lives: &[u32]) -> Vec<Vec<f32>> {
        let capabilities = &device.capabilities;
        let rows = lives.len();
        let norm = device.with(&self.norm);
        let from = match product.chosen {
            true => self.lists(device, product, lives),
            false => device.with(&self.x),
        };
        let mut sides = Vec::new();
        for (i, side) in product.sides.iter().enumerate() {
            let y = if product.add {
                self.before[i].clone()
            } else {
                vec![f32::NAN; self.before[i].len()]
            };
            let matrix = device.with(&side.lines.packed(&self.files[i], 2));
            sides.push((matrix, device.with(&y), device.with(&self.biases[i])));
        }
        let mut buffers = vec![&from];
        buffers.extend(product.norm.filter(|_| !product.chosen).map(|_| &norm));
        for (i, (matrix, y, bias)) in sides.iter().enumerate() {
            buffers.push(matrix);
            buffers.extend((product.glu.is_none() || i == 0).then_some(y));
            buffers.extend(product.sides[i].bias.then_some(bias));
        }
        let source = product.source(capabilities, row_vectors(product)).unwrap();
        let kernel = device.kernel("test", &source).unwrap();
        device.run(&kernel, &buffers, [product.groups(capabilities), rows as u32, 1]);
        let written = if product.glu.is_some() { 1 } else { sides.len() };
        sides[..written].iter().map(|(_, y, _)| device.content(y)).collect()
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
            activation: None,
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
        let kernel = device.kernel("test", &source).unwrap();
        device.run(&kernel, &buffers, [matvec.groups(capabilities), count as u32, 1]);
        ys[..written].iter().map(|y| device.content(y)).collect()
    }
}

/// Vectors of the lists of a row, and some more.
fn row_vectors(product: &InputMajor) -> usize {
    product.sides.len() * list_vectors(&product.lines()) + 3
}

fn bits(all: &[Vec<f32>]) -> Vec<Vec<u32>> {
    all.iter().map(|y| y.iter().map(|v| v.to_bits()).collect()).collect()
}

/// Products of every form with matrices of one format, and of many shapes with one format of each kind:
/// the others differ in what a block has.
fn products(device: &Device, kind: Kind) -> Vec<InputMajor> {
    let dtype = kind.0;
    let step = dtype.block_len().max(4);
    let side = |lines: Lines, bias, rows| Side { lines: Lines { rows, ..lines }, bias };
    let plain = |lines, rows| product(vec![side(lines, false, rows)]);
    let lines = all_lines(device, kind, 300, 1280);
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
    if matches!(dtype, DType::Q4_0 | DType::Q6_K | DType::F16) || kind.1 {
        all.extend(short.iter().map(|lines| gated(*lines)));
        all.push(product(vec![side(*usual, true, 300)]));
        for (k, rows) in [(step, 3), (5 * step, 130)] {
            all.push(plain(lines_of(kind, rows, k), rows));
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
    for kind in KINDS {
        for product in products(&device, kind) {
            let case = Case::new(&product, 1);
            let expected = bits(&case.dense(&device, &product, 1));
            for chosen in [false, true] {
                let product = InputMajor { chosen, ..product.clone() };
                let found = case.run(&device, &product, &[product.lines().candidates() as u32]);
                for (side, (found, expected)) in bits(&found).iter().zip(&expected).enumerate() {
                    // drivers may round the products of scales elsewhere where there are lists
                    let value = |at: usize| [found[at], expected[at]].map(f32::from_bits);
                    let greatest = (0..found.len()).map(|n| value(n)[1].abs()).fold(0.0, f32::max);
                    let other = (0..found.len()).find(|&n| {
                        let [a, b] = value(n);
                        if chosen {
                            (a - b).abs() > 1e-6 * greatest
                        } else {
                            found[n] != expected[n]
                        }
                    });
                    let values = other.map(value);
                    assert!(other.is_none(), "{other:?} of side {side}: {values:?}, {product:?}");
                }
            }
        }
    }
}

/// The same planes as those of a load without effort.
#[test]
fn copies_row_by_row() {
    let Some(device) = device() else { return };
    for kind in KINDS {
        let dtype = kind.0;
        let step = dtype.block_len().max(4);
        for (k, rows) in [(step, 1), (step, 3), (3 * step, 137), (8 * step, 70)] {
            for lines in all_lines(&device, kind, rows, k) {
                let file = Random::new(8).blocks(dtype, k * rows, 0.0, 1.0);
                let layout = Layout::of(dtype);
                let (planes, end) = layout.placed(rows, k);
                let copy = RowMajor { lines, start: 256 };
                let to = device.with(&vec![0_u8; end as usize + 256]);
                let source = copy.source().unwrap();
                let kernel = device.kernel("test", &source).unwrap();
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

/// How many candidates are live.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    Count(usize),
    Share(f64),
}

impl Wanted {
    /// Counts and shares of some candidates, from few to all.
    fn of(candidates: usize) -> Vec<Self> {
        let n = candidates;
        let counts = [1, n / 3, n / 2, n - 1, n].map(|count| Self::Count(count.max(1)));
        let shares = [1e-9, 0.25, 0.5, 0.9, 0.999].map(Self::Share);
        [counts, shares].concat()
    }

    /// As kernels read it.
    fn word(self) -> u32 {
        match self {
            Self::Count(count) => count as u32,
            Self::Share(share) => Effort::left_out(share).to_bits() | 3 << 30,
        }
    }

    fn live(self) -> Live {
        match self {
            Self::Count(count) => Live::Count(count),
            Self::Share(share) => Live::Energy(share),
        }
    }
}

/// The live candidates by a sort of the scores in f64, of equal ones the lowest first: the inputs and, with
/// `nested`, their lower halves.
fn sorted(x: &[f32], norms: &[f32], wanted: Wanted, nested: bool) -> Vec<usize> {
    let of = |factor: f32| x.iter().zip(norms).map(move |(x, norm)| (x * norm * factor).abs());
    let scores: Vec<f64> =
        of(1.0).chain(of(1.0 / LOWER_HALF).filter(|_| nested)).map(f64::from).collect();
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    let count = match wanted {
        Wanted::Count(count) => count,
        Wanted::Share(share) => {
            let all: f64 = order.iter().map(|&i| scores[i].powi(2)).sum();
            let mut sum = 0.0;
            let reaches = |i: &usize| {
                sum += scores[*i].powi(2);
                sum >= share * all
            };
            order.iter().position(reaches).map_or(order.len(), |last| last + 1)
        }
    };
    let mut live = order[..count].to_vec();
    live.sort_unstable();
    live
}

/// Rows of some kinds of values.
fn row(kind: u64, k: usize, random: &mut Random) -> Vec<f32> {
    let value = |_| match kind {
        // many equal scores
        1 => [0.25, -0.25, 1.0][random.below(3)],
        // scores of very different size
        2 => random.normal(0.0, 1.0).powi(9) + 1e-15,
        3 => 2.0,
        4 => 0.0,
        _ => random.normal(0.0, 1.0),
    };
    (0..k).map(value).collect()
}

/// The outputs of a diagonal matrix that are not zero are the live inputs.
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
            let x = row(kind, k, &mut random);
            let lines = Lines::new(DType::F32, k, k).unwrap();
            let product = product(vec![Side { lines, bias: false }]);
            let all = Wanted::of(k);
            let case = Case {
                x: x.repeat(all.len()),
                norm: Vec::new(),
                files: vec![bytemuck::cast_slice(&file).to_vec()],
                biases: vec![vec![0.0; k]],
                before: vec![vec![0.0; all.len() * k]],
            };
            let words: Vec<u32> = all.iter().map(|wanted| wanted.word()).collect();
            let found = case.run(&device, &product, &words);
            for (row, wanted) in found[0].chunks(k).zip(all) {
                let live: Vec<usize> = (0..k).filter(|&i| row[i] != 0.0).collect();
                let of_sort = sorted(&x, &diagonal, wanted, false);
                assert_eq!(live, of_sort, "{wanted:?} of {k}, {kind}");
                let of_cpu = live_inputs(Isa::detect(), &x, &diagonal, wanted.live(), false);
                assert_eq!(live, of_cpu, "{wanted:?} of {k}, {kind}");
            }
        }
    }
}

/// The live inputs of a row in lists, and then their lower halves.
fn listed(lists: &[[u32; 4]], k: usize) -> Vec<usize> {
    let units = k / 32;
    let (mut inputs, mut lower) = (Vec::new(), Vec::new());
    for (unit, head) in lists[1..1 + units].iter().enumerate() {
        let (count, of_lower) = (head[0] & 0xffff, head[0] >> 16);
        for place in 0..count {
            // a vector has inputs and codes of a quad and the one four after it
            let quad = place / 4;
            let vector = lists[1 + units + unit * 4 + quad as usize % 4];
            let byte = vector[2 * (quad as usize / 4)] >> (8 * (place % 4)) & 255;
            inputs.push(unit * 32 + (byte & 31) as usize);
            assert_eq!(byte >> 7 == 1, place < of_lower, "those with lower halves are first");
            lower.extend((byte >> 7 == 1).then_some(k + unit * 32 + (byte & 31) as usize));
        }
    }
    inputs.extend(lower);
    inputs.sort_unstable();
    inputs
}

#[test]
fn live_halves_are_those_of_a_sort_and_of_the_cpu() {
    let Some(device) = device() else { return };
    let mut random = Random::new(10);
    for k in [32, 288, 2048, 5632] {
        for kind in 0..5 {
            let lines = Lines::nested(DType::Q8_0, 3, k).unwrap();
            let product = product(vec![Side { lines, bias: false }]);
            let x = row(kind, k, &mut random);
            let all = Wanted::of(2 * k);
            let case = Case { x: x.repeat(all.len()), ..Case::new(&product, 1) };
            let norms = lines.packed(&case.files[0], 1).split_off(lines.sections().norms);
            let norms: Vec<f32> = bytemuck::pod_collect_to_vec(&norms);
            let words: Vec<u32> = all.iter().map(|wanted| wanted.word()).collect();
            let lists: Vec<[u32; 4]> = device.content(&case.lists(&device, &product, &words));
            for (lists, wanted) in lists.chunks(row_vectors(&product)).zip(all) {
                let live = listed(lists, k);
                assert_eq!(live, sorted(&x, &norms, wanted, true), "{wanted:?} of {k}, {kind}");
                let of_cpu = live_inputs(Isa::detect(), &x, &norms, wanted.live(), true);
                assert_eq!(live, of_cpu, "{wanted:?} of {k}, {kind}");
            }
        }
    }
}

/// A share has all inputs of rows with a score that is not finite, and the lists of other rows stay
/// the same.
#[test]
fn shares_of_rows_that_are_not_finite() {
    let Some(device) = device() else { return };
    let k = 1024;
    let product = product(vec![Side { lines: lines_of((DType::Q8_0, true), 3, k), bias: false }]);
    let mut case = Case::new(&product, 3);
    case.x[k + 77] = f32::INFINITY;
    case.x[2 * k + 5] = f32::NAN;
    let word = Wanted::Share(0.5).word();
    let lists: Vec<[u32; 4]> = device.content(&case.lists(&device, &product, &[word; 3]));
    let counts = lists.chunks(row_vectors(&product)).map(|lists| listed(lists, k).len());
    let counts: Vec<usize> = counts.collect();
    assert!(counts[0] < k && counts[1..] == [2 * k; 2], "{counts:?}");
}

/// Rows of any number of live inputs in one dispatch, compared with f64: activations in 8 bits as for
/// the whole row, products of the others left out.
#[test]
fn other_inputs_are_left_out() {
    let Some(device) = device() else { return };
    for kind in KINDS {
        for product in products(&device, kind) {
            let all = product.lines().candidates();
            if product.glu.is_some() || product.lines().cols < 64 {
                continue;
            }
            let lives = [all, all / 2, 1, all * 9 / 10, all / 4];
            let case = Case::new(&product, lives.len());
            let lives_of = lives.map(|live| live as u32 | if live < all { 1 << 31 } else { 0 });
            let found = case.run(&device, &product, &lives_of);
            assert_eq!(bits(&found), bits(&case.run(&device, &product, &lives_of)), "repeats");
            for (i, side) in product.sides.iter().enumerate() {
                compare_left_out(&product, &case, side, i, &lives, &found[i]);
            }
        }
    }
}

/// The weights of a file in Q8_0 with the mean of all lower halves of codes in place of each.
fn without_lower(file: &[u8]) -> Vec<f32> {
    let blocks = file.chunks_exact(34).flat_map(|block| {
        let scale = half::f16::from_le_bytes([block[0], block[1]]).to_f32();
        block[2..].iter().map(move |&code| scale * (f32::from((code as i8) & !15) + 7.5))
    });
    blocks.collect()
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
    let uppers = if side.lines.nested { without_lower(&case.files[i]) } else { Vec::new() };
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
        let live = sorted(&a, &norms, Wanted::Count(lives[r]), side.lines.nested);
        let inputs = live.partition_point(|&i| i < k);
        let (live, lower) = live.split_at(inputs);
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
                let weight =
                    |c: usize| match side.lines.nested && lower.binary_search(&(k + c)).is_err() {
                        true => uppers[n * k + c],
                        false => weights[n * k + c],
                    };
                let products = live.iter().map(|&c| f64::from(weight(c)) * f64::from(rounded[c]));
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
