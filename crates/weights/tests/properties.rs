//! Random and mutated files, and round trips of random contents through the writer.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "common/exercise.rs"]
mod exercise;
#[path = "common/raw.rs"]
#[expect(dead_code, reason = "this test uses a subset")]
mod raw;

use std::collections::BTreeMap;
use std::path::Path;

use exercise::exercise;
use pelton_quant::DType;
use pelton_weights::{Array, Checkpoint, GgufWriter, Value, ValueType};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::Index;

/// A file with values of all types.
fn every_type() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gguf/every-type.gguf");
    std::fs::read(path).unwrap()
}

/// A file with valid hyper-parameters.
fn model() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hf/mistral.gguf");
    std::fs::read(path).unwrap()
}

/// A mutation of a file.
#[derive(Clone, Debug)]
enum Change {
    Byte(Index, u8),
    /// Overwrites eight bytes with a number that is likely to cause an overflow.
    Number(Index, u64),
    Cut(Index),
    Remove(Index),
    Insert(Index, u8),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        // Mutations of tensors' bytes have little effect: most are applied to the descriptions.
        const DESCRIPTIONS: usize = 1536;
        if bytes.is_empty() {
            return;
        }
        let place = |index: &Index| index.index(bytes.len().min(DESCRIPTIONS));
        match self {
            Self::Byte(at, value) => {
                let at = place(at);
                bytes[at] = *value;
            }
            Self::Number(at, value) => {
                let at = place(at);
                for (byte, new) in bytes[at..].iter_mut().zip(value.to_le_bytes()) {
                    *byte = new;
                }
            }
            Self::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Self::Remove(at) => {
                bytes.remove(place(at));
            }
            Self::Insert(at, value) => bytes.insert(place(at), *value),
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    let number = prop_oneof![
        0u64..64,
        any::<u64>(),
        (0u32..64).prop_map(|shift| 1 << shift),
        (0u64..64).prop_map(|less| u64::MAX - less),
    ];
    prop_oneof![
        4 => (at(), any::<u8>()).prop_map(|(at, value)| Change::Byte(at, value)),
        4 => (at(), number).prop_map(|(at, value)| Change::Number(at, value)),
        1 => at().prop_map(Change::Cut),
        1 => at().prop_map(Change::Remove),
        1 => (at(), any::<u8>()).prop_map(|(at, value)| Change::Insert(at, value)),
    ]
}

fn scalar(value_type: ValueType) -> BoxedStrategy<Value> {
    match value_type {
        ValueType::U8 => any::<u8>().prop_map(Value::from).boxed(),
        ValueType::I8 => any::<i8>().prop_map(Value::from).boxed(),
        ValueType::U16 => any::<u16>().prop_map(Value::from).boxed(),
        ValueType::I16 => any::<i16>().prop_map(Value::from).boxed(),
        ValueType::U32 => any::<u32>().prop_map(Value::from).boxed(),
        ValueType::I32 => any::<i32>().prop_map(Value::from).boxed(),
        ValueType::F32 => any::<f32>().prop_map(Value::from).boxed(),
        ValueType::Bool => any::<bool>().prop_map(Value::from).boxed(),
        ValueType::U64 => any::<u64>().prop_map(Value::from).boxed(),
        ValueType::I64 => any::<i64>().prop_map(Value::from).boxed(),
        ValueType::F64 => any::<f64>().prop_map(Value::from).boxed(),
        ValueType::String | ValueType::Array => {
            vec(any::<u8>(), 0..20).prop_map(|text| Value::String(text.into())).boxed()
        }
    }
}

fn scalar_type() -> impl Strategy<Value = ValueType> {
    use ValueType::*;
    prop::sample::select(vec![U8, I8, U16, I16, U32, I32, F32, Bool, String, U64, I64, F64])
}

/// Scalars, arrays, and arrays of arrays.
fn value() -> impl Strategy<Value = Value> {
    let array = || {
        scalar_type().prop_flat_map(|item| {
            vec(scalar(item), 0..6).prop_map(move |items| Array::new(item, items).unwrap())
        })
    };
    let nested = vec(array(), 0..4).prop_map(|items| Array::new(ValueType::Array, items).unwrap());
    prop_oneof![
        scalar_type().prop_flat_map(scalar),
        array().prop_map(Value::from),
        nested.prop_map(Value::from),
    ]
}

/// A type, a valid shape and the tensor's bytes.
fn tensor() -> impl Strategy<Value = (DType, Vec<usize>, Vec<u8>)> {
    (prop::sample::select(DType::ALL.to_vec()), 1usize..4, vec(1usize..4, 0..4), any::<u8>())
        .prop_map(|(dtype, blocks, rest, fill)| {
            let mut shape = vec![blocks * dtype.block_len()];
            shape.extend(rest);
            let len = dtype.bytes_of(shape.iter().product()).unwrap();
            let bytes = (0..len).map(|i| fill.wrapping_add(i as u8)).collect();
            (dtype, shape, bytes)
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_do_not_panic(bytes in vec(any::<u8>(), 0..512)) {
        exercise(bytes);
    }

    #[test]
    fn random_bytes_after_a_header_do_not_panic(
        keys in 0u64..4,
        tensors in 0u64..4,
        rest in vec(prop_oneof![Just(0u8), 0u8..16, any::<u8>()], 0..256),
    ) {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(tensors.to_le_bytes());
        bytes.extend(keys.to_le_bytes());
        bytes.extend(rest);
        exercise(bytes);
    }

    #[test]
    fn changed_files_do_not_panic(changes in vec(change(), 1..4)) {
        for mut bytes in [every_type(), model(), raw::RawFile::valid().bytes()] {
            for change in &changes {
                change.apply(&mut bytes);
            }
            exercise(bytes);
        }
    }

    /// The reader returns exactly what the writer has written.
    #[test]
    fn writer_and_reader_agree(
        keys in btree_map("[a-z._]{1,12}", value(), 0..6),
        tensors in btree_map(".{1,16}", tensor(), 0..5),
        alignment in prop::sample::select(vec![None, Some(8u32), Some(32), Some(256)]),
    ) {
        let tensors: BTreeMap<_, _> =
            tensors.into_iter().filter(|(name, _)| !name.contains('\0')).collect();
        let mut writer = GgufWriter::new();
        if let Some(alignment) = alignment {
            writer.set("general.alignment", alignment).unwrap();
        }
        for (key, value) in &keys {
            writer.set(key, value.clone()).unwrap();
        }
        for (name, (dtype, shape, _)) in &tensors {
            writer.declare(name, *dtype, shape).unwrap();
        }
        let mut body = writer.begin(Vec::new()).unwrap();
        for (_, _, bytes) in tensors.values() {
            body.write(bytes).unwrap();
        }
        let file = body.finish().unwrap();
        prop_assert!(exercise(file.clone()));

        let model = Checkpoint::from_bytes("m", file).unwrap();
        prop_assert_eq!(model.tensors().len(), tensors.len());
        for (name, (dtype, shape, bytes)) in &tensors {
            let found = model.tensor(name).unwrap();
            prop_assert_eq!((found.dtype, found.shape), (*dtype, &shape[..]));
            prop_assert_eq!(found.bytes, &bytes[..]);
        }
        let own = usize::from(alignment.is_some());
        prop_assert_eq!(model.metadata().iter().len(), keys.len() + own);
        for (key, value) in &keys {
            prop_assert_eq!(model.metadata().get(key), Some(value));
        }
    }
}

/// The unmodified files are models, so that the mutations above start from valid files.
#[test]
fn the_files_are_models() {
    for bytes in [every_type(), model(), raw::RawFile::valid().bytes()] {
        assert!(exercise(bytes));
    }
    let model = Checkpoint::from_bytes("m", model()).unwrap();
    assert!(model.tensor("token_embd.weight").is_some());
}
