//! Layers with a recurrent state: one row of one slot.

use pelton_graph::{Activation, GatedDelta, SelectiveScan, ShortConv};

use super::ops::{activate, dot};

/// A causal convolution of `x` `[channels]`, in place. The state `[taps - 1, channels]` has the
/// inputs of the rows before, the oldest first.
pub(super) fn short_conv(
    conv: &ShortConv,
    weight: &[f32],
    bias: Option<&[f32]>,
    state: &mut [f32],
    x: &mut [f32],
) {
    let (taps, channels) = (conv.taps, x.len());
    for (c, (x, weight)) in x.iter_mut().zip(weight.chunks(taps)).enumerate() {
        let input = *x;
        let before = (0..taps - 1).map(|t| state[t * channels + c]);
        let sum: f64 = before
            .chain([input])
            .zip(weight)
            .map(|(x, &weight)| f64::from(x) * f64::from(weight))
            .sum();
        let sum = sum + bias.map_or(0.0, |bias| f64::from(bias[c]));
        *x = activate(conv.activation, sum) as f32;
        for t in 1..taps - 1 {
            state[(t - 1) * channels + c] = state[t * channels + c];
        }
        state[(taps - 2) * channels + c] = input;
    }
}

/// The inputs of linear attention in one row.
pub(super) struct DeltaRow<'a> {
    pub(super) q: &'a [f32],
    pub(super) k: &'a [f32],
    pub(super) v: &'a [f32],
    pub(super) alpha: &'a [f32],
    pub(super) beta: &'a [f32],
}

/// The linear attention of one row, with the state `[value_heads, key_dim, value_dim]`.
pub(super) fn gated_delta(
    delta: &GatedDelta,
    rate: &[f32],
    shift: &[f32],
    row: &DeltaRow<'_>,
    state: &mut [f32],
    o: &mut [f32],
) {
    let &GatedDelta { key_heads, value_heads, key_dim, value_dim, grouped, .. } = delta;
    let heads = state.chunks_mut(key_dim * value_dim).zip(o.chunks_mut(value_dim));
    for (h, (state, o)) in heads.enumerate() {
        let key_head = match grouped {
            true => h / (value_heads / key_heads),
            false => h % key_heads,
        };
        let q = &row.q[key_head * key_dim..(key_head + 1) * key_dim];
        let k = &row.k[key_head * key_dim..(key_head + 1) * key_dim];
        let v = &row.v[h * value_dim..(h + 1) * value_dim];
        let decay = f64::from(rate[h]) * softplus(f64::from(row.alpha[h]) + f64::from(shift[h]));
        let decay = decay.exp();
        let beta = activate(Activation::Sigmoid, f64::from(row.beta[h]));
        for s in state.iter_mut() {
            *s = (f64::from(*s) * decay) as f32;
        }
        for (j, (o, &v)) in o.iter_mut().zip(v).enumerate() {
            let column = |state: &[f32]| -> Vec<f32> {
                state.iter().skip(j).step_by(value_dim).copied().collect()
            };
            let error = beta * (f64::from(v) - f64::from(dot(&column(state), k)));
            for (s, &k) in state.iter_mut().skip(j).step_by(value_dim).zip(k) {
                *s = (f64::from(*s) + f64::from(k) * error) as f32;
            }
            *o = (f64::from(dot(&column(state), q)) / (key_dim as f64).sqrt()) as f32;
        }
    }
}

/// The factors of a selective scan `[heads]` each.
pub(super) struct ScanFactors<'a> {
    pub(super) rate: &'a [f32],
    pub(super) skip: &'a [f32],
    pub(super) shift: &'a [f32],
}

/// The selective scan of one row, with the state `[heads, state_dim, head_dim]`.
pub(super) fn selective_scan(
    scan: &SelectiveScan,
    factors: &ScanFactors<'_>,
    [xbc, dt]: [&[f32]; 2],
    state: &mut [f32],
    y: &mut [f32],
) {
    let &SelectiveScan { heads, groups, head_dim, state_dim, low, high, .. } = scan;
    let (x, bc) = xbc.split_at(heads * head_dim);
    let (b, c) = bc.split_at(groups * state_dim);
    let all = state.chunks_mut(state_dim * head_dim).zip(y.chunks_mut(head_dim));
    for (h, (state, y)) in all.enumerate() {
        let x = &x[h * head_dim..(h + 1) * head_dim];
        let group = h / (heads / groups);
        let [b, c] = [b, c].map(|all| &all[group * state_dim..(group + 1) * state_dim]);
        let step = softplus(f64::from(dt[h]) + f64::from(factors.shift[h]));
        let step = step.clamp(f64::from(low), f64::from(high));
        let decay = (f64::from(factors.rate[h]) * step).exp();
        for (state, &b) in state.chunks_mut(head_dim).zip(b) {
            for (s, &x) in state.iter_mut().zip(x) {
                *s = (f64::from(*s) * decay + f64::from(b) * step * f64::from(x)) as f32;
            }
        }
        for (j, (y, &x)) in y.iter_mut().zip(x).enumerate() {
            let column = state.iter().skip(j).step_by(head_dim);
            let sum: f64 = column.zip(c).map(|(&s, &c)| f64::from(s) * f64::from(c)).sum();
            *y = (sum + f64::from(factors.skip[h]) * f64::from(x)) as f32;
        }
    }
}

/// `ln(1 + eˣ)`.
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}
