//! The tensors of a file: each has its description before its data.

use std::collections::HashMap;

use bytes::Bytes;
use pelton_quant::DType;

use super::header::Header;
use super::invalid::invalid;
use crate::Problem;
use crate::gguf::cursor::Cursor;
use crate::gguf::dtype::{dtype_of_id, supported};
use crate::gguf::limits::{MAX_DIMS, MAX_TENSOR_NAME_LEN, checked_name};
use crate::gguf::{TensorEntry, checked_size};
use crate::whisper::{ARCHITECTURE, Expected, Kind, expected};

/// The version of ggml's block layouts that is in use since May 2023.
const LAYOUT: u32 = 2;

/// Reads the tensors up to the end of the file, which must be those of the sizes.
pub(super) fn read(
    file: &Bytes,
    cursor: &mut Cursor<'_>,
    header: &Header,
) -> Result<Vec<TensorEntry>, Problem> {
    let all = expected(&header.sizes);
    let mut missing: HashMap<&str, &Expected> =
        all.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let mut tensors: Vec<TensorEntry> = Vec::with_capacity(all.len());
    while cursor.left() > 0 {
        let described = Description::read(cursor, tensors.len())?;
        let name = described.name;
        let Some(expected) = missing.remove(name) else {
            let tensor = name.to_owned();
            return Err(match tensors.iter().any(|tensor| tensor.name == name) {
                true => Problem::DuplicateTensor { tensor },
                false => Problem::UnknownTensor { tensor, architecture: ARCHITECTURE },
            });
        };
        tensors.push(described.located(file, cursor, expected, header.layout)?);
    }
    match all.iter().find(|tensor| missing.contains_key(tensor.name.as_str())) {
        Some(Expected { name, shape, .. }) => {
            Err(Problem::MissingTensor { tensor: name.clone(), expected: shape.clone() })
        }
        None => Ok(tensors),
    }
}

/// A tensor's description.
struct Description<'a> {
    name: &'a str,
    type_id: u32,
    dims: [u64; MAX_DIMS],
    n_dims: usize,
}

impl<'a> Description<'a> {
    fn read(cursor: &mut Cursor<'a>, number: usize) -> Result<Self, Problem> {
        let what = format_args!("the description of tensor {number}");
        let n_dims = cursor.u32(what)?;
        let name_len = cursor.u32(what)?;
        let type_id = cursor.u32(what)?;
        if !(1..=MAX_DIMS as u32).contains(&n_dims) {
            return Err(Problem::Dimensions { tensor: format!("number {number}"), found: n_dims });
        }
        let n_dims = n_dims as usize;
        let mut dims = [1; MAX_DIMS];
        for dim in &mut dims[..n_dims] {
            *dim = cursor.u32(what)?.into();
        }
        if name_len as usize > MAX_TENSOR_NAME_LEN {
            let field = format!("the length of the name of tensor {number}");
            return Err(invalid(&field, name_len, format!("at most {MAX_TENSOR_NAME_LEN}")));
        }
        let name = cursor.take(name_len.into(), what)?;
        let name = checked_name(name, MAX_TENSOR_NAME_LEN, "tensor name")?;
        Ok(Self { name, type_id, dims, n_dims })
    }

    /// The tensor with its bytes, which are next.
    fn located(
        &self,
        file: &Bytes,
        cursor: &mut Cursor<'_>,
        expected: &Expected,
        layout: u32,
    ) -> Result<TensorEntry, Problem> {
        let tensor = || self.name.to_owned();
        let stored = &self.dims[..self.n_dims];
        let dtype = self.dtype(expected.kind, layout)?;
        let (dims, size) = checked_size(&self.dims, dtype)
            .map_err(|fault| fault.of_tensor(self.name, stored, dtype))?;
        // Biases of convolutions are stored as matrices of one column.
        let column = matches!(expected.shape.as_slice(), [len] if dims[..self.n_dims] == [1, *len]);
        let shape_is = |found: &[usize]| {
            found == expected.shape || (column && self.name.starts_with("encoder.conv"))
        };
        let found = &dims[..self.n_dims];
        if !shape_is(found) {
            let expected = expected.shape.clone();
            return Err(Problem::TensorShape { tensor: tensor(), found: found.to_vec(), expected });
        }
        let data = cursor.take(size as u64, format_args!("the data of tensor {:?}", self.name))?;
        let bytes = file.slice_ref(data);
        TensorEntry::new(tensor(), dtype, &expected.shape, bytes).ok_or_else(|| {
            let (found, expected) = (found.to_vec(), expected.shape.clone());
            Problem::TensorShape { tensor: tensor(), found, expected }
        })
    }

    /// The type, which must suit the tensor's use and be in today's layout.
    fn dtype(&self, kind: Kind, layout: u32) -> Result<DType, Problem> {
        let refused = |found: String, supported: String| Problem::DType {
            tensor: self.name.to_owned(),
            found,
            supported,
        };
        let dtype = dtype_of_id(self.type_id).map_err(|found| refused(found, supported()))?;
        if kind != Kind::Matrix && !matches!(dtype, DType::F32 | DType::F16) {
            return Err(refused(dtype.name().to_owned(), "F32, F16".to_owned()));
        }
        if dtype.block_len() > 1 && layout != LAYOUT {
            let found = format!("{} in version {layout} of the block layouts", dtype.name());
            let supported = format!("version {LAYOUT}: download the file again or quantize anew");
            return Err(refused(found, supported));
        }
        Ok(dtype)
    }
}
