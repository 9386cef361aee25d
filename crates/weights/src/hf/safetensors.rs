//! The header of safetensors files.
//!
//! The format is that of github.com/huggingface/safetensors: eight bytes with the header's length
//! `N` (little-endian), `N` bytes of JSON, then the tensors' bytes. The JSON is an object of
//! `{"dtype", "shape", "data_offsets"}` by name and, optionally, `__metadata__`.

use std::collections::HashSet;
use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::stored::{Source, Stored};
use crate::{Problem, foreign};

/// The longest header in bytes, the limit of the reference implementation.
const MAX_HEADER: usize = 100_000_000;

/// Maximum number of tensors in a file, as in GGUF.
const MAX_TENSORS: usize = 1 << 20;

/// Maximum number of dimensions of a stored tensor.
const MAX_DIMS: usize = 8;

/// Parses a file and locates the bytes of its tensors.
pub(super) fn parse(file: &Bytes) -> Result<Vec<Source>, Problem> {
    if let Some(pointer) = foreign::lfs_pointer(file) {
        return Err(pointer);
    }
    let fault = |fault: String| Problem::SafetensorsHeader { fault };
    let Some((length, rest)) = file.split_first_chunk::<8>() else {
        return Err(fault(format!("is cut off: the file has {} bytes, expected 8", file.len())));
    };
    let most = MAX_HEADER.min(rest.len());
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    if length > most {
        return Err(fault(format!("has {length} bytes, expected at most {most} in this file")));
    }
    let (header, _) = rest.split_at(length);
    let Header(descriptions) =
        serde_json::from_slice(header).map_err(|error| fault(format!("is invalid: {error}")))?;
    let data = file.slice(8 + length..);
    let whole = descriptions.iter().map(|tensor| tensor.end).max().unwrap_or(0);
    let sizes = (file.len() as u64, whole.saturating_add(8 + length as u64));
    let sources: Result<Vec<_>, _> =
        descriptions.iter().map(|description| locate(description, &data, sizes)).collect();
    let sources = sources?;
    check_overlaps(&descriptions)?;
    Ok(sources)
}

/// A description of a tensor in the header.
struct Description {
    name: String,
    dtype: String,
    shape: Vec<u64>,
    start: u64,
    end: u64,
}

/// The tensor's bytes; `found` and `whole` are the size of the file and the one that its tensors
/// need.
fn locate(
    description: &Description,
    data: &Bytes,
    (found, whole): (u64, u64),
) -> Result<Source, Problem> {
    let Description { name, dtype, shape, start, end } = description;
    let (start, end) = (*start, *end);
    let fault = |fault: String| Problem::SafetensorsTensor { tensor: name.clone(), fault };
    let Some(stored) = Stored::from_name(dtype) else {
        return Err(fault(format!("has type {dtype:?}, expected a type of bytes or above")));
    };
    let size = shape
        .iter()
        .try_fold(stored.size() as u64, |size, &dim| size.checked_mul(dim))
        .ok_or_else(|| fault(format!("has shape {shape:?}, which memory cannot address")))?;
    if end.checked_sub(start) != Some(size) {
        return Err(fault(format!(
            "has the bytes {start} to {end}, expected {size} bytes for shape {shape:?} of {dtype}"
        )));
    }
    let range = usize::try_from(start)
        .ok()
        .zip(usize::try_from(end).ok())
        .filter(|&(_, end)| end <= data.len());
    let Some((start, end)) = range else {
        return Err(Problem::Incomplete { tensor: name.clone(), found, whole });
    };
    let dims = shape.iter().map(|&dim| usize::try_from(dim)).collect::<Result<Vec<_>, _>>();
    let Ok(shape) = dims else {
        return Err(fault(format!("has shape {shape:?}, which memory cannot address")));
    };
    Ok(Source { name: name.clone(), stored, shape, bytes: data.slice(start..end) })
}

/// Rejects tensors with overlapping bytes, which no writer produces.
fn check_overlaps(descriptions: &[Description]) -> Result<(), Problem> {
    let mut in_order: Vec<_> =
        descriptions.iter().filter(|tensor| tensor.start < tensor.end).collect();
    in_order.sort_by_key(|tensor| tensor.start);
    for pair in in_order.windows(2) {
        if let [first, second] = pair
            && first.end > second.start
        {
            return Err(Problem::Overlap {
                first: first.name.clone(),
                second: second.name.clone(),
            });
        }
    }
    Ok(())
}

struct Header(Vec<Description>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut names = HashSet::new();
        let mut descriptions = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format_args!("{name:?} occurs twice")));
            }
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if descriptions.len() == MAX_TENSORS {
                return Err(A::Error::custom(format_args!("more than {MAX_TENSORS} tensors")));
            }
            let Fields { dtype, shape: Dims(shape), data_offsets: (start, end) } = map
                .next_value()
                .map_err(|error| A::Error::custom(format_args!("tensor {name:?}: {error}")))?;
            descriptions.push(Description { name, dtype, shape, start, end });
        }
        Ok(Header(descriptions))
    }
}

#[derive(serde::Deserialize)]
struct Fields {
    dtype: String,
    shape: Dims,
    data_offsets: (u64, u64),
}

struct Dims(Vec<u64>);

impl<'de> Deserialize<'de> for Dims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(DimsVisitor)
    }
}

struct DimsVisitor;

impl<'de> Visitor<'de> for DimsVisitor {
    type Value = Dims;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX_DIMS} dimensions")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Dims, A::Error> {
        let mut dims = Vec::new();
        while let Some(dim) = seq.next_element()? {
            if dims.len() == MAX_DIMS {
                return Err(A::Error::custom(format_args!("more than {MAX_DIMS} dimensions")));
            }
            dims.push(dim);
        }
        Ok(Dims(dims))
    }
}
