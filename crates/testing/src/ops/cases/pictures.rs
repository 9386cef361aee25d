//! Rows of pictures: embeddings in place of tokens, rotations by several coordinates, and attention
//! whose rows see those of their group.

use pelton_graph::{
    Activation, Attention, BufferId, Cache, Gating, KvType, Mask, Op, OutputKind, RopeStyle, Values,
};
use pelton_quant::DType;

use crate::ops::builder::Builder;
use crate::ops::case::{Case, EXACT, case};

/// The elements of embeddings.
const HIDDEN: usize = 33;

const STYLES: [RopeStyle; 3] =
    [RopeStyle::Interleaved, RopeStyle::Halves, RopeStyle::HalvesOfHalves];
const FUSED: &[&str] = &["rope_store", "rope_attend"];

/// The coordinate of each pair.
#[derive(Clone, Copy, Debug)]
enum Axes {
    /// The first of all pairs.
    One,
    /// Those of an axis side by side.
    Blocked,
    /// Those of axes take turns.
    Interleaved,
    /// Row, then column, in halves.
    Grid,
}

impl Axes {
    fn of(self, i: usize, pairs: usize) -> u8 {
        match self {
            Self::One => 0,
            Self::Blocked => (3 * i / pairs) as u8,
            Self::Interleaved => (i % 3) as u8,
            Self::Grid => 1 + u8::from(2 * i >= pairs),
        }
    }
}

pub(super) fn cases() -> Vec<Case> {
    [injected(), ropes(), attentions(), windows()].concat()
}

/// Embeddings of one slice, and of three of which two are added.
fn injected() -> Vec<Case> {
    let mut cases = Vec::new();
    for width in [6, HIDDEN, 96] {
        let mut b = Builder::new(width);
        b.pictures(1);
        let x = b.embed(DType::F32, width);
        b.step(Op::Scale(3.0), &[x], &[x]);
        b.step(Op::Inject { slice: 0, adds: false }, &[x], &[x]);
        cases.push(case(format!("inject {width}"), b, x, &[]));

        let mut b = Builder::new(width);
        b.pictures(3);
        let (x, y) = (b.embed(DType::F32, width), b.embed(DType::F16, width));
        b.step(Op::Inject { slice: 0, adds: false }, &[x], &[x]);
        // to the rows of the token that stands in
        b.step(Op::Inject { slice: 2, adds: true }, &[y], &[y]);
        b.step(Op::Glu(Gating::Product(Activation::GeluQuick)), &[y, x], &[x]);
        b.step(Op::Inject { slice: 1, adds: true }, &[x], &[x]);
        cases.push(case(format!("inject {width} of three slices"), b, x, &[]));
    }
    cases
}

/// Rotations of all pairs and of fewer.
fn ropes() -> Vec<Case> {
    let mut cases = Vec::new();
    for (head_dim, heads) in [(8, 3), (24, 5), (72, 2), (80, 1), (128, 2)] {
        for style in STYLES {
            for (axes, pairs) in [
                (Axes::Blocked, head_dim / 2),
                (Axes::Interleaved, head_dim / 4),
                (Axes::Grid, head_dim / 2),
            ] {
                let mut b = Builder::new(heads * head_dim);
                let x = b.embed(DType::F32, heads * head_dim);
                let rope = b.rope(style, pairs);
                b.axes(rope, |i| axes.of(i, pairs));
                b.step(Op::Rope { rope, heads }, &[x], &[x]);
                let name = format!("rope {style:?} {heads} x {head_dim}, {pairs} pairs {axes:?}");
                cases.push(case(name, b, x, &[]));
            }
        }
    }
    // an axis that no other step asks for
    let mut b = Builder::new(48);
    let x = b.embed(DType::F32, 48);
    let (one, other) = (b.rope(RopeStyle::HalvesOfHalves, 12), b.rope(RopeStyle::Halves, 8));
    b.axes(other, |i| Axes::Grid.of(i, 8));
    b.step(Op::Rope { rope: one, heads: 2 }, &[x], &[x]);
    b.step(Op::Rope { rope: other, heads: 2 }, &[x], &[x]);
    cases.push(case("ropes with axes and without".to_owned(), b, x, &[]));
    cases
}

/// Attention after norms and a rotation.
#[derive(Clone, Copy, Debug)]
struct Fields {
    kv_heads: usize,
    group: usize,
    head_dim: usize,
    mask: Mask,
    style: RopeStyle,
    axes: Axes,
    normed: bool,
    sinks: bool,
    softcap: Option<f32>,
}

impl Fields {
    const fn new([kv_heads, group, head_dim]: [usize; 3], mask: Mask, axes: Axes) -> Self {
        let (style, normed, sinks, softcap) = (RopeStyle::Halves, false, false, None);
        Self { kv_heads, group, head_dim, mask, style, axes, normed, sinks, softcap }
    }
}

/// Attention of texts with pictures.
fn attentions() -> Vec<Case> {
    let causal = Mask::Causal { window: None };
    let whole = |window| Mask::CausalOrGroup { window };
    let of = Fields::new;
    let all = [
        Fields { normed: true, ..of([2, 3, 24], causal, Axes::Interleaved) },
        Fields { style: RopeStyle::Interleaved, ..of([1, 4, 80], causal, Axes::Blocked) },
        of([2, 1, 128], Mask::Causal { window: Some(20) }, Axes::Blocked),
        Fields { style: RopeStyle::HalvesOfHalves, ..of([1, 2, 64], causal, Axes::Interleaved) },
        Fields { normed: true, ..of([2, 2, 64], whole(None), Axes::One) },
        of([1, 7, 24], whole(Some(5)), Axes::One),
        of([1, 3, 80], whole(Some(20)), Axes::Interleaved),
        Fields { sinks: true, ..of([2, 4, 16], whole(Some(70)), Axes::One) },
        Fields { softcap: Some(2.0), normed: true, ..of([1, 2, 256], whole(None), Axes::Blocked) },
        of([1, 16, 6], whole(Some(33)), Axes::One),
    ];
    let mut cases: Vec<Case> =
        all.into_iter().map(|fields| attention(fields, KvType::F32)).collect();
    for (kv, tolerance) in [(KvType::F16, 2e-3), (KvType::Q8_0, 1e-2)] {
        for mask in [causal, whole(None), whole(Some(20))] {
            let fields = Fields { normed: true, ..of([2, 3, 64], mask, Axes::Interleaved) };
            cases.push(Case { tolerance, ..attention(fields, kv) });
        }
    }
    cases
}

fn attention(fields: Fields, kv: KvType) -> Case {
    let mut b = Builder::new(HIDDEN);
    b.pictures(1);
    let x = b.embed(DType::F32, HIDDEN);
    b.step(Op::Inject { slice: 0, adds: false }, &[x], &[x]);
    let y = layer(&mut b, x, fields);
    Case { kv, ..case(format!("attention to pictures {fields:?} in {kv}"), b, y, FUSED) }
}

/// Attention of the windows of pictures, and of whole pictures before.
fn windows() -> Vec<Case> {
    let shapes: [([usize; 3], RopeStyle, Axes); 5] = [
        ([2, 1, 72], RopeStyle::Halves, Axes::Grid),
        ([2, 1, 80], RopeStyle::Halves, Axes::Grid),
        ([3, 1, 88], RopeStyle::Interleaved, Axes::Grid),
        ([1, 2, 64], RopeStyle::HalvesOfHalves, Axes::Grid),
        ([2, 2, 6], RopeStyle::Halves, Axes::One),
    ];
    let of = |(shape, style, axes), kv: KvType| {
        let mut b = Builder::new(HIDDEN);
        b.whole_sequences(OutputKind::Logits);
        let x = b.embed(DType::F32, HIDDEN);
        let all = Fields { style, ..Fields::new(shape, Mask::Symmetric { window: None }, axes) };
        let x = layer(&mut b, x, all);
        let y = layer(&mut b, x, Fields { mask: Mask::Group, ..all });
        let name = format!("windows {shape:?} {style:?} {axes:?} in {kv}");
        Case { kv, ..case(name, b, y, FUSED) }
    };
    let mut cases: Vec<Case> = shapes.into_iter().map(|shape| of(shape, KvType::F32)).collect();
    cases.extend(
        shapes
            .into_iter()
            .take(4)
            .map(|shape| Case { tolerance: 20.0 * EXACT, ..of(shape, KvType::F16) }),
    );
    cases
}

/// Products, norms, a rotation, the store and attention.
fn layer(b: &mut Builder, x: BufferId, fields: Fields) -> BufferId {
    let Fields { kv_heads, group, head_dim, mask, style, axes, normed, sinks, softcap } = fields;
    let heads = kv_heads * group;
    let q = b.multiplied(x, DType::F32, heads * head_dim, true);
    let k = b.multiplied(x, DType::F32, kv_heads * head_dim, false);
    let v = b.multiplied(x, DType::F32, kv_heads * head_dim, false);
    for (x, heads) in [(q, heads), (k, kv_heads)] {
        if normed {
            let norm = b.norm(head_dim);
            b.step(Op::HeadNorm { norm, heads }, &[x], &[x]);
        }
    }
    // an even number of pairs
    let pairs = head_dim / 4 * 2;
    let rope = b.rope(style, pairs);
    if !matches!(axes, Axes::One) {
        b.axes(rope, |i| axes.of(i, pairs));
    }
    b.step(Op::Rope { rope, heads }, &[q], &[q]);
    b.step(Op::Rope { rope, heads: kv_heads }, &[k], &[k]);
    let values = Values::Own { dim: head_dim };
    let cache = b.cache(Cache { heads: kv_heads, key_dim: head_dim, values, group: 0 }, mask);
    let sinks = sinks.then(|| b.vector(heads, 0.5, 1.0));
    b.step(Op::Store { cache }, &[k, v], &[]);
    let a = b.buffer(heads * head_dim, q);
    let scale = (head_dim as f32).powf(-0.5);
    let attention = Attention { cache, heads, scale, mask, softcap, sinks, alibi: None };
    b.step(Op::Attend(attention), &[q], &[a]);
    b.multiplied(a, DType::F32, HIDDEN, false)
}
