//! The plans: every op, alone and as part of each fused op, at odd shapes.

use pelton_graph::{BufferId, KvType, Op, RopeStyle};
use pelton_quant::DType;

use super::builder::{Builder, Heads};

/// Widths of f32 rows: below, at and above the multiples of vectors, tiles and workgroups.
const WIDTHS: [usize; 5] = [6, 33, 50, 96, 257];
const HEAD_DIMS: [usize; 5] = [6, 24, 80, 128, 256];
const GROUPS: [usize; 4] = [1, 3, 7, 16];
const WINDOWS: [Option<usize>; 3] = [None, Some(10), Some(70)];
const STYLES: [RopeStyle; 2] = [RopeStyle::Interleaved, RopeStyle::Halves];

/// A plan of elementary ops, and the fused ops that it can become.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) builder: Builder,
    /// The names of the fused ops.
    pub(super) fused: &'static [&'static str],
    pub(super) kv: KvType,
    /// The greatest difference from the reference, relative to its norm.
    pub(super) tolerance: f32,
}

/// The tolerance of sums in f32.
const EXACT: f32 = 1e-4;

/// The tolerance of products with weights of a type: a kernel may round activations to f16 next to
/// weights in 16 bits, and to 8 bits next to weights in blocks.
fn tolerance(dtype: DType) -> f32 {
    match dtype {
        DType::F32 => EXACT,
        DType::F16 | DType::BF16 => 2e-3,
        _ => 2e-2,
    }
}

fn case(name: String, builder: Builder, x: BufferId, fused: &'static [&'static str]) -> Case {
    Case { name, builder: builder.finish(x), fused, kv: KvType::F32, tolerance: EXACT }
}

pub(super) fn all() -> Vec<Case> {
    let mut all = rows();
    all.extend(linears());
    all.extend(fused_linears());
    all.extend(ropes());
    all.extend(attentions());
    all
}

/// Ops on the elements of a row.
fn rows() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in DType::ALL {
        let width = if dtype.block_len() == 1 { 33 } else { 2 * dtype.block_len() };
        let mut b = Builder::new(width);
        let x = b.embed(dtype, width);
        cases.push(case(format!("embed {dtype} {width}"), b, x, &[]));
    }
    for width in WIDTHS {
        let mut b = Builder::new(width);
        let x = b.embed(DType::F32, width);
        let y = b.normed(x);
        cases.push(case(format!("norm {width}"), b, y, &[]));

        let mut b = Builder::new(width);
        let x = b.embed(DType::F32, width);
        let y = b.selected(x);
        let y = b.normed(y);
        cases.push(case(format!("norm {width} of selected rows"), b, y, &[]));

        let mut b = Builder::new(width);
        let (x, y) = (b.embed(DType::F32, width), b.embed(DType::F32, width));
        b.step(Op::Add, &[x, y], &[x]);
        cases.push(case(format!("add {width}"), b, x, &[]));

        let mut b = Builder::new(width);
        let (gate, up) = (b.embed(DType::F32, width), b.embed(DType::F32, width));
        let g = b.gated(gate, up);
        cases.push(case(format!("glu {width}"), b, g, &[]));
    }
    for (head_dim, heads) in HEAD_DIMS.into_iter().zip([1, 3, 2, 5, 1]) {
        let mut b = Builder::new(heads * head_dim);
        let x = b.embed(DType::F32, heads * head_dim);
        let norm = b.norm(head_dim);
        b.step(Op::HeadNorm { norm, heads }, &[x], &[x]);
        cases.push(case(format!("head_norm {heads} x {head_dim}"), b, x, &[]));
    }
    cases
}

/// Matrix products.
fn linears() -> Vec<Case> {
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
fn fused_linears() -> Vec<Case> {
    let mut cases = Vec::new();
    let of = |dtype: DType, width: usize| match dtype.block_len() {
        1 => width,
        block => width.next_multiple_of(block),
    };
    // types of the matrices after one norm
    let mixed = [DType::F32, DType::Q4_0, DType::Q8_0];
    for (dtypes, counts) in [(&[DType::F32][..], &[1, 2, 3, 6][..]), (&mixed, &[3])] {
        for &count in counts {
            for output in 0..count {
                let cols = dtypes.iter().fold(50, |cols, &dtype| of(dtype, cols));
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
            let cols = of(dtype, cols);
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
    cases
}

/// Rotations, of all pairs and of fewer.
fn ropes() -> Vec<Case> {
    let mut cases = Vec::new();
    for (head_dim, heads) in HEAD_DIMS.into_iter().zip([3, 1, 5, 2, 1]) {
        for style in STYLES {
            for pairs in [head_dim / 2, head_dim / 3, 1] {
                let mut b = Builder::new(heads * head_dim);
                let x = b.embed(DType::F32, heads * head_dim);
                let rope = b.rope(style, pairs);
                b.step(Op::Rope { rope, heads }, &[x], &[x]);
                let name = format!("rope {style:?} {heads} x {head_dim}, {pairs} pairs");
                cases.push(case(name, b, x, &[]));
            }
        }
    }
    cases
}

/// Attention, alone and after norms, rotations and the store. Every size of heads meets every size
/// of groups; windows, norms, styles and pairs take turns.
fn attentions() -> Vec<Case> {
    let mut cases = Vec::new();
    for (i, head_dim) in HEAD_DIMS.into_iter().enumerate() {
        for (j, group) in GROUPS.into_iter().enumerate() {
            let kv_heads = 1 + (i + j) % 2;
            let window = WINDOWS[(i + 2 * j) % 3];
            let heads = Heads { kv_heads, group, head_dim, window };
            let pairs = if j % 2 == 0 { head_dim / 2 } else { head_dim / 3 };
            let style = STYLES[(i + j / 2) % 2];
            let norms = [(true, true), (false, false), (true, false), (false, true)][(i + j) % 4];
            let name = format!("attention {heads:?}");
            cases.push(attention(name.clone(), heads, None, KvType::F32));
            let rope = Some((style, pairs, norms));
            let name = format!("{name}, {style:?}, {pairs} pairs, norms {norms:?}");
            cases.push(attention(name, heads, rope, KvType::F32));
        }
    }
    for (kv, tolerance) in [(KvType::F16, 2e-3), (KvType::Q8_0, 1e-2)] {
        for head_dim in [64, 128] {
            let heads = Heads { kv_heads: 2, group: 3, head_dim, window: None };
            let rope = Some((RopeStyle::Halves, head_dim / 2, (true, true)));
            let name = format!("attention {heads:?} in {kv}");
            cases.push(Case { tolerance, ..attention(name, heads, rope, kv) });
        }
    }
    cases
}

/// The style and the pairs of a rotation, and whether queries and keys are normed.
type Rotation = (RopeStyle, usize, (bool, bool));

/// The output of attention is projected to so few elements that tables of as many tokens are small.
const OUTPUTS: usize = 33;

fn attention(name: String, heads: Heads, rotation: Option<Rotation>, kv: KvType) -> Case {
    let Heads { kv_heads, group, head_dim, window: _ } = heads;
    let (q_heads, width) = (kv_heads * group, kv_heads * group * head_dim);
    let mut b = Builder::new(OUTPUTS);
    let q = b.embed(DType::F32, width);
    let k = b.embed(DType::F32, kv_heads * head_dim);
    let v = b.embed(DType::F32, kv_heads * head_dim);
    let attention = b.attention(heads);
    let mut fused: &[&str] = &[];
    if let Some((style, pairs, (q_norm, k_norm))) = rotation {
        for (x, heads, normed) in [(q, q_heads, q_norm), (k, kv_heads, k_norm)] {
            if normed {
                let norm = b.norm(head_dim);
                b.step(Op::HeadNorm { norm, heads }, &[x], &[x]);
            }
        }
        let rope = b.rope(style, pairs);
        b.step(Op::Rope { rope, heads: q_heads }, &[q], &[q]);
        b.step(Op::Rope { rope, heads: kv_heads }, &[k], &[k]);
        fused = &["rope_store", "rope_attend"];
    }
    b.step(Op::Store { cache: attention.cache }, &[k, v], &[]);
    let a = b.buffer(width, q);
    b.step(Op::Attend(attention), &[q], &[a]);
    let y = b.multiplied(a, DType::F32, OUTPUTS, false);
    Case { kv, ..case(name, b, y, fused) }
}
