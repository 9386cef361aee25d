//! Norms of rows and heads.

use pelton_graph::{Norm, NormKind, Op};
use pelton_quant::DType;

use crate::ops::builder::Builder;
use crate::ops::case::{Case, HEAD_DIMS, WIDTHS, case};

const KINDS: [NormKind; 3] = [NormKind::Rms, NormKind::Layer, NormKind::L2];

/// Every kind, with and without factors and summands.
fn all_of(b: &mut Builder, len: usize) -> Vec<Norm> {
    let mut norms = Vec::new();
    for kind in KINDS {
        for (factors, summands) in [(true, false), (true, true), (false, false), (false, true)] {
            norms.push(b.norm_of(kind, len, factors, summands));
        }
    }
    norms
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for width in WIDTHS {
        let count = all_of(&mut Builder::new(width), width).len();
        for i in 0..count {
            let mut b = Builder::new(width);
            let mut x = b.embed(DType::F32, width);
            let is_selected = i % 5 == 1;
            if is_selected {
                x = b.selected(x);
            }
            let norm = all_of(&mut b, width)[i];
            let y = if i % 4 == 3 { x } else { b.buffer(width, x) };
            b.step(Op::Norm(norm), &[x], &[y]);
            let name =
                format!("norm {norm:?} {width}, selected {is_selected}, in place {}", x == y);
            cases.push(case(name, b, y, &[]));
        }
    }
    for (head_dim, heads) in HEAD_DIMS.into_iter().zip([1, 3, 2, 5, 1]) {
        for len in [head_dim, heads * head_dim] {
            for i in 0..12 {
                let mut b = Builder::new(heads * head_dim);
                let x = b.embed(DType::F32, heads * head_dim);
                let norm = all_of(&mut b, len)[i];
                b.step(Op::HeadNorm { norm, heads }, &[x], &[x]);
                let name = format!("head_norm {norm:?} {heads} x {head_dim}, weights of {len}");
                cases.push(case(name, b, x, &[]));
            }
        }
    }
    cases
}
