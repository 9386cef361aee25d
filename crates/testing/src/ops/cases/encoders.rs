//! Plans whose rows see later ones, and summaries of sequences.

use pelton_graph::{
    Attention, BufferId, Cache, KvType, Mask, Norm, NormKind, Op, OutputKind, Pooling, Values,
};
use pelton_quant::DType;

use crate::ops::builder::Builder;
use crate::ops::case::{Case, EXACT, case};

const OUTPUTS: usize = 33;

/// The kind of heads, the window, and whether there are sinks and ALiBi.
type Symmetric = ([usize; 4], Option<usize>, bool, Option<f32>);

pub(super) fn cases() -> Vec<Case> {
    let symmetric: [Symmetric; 7] = [
        ([2, 3, 24, 24], None, false, None),
        ([1, 12, 64, 64], None, false, None),
        ([2, 1, 80, 80], Some(16), false, None),
        ([1, 4, 33, 33], Some(7), true, None),
        ([3, 2, 40, 24], Some(2), false, Some(8.0)),
        ([2, 2, 6, 50], None, true, Some(8.0)),
        ([2, 1, 128, 128], Some(1000), false, None),
    ];
    let mut cases: Vec<Case> =
        symmetric.into_iter().map(|fields| attention(fields, KvType::F32)).collect();
    cases.push(Case { tolerance: 2e-3, ..attention(symmetric[1], KvType::F16) });
    for pooling in [Pooling::Mean, Pooling::First, Pooling::Last] {
        for width in [6, 33, 257] {
            let mut b = Builder::new(OUTPUTS);
            b.whole_sequences(OutputKind::Embedding);
            let x = b.embed(DType::F32, width);
            let y = b.selected_buffer(width);
            b.step(Op::Pool(pooling), &[x], &[y]);
            b.step(Op::Norm(L2), &[y], &[y]);
            cases.push(output(format!("pool {pooling:?} {width}"), b, y));
        }
    }
    // a score of few labels, narrower than the vocabulary
    let mut b = Builder::new(OUTPUTS);
    b.whole_sequences(OutputKind::Scores);
    let x = b.embed(DType::F32, 50);
    let y = b.selected_buffer(50);
    b.step(Op::Pool(Pooling::First), &[x], &[y]);
    let scores = b.multiplied(y, DType::F32, 2, true);
    cases.push(output("scores of two labels".to_owned(), b, scores));
    cases
}

const L2: Norm = Norm { kind: NormKind::L2, weight: None, bias: None, eps: 1e-12 };

fn output(name: String, b: Builder, x: BufferId) -> Case {
    Case { name, builder: b.finish_with(x), fused: &[], kv: KvType::F32, tolerance: EXACT }
}

fn attention(fields: Symmetric, kv: KvType) -> Case {
    let ([kv_heads, group, key_dim, dim], window, sinks, alibi) = fields;
    let heads = kv_heads * group;
    let mut b = Builder::new(OUTPUTS);
    b.whole_sequences(OutputKind::Logits);
    let q = b.embed(DType::F32, heads * key_dim);
    let k = b.embed(DType::F32, kv_heads * key_dim);
    let v = b.embed(DType::F32, kv_heads * dim);
    let mask = Mask::Symmetric { window };
    let values = Values::Own { dim };
    let cache = b.cache(Cache { heads: kv_heads, key_dim, values, group: 0 }, mask);
    let sinks = sinks.then(|| b.vector(heads, 0.0, 1.0));
    b.step(Op::Store { cache }, &[k, v], &[]);
    let a = b.buffer(heads * dim, q);
    let scale = (key_dim as f32).powf(-0.5);
    let attention = Attention { cache, heads, scale, mask, softcap: None, sinks, alibi };
    b.step(Op::Attend(attention), &[q], &[a]);
    let y = b.multiplied(a, DType::F32, OUTPUTS, false);
    Case { kv, ..case(format!("symmetric attention {fields:?} in {kv}"), b, y, &[]) }
}
