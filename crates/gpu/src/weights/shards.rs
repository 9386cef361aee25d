//! The shards of matrices: rows whose planes fit in a binding.

use std::ops::Range;

use pelton_graph::{Error, Weight};

use crate::{
    device::Device,
    weights::{
        layout::Layout,
        matrix::{Matrix, Shard},
    },
};

/// The layout of a matrix on a GPU, and its shards.
fn laid_out(device: &Device, weight: &Weight) -> (Layout, Vec<Range<usize>>) {
    let layout = Layout::of(weight.dtype).joined(device.capabilities.joins_planes());
    let rows = weight.rows * weight.count();
    let whole = if weight.count() > 1 { weight.rows } else { 1 };
    let shards = shards_of(device, &layout, rows, weight.row_len, whole);
    (layout, shards)
}

/// Bytes of the shards of a matrix.
pub(super) fn matrix_bytes(device: &Device, weight: &Weight) -> u64 {
    let (layout, shards) = laid_out(device, weight);
    shards.iter().map(|rows| layout.placed(rows.len(), weight.row_len).1).sum()
}

/// The rows of each shard of a matrix, such that every plane fits in a binding. A shard has a
/// multiple of `whole` rows.
fn shards_of(
    device: &Device,
    layout: &Layout,
    rows: usize,
    row_len: usize,
    whole: usize,
) -> Vec<Range<usize>> {
    let limit = device.capabilities.binding_bytes.min(device.capabilities.buffer_bytes / 2);
    /// Limit of bytes between joined planes, and of their places and codebook.
    const BETWEEN: u64 = 1 << 16;
    let (plane, limit) = match layout.joined {
        true => (layout.placed(rows, row_len).1, limit.saturating_sub(BETWEEN).max(1)),
        false => (layout.planes(rows, row_len).into_iter().max().unwrap_or(0), limit),
    };
    let count = plane.div_ceil(limit).max(1) as usize;
    // a multiple of 4, so that no shard begins within a word of scales
    let step = match whole % 4 {
        0 => whole,
        2 => 2 * whole,
        _ => 4 * whole,
    };
    let step = step.max(1);
    let each = rows.div_ceil(count).next_multiple_of(step);
    // the rounded size may not fit
    let fits = plane.div_ceil(rows.max(1) as u64) * each as u64 <= limit;
    let each = if fits { each } else { (each - step).max(step) };
    (0..rows).step_by(each).map(|start| start..rows.min(start + each)).collect()
}

/// A matrix on the GPU without its content.
pub(super) fn new_matrix(device: &Device, weight: &Weight) -> Result<Matrix, Error> {
    let (layout, shards) = laid_out(device, weight);
    let shard = |rows| new_shard(device, &weight.name, &layout, rows, weight.row_len);
    let shards = shards.into_iter().map(shard).collect::<Result<_, Error>>()?;
    Ok(Matrix { layout, row_len: weight.row_len, shards })
}

fn new_shard(
    device: &Device,
    name: &str,
    layout: &Layout,
    rows: Range<usize>,
    row_len: usize,
) -> Result<Shard, Error> {
    let codebook = layout.codebook().map(|codebook| codebook.bytes);
    let (planes, end) = layout.placed(rows.len(), row_len);
    let buffer = device.buffer(name, end)?;
    if let (Some(bytes), Some(&(offset, _))) = (codebook, planes.last()) {
        device.queue.write_buffer(&buffer, offset, bytes);
    }
    if layout.joined {
        let places = layout.places(&planes);
        device.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&places));
    }
    Ok(Shard { joined: layout.joined, ..Shard::new(rows, buffer, planes) })
}
