//! Attention of one row.

use std::ops::Range;

use pelton_graph::{Attention, alibi_slope};

use crate::memory::KvCache;

/// Attention of the query heads `q` `[heads, key_dim]` at `position` over the keys and values of
/// the positions `seen`: the softmax of the scores, times the values `[heads, value_dim]`.
pub(super) fn attend(
    attention: &Attention,
    sinks: Option<&[f32]>,
    (cache, table): (&KvCache, &[u32]),
    position: usize,
    seen: Range<usize>,
    q: &[f32],
    a: &mut [f32],
) {
    let &Attention { cache: _, heads, scale, mask: _, softcap, sinks: _, alibi } = attention;
    let (key_dim, value_dim) = (cache.shape().key_dim, cache.shape().value_dim());
    let group = heads / cache.shape().heads;
    for (h, (q, a)) in q.chunks(key_dim).zip(a.chunks_mut(value_dim)).enumerate() {
        let kv_head = h / group;
        let slope = alibi.map_or(0.0, |bias| alibi_slope(bias, h, heads));
        let scores: Vec<f64> = seen
            .clone()
            .map(|p| {
                let key = (0..key_dim).map(|d| cache.key(table, p, kv_head, d));
                let product: f64 = key.zip(q).map(|(k, &q)| f64::from(k) * f64::from(q)).sum();
                let mut score = product * f64::from(scale);
                if let Some(cap) = softcap.map(f64::from) {
                    score = cap * (score / cap).tanh();
                }
                score - f64::from(slope) * p.abs_diff(position) as f64
            })
            .collect();
        let sink = sinks.map(|sinks| f64::from(sinks[h]));
        let max = scores.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
        let total: f64 = weights.iter().sum::<f64>() + sink.map_or(0.0, |sink| (sink - max).exp());
        for (d, a) in a.iter_mut().enumerate() {
            let values = seen.clone().map(|p| f64::from(cache.value(table, p, kv_head, d)));
            let sum: f64 = values.zip(&weights).map(|(value, weight)| weight * value).sum();
            *a = (sum / total) as f32;
        }
    }
}
