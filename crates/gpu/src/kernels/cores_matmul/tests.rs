//! Products on matrix cores compared with f64.

use half::f16;
use pelton_quant::DType;
use pelton_testing::{Need, Random, skip};

use super::*;
use crate::{
    kernels::{
        experts::{Pick, SortedPairs},
        sum_splits::{Output, SumSplits},
    },
    testing::{device, normals},
};

/// Small, so that software compiles and runs it soon; as Apple's cores take it.
const NARROW: Tile = Tile { core: 8, wide: 1, ..Tile::of([32, 16], [16, 8], 32) };
/// The same in the form for all others.
const WIDE: Tile = Tile::of([32, 32], [16, 32], 32);

/// The operations of matrix cores, written out, for devices that have none. Operands stay in
/// workgroup memory, and lane `l` of 32 holds elements `l`, `l + 32` … of a sum, row by row.
fn written_out(source: &str, tile: &Tile) -> String {
    let mut out = String::new();
    for line in source.lines().filter(|line| !line.starts_with("enable wgpu")) {
        let line = match (line.find("coopLoad"), line.find("(&"), line.find("], ")) {
            (Some(from), Some(_), Some(end)) if line.contains("&y[at]") => {
                let (stride, sums) = line[end + 3..].split_once(") + ").unwrap();
                format!("{}add_y(lane, at, {stride}, {}", &line[..from], sums.replace(';', ");"))
            }
            (Some(from), Some(begin), Some(end)) => {
                let at = line[begin..end].split_once('[').unwrap().1;
                format!("{}{at};", &line[..from])
            }
            _ => line
                .replace("coopMultiplyAdd(", "multiply_add(lane, ")
                .replace("&staged[corner]", "corner")
                .replace(
                    "coopStoreT(",
                    if line.contains("&y[at]") { "store_y(lane, " } else { "store(lane, " },
                )
                .replace("&y[at]", "at"),
        };
        out.push_str(&line);
        out.push('\n');
    }
    let (core, each) = (tile.core, tile.core * tile.core / 32);
    let half = |operand: &str, row: &str| {
        let at = format!("{operand}[at_{operand} + {row} * STRIDE");
        match tile.wide {
            1 => format!("f32({at} + k])"),
            _ => format!("f32({at} + k / 4u][k % 4u])"),
        }
    };
    let to_y = |name: &str, statement: &str| {
        format!(
            "fn {name} {{
                for (var e = 0u; e < {each}u; e++) {{
                    let i = (lane + e * 32u) / {core}u;
                    let j = (lane + e * 32u) % {core}u;
                    {statement}
                }}"
        )
    };
    let store = match out.contains("var<workgroup> staged") {
        true => to_y(
            "store(lane: u32, sums: Sums, at: u32, stride: u32)",
            "var s = sums; staged[at + i * stride + j] = s.v[e];",
        ),
        false => to_y(
            "store_y(lane: u32, sums: Sums, at: u32, stride: u32)",
            "var s = sums; y[at + i * stride + j] = s.v[e];",
        ),
    };
    let add = to_y(
        "add_y(lane: u32, at: u32, stride: u32, sums: Sums) -> Sums",
        "out.v[e] += y[at + i * stride + j];",
    )
    .replacen('{', "{ var out = sums;", 1);
    let (l, r) = (half("left", "i"), half("right", "j"));
    out = out
        .replace(&format!("coop_mat{core}x{core}<f32, C>()"), "Sums()")
        .replace(
            "@builtin(subgroup_id) subgroup: u32,",
            "@builtin(local_invocation_index) index: u32,",
        )
        .replace("@builtin(subgroup_invocation_id) lane: u32,", "")
        .replace(
            "let thread =",
            "let subgroup = index / 32u; let lane = index % 32u; let thread =",
        );
    out + &format!(
        "struct Sums {{ v: array<f32, {each}> }}
        fn multiply_add(lane: u32, at_left: u32, at_right: u32, sums: Sums) -> Sums {{
            var out = sums;
            for (var e = 0u; e < {each}u; e++) {{
                let i = (lane + e * 32u) / {core}u;
                let j = (lane + e * 32u) % {core}u;
                for (var k = 0u; k < {core}u; k++) {{ out.v[e] += {l} * {r}; }}
            }}
            return out;
        }}
        {store} }}
        {add} return out; }}"
    )
}

/// Compares a product with f64, of operands rounded to 16 bits. K splits add the bias and the
/// values that are there with the partial sums.
fn compare(m: CoresMatmul, tile: Tile, count: usize) {
    let Some(device) = device() else { return };
    let product = match m.splits {
        1 => m,
        _ => CoresMatmul { bias: false, add: false, ..m },
    };
    let mut source = product.source(&tile).unwrap();
    if !device.capabilities.matrix_cores {
        source = source.mapped(|text| written_out(text, &tile));
    } else if tile.core != 16 {
        return;
    }
    if tile.bytes(m.straight) > device.capabilities.workgroup_bytes as usize {
        skip(Need::Capability, format_args!("{tile:?} needs more workgroup memory"));
        return;
    }
    let bytes = Random::new(3).blocks(m.layout.dtype, m.k * m.rows, 0.0, 0.1);
    let mut weights = vec![0.0; m.k * m.rows];
    pelton_quant::decode(m.layout.dtype, &bytes, &mut weights).unwrap();
    let a: Vec<f16> = normals(1, m.k * count).into_iter().map(f16::from_f32).collect();
    let (bias, before) = (normals(2, m.rows), normals(5, m.rows * count));
    let mut rows = vec![f16::ZERO; padded(m.k) * count];
    for (row, a) in rows.chunks_mut(padded(m.k)).zip(a.chunks(m.k)) {
        row[..m.k].copy_from_slice(a);
    }
    let planes = m.layout.packed(&bytes, m.rows, m.k);

    // poison: what is not written shows
    let mut y = if m.add { before.clone() } else { vec![f32::NAN; m.rows * count] };
    if m.straight {
        y.resize(m.rows * count.next_multiple_of(ROOM), 0.0);
    }
    let y = device.with(&y);
    let (rows, pass) = (device.with(&rows), device.with(&[99, count as u32]));
    let bias_buffer = device.with(&bias);
    let planes: Vec<_> = planes.iter().map(|plane| device.with(plane)).collect();
    let partial = device.with(&vec![f32::NAN; m.splits * m.slab_rows.max(1) * m.rows]);
    let mut buffers = vec![&rows, if m.splits > 1 { &partial } else { &y }, &pass];
    if product.bias {
        buffers.push(&bias_buffer);
    }
    buffers.extend(&planes);
    let kernel = device.kernel("matmul", &source).unwrap();
    let [across, down, _] = tile.groups(count, m.rows);
    device.run(&kernel, &buffers, [across, down, m.splits as u32]);
    if m.splits > 1 {
        let outputs = vec![Output { rows: m.rows, bias: m.bias }];
        let CoresMatmul { splits, slab_rows, add, .. } = m;
        let sum = SumSplits {
            splits,
            slab_rows,
            outputs,
            add,
            glu: None,
            activation: None,
            halves: false,
        };
        let kernel = device.kernel("sum", &sum.source().unwrap()).unwrap();
        let mut buffers = vec![&partial, &y];
        buffers.extend(m.bias.then_some(&bias_buffer));
        device.run(&kernel, &buffers, [sum.groups(), count as u32, 1]);
    }
    let got: Vec<f32> = device.content(&y);

    let twice = m.layout.sub > 0
        || m.layout.d_units > 1
        || matches!(m.layout.dtype, DType::Q4_1 | DType::Q5_1);
    for (i, got) in got.iter().take(m.rows * count).enumerate() {
        let (r, n) = (i / m.rows, i % m.rows);
        let terms = weights[n * m.k..][..m.k].iter().zip(&a[r * m.k..]);
        let product = |(w, a): (&f32, &f16)| f64::from(f16::from_f32(*w)) * f64::from(*a);
        let mut expected: f64 = terms.map(product).sum();
        expected += if m.bias { f64::from(bias[n]) } else { 0.0 };
        expected += if m.add { f64::from(before[i]) } else { 0.0 };
        let difference = (f64::from(*got) - expected).abs();
        // the product of two scales is rounded before the weight is, and one with a minimum is
        // rounded twice where f16 has no fused multiply-add
        let unit = if twice { 2e-4 } else { 1e-4 };
        let tolerance = unit * (m.k as f64).sqrt();
        assert!(difference < tolerance, "{m:?} {tile:?} ({r}, {n}): {got} for {expected}");
    }
}

fn plain(dtype: DType, k: usize, rows: usize) -> CoresMatmul {
    let layout = Layout::of(dtype);
    CoresMatmul {
        layout,
        k,
        rows,
        offset: 0,
        stride: rows,
        bias: false,
        activation: None,
        add: false,
        count_at: 1,
        splits: 1,
        slab_rows: 0,
        experts: None,
        fused_with: [None; 2],
        own_y: false,
        straight: false,
    }
}

#[test]
fn every_format() {
    for dtype in DType::ALL {
        let k = if dtype.block_len() == 1 { 50 } else { 3 * dtype.block_len() };
        compare(plain(dtype, k, 21), NARROW, 34);
        compare(plain(dtype, k, 37), WIDE, 19);
    }
}

#[test]
fn every_tile_and_what_comes_after() {
    for tile in Tile::ALL {
        for dtype in [DType::F16, DType::Q4_0] {
            let plain = plain(dtype, 160, 131);
            compare(plain, tile, 133);
            compare(CoresMatmul { bias: true, ..plain }, tile, 17);
            compare(CoresMatmul { add: true, ..plain }, tile, 65);
        }
    }
}

#[test]
fn results_that_go_straight_to_y() {
    for tile in [WIDE, DECODE_WIDE] {
        for (dtype, k) in [(DType::F16, 330), (DType::Q4_K, 768)] {
            let straight = CoresMatmul { straight: true, ..plain(dtype, k, 48) };
            compare(straight, tile, 19);
            compare(CoresMatmul { add: true, ..straight }, tile, 33);
            compare(CoresMatmul { splits: 3, slab_rows: 48, ..straight }, tile, 35);
        }
    }
}

/// Compares the product of several matrices in one kernel with their products alone, bit by bit.
fn compare_fused(dtypes: &[DType], tile: Tile, count: usize) {
    let Some(device) = device() else { return };
    let (k, stride) = (512, 37 * dtypes.len() + 3);
    let run = |m: CoresMatmul, planes: &[Vec<u8>]| -> Vec<Vec<f32>> {
        let mut source = m.source(&tile).unwrap();
        if !device.capabilities.matrix_cores {
            source = source.mapped(|text| written_out(text, &tile));
        }
        let a: Vec<f16> = normals(1, k * count).into_iter().map(f16::from_f32).collect();
        let lens: Vec<usize> = match m.own_y {
            true => m.parts().map(|part| part.rows).collect(),
            false => vec![stride],
        };
        let outputs: Vec<_> =
            lens.iter().map(|len| device.with(&vec![0.0f32; len * count])).collect();
        let (a, pass) = (device.with(&a), device.with(&[99, count as u32]));
        let planes: Vec<_> = planes.iter().map(|plane| device.with(plane)).collect();
        let mut buffers = vec![&a, &outputs[0], &pass];
        buffers.extend(&outputs[1..]);
        buffers.extend(&planes);
        let kernel = device.kernel("matmul", &source).unwrap();
        let [across, down, _] = tile.groups(count, m.tiled_rows(&tile));
        device.run(&kernel, &buffers, [across, down, 1]);
        outputs.iter().map(|y| device.content(y)).collect()
    };
    let mut alone = vec![0.0f32; stride * count];
    let (mut all, mut parts, mut offset) = (Vec::new(), Vec::new(), 0);
    for (i, &dtype) in dtypes.iter().enumerate() {
        let rows = 37 - 3 * i;
        let bytes = Random::new(3 + i as u64).blocks(dtype, k * rows, 0.0, 0.1);
        let m = CoresMatmul { offset, stride, ..plain(dtype, k, rows) };
        let planes = m.layout.packed(&bytes, rows, k);
        for (sum, part) in alone.iter_mut().zip(&run(m, &planes)[0]) {
            *sum += *part;
        }
        parts.push(FusedMatrix { layout: m.layout, rows });
        all.extend(planes);
        offset += rows;
    }
    let fused_with = [parts.get(1).copied(), parts.get(2).copied()];
    let m = CoresMatmul { stride, fused_with, ..plain(dtypes[0], k, parts[0].rows) };
    let got = &run(m, &all)[0];
    assert!(got.iter().zip(&alone).all(|(a, b)| a.to_bits() == b.to_bits()), "{dtypes:?}");
    // the matrices have outputs of their own
    let mut offset = 0;
    for (own, part) in run(CoresMatmul { own_y: true, ..m }, &all).iter().zip(m.parts()) {
        for (row, expected) in own.chunks(part.rows).zip(alone.chunks(stride)) {
            let expected = &expected[offset..][..part.rows];
            let same = row.iter().zip(expected).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{dtypes:?} with outputs of their own");
        }
        offset += part.rows;
    }
}

#[test]
fn fused_products_are_those_alone() {
    for dtypes in [
        &[DType::Q4_K, DType::Q4_K, DType::Q6_K][..],
        &[DType::Q4_0, DType::Q4_0],
        &[DType::Q8_0, DType::Q6_K, DType::Q4_1],
        &[DType::F16, DType::F16, DType::F16],
    ] {
        compare_fused(dtypes, WIDE, 19);
    }
}

/// Products of pairs of rows and experts in tiles, or of heads, compared with f64.
fn compare_several(dtype: DType, pick: Pick, own: bool) {
    const EXPERTS: usize = 3;
    const USED: usize = 2;
    const ROWS: usize = 41;
    let Some(device) = device() else { return };
    let (k, outputs) = (3 * dtype.block_len().max(20), 21);
    let used = if pick == Pick::Heads { EXPERTS } else { USED };
    let experts = Experts { pick, count: EXPERTS, first: 0, end: EXPERTS, used, own };
    let m = CoresMatmul { bias: true, experts: Some(experts), ..plain(dtype, k, outputs) };
    let mut source = m.source(&WIDE).unwrap();
    if !device.capabilities.matrix_cores {
        source = source.mapped(|text| written_out(text, &WIDE));
    }
    let bytes = Random::new(3).blocks(dtype, EXPERTS * k * outputs, 0.0, 0.1);
    let mut weights = vec![0.0; EXPERTS * k * outputs];
    pelton_quant::decode(dtype, &bytes, &mut weights).unwrap();
    let layout = Layout::of(dtype);
    let sizes = layout.planes(EXPERTS * outputs, k);
    let mut planes: Vec<Vec<u8>> = sizes.iter().map(|&n| vec![0; n as usize]).collect();
    let mut views: Vec<&mut [u8]> = planes.iter_mut().map(Vec::as_mut_slice).collect();
    layout.pack(&bytes, k, &mut views);
    let x_rows = if own { ROWS * used } else { ROWS };
    let x: Vec<f16> = normals(1, x_rows * k).into_iter().map(f16::from_f32).collect();
    let mut padded_x = vec![f16::ZERO; padded(k) * x_rows];
    for (to, from) in padded_x.chunks_mut(padded(k)).zip(x.chunks(k)) {
        to[..k].copy_from_slice(from);
    }
    let bias = normals(2, EXPERTS * outputs);
    let SortedPairs { ids, pairs, tiles } = SortedPairs::new(&experts, ROWS * used, WIDE.batch);
    let y = device.with(&vec![f32::NAN; ids.len() * outputs]);
    let (x_buffer, pass) = (device.with(&padded_x), device.with(&[99, ROWS as u32]));
    let (bias_buffer, planes) = (device.with(&bias), planes.iter().map(|p| device.with(p)));
    let planes: Vec<_> = planes.collect();
    let (tile_buffer, pair_buffer) = (device.with(&tiles), device.with(&pairs));
    let mut buffers = vec![&x_buffer, &y, &pass, &bias_buffer];
    if pick == Pick::Sorted {
        buffers.extend([&tile_buffer, &pair_buffer]);
    }
    buffers.extend(&planes);
    let [across, down, _] = WIDE.groups(ROWS, outputs);
    let groups = match pick {
        Pick::Heads => [across, down, EXPERTS as u32],
        _ => [tiles.len() as u32, down, 1],
    };
    device.run(&device.kernel("matmul", &source).unwrap(), &buffers, groups);
    let got: Vec<f32> = device.content(&y);
    for (i, got) in got.iter().enumerate() {
        let (pair, n) = (i / outputs, i % outputs);
        let (expert, row) = (ids[pair], if own { pair } else { pair / used });
        let weights = &weights[(expert * outputs + n) * k..][..k];
        let product = |(w, a): (&f32, &f16)| f64::from(f16::from_f32(*w)) * f64::from(*a);
        let sum: f64 = weights.iter().zip(&x[row * k..]).map(product).sum();
        let expected = sum + f64::from(bias[expert * outputs + n]);
        let difference = (f64::from(*got) - expected).abs();
        let tolerance = 1e-4 * (k as f64).sqrt();
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
fn splits_of_k() {
    for (k, splits) in [(640, 3), (704, 2), (320, 5)] {
        let m = CoresMatmul { splits, slab_rows: 40, ..plain(DType::Q4_0, k, 131) };
        compare(m, DECODE, 33);
        compare(CoresMatmul { bias: true, add: true, ..m }, DECODE, 40);
        compare(m, DECODE_FEW, 29);
    }
    // matrices with few outputs are split, those with many are not
    assert_eq!(decode_splits(&DECODE, 4096, 1024), 8);
    assert_eq!(decode_splits(&DECODE, 14336, 4096), 3);
    assert_eq!(decode_splits(&DECODE, 4096, 14336), 1);
    assert_eq!(decode_splits(&DECODE, 64, 64), 1);
}

#[test]
fn tiles_divide_into_patches_on_every_gpu() {
    for (core, subgroup, widest_subgroup) in
        [(8, 4, 64), (16, 64, 64), (16, 32, 64), (16, 32, 32), (16, 16, 16), (16, 8, 32)]
    {
        let base = crate::testing::capabilities(subgroup);
        let capabilities = Capabilities { core, widest_subgroup, ..base };
        for tile in Tile::ALL.into_iter().chain([DECODE_FEW]) {
            let Tile { patch_batch, patch_rows, lanes, .. } = tile.on(&capabilities);
            assert!(tile.batch % patch_batch == 0 && patch_batch % core == 0, "{tile:?}");
            assert!(patch_batch * patch_rows <= SUMS * lanes[0], "{tile:?} by {lanes:?}");
            let native = core == 16 && lanes == [32, 32];
            assert!(!native || tile.on(&capabilities) == tile, "{tile:?}");
        }
    }
}

#[test]
fn tiles_leave_enough_workgroups() {
    let capabilities = Capabilities {
        subgroup: 32,
        widest_subgroup: 32,
        batch: 16,
        matrix_cores: true,
        core: 16,
        timestamps: false,
        workgroup_threads: 256,
        workgroup_bytes: 48 << 10,
        binding_bytes: 1 << 30,
        buffer_bytes: 1 << 30,
        storage_buffers: 32,
    };
    let tile = |rows, count| plain(DType::Q4_0, 4096, rows).tile(&capabilities, count);
    assert_eq!(tile(28672, 512), Tile::ALL[0]);
    assert_eq!(tile(4096, 512), Tile::ALL[0]);
    assert_eq!(tile(2048, 512), Tile::ALL[1]);
    assert_eq!(tile(1024, 512), Tile::ALL[3]);
    assert_eq!(tile(28672, 17), Tile::ALL[3]);
    // few rows leave too few workgroups of the largest tile, or too much of it empty
    let [large, middle, narrow, small] = Tile::ALL;
    let tiles = |m: CoresMatmul| m.tiles(&capabilities, 500);
    let by_rows = [(0, 192, small), (193, 256, narrow), (257, 384, middle), (385, 512, large)];
    assert_eq!(tiles(plain(DType::Q4_0, 4096, 3072)), by_rows);
    let by_rows = [(0, 64, small), (65, 128, large), (129, 192, middle), (193, 512, large)];
    assert_eq!(tiles(CoresMatmul { splits: 4, ..plain(DType::Q4_0, 4096, 4096) }), by_rows);
    // matrices with few outputs are split, those with many are not
    assert_eq!(prompt_splits(14336, 4096, 2048), 4);
    assert_eq!(prompt_splits(4096, 28672, 2048), 1);
    assert_eq!(prompt_splits(64, 64, 2048), 1);
    // and only as far as their sums are no burden
    assert_eq!(prompt_splits(14336, 4096, 8192), 2);
    assert_eq!(prompt_splits(14336, 4096, 65_535), 1);
    let little = Capabilities { workgroup_bytes: 32 << 10, ..capabilities };
    assert_eq!(plain(DType::Q4_0, 4096, 28672).tile(&little, 512), Tile::ALL[2]);
    assert!(Tile::ALL.iter().all(|tile| tile.bytes(false) <= 48 << 10));
}
