//! GGUF files assembled field by field, so that every field can be invalid.

/// Fields of a file. A field of `None` is computed as in a valid file.
#[derive(Clone)]
pub(crate) struct RawFile {
    pub(crate) magic: [u8; 4],
    pub(crate) version: u32,
    pub(crate) tensor_count: Option<u64>,
    pub(crate) key_count: Option<u64>,
    /// Encoded keys; see [`key`].
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) tensors: Vec<RawTensor>,
    pub(crate) alignment: usize,
    /// The data section.
    pub(crate) data: Vec<u8>,
}

#[derive(Clone)]
pub(crate) struct RawTensor {
    pub(crate) name: Vec<u8>,
    pub(crate) n_dims: Option<u32>,
    pub(crate) dims: Vec<u64>,
    pub(crate) type_id: u32,
    pub(crate) offset: u64,
}

impl RawFile {
    /// Two keys and two F32 tensors: `a` of 4 × 2 at 0, `b` of 8 at 32.
    pub(crate) fn valid() -> Self {
        Self {
            magic: *b"GGUF",
            version: 3,
            tensor_count: None,
            key_count: None,
            keys: vec![
                key("general.architecture", 8, &string(b"test")),
                key("k", 4, &[1, 0, 0, 0]),
            ],
            tensors: vec![RawTensor::f32("a", &[4, 2], 0), RawTensor::f32("b", &[8], 32)],
            alignment: 32,
            data: (0..64).collect(),
        }
    }

    /// A valid file with one more key.
    pub(crate) fn with_key(key: Vec<u8>) -> Self {
        let mut file = Self::valid();
        file.keys.push(key);
        file
    }

    /// A valid file whose second tensor is changed.
    pub(crate) fn with_b(change: impl FnOnce(&mut RawTensor)) -> Self {
        let mut file = Self::valid();
        change(&mut file.tensors[1]);
        file
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.tensor_count.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        out.extend(self.key_count.unwrap_or(self.keys.len() as u64).to_le_bytes());
        out.extend(self.keys.concat());
        for tensor in &self.tensors {
            out.extend(string(&tensor.name));
            out.extend(tensor.n_dims.unwrap_or(tensor.dims.len() as u32).to_le_bytes());
            for dim in &tensor.dims {
                out.extend(dim.to_le_bytes());
            }
            out.extend(tensor.type_id.to_le_bytes());
            out.extend(tensor.offset.to_le_bytes());
        }
        out.resize(out.len().next_multiple_of(self.alignment), 0);
        out.extend(&self.data);
        out
    }
}

impl RawTensor {
    pub(crate) fn f32(name: &str, dims: &[u64], offset: u64) -> Self {
        Self { name: name.into(), n_dims: None, dims: dims.to_vec(), type_id: 0, offset }
    }
}

/// Encodes a metadata key of type `type_id` with an encoded value.
pub(crate) fn key(name: &str, type_id: u32, value: &[u8]) -> Vec<u8> {
    let mut out = string(name.as_bytes());
    out.extend(type_id.to_le_bytes());
    out.extend(value);
    out
}

pub(crate) fn string(text: &[u8]) -> Vec<u8> {
    let mut out = (text.len() as u64).to_le_bytes().to_vec();
    out.extend(text);
    out
}

/// Encodes an array value with a declared count of `count` elements.
pub(crate) fn array(item_type: u32, count: u64, items: &[u8]) -> Vec<u8> {
    let mut out = item_type.to_le_bytes().to_vec();
    out.extend(count.to_le_bytes());
    out.extend(items);
    out
}
