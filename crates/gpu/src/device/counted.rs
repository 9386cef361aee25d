//! The bytes of buffers that are not allocated yet.

use pelton_graph::Error;

/// The sum of the bytes of all buffers that `make` asks for.
pub(crate) fn counted(
    make: impl FnOnce(&mut dyn FnMut(&str, u64) -> Result<(), Error>) -> Result<(), Error>,
) -> Result<u64, Error> {
    let mut all: u64 = 0;
    make(&mut |_, bytes| {
        all = all.saturating_add(bytes);
        Ok(())
    })?;
    Ok(all)
}
