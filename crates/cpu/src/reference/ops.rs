//! The definition of each elementary op for one row.
//!
//! Sums run in f64, so that these functions are a reference for any order of summation.

use pelton_graph::{Activation, Attention, Rope};

use crate::memory::KvCache;

/// `y[i] = weight[i] · x[i] / sqrt(mean(x²) + eps)` (Zhang and Sennrich, arXiv 1910.07467).
pub(super) fn norm(x: &[f32], weight: &[f32], eps: f32, y: &mut [f32]) {
    let squares: f64 = x.iter().map(|&v| f64::from(v).powi(2)).sum();
    let scale = 1.0 / (squares / x.len() as f64 + f64::from(eps)).sqrt();
    for ((y, &x), &weight) in y.iter_mut().zip(x).zip(weight) {
        *y = (f64::from(x) * scale) as f32 * weight;
    }
}

/// `Σ_k weight[k] · x[k]`.
pub(super) fn dot(weight: &[f32], x: &[f32]) -> f32 {
    weight.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum::<f64>() as f32
}

/// Rotates pair `i` of a head by `position · frequencies[i]`, times the factor.
pub(super) fn rope(head: &mut [f32], position: u32, rope: &Rope) {
    for (i, &frequency) in rope.frequencies.iter().enumerate() {
        let (sin, cos) = (f64::from(position) * f64::from(frequency)).sin_cos();
        let (a, b) = rope.pair(i);
        let factor = f64::from(rope.factor);
        let (x, y) = (f64::from(head[a]) * factor, f64::from(head[b]) * factor);
        head[a] = (x * cos - y * sin) as f32;
        head[b] = (x * sin + y * cos) as f32;
    }
}

/// `activation(gate[i]) · up[i]` (Shazeer, arXiv 2002.05202).
pub(super) fn glu(activation: Activation, gate: &[f32], up: &[f32], g: &mut [f32]) {
    for ((g, &gate), &up) in g.iter_mut().zip(gate).zip(up) {
        *g = match activation {
            Activation::Silu => gate / (1.0 + (-gate).exp()) * up,
        };
    }
}

/// Attention of the query heads `q` `[heads, head_dim]` at `position` over the keys and values of
/// the positions that it sees: the softmax of the scaled products, times the values.
pub(super) fn attend(
    attention: &Attention,
    cache: &KvCache,
    table: &[u32],
    position: usize,
    q: &[f32],
    a: &mut [f32],
) {
    let head_dim = cache.shape().head_dim;
    let Attention { cache: _, heads, scale, window } = *attention;
    let group = heads / cache.shape().heads;
    let first = window.map_or(0, |window| (position + 1).saturating_sub(window));
    for (h, (q, a)) in q.chunks(head_dim).zip(a.chunks_mut(head_dim)).enumerate() {
        let kv_head = h / group;
        let scores: Vec<f64> = (first..=position)
            .map(|p| {
                let key = (0..head_dim).map(|d| cache.key(table, p, kv_head, d));
                let product: f64 = key.zip(q).map(|(k, &q)| f64::from(k) * f64::from(q)).sum();
                product * f64::from(scale)
            })
            .collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
        let total: f64 = weights.iter().sum();
        for (d, a) in a.iter_mut().enumerate() {
            let sum: f64 = (first..=position)
                .zip(&weights)
                .map(|(p, weight)| weight * f64::from(cache.value(table, p, kv_head, d)))
                .sum();
            *a = (sum / total) as f32;
        }
    }
}
