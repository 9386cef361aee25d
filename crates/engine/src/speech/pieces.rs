//! Pieces of audio that are decoded by themselves: parts with voices, joined to windows.

use std::ops::Range;

use pelton_audio::{SAMPLE_RATE, Voice};
use pelton_speech::transcribe::Piece;

/// Frames of features a second.
const FRAMES: usize = 100;

/// The parts of audio of some frames that starts and ends in seconds name; all of it without any.
pub(super) fn clips(times: &[f64], frames: usize) -> Vec<Range<usize>> {
    // the cast saturates
    let frame = |seconds: f64| ((seconds * FRAMES as f64).round_ties_even() as usize).min(frames);
    let mut ends: Vec<usize> = times.iter().map(|&seconds| frame(seconds)).collect();
    if ends.is_empty() {
        ends.push(0);
    }
    if ends.len() % 2 == 1 {
        ends.push(frames);
    }
    ends.chunks_exact(2).map(|clip| clip[0]..clip[1]).collect()
}

/// Joins voices within clips, both ascending and disjoint, to pieces of at most `full` frames, as
/// long as the pauses between them fit too.
pub(super) fn pieces(voices: &[Voice], clips: &[Range<usize>], full: usize) -> Vec<Piece> {
    let mut all = Vec::new();
    for clip in clips {
        let first = all.len();
        for voice in voices {
            let part = common(&frames(&voice.padded), clip);
            let start = part.start.max(all.last().map_or(0, |last: &Piece| last.frames.end));
            add(&mut all, first, start..part.end, full);
        }
    }
    // the joins are known now, and with them the voices of each piece
    for piece in &mut all {
        let inside = voices.iter().map(|voice| common(&frames(&voice.speech), &piece.frames));
        piece.voices = inside.filter(|voice| !voice.is_empty()).collect();
    }
    all
}

/// Adds a part to the last piece, if that is none before `first` and has room, or as pieces of its
/// own.
fn add(all: &mut Vec<Piece>, first: usize, part: Range<usize>, full: usize) {
    if part.is_empty() {
        return;
    }
    if let Some(last) = all[first..].last_mut()
        && part.end - last.frames.start <= full
    {
        last.frames.end = part.end;
        return;
    }
    // a part is at most a window long, its last frame may be beyond it
    let mut start = part.start;
    while start < part.end {
        let end = part.end.min(start + full);
        all.push(Piece { frames: start..end, voices: Vec::new() });
        start = end;
    }
}

/// The frames of samples.
fn frames(samples: &Range<u64>) -> Range<usize> {
    let hop = u64::from(SAMPLE_RATE) / FRAMES as u64;
    let of = |frame: u64| usize::try_from(frame).unwrap_or(usize::MAX);
    of(samples.start / hop)..of(samples.end.div_ceil(hop))
}

/// The frames of both ranges; an empty range if there are none.
fn common(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    let start = a.start.max(b.start);
    start..a.end.min(b.end).max(start)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn voice(padded: Range<u64>) -> Voice {
        Voice { speech: padded.clone(), padded }
    }

    fn ranges(pieces: &[Piece]) -> Vec<Range<usize>> {
        pieces.iter().map(|piece| piece.frames.clone()).collect()
    }

    #[test]
    fn parts_are_joined_to_windows() {
        let second = |s: u64| s * u64::from(SAMPLE_RATE);
        let parts = [(1, 5), (7, 20), (28, 58)];
        let mut voices: Vec<Voice> =
            parts.into_iter().map(|(start, end)| voice(second(start)..second(end))).collect();
        voices[1].speech = second(8)..second(19);
        let all = clips(&[], 100_000);
        let found = pieces(&voices, &all, 3000);
        assert_eq!(ranges(&found), [100..2000, 2800..5800]);
        assert_eq!(found[0].voices, [100..500, 800..1900]);
        assert_eq!(found[1].voices, std::slice::from_ref(&(2800..5800)));
        // cut to the content, and to clips
        let cut = ranges(&pieces(&voices, &clips(&[], 3000), 3000));
        assert_eq!(cut, std::slice::from_ref(&(100..3000)));
        let times = clips(&[0.0, 2.0, 3.0, 10.0, 40.0], 100_000);
        assert_eq!(ranges(&pieces(&voices, &times, 3000)), [100..200, 300..1000, 4000..5800]);
        assert_eq!(pieces(&[], &all, 3000), []);
    }

    #[test]
    fn clips_end_with_the_audio() {
        assert_eq!(clips(&[], 500), std::slice::from_ref(&(0..500)));
        assert_eq!(clips(&[1.0], 500), std::slice::from_ref(&(100..500)));
        assert_eq!(clips(&[1.0, 2.5, 4.0, 1e12], 500), [100..250, 400..500]);
        assert_eq!(clips(&[9.0, 10.0], 500), std::slice::from_ref(&(500..500)));
    }

    proptest! {
        #[test]
        fn pieces_are_ascending_and_cover_all_parts(
            lengths in prop::collection::vec((0u64..90_000, 1u64..700_000), 0..20),
        ) {
            let (mut parts, mut at) = (Vec::new(), 0);
            for (gap, length) in lengths {
                parts.push(voice(at + gap..at + gap + length));
                at += gap + length;
            }
            let frames = (at / 160) as usize;
            let found = pieces(&parts, &clips(&[], frames), 3000);
            for piece in &found {
                let Piece { frames: own, voices } = piece;
                prop_assert!(own.start < own.end && own.len() <= 3000 && own.end <= frames);
                prop_assert!(voices.iter().all(|v| own.start <= v.start && v.end <= own.end));
            }
            prop_assert!(found.windows(2).all(|pair| pair[0].frames.end <= pair[1].frames.start));
            let ends = |part: &Voice| [part.padded.start / 160, (part.padded.end - 1) / 160];
            for frame in parts.iter().flat_map(ends) {
                let frame = frame as usize;
                let covers = |piece: &Piece| {
                    piece.frames.contains(&frame) && piece.voices.iter().any(|v| v.contains(&frame))
                };
                prop_assert!(found.iter().any(covers) || frame >= frames, "{frame} in {found:?}");
            }
        }
    }
}
