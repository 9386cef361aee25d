//! The matrices of a plan that are kept in input-major order, and the memory in which a step finds
//! them row by row.

use std::num::NonZero;

use pelton_graph::{EffortMode, Error, Plan, Weight, WeightId};

use crate::{
    device::Device,
    weights::{
        layout::Layout,
        lines::Lines,
        matrix::{Matrix, Shard},
    },
};

/// A matrix in input-major order on the GPU.
#[derive(Debug)]
pub(crate) struct InputMajor {
    pub(crate) lines: Lines,
    buffer: wgpu::Buffer,
}

impl InputMajor {
    /// The buffer of a matrix, without its content.
    pub(super) fn new(device: &Device, name: &str, lines: Lines) -> Result<Self, Error> {
        let bytes = lines.sections().end as u64;
        if bytes > device.capabilities.binding_bytes {
            return Err(Error::Effort(format!(
                "tensor '{name}' takes {bytes} bytes, expected at most {} of a matrix for a load \
                 with effort on this GPU",
                device.capabilities.binding_bytes
            )));
        }
        Ok(Self { lines, buffer: device.buffer(name, bytes)? })
    }

    pub(super) fn buffer(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    /// All sections.
    pub(crate) fn binding(&self) -> wgpu::BufferBinding<'_> {
        self.buffer.as_entire_buffer_binding()
    }

    /// The norms of the columns.
    pub(crate) fn norms(&self) -> wgpu::BufferBinding<'_> {
        wgpu::BufferBinding {
            buffer: &self.buffer,
            offset: self.lines.sections().norms as u64,
            size: NonZero::new(4 * self.lines.cols as u64),
        }
    }
}

/// The lines of a weight in the mode of its plan.
///
/// # Errors
/// [`Error::Effort`] if its format has none, or its rows are too short.
pub(crate) fn lines_of(plan: &Plan, weight: &Weight) -> Result<Lines, Error> {
    let (dtype, rows, cols) = (weight.dtype, weight.rows, weight.row_len);
    let (lines, expected) = match plan.effort.mode {
        EffortMode::Nested => (Lines::nested(dtype, rows, cols), "Q8_0 for nested effort"),
        EffortMode::Channel | EffortMode::Bucket => (
            Lines::new(dtype, rows, cols),
            "Q4_0, Q4_1, Q8_0, Q4_K, Q5_K, Q6_K, F16, BF16 or F32 with rows of whole blocks, or of a \
             multiple of 4",
        ),
    };
    lines.ok_or_else(|| {
        let name = &weight.name;
        Error::Effort(format!(
            "tensor '{name}' is {dtype} with rows of {cols}, expected {expected}"
        ))
    })
}

/// The places of a plan's matrices in the scratch memory to which they are copied row by row: those of
/// one step lie side by side, and all steps use the same memory.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The offset of each weight.
    offsets: Vec<Option<u64>>,
    /// The bytes of the memory.
    pub(super) bytes: u64,
}

impl Places {
    pub(super) fn of(plan: &Plan) -> Self {
        let mut all = Self { offsets: vec![None; plan.weights.len()], bytes: 0 };
        for step in &plan.steps {
            let marked = || step.op.weights().into_iter().filter(|id| plan.weight(*id).effort);
            // after those that another step has placed
            let known = marked().filter_map(|id| Some(all.offsets[id.0]? + bytes(plan, id)));
            let mut end = known.max().unwrap_or(0);
            for id in marked() {
                if all.offsets[id.0].is_none() {
                    all.offsets[id.0] = Some(end);
                    end += bytes(plan, id);
                }
            }
            all.bytes = all.bytes.max(end);
        }
        all
    }

    /// The offset of a weight.
    pub(super) fn start(&self, id: WeightId) -> u64 {
        self.offsets[id.0].unwrap_or(0)
    }

    /// The matrix row by row, in that memory.
    pub(super) fn matrix(&self, plan: &Plan, id: WeightId, buffer: &wgpu::Buffer) -> Matrix {
        let weight = plan.weight(id);
        let layout = Layout::of(weight.dtype);
        let (planes, _) = layout.placed(weight.rows, weight.row_len);
        let start = self.start(id);
        let planes = planes.into_iter().map(|(at, bytes)| (start + at, bytes)).collect();
        let shard = Shard::new(0..weight.rows, buffer.clone(), planes);
        Matrix { layout, row_len: weight.row_len, shards: vec![shard] }
    }
}

/// Bytes of a weight row by row.
fn bytes(plan: &Plan, id: WeightId) -> u64 {
    let weight = plan.weight(id);
    Layout::of(weight.dtype).placed(weight.rows, weight.row_len).1
}

/// Bytes of all weights in input-major order, and of the memory to which they are copied.
pub(super) fn resident_bytes(plan: &Plan) -> u64 {
    let marked = plan.weights.iter().filter(|weight| weight.effort);
    let bytes = marked.filter_map(|weight| lines_of(plan, weight).ok());
    let bytes = bytes.map(|lines| lines.sections().end);
    bytes.fold(Places::of(plan).bytes, |all, bytes| all.saturating_add(bytes as u64))
}
