//! Convolutions and linear attention.

use pelton_graph::{Activation, GatedDelta, NormKind, Op, SelectiveScan, ShortConv};
use pelton_quant::DType;

use crate::ops::builder::Builder;
use crate::ops::case::{Case, WIDTHS, case};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let (silu, identity) = (Activation::Silu, Activation::Identity);
    let kinds = [(4, silu), (2, identity), (3, identity), (4, silu), (7, silu)];
    for (i, (width, (taps, activation))) in WIDTHS.into_iter().zip(kinds).enumerate() {
        let mut b = Builder::new(width);
        let x = b.embed(DType::F32, width);
        let state = b.state((taps - 1) * width);
        let weight = b.table(DType::F32, taps, width);
        let bias = (i % 2 == 1).then(|| b.vector(width, 0.1, 0.5));
        let conv = ShortConv { state, weight, bias, taps, activation };
        b.step(Op::ShortConv(conv), &[x], &[x]);
        let has_bias = bias.is_some();
        let name = format!("short_conv {width}, {taps} taps, {activation:?}, bias {has_bias}");
        cases.push(case(name, b, x, &[]));
    }
    for (heads, dims, grouped) in [
        ([1, 1], [6, 6], false),
        ([2, 2], [33, 50], true),
        ([2, 6], [24, 24], true),
        ([2, 6], [24, 24], false),
        ([3, 3], [64, 96], false),
        ([1, 4], [128, 128], true),
    ] {
        cases.push(gated_delta(heads, dims, grouped));
    }
    for (heads, groups, dims) in [
        (1, 1, [6, 6]),
        (2, 1, [33, 50]),
        (6, 2, [24, 16]),
        (4, 4, [64, 96]),
        (3, 1, [64, 128]),
        (2, 1, [17, 256]),
    ] {
        cases.push(selective_scan(heads, groups, dims));
    }
    cases
}

fn selective_scan(heads: usize, groups: usize, [head_dim, state_dim]: [usize; 2]) -> Case {
    let width = heads * head_dim;
    let mut b = Builder::new(width);
    let xbc = b.embed(DType::F32, width + 2 * groups * state_dim);
    let dt = b.embed(DType::F32, heads);
    let scan = SelectiveScan {
        state: b.state(width * state_dim),
        heads,
        groups,
        head_dim,
        state_dim,
        rate: b.vector(heads, -0.3, 0.1),
        skip: b.vector(heads, 1.0, 0.5),
        shift: b.vector(heads, -0.5, 0.5),
        low: 0.1,
        high: if groups > 1 { 0.9 } else { f32::MAX },
    };
    let y = b.buffer(width, xbc);
    b.step(Op::SelectiveScan(scan), &[xbc, dt], &[y]);
    let name = format!("selective_scan {heads} heads, {groups} groups, {head_dim} × {state_dim}");
    case(name, b, y, &[])
}

fn gated_delta(heads: [usize; 2], dims: [usize; 2], grouped: bool) -> Case {
    let ([key_heads, value_heads], [key_dim, value_dim]) = (heads, dims);
    let width = value_heads * value_dim;
    let mut b = Builder::new(width);
    let q = b.embed(DType::F32, key_heads * key_dim);
    let k = b.embed(DType::F32, key_heads * key_dim);
    let v = b.embed(DType::F32, width);
    let (alpha, beta) = (b.embed(DType::F32, value_heads), b.embed(DType::F32, value_heads));
    let norm = b.norm_of(NormKind::L2, key_dim, false, false);
    for x in [q, k] {
        b.step(Op::HeadNorm { norm, heads: key_heads }, &[x], &[x]);
    }
    let delta = GatedDelta {
        state: b.state(value_heads * key_dim * value_dim),
        key_heads,
        value_heads,
        key_dim,
        value_dim,
        grouped,
        rate: b.vector(value_heads, -0.2, 0.03),
        shift: b.vector(value_heads, -0.5, 0.5),
    };
    let o = b.buffer(width, v);
    b.step(Op::GatedDelta(delta), &[q, k, v, alpha, beta], &[o]);
    case(format!("gated_delta {heads:?} heads of {dims:?}, grouped {grouped}"), b, o, &[])
}
