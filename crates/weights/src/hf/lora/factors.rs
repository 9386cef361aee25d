//! The factors of one matrix, and what becomes of them where GGUF has another matrix.

use bytes::Bytes;

use super::base::Place;
use crate::hf::gather::{View, joined};
use crate::hf::rules::{How, Part};
use crate::hf::stored::Source;
use crate::{MAX_SIZE, Problem};

/// A factor, decoded.
#[derive(Clone, Debug)]
pub(crate) struct Factor {
    /// Outermost dimension first.
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f32>,
}

impl Factor {
    /// Decodes a factor of a file.
    pub(super) fn of(source: &Source) -> Result<Self, Problem> {
        let fault = |fault: &str| fault_of(source, fault);
        let fits = |&dim: &usize| (1..=MAX_SIZE).contains(&dim);
        if source.shape.len() != 2 || !source.shape.iter().all(fits) {
            return Err(fault(&format!("has shape {:?}, expected two dimensions", source.shape)));
        }
        let dtype = source.stored.dtype().ok_or_else(|| {
            fault(&format!("has type {:?}, expected F32, F16 or BF16", source.stored))
        })?;
        let mut values = vec![0.0; source.bytes.len() / dtype.block_bytes()];
        pelton_quant::decode(dtype, &source.bytes, &mut values)
            .map_err(|error| fault(&format!("cannot be decoded: {error}")))?;
        Ok(Self { shape: source.shape.clone(), values })
    }

    /// Its elements in the order of a transform's part.
    fn part(&self, part: &Part) -> Self {
        let bytes: Bytes = self.values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let bytes = joined(&part.views, &bytes, size_of::<f32>());
        let values = bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        Self { shape: part.shape.clone(), values }
    }
}

/// The factors `[rank, inputs]` and `[outputs, rank]` of a module as those of GGUF's matrices, with
/// their names.
///
/// A transform of a matrix's rows is one of the rows of the second factor, and one of its columns
/// is one of the columns of the first. One of both has no counterpart.
pub(super) fn placed(
    place: &Place<'_>,
    [a, b]: [Factor; 2],
) -> Result<Vec<(String, Factor, Factor)>, String> {
    let Place { config, prefix, tensor, how } = place;
    let transform = match how {
        How::Keep => return Ok(vec![(tensor.clone(), a, b)]),
        How::Parts(transform) => transform,
        _ => return Err(format!("is for {tensor:?}, which is no matrix of its own in GGUF")),
    };
    let ([rank, inputs], [outputs, same]) = (dims(&a), dims(&b));
    if rank != same {
        return Err(format!("has the rank {rank}, and its counterpart {same}"));
    }
    let name = |part: &Part| match part.to {
        "" => tensor.clone(),
        own => format!("{prefix}{own}"),
    };
    // a length that no dimension has, so that one which is moved shows
    let other = inputs + outputs + 1;
    let of_rows = |parts: &[Part], columns: usize| {
        parts.iter().all(|part| part.shape.len() == 2 && part.shape[1] == columns)
    };
    if transform(config, &[outputs, other]).is_ok_and(|parts| of_rows(&parts, other)) {
        let parts = transform(config, &[outputs, rank])?;
        return Ok(parts.iter().map(|part| (name(part), a.clone(), b.part(part))).collect());
    }
    let of_columns = |parts: &[Part], rows: usize| matches!(parts, [part] if part.to.is_empty() && part.shape == [rows, inputs]);
    if transform(config, &[other, inputs]).is_ok_and(|parts| of_columns(&parts, other)) {
        let parts = transform(config, &[rank, inputs])?;
        return Ok(parts.iter().map(|part| (name(part), a.part(part), b.clone())).collect());
    }
    // the layers of GPT-2 store their matrices transposed, the factors are those of the others
    // (fan_in_fan_out)
    let transposed = View::new(&[inputs, outputs]).swapped(0, 1);
    if transform(config, &[inputs, outputs])
        .is_ok_and(|parts| matches!(&parts[..], [part] if part.views == [transposed]))
    {
        return Ok(vec![(tensor.clone(), a, b)]);
    }
    Err(format!("is for {tensor:?}, whose rows and columns GGUF has in another order"))
}

fn dims(factor: &Factor) -> [usize; 2] {
    match *factor.shape {
        [outer, inner] => [outer, inner],
        _ => [0, 0],
    }
}

pub(super) fn fault_of(source: &Source, fault: &str) -> Problem {
    Problem::SafetensorsTensor { tensor: source.name.clone(), fault: fault.to_owned() }
}
