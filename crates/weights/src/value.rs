//! Metadata values and their encoding.

use bytes::Bytes;

use crate::ValueType;

/// A metadata value. Strings and arrays are slices of the file's bytes, without a copy.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// See [`ValueType::U8`].
    U8(u8),
    /// See [`ValueType::I8`].
    I8(i8),
    /// See [`ValueType::U16`].
    U16(u16),
    /// See [`ValueType::I16`].
    I16(i16),
    /// See [`ValueType::U32`].
    U32(u32),
    /// See [`ValueType::I32`].
    I32(i32),
    /// See [`ValueType::F32`].
    F32(f32),
    /// See [`ValueType::Bool`].
    Bool(bool),
    /// The string's bytes, which are not necessarily UTF-8.
    String(Bytes),
    /// See [`ValueType::Array`].
    Array(Array),
    /// See [`ValueType::U64`].
    U64(u64),
    /// See [`ValueType::I64`].
    I64(i64),
    /// See [`ValueType::F64`].
    F64(f64),
}

impl Value {
    /// The value's type.
    pub fn value_type(&self) -> ValueType {
        match self {
            Self::U8(_) => ValueType::U8,
            Self::I8(_) => ValueType::I8,
            Self::U16(_) => ValueType::U16,
            Self::I16(_) => ValueType::I16,
            Self::U32(_) => ValueType::U32,
            Self::I32(_) => ValueType::I32,
            Self::F32(_) => ValueType::F32,
            Self::Bool(_) => ValueType::Bool,
            Self::String(_) => ValueType::String,
            Self::Array(_) => ValueType::Array,
            Self::U64(_) => ValueType::U64,
            Self::I64(_) => ValueType::I64,
            Self::F64(_) => ValueType::F64,
        }
    }

    /// The value as an integer, if its type is one of the integer types.
    pub fn as_integer(&self) -> Option<i128> {
        match *self {
            Self::U8(v) => Some(v.into()),
            Self::I8(v) => Some(v.into()),
            Self::U16(v) => Some(v.into()),
            Self::I16(v) => Some(v.into()),
            Self::U32(v) => Some(v.into()),
            Self::I32(v) => Some(v.into()),
            Self::U64(v) => Some(v.into()),
            Self::I64(v) => Some(v.into()),
            _ => None,
        }
    }

    /// Description for error messages: the type, and the value of a scalar.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::String(_) => "a string".to_owned(),
            Self::Array(array) => format!("an array of {} {}", array.len(), array.item_type()),
            Self::F32(v) => format!("the f32 {v}"),
            Self::F64(v) => format!("the f64 {v}"),
            Self::Bool(v) => format!("the bool {v}"),
            integer => match integer.as_integer() {
                Some(v) => format!("the {} {v}", integer.value_type()),
                None => integer.value_type().to_string(),
            },
        }
    }

    /// Appends the encoded value, without its type id.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::U8(v) => out.push(*v),
            Self::I8(v) => out.extend(v.to_le_bytes()),
            Self::U16(v) => out.extend(v.to_le_bytes()),
            Self::I16(v) => out.extend(v.to_le_bytes()),
            Self::U32(v) => out.extend(v.to_le_bytes()),
            Self::I32(v) => out.extend(v.to_le_bytes()),
            Self::F32(v) => out.extend(v.to_le_bytes()),
            Self::Bool(v) => out.push(u8::from(*v)),
            Self::U64(v) => out.extend(v.to_le_bytes()),
            Self::I64(v) => out.extend(v.to_le_bytes()),
            Self::F64(v) => out.extend(v.to_le_bytes()),
            Self::String(text) => {
                out.extend((text.len() as u64).to_le_bytes());
                out.extend_from_slice(text);
            }
            Self::Array(array) => {
                out.extend(array.item_type.id().to_le_bytes());
                out.extend((array.len as u64).to_le_bytes());
                out.extend_from_slice(&array.bytes);
            }
        }
    }
}

macro_rules! value_from {
    ($($type:ty => $variant:ident),* $(,)?) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

value_from! {
    u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64,
    f32 => F32, f64 => F64, bool => Bool, String => String, Bytes => String, Array => Array,
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::String(Bytes::copy_from_slice(value.as_bytes()))
    }
}

/// An array of metadata values of one type, stored in encoded form and decoded on demand.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub(crate) item_type: ValueType,
    pub(crate) len: usize,
    /// The encoded elements, validated at construction.
    pub(crate) bytes: Bytes,
}

impl Array {
    /// Creates an array of values, all of type `item_type`.
    ///
    /// ```
    /// use pelton_weights::{Array, ValueType};
    ///
    /// let pieces = Array::new(ValueType::String, ["a", "b"])?;
    /// assert_eq!(pieces.len(), 2);
    /// assert!(Array::new(ValueType::U8, [1.5f32]).is_err());
    /// # Ok::<(), pelton_weights::Problem>(())
    /// ```
    ///
    /// # Errors
    /// [`Problem::MixedArray`](crate::Problem::MixedArray) if a value is of another type.
    pub fn new<V: Into<Value>>(
        item_type: ValueType,
        items: impl IntoIterator<Item = V>,
    ) -> Result<Self, crate::Problem> {
        let mut bytes = Vec::new();
        let mut len = 0;
        for item in items {
            let item = item.into();
            if item.value_type() != item_type {
                return Err(crate::Problem::MixedArray {
                    expected: item_type,
                    found: item.value_type(),
                });
            }
            item.encode(&mut bytes);
            len += 1;
        }
        Ok(Self { item_type, len, bytes: bytes.into() })
    }

    /// The type of every element.
    pub fn item_type(&self) -> ValueType {
        self.item_type
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// An array of values that all have the type `item`.
pub(crate) fn array<V: Into<Value>>(item: ValueType, values: impl IntoIterator<Item = V>) -> Value {
    match Array::new(item, values) {
        Ok(array) => array.into(),
        Err(error) => unreachable!("the values are of one type: {error}"),
    }
}
