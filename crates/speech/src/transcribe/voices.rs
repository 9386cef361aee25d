//! Pieces of a file, and the voices in them.

use std::ops::Range;

/// Frames of voices behind a text that need a text of their own. The times of a text and those of
/// its voices differ by less.
const LEAST: usize = 40;
/// Frames before a voice with which its decoding begins.
const LEAD: usize = 40;

/// A piece of a file that is decoded by itself. Places are frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The frames of the piece.
    pub frames: Range<usize>,
    /// The frames of voices in it: ascending and disjoint. A text that ends before the last of them
    /// is incomplete. Without any, the text is complete wherever it ends.
    pub voices: Vec<Range<usize>>,
}

impl Piece {
    /// The frame at which decoding goes on if the text so far ends at `from`: before the next
    /// voice. `None` if voices are over.
    pub(super) fn next_voice(&self, from: usize) -> Option<usize> {
        let first = self.voices.iter().find(|voice| voice.end.min(self.frames.end) > from)?;
        let start = from.max(first.start.saturating_sub(LEAD));
        (self.voices_after(from) >= LEAST).then_some(start)
    }

    /// Frames of voices from a frame on.
    pub(super) fn voices_after(&self, from: usize) -> usize {
        let rest = |voice: &Range<usize>| {
            let end = voice.end.min(self.frames.end);
            end.saturating_sub(voice.start.max(from))
        };
        self.voices.iter().map(rest).sum()
    }
}

/// Checks the frames of pieces, of which each has at most `most`.
pub(super) fn check(pieces: &[Piece], most: usize) -> Result<(), String> {
    let mut end = 0;
    for Piece { frames, .. } in pieces {
        let count = frames.end.saturating_sub(frames.start);
        if !(1..=most).contains(&count) || frames.start < end {
            return Err(format!(
                "the piece of frames {} to {} is empty, overlaps the one before or has more than {most} frames",
                frames.start, frames.end
            ));
        }
        end = frames.end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_goes_on_before_the_next_voice() {
        let piece = Piece { frames: 0..2000, voices: vec![100..500, 900..1400, 1700..2100] };
        for (from, expected) in [
            (0, Some(60)),
            (80, Some(80)),
            (450, Some(450)),
            (500, Some(860)),
            (890, Some(890)),
            (1400, Some(1660)),
            (1960, Some(1960)),
            // the rest is within the tolerance of times, or outside of the piece
            (1961, None),
            (2500, None),
        ] {
            assert_eq!(piece.next_voice(from), expected, "{from}");
        }
        assert_eq!(Piece { voices: Vec::new(), ..piece }.next_voice(0), None);
    }
}
