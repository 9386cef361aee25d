//! The bytes of a file in blocks, so that it grows without copies.

use std::{
    io::{self, Read, Seek, SeekFrom},
    sync::Arc,
};

/// Bytes of a block.
const BLOCK: usize = 1 << 20;

/// Bytes that are appended, then read. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks {
    /// All but the last one are full.
    blocks: Arc<Vec<Vec<u8>>>,
    /// The place of the next read.
    position: u64,
}

impl Blocks {
    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        let last = self.blocks.last().map_or(0, Vec::len);
        self.blocks.len().saturating_sub(1) * BLOCK + last
    }

    /// The memory that it takes with more bytes. A small file takes no whole block.
    pub(super) fn memory_with(&self, more: usize) -> usize {
        let len = self.len() + more;
        if len <= BLOCK { 2 * len } else { len.next_multiple_of(BLOCK) }
    }

    pub(super) fn extend(&mut self, mut bytes: &[u8]) {
        let blocks = Arc::make_mut(&mut self.blocks);
        while !bytes.is_empty() {
            let is_first = blocks.is_empty();
            let last = match blocks.last_mut().filter(|last| last.len() < BLOCK) {
                Some(last) => last,
                None => {
                    let room = if is_first { 0 } else { BLOCK };
                    blocks.push(Vec::with_capacity(room));
                    continue;
                }
            };
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - last.len()));
            let len = last.len() + now.len();
            if len > last.capacity() {
                // a vector that doubles would take more than a block
                let room = len.max(2 * last.capacity()).min(BLOCK);
                last.reserve_exact(room - last.len());
            }
            last.extend_from_slice(now);
            bytes = later;
        }
    }
}

impl Read for Blocks {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let at = usize::try_from(self.position).unwrap_or(usize::MAX);
        let block = self.blocks.get(at / BLOCK).and_then(|block| block.get(at % BLOCK..));
        let block = block.unwrap_or_default();
        let count = block.len().min(out.len());
        out[..count].copy_from_slice(&block[..count]);
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for Blocks {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let found = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => (self.len() as u64).checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        let outside = || io::Error::new(io::ErrorKind::InvalidInput, "a place before the file");
        self.position = found.ok_or_else(outside)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_as_one_file() {
        let bytes: Vec<u8> = (0..2 * BLOCK + 77).map(|i| (i * 31 % 251) as u8).collect();
        let mut blocks = Blocks::default();
        for piece in bytes.chunks(70_001) {
            let memory = blocks.memory_with(piece.len());
            blocks.extend(piece);
            let taken: usize = blocks.blocks.iter().map(Vec::capacity).sum();
            assert!(taken <= memory, "{taken} of {memory}");
        }
        assert_eq!(blocks.len(), bytes.len());
        let mut read = Vec::new();
        blocks.read_to_end(&mut read).unwrap();
        assert!(read == bytes);
        assert_eq!(blocks.seek(SeekFrom::End(-5)).unwrap(), bytes.len() as u64 - 5);
        let mut last = [0; 9];
        assert_eq!(blocks.read(&mut last).unwrap(), 5);
        assert_eq!(last[..5], bytes[bytes.len() - 5..]);
        assert!(blocks.seek(SeekFrom::Current(-i64::MAX)).is_err());
        // a place behind the end has no bytes
        blocks.seek(SeekFrom::Start(u64::MAX)).unwrap();
        assert_eq!(blocks.read(&mut last).unwrap(), 0);
    }
}
