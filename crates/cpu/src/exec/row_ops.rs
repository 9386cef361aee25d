//! Gated activations of one row.

use pelton_graph::Gating;

use crate::simd::{Body, LANES, Simd};

/// [`Op::Glu`](pelton_graph::Op::Glu) of neighbouring elements, written over `gate`.
pub(super) struct GluRow<'a> {
    pub(super) gating: Gating,
    pub(super) gate: &'a mut [f32],
    pub(super) up: &'a [f32],
}

impl Body for GluRow<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (gates, gate_tail) = self.gate.as_chunks_mut::<LANES>();
        let (ups, up_tail) = self.up.as_chunks::<LANES>();
        for (gate, up) in gates.iter_mut().zip(ups) {
            let value = activate(simd, self.gating, simd.load(gate));
            simd.store(simd.mul(value, simd.load(up)), gate);
        }
        if !gate_tail.is_empty() {
            let mut lanes = [0.0; LANES];
            lanes[..gate_tail.len()].copy_from_slice(gate_tail);
            let value = activate(simd, self.gating, simd.load(&lanes));
            simd.store(value, &mut lanes);
            for ((gate, value), up) in gate_tail.iter_mut().zip(lanes).zip(up_tail) {
                *gate = value * up;
            }
        }
    }
}

#[inline(always)]
fn activate<S: Simd>(simd: S, _: Gating, x: S::V) -> S::V {
    let negative = simd.mul(x, simd.splat(-1.0));
    simd.div(x, simd.add(simd.exp(negative), simd.splat(1.0)))
}
