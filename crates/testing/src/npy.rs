//! Arrays of NumPy, which oracles in Python write.

use std::{fs, path::Path};

/// The shape and the elements of a version 1 `.npy` file with elements of 4 bytes in the order of
/// C.
///
/// # Panics
///
/// If the file cannot be read, or has another type or order.
fn read(path: &Path, dtype: &str) -> (Vec<usize>, Vec<[u8; 4]>) {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(bytes.starts_with(b"\x93NUMPY\x01"), "{} is no version 1 .npy file", path.display());
    let end = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = String::from_utf8_lossy(&bytes[10..end]);
    let is_expected = header.contains(dtype) && header.contains("'fortran_order': False");
    assert!(is_expected, "{}: {header}, expected {dtype}", path.display());
    let shape = header.split(['(', ')']).nth(1).unwrap_or_default();
    let shape = shape.split(',').filter_map(|size| size.trim().parse().ok()).collect();
    (shape, bytes[end..].as_chunks().0.to_vec())
}

/// The shape and the elements of an array of `float32`.
///
/// # Panics
///
/// If the file cannot be read, or has another type or order.
pub fn shaped_floats(path: impl AsRef<Path>) -> (Vec<usize>, Vec<f32>) {
    let (shape, elements) = read(path.as_ref(), "'<f4'");
    (shape, elements.into_iter().map(f32::from_le_bytes).collect())
}

/// The elements of an array of `float32`.
///
/// # Panics
///
/// If the file cannot be read, or has another type or order.
pub fn floats(path: impl AsRef<Path>) -> Vec<f32> {
    shaped_floats(path).1
}

/// The elements of an array of `int32` that are not negative.
///
/// # Panics
///
/// If the file cannot be read, or has another type or order.
pub fn integers(path: impl AsRef<Path>) -> Vec<u32> {
    read(path.as_ref(), "'<i4'").1.into_iter().map(u32::from_le_bytes).collect()
}
