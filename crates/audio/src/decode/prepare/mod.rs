//! The part of a file that a decoder sees. Its header is walked here first, by code that allocates
//! nothing on the file's word.
//!
//! A walk finds the container and hides tags, covers and other tracks. It mends sizes that were
//! never written or lie beyond the file's end. It refuses counts that the file cannot hold. So a
//! library reads only the parts that lead to samples.

mod aiff;
mod flac;
mod kind;
mod matroska;
mod mp4;
mod tags;
mod vorbis;
mod walked;
mod wave;

pub(crate) use kind::Kind;
pub(crate) use vorbis::check as check_vorbis;

use self::walked::Walked;
use super::input::Input;
use crate::AudioError;

/// A file whose header was walked.
#[derive(Clone)]
pub(crate) struct Prepared {
    pub(crate) input: Input,
    pub(crate) kind: Kind,
    /// The starts of the tracks of an MP4 file as `(track, ticks of its media)`.
    pub(crate) starts: Vec<(u32, u64)>,
    /// The paddings at the ends of the tracks of a Matroska file as `(track, nanoseconds)`.
    pub(crate) paddings: Vec<(u32, u64)>,
}

/// Walks the header of a file.
///
/// # Errors
///
/// The file has no known format, or counts that it cannot hold.
pub(crate) fn prepare(input: &Input, name: &str) -> Result<Prepared, AudioError> {
    let input = &mut input.clone();
    let start = tags::start(input);
    let input = &mut input.part(start..u64::MAX);
    let unknown = || AudioError::Unknown { name: name.to_owned() };
    let (kind, at) = kind::find(input).ok_or_else(unknown)?;
    let input = &mut input.part(at..u64::MAX);
    let walked = match kind {
        Kind::Wave => wave::walk(input),
        Kind::Aiff => aiff::walk(input),
        Kind::Flac => flac::walk(input),
        Kind::Mp4 => mp4::walk(input),
        Kind::Matroska => matroska::walk(input),
        Kind::Ogg => Ok(Walked::whole(input)),
        Kind::Frames => Ok(Walked { part: tags::end(input), ..Walked::whole(input) }),
    };
    let malformed = |problem| AudioError::Malformed { name: name.to_owned(), problem };
    let walked = walked.map_err(malformed)?;
    let input = input.part(walked.part).changed(walked.changes);
    Ok(Prepared { input, kind, starts: walked.starts, paddings: walked.paddings })
}

/// Whether bytes may be audio: a quick look at their start, before the decoder's turn.
pub(crate) fn is_plausible(input: &Input) -> bool {
    let input = &mut input.clone();
    let start = tags::start(input);
    kind::find(&mut input.part(start..u64::MAX)).is_some()
}
