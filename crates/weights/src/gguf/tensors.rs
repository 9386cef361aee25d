//! Tensor descriptions of a file and the location of the tensors' bytes.

use bytes::Bytes;
use pelton_quant::DType;

use super::cursor::Cursor;
use super::dtype::{dtype_of_id, supported};
use super::limits::{MAX_DIMS, MAX_TENSOR_NAME_LEN, checked_name};
use crate::Problem;

/// Minimum size in bytes of a description: name, dimensions, type and offset of a vector.
const SHORTEST_TENSOR: u64 = (8 + 1) + (4 + 8) + 4 + 8;

/// A tensor with a validated description and all of its bytes. The uniqueness of its name is
/// checked when the shards of a model are combined.
#[derive(Clone, Debug)]
pub(crate) struct TensorEntry {
    pub(crate) name: String,
    pub(crate) dtype: DType,
    dims: [usize; MAX_DIMS],
    n_dims: usize,
    pub(crate) bytes: Bytes,
}

impl TensorEntry {
    /// A tensor of this shape (innermost dimension first), if it has 1 to 4 dimensions and the
    /// bytes have the size of the shape and type.
    pub(crate) fn new(name: String, dtype: DType, shape: &[usize], bytes: Bytes) -> Option<Self> {
        if shape.is_empty() || shape.len() > MAX_DIMS {
            return None;
        }
        let mut stored = [1; MAX_DIMS];
        for (stored, &dim) in stored.iter_mut().zip(shape) {
            *stored = dim as u64;
        }
        let (dims, size) = checked_size(&stored, dtype).ok()?;
        (size == bytes.len()).then(|| Self { name, dtype, dims, n_dims: shape.len(), bytes })
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.dims[..self.n_dims]
    }
}

/// A description before the start of the data section is known.
struct Description {
    name: String,
    dtype: DType,
    dims: [usize; MAX_DIMS],
    n_dims: usize,
    offset: u64,
    size: usize,
}

impl Description {
    /// The end of its bytes in the data section.
    fn end(&self) -> u64 {
        self.offset.saturating_add(self.size as u64)
    }
}

/// Parses `count` descriptions and locates the tensors' bytes.
pub(super) fn parse(
    file: &Bytes,
    cursor: &mut Cursor<'_>,
    count: u64,
    alignment: usize,
) -> Result<Vec<TensorEntry>, Problem> {
    cursor.expect_items(count, SHORTEST_TENSOR, "tensors")?;
    let mut descriptions = Vec::new();
    for number in 0..count {
        descriptions.push(describe(cursor, number, alignment)?);
    }
    check_overlaps(&descriptions)?;

    // A file without tensors may end before the aligned start of the data section.
    let start = cursor.at().next_multiple_of(alignment).min(file.len());
    let data = file.slice(start..);
    let whole = descriptions.iter().map(Description::end).max().unwrap_or(0);
    let whole = whole.saturating_add(start as u64);
    let cut = |tensor| Problem::Incomplete { tensor, found: file.len() as u64, whole };
    descriptions.into_iter().map(|one| locate(one, &data).map_err(cut)).collect()
}

fn describe(
    cursor: &mut Cursor<'_>,
    number: u64,
    alignment: usize,
) -> Result<Description, Problem> {
    let name = cursor.string(format_args!("the name of tensor {number}"))?;
    let name = checked_name(name, MAX_TENSOR_NAME_LEN, "tensor name")?;
    let what = format_args!("the description of tensor {name:?}");
    let tensor = || name.to_owned();

    let n_dims = match cursor.u32(what)? {
        n @ 1..=4 => n as usize,
        found => return Err(Problem::Dimensions { tensor: tensor(), found }),
    };
    let mut stored = [1; MAX_DIMS];
    for dim in &mut stored[..n_dims] {
        *dim = cursor.u64(what)?;
    }
    let type_id = cursor.u32(what)?;
    let offset = cursor.u64(what)?;

    let dtype = dtype_of_id(type_id).map_err(|found| Problem::DType {
        tensor: tensor(),
        found,
        supported: supported(),
    })?;
    let (dims, size) = checked_size(&stored, dtype)
        .map_err(|fault| fault.of_tensor(name, &stored[..n_dims], dtype))?;
    if !offset.is_multiple_of(alignment as u64) {
        return Err(Problem::Misaligned { tensor: tensor(), offset, alignment });
    }
    Ok(Description { name: tensor(), dtype, dims, n_dims, offset, size })
}

/// The rule that a shape violates.
pub(crate) enum SizeFault {
    Row,
    Shape(&'static str),
}

impl SizeFault {
    pub(crate) fn of_tensor(self, tensor: &str, shape: &[u64], dtype: DType) -> Problem {
        let tensor = tensor.to_owned();
        match self {
            Self::Row => {
                let row = shape.first().copied().unwrap_or(1);
                Problem::RowLength { tensor, row, dtype, block: dtype.block_len() }
            }
            Self::Shape(fault) => Problem::Shape { tensor, shape: shape.to_vec(), fault },
        }
    }
}

/// Converts the dimensions to `usize` and computes the tensor's size in bytes.
pub(crate) fn checked_size(
    stored: &[u64; MAX_DIMS],
    dtype: DType,
) -> Result<([usize; MAX_DIMS], usize), SizeFault> {
    const TOO_LARGE: SizeFault = SizeFault::Shape("more elements than memory can address");
    if stored.contains(&0) {
        return Err(SizeFault::Shape("no elements, expected at least one in each dimension"));
    }
    let mut dims = [1; MAX_DIMS];
    let mut elements = 1usize;
    for (dim, &stored) in dims.iter_mut().zip(stored) {
        *dim = usize::try_from(stored).map_err(|_| TOO_LARGE)?;
        elements = elements.checked_mul(*dim).ok_or(TOO_LARGE)?;
    }
    if !dims[0].is_multiple_of(dtype.block_len()) {
        return Err(SizeFault::Row);
    }
    let size = dtype.bytes_of(elements).ok_or(TOO_LARGE)?;
    Ok((dims, size))
}

/// Rejects tensors with overlapping bytes: one could be read through the other's type, and no
/// writer produces them.
fn check_overlaps(descriptions: &[Description]) -> Result<(), Problem> {
    let mut in_order: Vec<_> = descriptions.iter().collect();
    in_order.sort_by_key(|description| description.offset);
    for pair in in_order.windows(2) {
        if let [first, second] = pair
            && first.end() > second.offset
        {
            return Err(Problem::Overlap {
                first: first.name.clone(),
                second: second.name.clone(),
            });
        }
    }
    Ok(())
}

/// The tensor with its bytes, or its name if the data ends before them.
fn locate(description: Description, data: &Bytes) -> Result<TensorEntry, String> {
    let Description { name, dtype, dims, n_dims, offset, size } = description;
    let range = usize::try_from(offset)
        .ok()
        .and_then(|start| Some(start..start.checked_add(size)?))
        .filter(|range| range.end <= data.len());
    match range {
        Some(range) => Ok(TensorEntry { name, dtype, dims, n_dims, bytes: data.slice(range) }),
        None => Err(name),
    }
}
