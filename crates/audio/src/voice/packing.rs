//! Parts with speech, packed into windows.

use crate::SAMPLE_RATE;
use std::ops::Range;

/// A part of a window: samples of the file that are at a place of the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Samples of the file.
    pub file: Range<u64>,
    /// The first of them in the window, in samples.
    pub window: u64,
}

/// A window of parts with speech, one after another, with a map from its times to those of the
/// file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packing {
    pieces: Vec<Piece>,
}

impl Packing {
    /// Packs ascending, disjoint ranges of samples into windows of at most `seconds`, in their
    /// order.
    ///
    /// A range that is longer than a window is cut into whole windows and a rest.
    #[must_use]
    pub fn pack(parts: &[Range<u64>], seconds: f64) -> Vec<Self> {
        let room = ((seconds * f64::from(SAMPLE_RATE)) as u64).max(1);
        let mut windows: Vec<Self> = Vec::new();
        let mut current = Self::default();
        for part in parts {
            let mut start = part.start;
            while start < part.end {
                let length = (part.end - start).min(room);
                if current.samples() + length > room {
                    windows.push(std::mem::take(&mut current));
                }
                let window = current.samples();
                current.pieces.push(Piece { file: start..start + length, window });
                start += length;
            }
        }
        if !current.pieces.is_empty() {
            windows.push(current);
        }
        windows
    }

    /// The parts, in the order of the file.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Samples of the window.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.window + piece.file.end - piece.file.start)
    }

    /// The sample of the file at a sample of the window. Beyond the end it is the end of the last
    /// part.
    ///
    /// A border between two parts is the start of the second one, so it suits the start of a
    /// segment.
    #[must_use]
    pub fn start_in_file(&self, window: u64) -> u64 {
        let index = self.pieces.partition_point(|piece| piece.window <= window);
        self.map(index, window)
    }

    /// As [`start_in_file`](Self::start_in_file), but a border is the end of the first part, so it
    /// suits the end of a segment.
    #[must_use]
    pub fn end_in_file(&self, window: u64) -> u64 {
        let index = self.pieces.partition_point(|piece| piece.window < window);
        self.map(index.max(1), window)
    }

    /// The sample of the window at a sample of the file; `None` outside of its parts.
    #[must_use]
    pub fn in_window(&self, file: u64) -> Option<u64> {
        let piece = self.pieces.iter().find(|piece| piece.file.contains(&file))?;
        Some(piece.window + file - piece.file.start)
    }

    fn map(&self, index: usize, window: u64) -> u64 {
        let Some(piece) = self.pieces.get(index.saturating_sub(1)) else { return 0 };
        piece.file.start.saturating_add(window.saturating_sub(piece.window)).min(piece.file.end)
    }
}
