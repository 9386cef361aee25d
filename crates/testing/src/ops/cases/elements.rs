//! Ops on the elements of a row.

use pelton_graph::{Activation, Gating, Op, Strided, StridedCopy, TableRow, Xielu};
use pelton_quant::DType;

use crate::ops::builder::{Builder, CONTEXT};
use crate::ops::case::{Case, WIDTHS, case, tolerance};

const ACTIVATIONS: [Activation; 10] = [
    Activation::Identity,
    Activation::Silu,
    Activation::GeluTanh,
    Activation::GeluErf,
    Activation::GeluQuick,
    Activation::Relu,
    Activation::ReluSquared,
    Activation::Sigmoid,
    Activation::Tanh,
    Activation::Softplus,
];

pub(super) fn cases() -> Vec<Case> {
    [tables(), in_place(), gated(), copies()].concat()
}

/// Embedding tables of every type, and tables that are added.
fn tables() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in DType::ALL {
        let width = if dtype.block_len() == 1 { 33 } else { 2 * dtype.block_len() };
        let mut b = Builder::new(width);
        let x = b.embed(dtype, width);
        cases.push(case(format!("embed {dtype} {width}"), b, x, &[]));
    }
    for (dtype, width) in [(DType::F32, 33), (DType::F32, 257), (DType::F16, 6), (DType::Q8_0, 96)]
    {
        for (row, rows) in [(TableRow::Position, CONTEXT + 5), (TableRow::Fixed(2), 3)] {
            let mut b = Builder::new(width);
            let x = b.embed(DType::F32, width);
            let table = b.table(dtype, width, rows);
            b.step(Op::AddTable { table, row }, &[x], &[x]);
            let name = format!("add_table {dtype} {width}, {row:?}");
            cases.push(Case { tolerance: tolerance(DType::F32), ..case(name, b, x, &[]) });
        }
    }
    // the tokens of the passes are ids of three types
    for (dtype, width) in [(DType::F32, 33), (DType::Q8_0, 96)] {
        let mut b = Builder::typed(width, 3);
        let x = b.embed(DType::F32, width);
        let table = b.table(dtype, width, 3);
        b.step(Op::AddTable { table, row: TableRow::TokenType }, &[x], &[x]);
        let name = format!("add_table {dtype} {width}, token types");
        cases.push(Case { tolerance: tolerance(DType::F32), ..case(name, b, x, &[]) });
    }
    cases
}

/// Ops in place.
fn in_place() -> Vec<Case> {
    let mut cases = Vec::new();
    for (i, width) in WIDTHS.into_iter().enumerate() {
        let mut b = Builder::new(width);
        let (x, y) = (b.embed(DType::F32, width), b.embed(DType::F32, width));
        b.step(Op::Add, &[x, y], &[x]);
        cases.push(case(format!("add {width}"), b, x, &[]));

        let steps = [
            ("scale", Op::Scale(-0.37)),
            ("softcap", Op::Softcap(0.8)),
            ("softcap of small values", Op::Softcap(30.0)),
            ("clamp", Op::Clamp { low: -0.4, high: 0.9 }),
            ("clamp from below", Op::Clamp { low: 0.1, high: f32::INFINITY }),
            ("xielu", Op::Xielu(Xielu { positive: 0.8, negative: 0.6, linear: 0.5, bound: -1e-6 })),
            ("temper", Op::Temper { beta: 0.25, interval: 7, offset: 1 }),
            ("temper from 0", Op::Temper { beta: 0.1, interval: 64, offset: 0 }),
        ];
        for (name, op) in steps {
            let mut b = Builder::new(width);
            let x = b.embed(DType::F32, width);
            b.step(op, &[x], &[x]);
            cases.push(case(format!("{name} {width}"), b, x, &[]));
        }
        for (j, activation) in ACTIVATIONS.into_iter().enumerate() {
            let mut b = Builder::new(width);
            let mut x = b.embed(DType::F32, width);
            // selected rows, as those of the head of a classifier
            if (i + j) % 3 == 0 {
                x = b.selected(x);
            }
            // up to about 20
            b.step(Op::Scale(6.0), &[x], &[x]);
            b.step(Op::Activate(activation), &[x], &[x]);
            cases.push(case(format!("activate {} {width}", activation.name()), b, x, &[]));
        }
    }
    cases
}

/// Gated products, to a buffer of its own, to the gate and to the value, and with one gate or a few
/// for a row.
fn gated() -> Vec<Case> {
    let mut cases = Vec::new();
    let clamped = [(1.702, 7.0), (1.0, 0.5)];
    let gatings = ACTIVATIONS
        .into_iter()
        .map(Gating::Product)
        .chain(clamped.map(|(alpha, limit)| Gating::Clamped { alpha, limit }));
    for (i, gating) in gatings.enumerate() {
        for (j, width) in WIDTHS.into_iter().enumerate() {
            let mut b = Builder::new(width);
            let (gate, up) = (b.embed(DType::F32, width), b.embed(DType::F32, width));
            b.step(Op::Scale(3.0), &[gate], &[gate]);
            let (to, place) = match (i + j) % 3 {
                0 => (b.buffer(width, gate), "a new buffer"),
                1 => (gate, "the gate"),
                _ => (up, "the value"),
            };
            b.step(Op::Glu(gating), &[gate, up], &[to]);
            cases.push(case(format!("glu {} {width} to {place}", gating.name()), b, to, &[]));
        }
        let mut b = Builder::new(33);
        let (gate, up) = (b.embed(DType::F32, 1), b.embed(DType::F32, 33));
        let g = if i % 2 == 0 { b.buffer(33, up) } else { up };
        b.step(Op::Glu(gating), &[gate, up], &[g]);
        cases.push(case(format!("glu {} of one gate", gating.name()), b, g, &[]));
        for (gates, width) in [(3, 33), (5, 40), (2, 16)] {
            let mut b = Builder::new(width);
            let (gate, up) = (b.embed(DType::F32, gates), b.embed(DType::F32, width));
            let g = if i % 2 == 0 { up } else { b.buffer(width, up) };
            b.step(Op::Glu(gating), &[gate, up], &[g]);
            let name = format!("glu {} of {gates} gates for {width}", gating.name());
            cases.push(case(name, b, g, &[]));
        }
    }
    cases
}

/// Strided copies: the halves of heads apart, one head to many, and groups of one element.
fn copies() -> Vec<Case> {
    let at = |offset, stride| Strided { offset, stride };
    let copies = [
        (3, 10, 60, at(0, 20), at(0, 10)),
        (3, 10, 60, at(10, 20), at(0, 10)),
        (5, 7, 7, at(0, 0), at(3, 9)),
        (1, 33, 50, at(17, 0), at(0, 0)),
        (16, 1, 33, at(1, 2), at(5, 1)),
    ];
    let of = |(count, width, from_width, from, to): (usize, usize, usize, Strided, Strided)| {
        let mut b = Builder::new(50);
        let (x, y) = (b.embed(DType::F32, from_width), b.embed(DType::F32, 50));
        b.step(Op::Copy(StridedCopy { count, width, from, to }), &[x], &[y]);
        case(format!("copy of {count} x {width} from {from:?} to {to:?}"), b, y, &[])
    };
    copies.into_iter().map(of).collect()
}
