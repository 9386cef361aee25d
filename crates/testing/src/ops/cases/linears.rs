//! Matrix products, alone and fused.

use pelton_graph::{Activation, BufferId, Gating, Linear, NormKind, Op};
use pelton_quant::DType;

use crate::ops::builder::Builder;
use crate::ops::case::{Case, WIDTHS, case, tolerance, whole_blocks};

/// Matrix products.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut push = |dtype: DType, cols: usize, outputs: usize, bias: bool| {
        let mut b = Builder::new(outputs);
        let x = b.embed(DType::F32, cols);
        let y = b.multiplied(x, dtype, outputs, bias);
        let name = format!("linear {dtype} {cols} to {outputs}, bias {bias}");
        cases.push(Case { tolerance: tolerance(dtype), ..case(name, b, y, &[]) });
    };
    for (i, cols) in WIDTHS.into_iter().enumerate() {
        for outputs in [WIDTHS[(i + 1) % 5], WIDTHS[(i + 3) % 5]] {
            push(DType::F32, cols, outputs, i % 2 == 0);
        }
    }
    for dtype in DType::ALL {
        let block = dtype.block_len().max(32);
        push(dtype, block, 257, false);
        push(dtype, 3 * block, 33, true);
        push(dtype, 2 * block, 6, false);
    }
    // matrices of one output and of one column
    for bias in [false, true] {
        let mut b = Builder::new(5);
        let x = b.embed(DType::F32, 50);
        let one = b.multiplied(x, DType::F32, 1, bias);
        let y = b.multiplied(one, DType::F32, 5, bias);
        cases.push(case(format!("linear 50 to 1 to 5, bias {bias}"), b, y, &[]));
    }
    cases
}

/// Fused ops of matrix products.
pub(super) fn fused() -> Vec<Case> {
    let mut cases = Vec::new();
    // types of the matrices after one norm
    let mixed = [DType::F32, DType::Q4_0, DType::Q8_0];
    for (dtypes, counts) in [(&[DType::F32][..], &[1, 2, 3, 6][..]), (&mixed, &[3])] {
        for &count in counts {
            for output in 0..count {
                let cols = dtypes.iter().fold(50, |cols, &dtype| whole_blocks(dtype, cols));
                let widths = [96, 33, 6, 257, 50, 33];
                let mut b = Builder::new(widths[output]);
                let x = b.embed(DType::F32, cols);
                let n = b.normed(x);
                let outputs: Vec<BufferId> = (0..count)
                    .map(|i| b.multiplied(n, dtypes[i % dtypes.len()], widths[i], i % 2 == 0))
                    .collect();
                let name = format!("{count} linears of {dtypes:?} after a norm, output {output}");
                let tolerance = tolerance(dtypes[output % dtypes.len()]);
                let case = case(name, b, outputs[output], &["norm_linear"]);
                cases.push(Case { tolerance, ..case });
            }
        }
    }
    // as the output matrix of a model: of the selected rows
    let mut b = Builder::new(257);
    let x = b.embed(DType::F32, 33);
    let s = b.selected(x);
    let n = b.normed(s);
    let y = b.multiplied(n, DType::F32, 257, false);
    cases.push(case("a linear after a norm of selected rows".to_owned(), b, y, &["norm_linear"]));

    for (i, dtype) in [DType::F32, DType::F16, DType::Q4_K, DType::Q8_0].into_iter().enumerate() {
        for (cols, width) in [(33, 50), (96, 6), (257, 96)] {
            let cols = whole_blocks(dtype, cols);
            let bias = i % 2 == 0;
            let mut b = Builder::new(width);
            let (x, y) = (b.embed(DType::F32, width), b.embed(DType::F32, cols));
            let o = b.multiplied(y, dtype, width, bias);
            b.step(Op::Add, &[x, o], &[x]);
            let name = format!("linear {dtype} {cols} to {width}, bias {bias}, added");
            let case = case(name, b, x, &["linear_add"]);
            cases.push(Case { tolerance: tolerance(dtype), ..case });

            let mut b = Builder::new(width);
            let x = b.embed(DType::F32, cols);
            let n = b.normed(x);
            let gate = b.multiplied(n, dtype, width, bias);
            let up = b.multiplied(n, dtype, width, bias);
            let g = b.gated(gate, up);
            let name = format!("gated linears {dtype} {cols} to {width}, bias {bias}");
            let case = self::case(name, b, g, &["norm_glu"]);
            // the errors of both factors
            cases.push(Case { tolerance: 2.0 * tolerance(dtype), ..case });
        }
    }
    cases.extend(norms_and_gatings());
    cases
}

/// Norms of every kind and gated products of every kind around linears.
fn norms_and_gatings() -> Vec<Case> {
    let mut cases = Vec::new();
    let gatings = [
        Gating::Product(Activation::GeluTanh),
        Gating::Product(Activation::GeluErf),
        Gating::Product(Activation::Relu),
        Gating::Product(Activation::ReluSquared),
        Gating::Product(Activation::Sigmoid),
        Gating::Product(Activation::Tanh),
        Gating::Product(Activation::Identity),
        Gating::Clamped { alpha: 1.702, limit: 1.5 },
    ];
    let kinds = [NormKind::Layer, NormKind::Rms, NormKind::L2];
    for (i, gating) in gatings.into_iter().enumerate() {
        for (factors, summands) in [(true, true), (false, false), (true, false)] {
            let kind = kinds[(i + usize::from(factors)) % 3];
            let (cols, width) = ([50, 257, 33][i % 3], [33, 96, 6][(i + 1) % 3]);
            let mut b = Builder::new(width);
            let x = b.embed(DType::F32, cols);
            let norm = b.norm_of(kind, cols, factors, summands);
            let n = b.buffer(cols, x);
            b.step(Op::Norm(norm), &[x], &[n]);
            let gate = b.multiplied(n, DType::F32, width, i % 2 == 0);
            let up = b.multiplied(n, DType::F32, width, i % 3 == 0);
            let g = b.buffer(width, x);
            b.step(Op::Glu(gating), &[gate, up], &[g]);
            let name = format!("{norm:?} {cols}, linears to {width}, glu {}", gating.name());
            let case = case(name, b, g, &["norm_glu"]);
            cases.push(Case { tolerance: 2.0 * tolerance(DType::F32), ..case });

            let mut b = Builder::new(width);
            let x = b.embed(DType::F32, cols);
            let norm = b.norm_of(kind, cols, factors, summands);
            let n = b.buffer(cols, x);
            b.step(Op::Norm(norm), &[x], &[n]);
            let y = b.multiplied(n, DType::F32, width, true);
            let name = format!("{norm:?} {cols}, linear to {width}");
            cases.push(self::case(name, b, y, &["norm_linear"]));
        }
    }
    cases
}

/// Linears that are some rows of a fused tensor, and one matrix for each head.
pub(super) fn parts() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::Q4_K, DType::Q8_0, DType::Q5_0] {
        let cols = whole_blocks(dtype, 50);
        for (first, rows, of) in [(0, 33, 99), (33, 50, 99), (66, 33, 99), (1, 257, 300)] {
            let mut b = Builder::new(rows);
            let x = b.embed(DType::F32, cols);
            let n = b.normed(x);
            let Linear { weight, bias } = b.linear(dtype, cols, rows, true);
            b.part(weight, first, of);
            if let Some(bias) = bias {
                b.part(bias, first, of);
            }
            let y = b.buffer(rows, x);
            b.step(Op::Linear(Linear { weight, bias }), &[n], &[y]);
            let name = format!("linear {dtype} {cols}, rows {first} to {} of {of}", first + rows);
            let case = case(name, b, y, &["norm_linear"]);
            cases.push(Case { tolerance: tolerance(dtype), ..case });
        }
        for (heads, outputs, part) in [(1, 33, None), (3, 50, None), (7, 6, Some((4, 11)))] {
            let mut b = Builder::new(heads * outputs);
            let x = b.embed(DType::F32, heads * cols);
            let weight = b.matrices(dtype, heads, cols, outputs);
            if let Some((first, of)) = part {
                b.part(weight, first, of);
            }
            let y = b.buffer(heads * outputs, x);
            b.step(Op::HeadLinear { weight, heads }, &[x], &[y]);
            let name = format!("head_linear {dtype} {heads} x {cols} to {outputs}, part {part:?}");
            cases.push(Case { tolerance: tolerance(dtype), ..case(name, b, y, &[]) });
        }
    }
    cases
}
