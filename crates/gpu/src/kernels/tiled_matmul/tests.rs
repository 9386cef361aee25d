//! Tiled products compared with f64.

use pelton_quant::DType;
use pelton_testing::Random;

use super::*;
use crate::{
    device::Device,
    kernels::{
        experts::{Pick, SortedPairs},
        sum_splits::{Output, SumSplits},
        to_q8::ToQ8,
    },
    testing::{device, normals},
};

fn plain(dtype: DType, k: usize, rows: usize) -> TiledMatmul {
    TiledMatmul {
        layout: Layout::of(dtype),
        k,
        rows,
        offset: 0,
        stride: rows,
        norm: false,
        bias: false,
        add: false,
        count_at: 1,
        on_grid: false,
        experts: None,
    }
}

/// Rows as a kernel takes them: its buffers, and the values that they stand for.
fn prepared(device: &Device, m: &TiledMatmul, x: &[f32]) -> (Vec<wgpu::Buffer>, Vec<f32>) {
    let from = device.with(x);
    if !m.layout.blocks() {
        return (vec![from], x.to_vec());
    }
    let rows = x.len() / m.k;
    let quantize = ToQ8 { k: m.k, per_row: 1, norm: None, threads: 64 };
    let source = quantize.source(&device.capabilities).unwrap();
    let kernel = device.kernel("to_q8", &source).unwrap();
    let (codes, scales) =
        (device.with(&vec![0u8; x.len()]), device.with(&vec![0f32; x.len() / 16]));
    device.run(&kernel, &[&from, &codes, &scales], [rows as u32, 1, 1]);
    let units = m.k / 32;
    let (bytes, pairs): (Vec<i8>, Vec<[f32; 2]>) =
        (device.content(&codes), device.content(&scales));
    let value = |i: usize| {
        let (row, unit, half) = (i / m.k, i % m.k / 32, i % 32 / 16);
        let code = bytes[((row * 2 + half) * units + unit) * 16 + i % 16];
        f32::from(code) * pairs[row * units + unit][0]
    };
    let values = (0..x.len()).map(value).collect();
    (vec![codes, scales], values)
}

/// Compares a product with f64, of activations rounded as for the format.
fn compare(m: TiledMatmul, tile: ThreadTile, count: usize) {
    let Some(device) = device() else { return };
    let bytes = Random::new(3).blocks(m.layout.dtype, m.k * m.rows, 0.0, 0.1);
    let mut weights = vec![0.0; m.k * m.rows];
    pelton_quant::decode(m.layout.dtype, &bytes, &mut weights).unwrap();
    let (inputs, a) = prepared(&device, &m, &normals(1, m.k * count));
    let (factors, bias) = (normals(2, count), normals(4, m.rows));
    let before = normals(5, m.rows * count);
    // NaN, so that an element that is not written fails the comparison
    let y = device.with(&if m.add { before.clone() } else { vec![f32::NAN; m.rows * count] });
    let pass = device.with(&[99, count as u32]);
    let (factor_buffer, bias_buffer) = (device.with(&factors), device.with(&bias));
    let planes: Vec<_> =
        m.layout.packed(&bytes, m.rows, m.k).iter().map(|plane| device.with(plane)).collect();
    let mut buffers: Vec<&wgpu::Buffer> = inputs.iter().collect();
    buffers.extend([&y, &pass]);
    buffers.extend(m.norm.then_some(&factor_buffer));
    buffers.extend(m.bias.then_some(&bias_buffer));
    buffers.extend(&planes);
    let kernel = device.kernel("product", &m.source(&tile).unwrap()).unwrap();
    device.run(&kernel, &buffers, tile.groups(count, m.rows));
    let got: Vec<f32> = device.content(&y);
    for (i, got) in got.iter().enumerate() {
        let (r, n) = (i / m.rows, i % m.rows);
        let terms = weights[n * m.k..][..m.k].iter().zip(&a[r * m.k..]);
        let mut expected: f64 = terms.map(|(w, a)| f64::from(*w) * f64::from(*a)).sum();
        expected *= if m.norm { f64::from(factors[r]) } else { 1.0 };
        expected += if m.bias { f64::from(bias[n]) } else { 0.0 };
        expected += if m.add { f64::from(before[i]) } else { 0.0 };
        let difference = (f64::from(*got) - expected).abs();
        let tolerance = 2e-6 * (m.k as f64).sqrt() * (1.0 + expected.abs());
        assert!(difference < tolerance, "{m:?} {tile:?} ({r}, {n}): {got} for {expected}");
    }
}

#[test]
fn every_format() {
    for dtype in DType::ALL {
        let k = if dtype.block_len() == 1 { 50 } else { 3 * dtype.block_len() };
        compare(plain(dtype, k, 21), ThreadTile::SOFTWARE, 37);
    }
}

#[test]
fn every_tile_and_what_comes_after() {
    for tile in ThreadTile::ALL {
        compare(plain(DType::Q4_0, 160, 131), tile, 133);
    }
    for dtype in [DType::F16, DType::F32, DType::Q6_K, DType::Q2_K, DType::Q4_K] {
        let plain = plain(dtype, 256, 67);
        compare(
            TiledMatmul { bias: true, norm: plain.layout.blocks(), ..plain },
            ThreadTile::SOFTWARE,
            17,
        );
        compare(TiledMatmul { add: true, ..plain }, ThreadTile::SOFTWARE, 65);
    }
}

#[test]
fn results_depend_neither_on_the_tile_nor_on_the_grid() {
    let Some(device) = device() else { return };
    for (dtype, k) in [(DType::Q5_K, 2560), (DType::F16, 2052)] {
        let (count, m) = (70, TiledMatmul { norm: dtype == DType::Q5_K, ..plain(dtype, k, 92) });
        let bytes = Random::new(3).blocks(dtype, k * m.rows, 0.0, 0.1);
        let (inputs, _) = prepared(&device, &m, &normals(1, k * count));
        let planes: Vec<_> =
            m.layout.packed(&bytes, m.rows, k).iter().map(|plane| device.with(plane)).collect();
        let (pass, factors) = (device.with(&[99, count as u32]), device.with(&normals(2, count)));
        let run = |m: &TiledMatmul, tile: ThreadTile, y: &wgpu::Buffer| {
            let mut buffers: Vec<&wgpu::Buffer> = inputs.iter().collect();
            buffers.extend([y, &pass]);
            buffers.extend(m.norm.then_some(&factors));
            buffers.extend(&planes);
            let source = m.source(&tile).unwrap();
            let kernel = device.kernel("product", &source).unwrap();
            let [across, down, _] = tile.groups(count, m.rows);
            let times = if m.on_grid { splits(k) as u32 } else { 1 };
            device.run(&kernel, &buffers, [across, down, times]);
        };
        let whole = |tile: ThreadTile| -> Vec<u32> {
            let y = device.with(&vec![f32::NAN; m.rows * count]);
            run(&m, tile, &y);
            device.content(&y)
        };
        let expected = whole(ThreadTile::SOFTWARE);
        assert!(ThreadTile::ALL.into_iter().all(|tile| whole(tile) == expected), "{dtype}");
        let partial = device.with(&vec![f32::NAN; splits(k) * FEW_ROWS * m.rows]);
        run(&TiledMatmul { on_grid: true, ..m }, ThreadTile::ALL[0], &partial);
        let outputs = vec![Output { rows: m.rows, bias: false }];
        let (splits, slab_rows) = (splits(k), FEW_ROWS);
        let sum = SumSplits {
            splits,
            slab_rows,
            outputs,
            add: false,
            glu: None,
            activation: None,
            halves: false,
        };
        let kernel = device.kernel("sum", &sum.source().unwrap()).unwrap();
        let y = device.with(&vec![f32::NAN; m.rows * count]);
        device.run(&kernel, &[&partial, &y], [sum.groups(), count as u32, 1]);
        assert!(device.content::<u32>(&y) == expected, "{dtype}");
    }
}

/// Products of pairs of rows and experts in tiles, or of heads, compared with f64.
fn compare_several(dtype: DType, pick: Pick, own: bool) {
    const EXPERTS: usize = 3;
    const USED: usize = 2;
    const ROWS: usize = 41;
    const TILE: ThreadTile = ThreadTile::SOFTWARE;
    let Some(device) = device() else { return };
    let (k, outputs) = (3 * dtype.block_len().max(20), 21);
    let used = if pick == Pick::Heads { EXPERTS } else { USED };
    let experts = Experts { pick, count: EXPERTS, first: 0, end: EXPERTS, used, own };
    let m = TiledMatmul { bias: true, experts: Some(experts), ..plain(dtype, k, outputs) };
    let bytes = Random::new(3).blocks(dtype, EXPERTS * k * outputs, 0.0, 0.1);
    let mut weights = vec![0.0; EXPERTS * k * outputs];
    pelton_quant::decode(dtype, &bytes, &mut weights).unwrap();
    let x = normals(1, k * if own { ROWS * used } else { ROWS });
    let (inputs, a) = prepared(&device, &m, &x);
    let bias = normals(2, EXPERTS * outputs);
    let SortedPairs { ids, pairs, tiles } = SortedPairs::new(&experts, ROWS * used, TILE.batch);
    let y = device.with(&vec![f32::NAN; ids.len() * outputs]);
    let (pass, bias_buffer) = (device.with(&[99, ROWS as u32]), device.with(&bias));
    let planes: Vec<_> = m
        .layout
        .packed(&bytes, EXPERTS * outputs, k)
        .iter()
        .map(|plane| device.with(plane))
        .collect();
    let (tile_buffer, pair_buffer) = (device.with(&tiles), device.with(&pairs));
    let mut buffers: Vec<&wgpu::Buffer> = inputs.iter().collect();
    buffers.extend([&y, &pass, &bias_buffer]);
    if pick == Pick::Sorted {
        buffers.extend([&tile_buffer, &pair_buffer]);
    }
    buffers.extend(&planes);
    let [across, down, _] = TILE.groups(ROWS, outputs);
    let groups = match pick {
        Pick::Heads => [across, down, EXPERTS as u32],
        _ => [tiles.len() as u32, down, 1],
    };
    let kernel = device.kernel("product", &m.source(&TILE).unwrap()).unwrap();
    device.run(&kernel, &buffers, groups);
    let got: Vec<f32> = device.content(&y);
    for (i, got) in got.iter().enumerate() {
        let (pair, n) = (i / outputs, i % outputs);
        let (expert, row) = (ids[pair], if own { pair } else { pair / used });
        let weights = &weights[(expert * outputs + n) * k..][..k];
        let product = |(w, a): (&f32, &f32)| f64::from(*w) * f64::from(*a);
        let sum: f64 = weights.iter().zip(&a[row * k..]).map(product).sum();
        let expected = sum + f64::from(bias[expert * outputs + n]);
        let difference = (f64::from(*got) - expected).abs();
        let tolerance = 2e-6 * (k as f64).sqrt() * (1.0 + expected.abs());
        assert!(difference < tolerance, "{m:?} ({pair}, {n}): {got} for {expected}");
    }
}

#[test]
fn experts_and_heads() {
    for dtype in [DType::F16, DType::Q4_0] {
        compare_several(dtype, Pick::Sorted, false);
        compare_several(dtype, Pick::Sorted, true);
        compare_several(dtype, Pick::Heads, true);
    }
}

#[test]
fn tiles_are_chosen_by_rows_and_outputs() {
    let capabilities = crate::testing::capabilities(32);
    let [few, middle, large] = ThreadTile::ALL;
    let tile = |rows| plain(DType::Q4_0, 2048, rows).tile(&capabilities, 512);
    assert_eq!((tile(8192), tile(2048)), (large, middle));
    let software = Capabilities { batch: 4, ..capabilities.clone() };
    let product = plain(DType::Q4_0, 2048, 8192);
    assert_eq!(product.tile(&software, 512), ThreadTile::SOFTWARE);
    let little = Capabilities { workgroup_bytes: 16 << 10, ..capabilities.clone() };
    assert_eq!(product.tile(&little, 512), ThreadTile { pieces: 4, ..middle });
    assert_eq!(ThreadTile::of_few(&little), ThreadTile { pieces: 4, ..few });
    let fits = |tile: &ThreadTile| tile.within(&little).bytes() <= 16 << 10;
    assert!([few, middle].iter().all(fits));
    assert_eq!([512, 544, 14336].map(splits), [1, 2, 28]);
}
