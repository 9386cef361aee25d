//! The start of a track in an MP4 file: encoders of AAC put samples before it that edit lists leave out.

use std::io::{Read, Seek, SeekFrom};

/// Boxes that are read at most.
const BOXES: usize = 4_096;

/// The starts of the tracks of an MP4 file as `(track, ticks of its media)`. None of other files.
///
/// The layout is that of ISO/IEC 14496-12: `moov`, `trak`, `tkhd`, `edts`, `elst`. A file that does not
/// follow it has no starts: the decoder reports its faults.
pub(crate) fn starts(reader: &mut (impl Read + Seek)) -> Vec<(u32, u64)> {
    let mut walk = Walk { reader, boxes: 0, track: None, starts: Vec::new() };
    let mut head = [0; 8];
    if walk.reader.read_exact(&mut head).is_ok() && &head[4..] == b"ftyp" {
        // An error ends the walk with what was found.
        let _ = walk.children(0, u64::MAX);
    }
    walk.starts
}

struct Walk<'a, R> {
    reader: &'a mut R,
    boxes: usize,
    /// The track whose boxes are read.
    track: Option<u32>,
    starts: Vec<(u32, u64)>,
}

impl<R: Read + Seek> Walk<'_, R> {
    /// Reads the boxes between two places of the file. `None` ends the walk.
    fn children(&mut self, mut at: u64, end: u64) -> Option<()> {
        while at < end {
            self.boxes += 1;
            if self.boxes > BOXES {
                return None;
            }
            self.reader.seek(SeekFrom::Start(at)).ok()?;
            let (mut length, kind) = (u64::from(self.u32()?), self.bytes::<4>()?);
            let mut head = 8;
            if length == 1 {
                (length, head) = (u64::from_be_bytes(self.bytes()?), 16);
            }
            let next = if length == 0 { end } else { at.checked_add(length)? };
            if next < at + head {
                return None;
            }
            let (content, next) = (at + head, next.min(end));
            match &kind {
                b"moov" => {
                    let _ = self.children(content, next);
                    return None;
                }
                b"trak" => {
                    self.track = None;
                    self.children(content, next)?;
                }
                b"edts" => self.children(content, next)?,
                b"tkhd" => {
                    let version = self.bytes::<4>()?[0];
                    self.skip(if version == 1 { 16 } else { 8 })?;
                    self.track = Some(self.u32()?);
                }
                b"elst" => self.edits()?,
                _ => {}
            }
            at = next;
        }
        Some(())
    }

    /// Reads an edit list: the first edit that is not empty states the start.
    fn edits(&mut self) -> Option<()> {
        let version = self.bytes::<4>()?[0];
        for _ in 0..self.u32()?.min(BOXES as u32) {
            let time = if version == 1 {
                self.skip(8)?;
                i64::from_be_bytes(self.bytes()?)
            } else {
                self.skip(4)?;
                i64::from(i32::from_be_bytes(self.bytes()?))
            };
            self.skip(4)?;
            if let Ok(time) = u64::try_from(time) {
                self.starts.push((self.track?, time));
                break;
            }
        }
        Some(())
    }

    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.bytes()?))
    }

    fn skip(&mut self, count: i64) -> Option<()> {
        self.reader.seek_relative(count).ok()
    }
}
