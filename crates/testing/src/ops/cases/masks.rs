//! Attention with other masks, scores, and lengths of keys and values.

use pelton_graph::{Attention, BufferId, Cache, KvType, Mask, NormKind, Op, RopeStyle, Values};
use pelton_quant::DType;

use crate::ops::builder::Builder;
use crate::ops::case::{Case, case};

/// The output of attention is projected to so few elements that tables of as many tokens are small.
const OUTPUTS: usize = 33;

const CAUSAL: Mask = Mask::Causal { window: None };

/// Attention with fields of its own.
#[derive(Clone, Copy, Debug)]
struct Fields {
    kv_heads: usize,
    group: usize,
    key_dim: usize,
    values: Values,
    mask: Mask,
    softcap: Option<f32>,
    sinks: bool,
    alibi: Option<f32>,
}

impl Fields {
    const fn new(kv_heads: usize, group: usize, dim: usize) -> Self {
        let values = Values::Own { dim };
        let (mask, softcap, sinks, alibi) = (CAUSAL, None, false, None);
        Self { kv_heads, group, key_dim: dim, values, mask, softcap, sinks, alibi }
    }
}

fn all() -> Vec<Fields> {
    let own = |dim| Values::Own { dim };
    let prefix = |dim| Values::KeyPrefix { dim };
    let windowed = Mask::Causal { window: Some(20) };
    vec![
        Fields { mask: Mask::Chunked { chunk: 16 }, ..Fields::new(2, 3, 24) },
        Fields { mask: Mask::Chunked { chunk: 50 }, ..Fields::new(1, 4, 80) },
        Fields { mask: Mask::Chunked { chunk: 64 }, ..Fields::new(2, 1, 33) },
        Fields { mask: Mask::Chunked { chunk: 1 }, ..Fields::new(1, 2, 16) },
        Fields { softcap: Some(0.7), ..Fields::new(2, 3, 24) },
        Fields { softcap: Some(50.0), mask: windowed, ..Fields::new(1, 2, 256) },
        Fields { sinks: true, ..Fields::new(2, 4, 64) },
        Fields { sinks: true, mask: windowed, ..Fields::new(1, 8, 64) },
        Fields { sinks: true, softcap: Some(2.0), ..Fields::new(3, 1, 6) },
        Fields { alibi: Some(8.0), ..Fields::new(2, 3, 24) },
        Fields { alibi: Some(8.0), softcap: Some(1.5), ..Fields::new(1, 12, 50) },
        Fields { alibi: Some(4.0), sinks: true, mask: windowed, ..Fields::new(8, 1, 16) },
        Fields { values: own(24), ..Fields::new(2, 3, 40) },
        Fields { values: own(128), ..Fields::new(1, 16, 192) },
        Fields { values: own(50), mask: windowed, ..Fields::new(2, 2, 6) },
        Fields { values: prefix(64), ..Fields::new(1, 4, 80) },
        Fields { values: prefix(33), ..Fields::new(1, 7, 50) },
        Fields { values: prefix(24), mask: windowed, ..Fields::new(2, 3, 24) },
        Fields { values: prefix(512), ..Fields::new(1, 16, 576) },
        Fields { values: prefix(64), softcap: Some(3.0), sinks: true, ..Fields::new(1, 40, 96) },
    ]
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = all().into_iter().map(|f| attention(f, KvType::F32)).collect();
    let own = Fields { values: Values::Own { dim: 64 }, sinks: true, ..Fields::new(2, 3, 96) };
    let prefix = Fields { values: Values::KeyPrefix { dim: 64 }, ..Fields::new(1, 8, 96) };
    for fields in [own, prefix, Fields { softcap: Some(4.0), alibi: Some(8.0), ..prefix }] {
        for (kv, tolerance) in [(KvType::F16, 2e-3), (KvType::Q8_0, 1e-2)] {
            cases.push(Case { tolerance, ..attention(fields, kv) });
        }
    }
    cases.extend(all().into_iter().take(15).step_by(2).map(rotated));
    cases
}

/// The step of a store, whose values are its input if the cache has values of its own.
fn store(b: &mut Builder, fields: Fields, key: BufferId, cache: usize) {
    match fields.values {
        Values::Own { dim } => {
            let value = b.embed(DType::F32, fields.kv_heads * dim);
            b.step(Op::Store { cache }, &[key, value], &[]);
        }
        Values::KeyPrefix { dim: _ } => b.step(Op::Store { cache }, &[key], &[]),
    }
}

fn attention(fields: Fields, kv: KvType) -> Case {
    let Fields { kv_heads, group, key_dim, .. } = fields;
    let mut b = Builder::new(OUTPUTS);
    let q = b.embed(DType::F32, kv_heads * group * key_dim);
    let k = b.embed(DType::F32, kv_heads * key_dim);
    let attention = of(&mut b, fields);
    store(&mut b, fields, k, attention.cache);
    let a = b.buffer(attention.heads * fields.value_dim(), q);
    b.step(Op::Attend(attention), &[q], &[a]);
    let y = b.multiplied(a, DType::F32, OUTPUTS, false);
    Case { kv, ..case(format!("attention {fields:?} in {kv}"), b, y, &[]) }
}

/// Attention after head norms of all heads, and a rotation, of which a backend may fuse some.
fn rotated(fields: Fields) -> Case {
    let Fields { kv_heads, group, key_dim, .. } = fields;
    let heads = kv_heads * group;
    let mut b = Builder::new(OUTPUTS);
    let q = b.embed(DType::F32, heads * key_dim);
    let k = b.embed(DType::F32, kv_heads * key_dim);
    let v = b.embed(DType::F32, kv_heads * fields.value_dim());
    let attention = of(&mut b, fields);
    let norm = b.norm_of(NormKind::Layer, heads * key_dim, true, false);
    b.step(Op::HeadNorm { norm, heads }, &[q], &[q]);
    let norm = b.norm_of(NormKind::Rms, key_dim, false, false);
    b.step(Op::HeadNorm { norm, heads: kv_heads }, &[k], &[k]);
    let rope = b.rope(RopeStyle::Halves, key_dim / 3);
    b.step(Op::Rope { rope, heads }, &[q], &[q]);
    b.step(Op::Rope { rope, heads: kv_heads }, &[k], &[k]);
    b.step(Op::Store { cache: attention.cache }, &[k, v], &[]);
    let a = b.buffer(heads * fields.value_dim(), q);
    b.step(Op::Attend(attention), &[q], &[a]);
    let y = b.multiplied(a, DType::F32, OUTPUTS, false);
    case(format!("rotated attention {fields:?}"), b, y, &["rope_store", "rope_attend"])
}

impl Fields {
    fn value_dim(self) -> usize {
        match self.values {
            Values::Own { dim } | Values::KeyPrefix { dim } => dim,
        }
    }
}

fn of(b: &mut Builder, fields: Fields) -> Attention {
    let Fields { kv_heads, group, key_dim, values, mask, softcap, sinks, alibi } = fields;
    let cache = b.cache(Cache { heads: kv_heads, key_dim, values, group: 0 }, mask);
    let heads = kv_heads * group;
    let sinks = sinks.then(|| b.vector(heads, 0.5, 1.0));
    let scale = 1.5 * (key_dim as f32).powf(-0.5);
    Attention { cache, heads, scale, mask, softcap, sinks, alibi }
}
