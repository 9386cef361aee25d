//! Files in numpy's format.

use std::io::Write;

use anyhow::Result;

/// Writes an array `[rows, columns]` in version 1.0 of numpy's format (numpy/lib/format.py). It is
/// a magic number, the length of a header, the header, and the data. The header is a Python
/// literal, padded so that the data begins at a multiple of 64.
pub(crate) fn write(mut to: impl Write, rows: usize, columns: usize, data: &[f32]) -> Result<()> {
    let literal =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    let before = 10;
    let header_len = (before + literal.len() + 1).next_multiple_of(64) - before;
    to.write_all(b"\x93NUMPY\x01\x00")?;
    to.write_all(&u16::try_from(header_len)?.to_le_bytes())?;
    writeln!(to, "{literal:<width$}", width = header_len - 1)?;
    for value in data {
        to.write_all(&value.to_le_bytes())?;
    }
    to.flush()?;
    Ok(())
}
