//! Convolutions and linear attention over the rows of sequences.
//!
//! Rows run in their order; the threads split channels and heads. So the result of a row is the
//! same in a prompt and alone.

use std::ops::Range;

use pelton_graph::{Activation, GatedDelta, ShortConv};

use super::activations::{Each, Function};
use crate::batch::Batch;
use crate::isa::Isa;
use crate::pool::{Pool, SharedMut};
use crate::simd::{Body, LANES, Simd, dispatch};

/// Elements from which the threads of the pool run in parallel.
const MANY: usize = 1 << 13;
/// Columns of a state that are updated at a time: their sums fit into registers.
const COLUMNS: usize = 2 * LANES;

/// [`Op::ShortConv`](pelton_graph::Op::ShortConv) of all rows `x` `[rows, channels]`, in place.
pub(super) struct Convolution<'a> {
    pub(super) conv: &'a ShortConv,
    /// `[channels, taps]`.
    pub(super) weight: &'a [f32],
    /// `[channels]`.
    pub(super) bias: Option<&'a [f32]>,
    /// `[slots, taps - 1, channels]`.
    pub(super) states: SharedMut<'a, f32>,
    pub(super) channels: usize,
}

impl Convolution<'_> {
    pub(super) fn run(&self, pool: &Pool, isa: Isa, batch: &Batch<'_>, x: &mut [f32]) {
        let len = x.len();
        let x = SharedMut::new(x);
        if len < MANY {
            return self.columns(isa, batch, x, 0..self.channels);
        }
        pool.run(|worker| self.columns(isa, batch, x, worker.split(self.channels, LANES)));
    }

    /// The convolution of some channels.
    fn columns(&self, isa: Isa, batch: &Batch<'_>, x: SharedMut<'_, f32>, channels: Range<usize>) {
        let &ShortConv { taps, activation, .. } = self.conv;
        let before = taps - 1;
        let weight = &self.weight[channels.start * taps..channels.end * taps];
        let bias = self.bias.map(|bias| &bias[channels.clone()]);
        for (i, row) in batch.rows.iter().enumerate() {
            let first = i * self.channels;
            let place = first + channels.start..first + channels.end;
            // SAFETY: one thread computes a channel, of rows and of states.
            let x = unsafe { x.slice_mut(place) };
            let of_state = |t: usize| {
                let first = (row.slot as usize * before + t) * self.channels;
                let place = first + channels.start..first + channels.end;
                // SAFETY: as above; one borrow of a row of the state at a time.
                unsafe { self.states.slice_mut(place) }
            };
            if row.position == 0 {
                (0..before).for_each(|t| of_state(t).fill(0.0));
            }
            dispatch(isa, Taps { taps, weight, bias, state: &of_state, x });
            if activation != Activation::Identity {
                dispatch(isa, Each { function: Function::Activate(activation), x });
            }
        }
    }
}

/// The sums of some channels in one row, in place, and the new state.
struct Taps<'a, 'b> {
    taps: usize,
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
    /// A row of the state.
    state: &'a dyn Fn(usize) -> &'b mut [f32],
    x: &'a mut [f32],
}

impl Body for Taps<'_, '_> {
    /// The compiler turns the loops into vectors of the instruction set.
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { taps, weight, bias, state, x } = self;
        for (channels, x) in x.chunks_mut(LANES).enumerate() {
            let first = channels * LANES;
            let weight = |i: usize, t: usize| weight[(first + i) * taps + t];
            let (mut sums, mut inputs) = ([0.0; LANES], [0.0; LANES]);
            let len = x.len();
            inputs[..len].copy_from_slice(x);
            if let Some(bias) = bias {
                sums[..len].copy_from_slice(&bias[first..first + len]);
            }
            for t in 0..taps - 1 {
                let before = &state(t)[first..first + len];
                for (i, (sum, x)) in sums.iter_mut().zip(before).enumerate() {
                    *sum += weight(i, t) * x;
                }
            }
            for (i, (x, sum)) in x.iter_mut().zip(sums).enumerate() {
                *x = sum + weight(i, taps - 1) * inputs[i];
            }
            for t in 1..taps - 1 {
                let mut newer = [0.0; LANES];
                newer[..len].copy_from_slice(&state(t)[first..first + len]);
                state(t - 1)[first..first + len].copy_from_slice(&newer[..len]);
            }
            state(taps - 2)[first..first + len].copy_from_slice(&inputs[..len]);
        }
    }
}

/// [`Op::GatedDelta`](pelton_graph::Op::GatedDelta) of all rows.
pub(super) struct LinearAttention<'a> {
    pub(super) delta: &'a GatedDelta,
    pub(super) rate: &'a [f32],
    pub(super) shift: &'a [f32],
    pub(super) q: &'a [f32],
    pub(super) k: &'a [f32],
    pub(super) v: &'a [f32],
    pub(super) alpha: &'a [f32],
    pub(super) beta: &'a [f32],
    /// `[slots, value_heads, key_dim, value_dim]`.
    pub(super) states: SharedMut<'a, f32>,
}

impl LinearAttention<'_> {
    pub(super) fn run(&self, pool: &Pool, isa: Isa, batch: &Batch<'_>, o: &mut [f32]) {
        let o = SharedMut::new(o);
        let &GatedDelta { value_heads, value_dim, .. } = self.delta;
        // blocks of columns of a head
        let blocks = value_dim.div_ceil(COLUMNS);
        pool.run(|worker| {
            for task in worker.split(value_heads * blocks, 1) {
                let (head, block) = (task / blocks, task % blocks);
                let columns = block * COLUMNS..value_dim.min((block + 1) * COLUMNS);
                dispatch(isa, Columns { all: self, batch, head, columns, o });
            }
        });
    }
}

/// Some columns of the state of one head, over all rows.
struct Columns<'a> {
    all: &'a LinearAttention<'a>,
    batch: &'a Batch<'a>,
    head: usize,
    columns: Range<usize>,
    o: SharedMut<'a, f32>,
}

impl Body for Columns<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { all, batch, head, columns, o } = self;
        let &GatedDelta { key_heads, value_heads, key_dim, value_dim, grouped, .. } = all.delta;
        let key_head = match grouped {
            true => head / (value_heads / key_heads),
            false => head % key_heads,
        };
        let scale = 1.0 / (key_dim as f32).sqrt();
        for (i, row) in batch.rows.iter().enumerate() {
            let place = (i * key_heads + key_head) * key_dim;
            let (q, k) = (&all.q[place..place + key_dim], &all.k[place..place + key_dim]);
            let place = (i * value_heads + head) * value_dim;
            let place = place + columns.start..place + columns.end;
            let v = &all.v[place.clone()];
            // SAFETY: one thread computes a column of a head.
            let o = unsafe { o.slice_mut(place) };
            let of_row = i * value_heads + head;
            let decay = all.rate[head] * softplus(all.alpha[of_row] + all.shift[head]);
            let decay = if row.position == 0 { 0.0 } else { decay.exp() };
            let beta = 1.0 / (1.0 + (-all.beta[of_row]).exp());
            let first = (row.slot as usize * value_heads + head) * key_dim;
            let state = |i: usize| {
                let first = (first + i) * value_dim;
                // SAFETY: as above; one borrow of a row of the state at a time.
                unsafe { all.states.slice_mut(first + columns.start..first + columns.end) }
            };
            if row.position == 0 {
                (0..key_dim).for_each(|i| state(i).fill(0.0));
            }
            let row = DeltaRow { q, k, v, decay, beta, scale };
            if columns.len() == COLUMNS {
                row.update(|i| state(i).first_chunk_mut(), o);
            } else {
                row.update_few(state, o);
            }
        }
    }
}

/// The inputs of a row for some columns.
struct DeltaRow<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    /// The factor of the state.
    decay: f32,
    beta: f32,
    /// The factor of queries.
    scale: f32,
}

impl DeltaRow<'_> {
    /// Updates rows of the state, and writes the output.
    ///
    /// The compiler turns the loops over columns into vectors of the instruction set.
    #[inline(always)]
    fn update<'a>(&self, state: impl Fn(usize) -> Option<&'a mut [f32; COLUMNS]>, o: &mut [f32]) {
        let (mut read, mut out) = ([0.0; COLUMNS], [0.0; COLUMNS]);
        for (i, &k) in self.k.iter().enumerate() {
            let Some(state) = state(i) else { return };
            for (s, read) in state.iter_mut().zip(&mut read) {
                *s *= self.decay;
                *read += k * *s;
            }
        }
        for (read, v) in read.iter_mut().zip(self.v) {
            *read = self.beta * (v - *read);
        }
        for (i, (&k, &q)) in self.k.iter().zip(self.q).enumerate() {
            let Some(state) = state(i) else { return };
            for ((s, error), out) in state.iter_mut().zip(&read).zip(&mut out) {
                *s += k * error;
                *out += q * *s;
            }
        }
        for (o, out) in o.iter_mut().zip(out) {
            *o = out * self.scale;
        }
    }

    /// [`update`](Self::update) of fewer columns.
    #[inline(always)]
    fn update_few<'a>(&self, state: impl Fn(usize) -> &'a mut [f32], o: &mut [f32]) {
        let (mut read, mut out) = ([0.0; COLUMNS], [0.0; COLUMNS]);
        for (i, &k) in self.k.iter().enumerate() {
            for (s, read) in state(i).iter_mut().zip(&mut read) {
                *s *= self.decay;
                *read += k * *s;
            }
        }
        for (read, v) in read.iter_mut().zip(self.v) {
            *read = self.beta * (v - *read);
        }
        for (i, (&k, &q)) in self.k.iter().zip(self.q).enumerate() {
            for ((s, error), out) in state(i).iter_mut().zip(&read).zip(&mut out) {
                *s += k * error;
                *out += q * *s;
            }
        }
        for (o, out) in o.iter_mut().zip(out) {
            *o = out * self.scale;
        }
    }
}

/// `ln(1 + eˣ)`.
pub(super) fn softplus(x: f32) -> f32 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}
