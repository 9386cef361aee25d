//! The pieces of a file: units of which a journal says that they are complete.

use std::ops::Range;

/// Bytes of a piece; the last one of a file may have fewer.
pub(super) const PIECE: u64 = 1 << 20;
/// The largest number of pieces of one request.
const RUN: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Missing,
    /// A connection is fetching it.
    Taken,
    Complete,
}

/// The pieces of a file of known size.
#[derive(Debug)]
pub(super) struct Pieces {
    states: Vec<State>,
    size: u64,
}

impl Pieces {
    pub(super) fn new(size: u64) -> Self {
        let count = usize::try_from(size.div_ceil(PIECE)).unwrap_or(usize::MAX);
        Self { states: vec![State::Missing; count], size }
    }

    /// The bytes of a piece.
    pub(super) fn bytes(&self, piece: usize) -> Range<u64> {
        let start = (piece as u64 * PIECE).min(self.size);
        start..(start + PIECE).min(self.size)
    }

    pub(super) fn complete(&mut self, piece: usize) {
        if let Some(state) = self.states.get_mut(piece) {
            *state = State::Complete;
        }
    }

    pub(super) fn complete_bytes(&self) -> u64 {
        let complete = |piece: &usize| self.states[*piece] == State::Complete;
        (0..self.states.len())
            .filter(complete)
            .map(|piece| self.bytes(piece).end - self.bytes(piece).start)
            .sum()
    }

    /// Takes the next missing pieces for one of `connections` connections: neighbours, so that one
    /// request fetches them. `None` if none is missing.
    pub(super) fn take(&mut self, connections: usize) -> Option<Range<usize>> {
        let missing = self.states.iter().filter(|state| **state == State::Missing).count();
        let start = self.states.iter().position(|state| *state == State::Missing)?;
        // the last requests are short, so that all connections end together
        let longest = (missing / (2 * connections.max(1))).clamp(1, RUN);
        let rest = self.states[start..].iter().take(longest);
        let length = rest.take_while(|state| **state == State::Missing).count();
        self.states[start..start + length].fill(State::Taken);
        Some(start..start + length)
    }

    /// Makes all pieces missing again.
    pub(super) fn reset(&mut self) {
        self.states.fill(State::Missing);
    }

    /// Takes all pieces, for a host that sends whole files only.
    pub(super) fn take_all(&mut self) -> Range<usize> {
        self.states.fill(State::Taken);
        0..self.states.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_taken_once() {
        for (size, connections) in
            [(0, 4), (1, 4), (PIECE, 1), (200 * PIECE + 7, 4), (3 * PIECE, 8)]
        {
            let mut pieces = Pieces::new(size);
            pieces.complete(2);
            let mut end = 0;
            let mut taken = 0;
            while let Some(run) = pieces.take(connections) {
                assert!(run.start >= end && !run.is_empty() && run.len() <= RUN);
                end = run.end;
                for piece in run {
                    taken += pieces.bytes(piece).end - pieces.bytes(piece).start;
                    pieces.complete(piece);
                }
            }
            let third = pieces.bytes(2).end - pieces.bytes(2).start;
            assert_eq!(taken + third, size, "{size}");
            assert_eq!(pieces.complete_bytes(), size);
        }
    }
}
