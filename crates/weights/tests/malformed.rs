//! Each kind of invalid file is rejected with its own error; unusual but valid files are
//! accepted. The cases include those of llama.cpp's `tests/test-gguf.cpp` and the
//! overflows of its past advisories (CVE-2024-21802, CVE-2025-53630, CVE-2026-27940).

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "common/raw.rs"]
mod raw;

use pelton_weights::{Checkpoint, Error, Problem};
use raw::{RawFile, RawTensor, array, key, string};

fn open(file: &RawFile) -> Result<Checkpoint, Error> {
    Checkpoint::from_bytes("bad.gguf", file.bytes())
}

/// Asserts the variant and the complete message, which begins with the file's name.
macro_rules! assert_rejected {
    ($file:expr, $variant:pat, $message:expr $(,)?) => {{
        let error = open(&$file).map(|_| ()).unwrap_err();
        assert!(matches!(error.problem(), $variant), "{error:?}");
        assert_eq!(error.to_string(), format!("bad.gguf: {}", $message));
    }};
}

#[test]
fn a_valid_file_opens() {
    let model = open(&RawFile::valid()).unwrap();
    assert_eq!(model.name(), "bad.gguf");
    assert_eq!(model.file_bytes(), RawFile::valid().bytes().len() as u64);
    assert_eq!(model.tensors().map(|tensor| tensor.name).collect::<Vec<_>>(), ["a", "b"]);
    let b = model.require("b", &[8]).unwrap();
    assert_eq!((b.shape, b.row_len(), b.rows()), (&[8][..], 8, 1));
    assert_eq!(b.bytes, (32..64).collect::<Vec<u8>>());
    let a = model.tensor("a").unwrap();
    assert_eq!((a.row_len(), a.rows(), a.bytes.len()), (4, 2, 32));
}

mod header {
    use super::*;

    #[test]
    fn magic() {
        assert_rejected!(
            RawFile { magic: *b"GGML", ..RawFile::valid() },
            Problem::Magic { .. },
            "not a GGUF file: it begins with \"GGML\", expected \"GGUF\"",
        );
        let error = Checkpoint::from_bytes("empty", Vec::new()).unwrap_err();
        assert!(matches!(error.problem(), Problem::Empty));
        assert_eq!(
            error.to_string(),
            "empty: the file is empty, expected a model: download it again"
        );
    }

    #[test]
    fn version() {
        for version in [0, 1, 4, u32::MAX] {
            assert_rejected!(
                RawFile { version, ..RawFile::valid() },
                Problem::Version { .. },
                format!("GGUF version {version}, expected 2 or 3"),
            );
        }
        assert!(open(&RawFile { version: 2, ..RawFile::valid() }).is_ok());
    }

    #[test]
    fn big_endian() {
        for version in [1u32, 2, 3] {
            assert_rejected!(
                RawFile { version: version.swap_bytes(), ..RawFile::valid() },
                Problem::BigEndian,
                "a big-endian GGUF file, expected a little-endian one",
            );
        }
    }

    #[test]
    fn counts() {
        // 61 bytes of keys of at least 14 each, 74 bytes of tensors of at least 33 each, then 65.
        assert_rejected!(
            RawFile { key_count: Some(u64::MAX), ..RawFile::valid() },
            Problem::Count { what: "metadata keys", .. },
            format!(
                "the header announces {} metadata keys, expected at most 14 in a file of this size",
                u64::MAX
            ),
        );
        assert_rejected!(
            RawFile { tensor_count: Some(1 << 60), ..RawFile::valid() },
            Problem::Count { what: "tensors", .. },
            format!(
                "the header announces {} tensors, expected at most 4 in a file of this size",
                1u64 << 60
            ),
        );
        let zeros = RawFile { keys: vec![vec![0; 16 << 20]], ..RawFile::valid() };
        assert_rejected!(
            RawFile { key_count: Some((1 << 20) + 1), ..zeros },
            Problem::Count { .. },
            "the header announces 1048577 metadata keys, expected at most 1048576 in a file of \
             this size",
        );
        // One key too many makes the first tensor be parsed as a key.
        assert!(open(&RawFile { key_count: Some(3), ..RawFile::valid() }).is_err());
        assert!(open(&RawFile { key_count: Some(1), ..RawFile::valid() }).is_err());
        assert!(open(&RawFile { tensor_count: Some(3), ..RawFile::valid() }).is_err());
    }

    /// A read beyond the end is an error at every length.
    #[test]
    fn every_truncation() {
        let whole = RawFile::valid().bytes();
        for len in 0..whole.len() {
            assert!(Checkpoint::from_bytes("cut", whole[..len].to_vec()).is_err(), "{len} bytes");
        }
        let error = Checkpoint::from_bytes("cut", whole[..20].to_vec()).unwrap_err();
        assert!(matches!(error.problem(), Problem::Truncated { .. }));
        assert_eq!(
            error.to_string(),
            "cut: the file is cut inside the number of metadata keys (20 of at least 24 bytes): download it again"
        );
        // 26 keys of at least 14 bytes each behind the 24 bytes of the header
        let error = Checkpoint::from_bytes(
            "cut",
            RawFile { key_count: Some(26), ..RawFile::valid() }.bytes()[..99].to_vec(),
        );
        assert_eq!(
            error.unwrap_err().to_string(),
            "cut: the file is cut inside the 26 metadata keys (99 of at least 388 bytes): download it again"
        );
    }
}

mod keys {
    use super::*;

    #[test]
    fn names() {
        assert_rejected!(
            RawFile::with_key(key("", 0, &[1])),
            Problem::Name { .. },
            "metadata key \"\" is empty, expected at least one character",
        );
        assert_rejected!(
            RawFile::with_key(key(&"x".repeat(65536), 0, &[1])),
            Problem::Name { .. },
            format!(
                "metadata key \"{}…\" is too long, expected 65535 bytes at most",
                "x".repeat(64)
            ),
        );
        assert!(open(&RawFile::with_key(key(&"x".repeat(65535), 0, &[1]))).is_ok());

        let mut not_utf8 = string(b"a\xff");
        not_utf8.extend([0, 0, 0, 0, 1]);
        assert_rejected!(
            RawFile::with_key(not_utf8),
            Problem::Name { .. },
            "metadata key \"a\u{fffd}\" is not UTF-8",
        );
        assert_rejected!(
            RawFile::with_key(key("a\0b", 0, &[1])),
            Problem::Name { .. },
            "metadata key \"a\\0b\" is a string with a NUL byte, expected text without one",
        );
    }

    #[test]
    fn name_length() {
        let file = RawFile {
            keys: vec![u64::MAX.to_le_bytes().to_vec()],
            tensors: Vec::new(),
            data: vec![0; 64],
            ..RawFile::valid()
        };
        assert_rejected!(
            file,
            Problem::Truncated { .. },
            format!(
                "the file is cut inside the name of metadata key 0 (96 of at least {} bytes): download it again",
                u64::MAX
            ),
        );
    }

    #[test]
    fn duplicates() {
        assert_rejected!(
            RawFile::with_key(key("k", 4, &[2, 0, 0, 0])),
            Problem::DuplicateKey { .. },
            "metadata key \"k\" occurs twice, expected once",
        );
    }

    #[test]
    fn types() {
        for id in [13, u32::MAX] {
            assert_rejected!(
                RawFile::with_key(key("x", id, &[])),
                Problem::ValueTypeId { .. },
                format!("metadata key \"x\" has type {id}, expected 0 to 12"),
            );
            assert_rejected!(
                RawFile::with_key(key("x", 9, &array(id, 1, &[0; 8]))),
                Problem::ValueTypeId { .. },
                format!("metadata key \"x\" has type {id}, expected 0 to 12"),
            );
        }
    }

    #[test]
    fn bools() {
        assert_rejected!(
            RawFile::with_key(key("x", 7, &[2])),
            Problem::Bool { .. },
            "metadata key \"x\" has a bool of 2, expected 0 or 1",
        );
        assert_rejected!(
            RawFile::with_key(key("x", 9, &array(7, 3, &[0, 1, 255]))),
            Problem::Bool { .. },
            "metadata key \"x\" has a bool of 255, expected 0 or 1",
        );
    }

    #[test]
    fn string_length() {
        let file = RawFile::with_key(key("x", 8, &u64::MAX.to_le_bytes()));
        let error = open(&file).unwrap_err();
        assert!(matches!(error.problem(), Problem::Truncated { needed: u64::MAX, .. }));
        assert!(
            error.to_string().starts_with("bad.gguf: the file is cut inside metadata key \"x\" (")
        );
    }

    /// The minimum size of the elements is compared with the file size before any is read.
    #[test]
    fn array_length() {
        for (item_type, count) in [(0, u64::MAX), (10, 1 << 61), (8, 1 << 61), (9, 1 << 60)] {
            let file = RawFile::with_key(key("x", 9, &array(item_type, count, &[0; 16])));
            let error = open(&file).unwrap_err();
            assert!(
                matches!(error.problem(), Problem::Truncated { needed, .. } if *needed >= 1 << 60),
                "{error}"
            );
            assert!(error.to_string().contains("inside the array of metadata key \"x\""));
        }
    }

    #[test]
    fn array_string_length() {
        let mut strings = string(b"ok");
        strings.extend(u64::MAX.to_le_bytes());
        let error = open(&RawFile::with_key(key("x", 9, &array(8, 2, &strings)))).unwrap_err();
        assert!(matches!(error.problem(), Problem::Truncated { needed: u64::MAX, .. }));
    }

    #[test]
    fn nesting() {
        let nested = |depth| {
            let mut value = array(0, 1, &[7]);
            for _ in 1..depth {
                value = array(9, 1, &value);
            }
            RawFile::with_key(key("x", 9, &value))
        };
        assert!(open(&nested(4)).is_ok());
        for depth in [5, 10_000] {
            assert_rejected!(
                nested(depth),
                Problem::Nesting { .. },
                "metadata key \"x\" nests arrays more than 4 deep",
            );
        }
    }

    #[test]
    fn alignment() {
        for (type_id, value, found) in [
            (4, 0u32.to_le_bytes().to_vec(), "the u32 0"),
            (4, 4u32.to_le_bytes().to_vec(), "the u32 4"),
            (4, 48u32.to_le_bytes().to_vec(), "the u32 48"),
            (4, (1u32 << 31).to_le_bytes().to_vec(), "the u32 2147483648"),
            (10, 32u64.to_le_bytes().to_vec(), "the u64 32"),
            (8, string(b"32"), "a string"),
        ] {
            assert_rejected!(
                RawFile::with_key(key("general.alignment", type_id, &value)),
                Problem::Alignment { .. },
                format!(
                    "general.alignment is {found}, expected a u32 that is a power of two from 8 \
                     to 2097152"
                ),
            );
        }
    }
}

mod tensors {
    use super::*;

    #[test]
    fn names() {
        assert_rejected!(
            RawFile::with_b(|b| b.name = Vec::new()),
            Problem::Name { .. },
            "tensor name \"\" is empty, expected at least one character",
        );
        assert_rejected!(
            RawFile::with_b(|b| b.name = vec![b'x'; 65]),
            Problem::Name { .. },
            format!("tensor name \"{}…\" is too long, expected 64 bytes at most", "x".repeat(64)),
        );
        assert!(open(&RawFile::with_b(|b| b.name = vec![b'x'; 64])).is_ok());
        assert_rejected!(
            RawFile::with_b(|b| b.name = b"\xc0".to_vec()),
            Problem::Name { .. },
            "tensor name \"\u{fffd}\" is not UTF-8",
        );
        assert_rejected!(
            RawFile::with_b(|b| b.name = b"a".to_vec()),
            Problem::DuplicateTensor { .. },
            "tensor \"a\" occurs twice, expected once",
        );
    }

    #[test]
    fn dimensions() {
        for n_dims in [0, 5, u32::MAX] {
            assert_rejected!(
                RawFile::with_b(|b| b.n_dims = Some(n_dims)),
                Problem::Dimensions { .. },
                format!("tensor \"b\" has {n_dims} dimensions, expected 1 to 4"),
            );
        }
        assert!(open(&RawFile::with_b(|b| b.dims = vec![2, 2, 1, 2])).is_ok());
    }

    #[test]
    fn shapes() {
        for dims in [vec![0], vec![8, 0], vec![0, u64::MAX, u64::MAX]] {
            assert_rejected!(
                RawFile::with_b(|b| b.dims = dims.clone()),
                Problem::Shape { .. },
                format!(
                    "tensor \"b\" has shape {dims:?}: no elements, expected at least one in each \
                     dimension"
                ),
            );
        }
        let too_large = [
            vec![1 << 32, 1 << 32],
            // Exactly 2^64 elements: the wrapped product is 0.
            vec![1 << 16; 4],
            // The number of elements fits in 64 bits, the number of bytes does not.
            vec![1 << 62],
            vec![u64::MAX],
            // The wrapped product is 8 elements, as in CVE-2024-21802.
            vec![8, (1 << 63) + 1, 2],
        ];
        for dims in too_large {
            assert_rejected!(
                RawFile::with_b(|b| b.dims = dims.clone()),
                Problem::Shape { .. },
                format!("tensor \"b\" has shape {dims:?}: more elements than memory can address"),
            );
        }
    }

    #[test]
    fn types() {
        let supported = "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, \
                         Q6_K, IQ4_NL, IQ4_XS, MXFP4, IQ3_S, IQ3_XXS, IQ2_S, IQ2_XS, IQ2_XXS, \
                         IQ1_S, IQ1_M, TQ1_0, TQ2_0, NVFP4, Q2_0, Q1_0";
        for (id, name) in [
            (4, "Q4_2 (removed from GGUF)"),
            (9, "Q8_1"),
            (24, "I8"),
            (99, "id 99"),
            (u32::MAX, "id 4294967295"),
        ] {
            assert_rejected!(
                RawFile::with_b(|b| b.type_id = id),
                Problem::DType { .. },
                format!("tensor \"b\" has type {name}, expected one of {supported}"),
            );
        }
    }

    #[test]
    fn row_length() {
        // 32 elements are one block, but the rows have 8.
        for dims in [vec![8], vec![8, 4]] {
            assert_rejected!(
                RawFile::with_b(|b| (b.type_id, b.dims) = (2, dims.clone())),
                Problem::RowLength { .. },
                "tensor \"b\" has rows of 8, expected a multiple of Q4_0's block of 32",
            );
        }
        assert_rejected!(
            RawFile::with_b(|b| (b.type_id, b.dims) = (12, vec![32])),
            Problem::RowLength { .. },
            "tensor \"b\" has rows of 32, expected a multiple of Q4_K's block of 256",
        );
        assert!(open(&RawFile::with_b(|b| (b.type_id, b.dims) = (2, vec![32]))).is_ok());
    }

    #[test]
    fn offsets() {
        for offset in [1, 33, u64::MAX] {
            assert_rejected!(
                RawFile::with_b(|b| b.offset = offset),
                Problem::Misaligned { .. },
                format!("tensor \"b\" has offset {offset}, expected a multiple of 32"),
            );
        }
        // The alignment is 64, the offsets are multiples of 32.
        let file = RawFile::with_key(key("general.alignment", 4, &64u32.to_le_bytes()));
        assert_rejected!(
            file,
            Problem::Misaligned { .. },
            "tensor \"b\" has offset 32, expected a multiple of 64",
        );
    }

    /// The message has the bytes of the file, and those that its tensors need.
    #[test]
    fn data_end() {
        let message = |tensor: &str, found: u64, whole: u64| {
            format!(
                "the file is incomplete: {found} of {whole} bytes; {tensor:?} is the first tensor that is \
                 cut off; download the file again"
            )
        };
        let whole = RawFile::valid().bytes().len() as u64;
        let mut file = RawFile::valid();
        file.data.pop();
        assert_rejected!(file, Problem::Incomplete { .. }, message("b", whole - 1, whole));
        assert_rejected!(
            RawFile::with_b(|b| b.offset = 64),
            Problem::Incomplete { .. },
            message("b", whole, whole + 32),
        );
        assert_rejected!(
            RawFile { data: Vec::new(), ..RawFile::valid() },
            Problem::Incomplete { .. },
            message("a", whole - 64, whole),
        );
        // the sum of offset and size does not fit in 64 bits with the start of the data, or at all
        for change in [(vec![8], u64::MAX - 31), (vec![1 << 61], u64::MAX - 31)] {
            let file = RawFile::with_b(|b| (b.dims, b.offset) = change);
            assert_rejected!(
                file,
                Problem::Incomplete { .. },
                format!(
                    "the file is incomplete: 0 of {} MiB; \"b\" is the first tensor that is cut off; \
                     download the file again",
                    u64::MAX >> 20
                ),
            );
        }
    }

    #[test]
    fn overlaps() {
        for (dims, offset) in [(vec![8], 0), (vec![1], 0)] {
            assert_rejected!(
                RawFile::with_b(|b| (b.dims, b.offset) = (dims, offset)),
                Problem::Overlap { .. },
                "tensors \"a\" and \"b\" overlap, expected disjoint byte ranges",
            );
        }
        // The tensor with the lower offset is described last.
        let mut file = RawFile::valid();
        file.tensors = vec![RawTensor::f32("a", &[8], 32), RawTensor::f32("b", &[9], 0)];
        assert_rejected!(
            file,
            Problem::Overlap { .. },
            "tensors \"b\" and \"a\" overlap, expected disjoint byte ranges",
        );
    }
}

/// Unusual, but valid files.
mod accepted {
    use super::*;

    #[test]
    fn another_alignment() {
        for alignment in [8u32, 16, 64, 4096, 1 << 21] {
            let mut file = RawFile::with_key(key("general.alignment", 4, &alignment.to_le_bytes()));
            file.alignment = alignment as usize;
            file.tensors.pop();
            let model = open(&file).unwrap();
            assert_eq!(model.tensor("a").unwrap().bytes, (0..32).collect::<Vec<u8>>());
        }
    }

    #[test]
    fn tensors_out_of_order_with_gaps_and_bytes_at_the_end() {
        let mut file = RawFile::valid();
        file.tensors = vec![RawTensor::f32("a", &[4], 96), RawTensor::f32("b", &[8], 32)];
        file.data = (0..128).collect();
        let model = open(&file).unwrap();
        assert_eq!(model.tensor("a").unwrap().bytes, (96..112).collect::<Vec<u8>>());
        assert_eq!(model.tensor("b").unwrap().bytes, (32..64).collect::<Vec<u8>>());
    }

    #[test]
    fn no_tensors_and_no_padding() {
        let file =
            RawFile { tensors: Vec::new(), data: Vec::new(), alignment: 1, ..RawFile::valid() };
        assert_eq!(open(&file).unwrap().tensors().len(), 0);
        let nothing = RawFile { keys: Vec::new(), ..file };
        assert_eq!(nothing.bytes().len(), 24);
        assert_eq!(open(&nothing).unwrap().metadata().iter().len(), 0);
    }

    #[test]
    fn empty_arrays() {
        for item_type in [0, 7, 8, 9] {
            let file = RawFile::with_key(key("x", 9, &array(item_type, 0, &[])));
            assert!(open(&file).is_ok());
        }
    }
}
