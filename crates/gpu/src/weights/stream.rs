//! Weights that stay in the host's memory and are streamed to the GPU: the places that they share
//! there, and their way.

use std::sync::Arc;

use pelton_graph::{Error, Plan, Weight, WeightKind};
use pelton_quant::DType;
use pelton_weights::Checkpoint;

use crate::{
    device::Device,
    weights::{
        matrix::Matrix,
        ring::{Chunk, Origin, Ring},
        shards::matrix_bytes,
        source::decoded,
    },
};

/// Sets of places. Parts of the host take turns, so that the copies of one do not wait for the
/// products of the one before it.
const SETS: usize = 2;

/// A matrix that lies in a place.
#[derive(Clone, Copy, PartialEq)]
struct Shape {
    set: usize,
    dtype: DType,
    kind: WeightKind,
    rows: usize,
    row_len: usize,
    /// Matrices of this shape that the same part has before it.
    before: usize,
}

/// The places of the weights of a plan that are streamed.
pub(super) struct Places {
    /// The place of each weight `[weights]`; `None` of those that are resident.
    pub(super) of: Vec<Option<usize>>,
    /// The first weight of each place.
    first: Vec<usize>,
}

impl Places {
    pub(super) fn new(plan: &Plan) -> Self {
        let (mut shapes, mut first): (Vec<Shape>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut taken: Vec<(usize, usize)> = Vec::new();
        let parts = plan.host_parts();
        let decoded = decoded(plan);
        let mut place = |i: usize| {
            let part = parts[i].filter(|_| !decoded[i])?;
            let &Weight { dtype, kind, rows, row_len, .. } = &plan.weights[i];
            let mut shape = Shape { set: part % SETS, dtype, kind, rows, row_len, before: 0 };
            let at = loop {
                let at = shapes.iter().position(|known| *known == shape).unwrap_or_else(|| {
                    shapes.push(shape);
                    first.push(i);
                    shapes.len() - 1
                });
                if !taken.contains(&(part, at)) {
                    break at;
                }
                shape.before += 1;
            };
            taken.push((part, at));
            Some(at)
        };
        let of = (0..plan.weights.len()).map(&mut place).collect();
        Self { of, first }
    }

    /// Bytes of all places.
    pub(super) fn bytes(&self, device: &Device, plan: &Plan) -> u64 {
        let bytes = |&i: &usize| matrix_bytes(device, &plan.weights[i]);
        self.first.iter().map(bytes).fold(0, u64::saturating_add)
    }
}

/// The way of the weights of each part of the host.
pub(crate) struct Stream {
    ring: Ring,
    chunks: Vec<Chunk>,
    /// The end of the chunks of each part.
    ends: Vec<usize>,
    /// Chunks that stages were filled with in this pass.
    filled: usize,
}

impl Stream {
    /// The stream of a plan, by the `matrix` in whose place each weight comes; `None` of
    /// those that are resident.
    pub(super) fn new<'m>(
        device: &Device,
        plan: &Plan,
        checkpoint: &Arc<Checkpoint>,
        matrix: &dyn Fn(usize) -> Option<&'m Matrix>,
        ring: Ring,
    ) -> Result<Self, Error> {
        let parts = plan.host_parts();
        let (mut chunks, mut ends) = (Vec::new(), Vec::new());
        for part in 0..plan.host.len() {
            for (i, weight) in plan.weights.iter().enumerate() {
                let Some(matrix) = matrix(i).filter(|_| parts[i] == Some(part)) else { continue };
                let origin = Origin::new(checkpoint, weight);
                for shard in &matrix.shards {
                    chunks.extend(Chunk::of_shard(device, &origin, &matrix.layout, shard)?);
                }
            }
            ends.push(chunks.len());
        }
        Ok(Self { ring, chunks, ends, filled: 0 })
    }

    /// Begins a pass, and the packing of the weights of its first part.
    pub(crate) fn begin(&mut self, device: &Device) -> Result<(), Error> {
        // a pass that failed may have left some
        self.ring.copy_all(device)?;
        self.filled = 0;
        self.fill_free(device)
    }

    /// Fills the stages that are free.
    fn fill_free(&mut self, device: &Device) -> Result<(), Error> {
        while self.filled < self.chunks.len() && self.ring.is_ready(device)? {
            self.ring.fill(device, &self.chunks[self.filled])?;
            self.filled += 1;
        }
        Ok(())
    }

    /// Submits the copies of the weights of a part, the parts in their order. Meanwhile weights of
    /// later parts are packed.
    pub(crate) fn part(&mut self, device: &Device, part: usize) -> Result<(), Error> {
        let Some(&end) = self.ends.get(part) else { return Ok(()) };
        while self.filled - self.ring.filling() < end {
            self.fill_free(device)?;
            match self.ring.filling() {
                // all stages are copied from
                0 => {
                    self.ring.fill(device, &self.chunks[self.filled])?;
                    self.filled += 1;
                }
                _ => self.ring.copy_oldest(device)?,
            }
        }
        self.fill_free(device)
    }
}
