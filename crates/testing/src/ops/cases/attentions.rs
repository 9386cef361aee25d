//! Rotations, and plain causal attention.

use pelton_graph::{KvElement, KvType, Op, RopeStyle};
use pelton_quant::DType;

use crate::ops::builder::{Builder, Heads};
use crate::ops::case::{Case, HEAD_DIMS, case};

const GROUPS: [usize; 4] = [1, 3, 7, 16];
const WINDOWS: [Option<usize>; 3] = [None, Some(10), Some(70)];
const STYLES: [RopeStyle; 2] = [RopeStyle::Interleaved, RopeStyle::Halves];

/// Rotations, of all pairs and of fewer.
pub(super) fn ropes() -> Vec<Case> {
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
pub(super) fn cases() -> Vec<Case> {
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
    let blocks = KvElement::ALL.into_iter().filter(|kv| kv.block().is_some());
    let mixed = KvType { keys: KvElement::Q8_0, values: KvElement::Q4_1 };
    let types = blocks.map(KvType::both).chain([mixed]).map(|kv| match kv {
        KvType::Q8_0 => (kv, 1e-2),
        // an element that is halfway between two codes moves by a sixteenth of its block's range
        _ => (kv, 1e-1),
    });
    for (kv, tolerance) in
        [(KvType::F16, 2e-3), (KvType::both(KvElement::Bf16), 1e-2)].into_iter().chain(types)
    {
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
