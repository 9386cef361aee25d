//! MP4 (ISO/IEC 14496-12): tables and runs are checked, tracks without audio are hidden.
//!
//! The walk also finds the starts of tracks: encoders of AAC put samples before them, which edit
//! lists leave out. A size of `mdat` that is open, or beyond the file's end, becomes that of the
//! file.

use super::walked::Walked;
use crate::decode::input::{Change, Input};

/// Boxes that are read at most.
const BOXES: usize = 1 << 20;
/// Tracks of audio at most.
const TRACKS: usize = 16;
/// Tracks of all kinds at most.
const ALL: usize = 1_024;
/// The most entries of a table of times, and samples of a fragment of a track. A reader walks them
/// for each sample.
const ENTRIES: u64 = 1 << 18;
/// Runs of a fragment of a track at most.
const RUNS: u64 = 4_096;
/// Samples in all fragments beyond the bytes of the file.
const SAMPLES: u64 = 1 << 20;
/// Fragments times tracks at most: a reader keeps something of each.
const FRAGMENTS: u64 = 1 << 20;
/// Fragments, one after another, without samples.
const EMPTY: u64 = 4_096;
/// Levels of boxes within a track at most: `mdia`, `minf`, `stbl` and their content.
const LEVELS: usize = 8;

/// A box.
struct Part {
    kind: [u8; 4],
    at: u64,
    content: u64,
    end: u64,
}

/// Why a walk ends before the end of the file.
enum Stop {
    /// Bytes that are no box, or the end of the file.
    Fault,
    /// Something that the file cannot have.
    Refused(String),
}

type Outcome<T = ()> = Result<T, Stop>;

/// A track.
#[derive(Default)]
struct Track {
    at: u64,
    id: Option<u32>,
    is_audio: bool,
    start: Option<u64>,
    /// Why it cannot be read.
    problem: Option<String>,
}

/// The statements of a movie about the fragments of a track.
struct Defaults {
    at: u64,
    id: u32,
    size: u32,
}

struct Walk<'a> {
    input: &'a mut Input,
    length: u64,
    /// The end of what is shown.
    end: u64,
    boxes: usize,
    /// Levels of the box of a track that is read.
    level: usize,
    changes: Vec<Change>,
    tracks: Vec<Track>,
    defaults: Vec<Defaults>,
    fragments: u64,
    /// Fragments since the last one with samples.
    empty: u64,
    samples: u64,
}

pub(super) fn walk(input: &mut Input) -> Result<Walked, String> {
    let mut walked = Walked::whole(input);
    let length = input.length();
    let mut walk = Walk {
        input,
        length,
        end: length,
        boxes: 0,
        level: 0,
        changes: Vec::new(),
        tracks: Vec::new(),
        defaults: Vec::new(),
        fragments: 0,
        empty: 0,
        samples: 0,
    };
    if let Err(Stop::Refused(problem)) = walk.file() {
        return Err(problem);
    }
    walked.part.end = walk.end;
    let start = |track: &Track| Some((track.id?, track.start?));
    walked.starts = walk.tracks.iter().filter_map(start).collect();
    walked.changes = walk.changes;
    Ok(walked)
}

fn refuse<T>(problem: String) -> Outcome<T> {
    Err(Stop::Refused(problem))
}

impl Walk<'_> {
    fn file(&mut self) -> Outcome {
        let mut at = 0;
        while at < self.length {
            // A box that does not follow the format is not shown, nor are those behind it.
            self.end = at;
            let part = self.part(at, self.length)?;
            match &part.kind {
                b"moov" => self.movie(&part).map_err(|stop| match stop {
                    Stop::Fault => {
                        Stop::Refused("its movie header does not follow the format".into())
                    }
                    refused @ Stop::Refused(_) => refused,
                })?,
                b"moof" => self.fragment(&part)?,
                b"meta" => self.hide(part.at),
                _ => {}
            }
            at = part.end;
        }
        self.end = self.length;
        Ok(())
    }

    /// The box at a place within another one.
    fn part(&mut self, at: u64, end: u64) -> Outcome<Part> {
        self.boxes += 1;
        if self.boxes > BOXES {
            return refuse(format!("it has more than {BOXES} boxes"));
        }
        let head = self.input.array::<8>(at).ok_or(Stop::Fault)?;
        let kind = [head[4], head[5], head[6], head[7]];
        let (mut size, mut content) = (u64::from(be32(&head[..4])), at + 8);
        if size == 1 {
            size = u64::from_be_bytes(self.input.array(content).ok_or(Stop::Fault)?);
            content += 8;
        }
        let stated = if size == 0 { end } else { at.checked_add(size).ok_or(Stop::Fault)? };
        if stated < content {
            return Err(Stop::Fault);
        }
        if &kind == b"mdat" && (size == 0 || stated > end) {
            self.mend(at, content, end);
        } else if stated > end {
            return Err(Stop::Fault);
        }
        Ok(Part { kind, at, content, end: stated.min(end) })
    }

    /// Ends a box at another place.
    fn mend(&mut self, at: u64, content: u64, end: u64) {
        let size = end - at;
        if content - at == 16 {
            self.changes.push(Change::new(at + 8, &size.to_be_bytes()));
        } else if let Ok(size) = u32::try_from(size) {
            self.changes.push(Change::new(at, &size.to_be_bytes()));
        }
    }

    /// Turns a box into free space.
    fn hide(&mut self, at: u64) {
        self.changes.push(Change::new(at + 4, b"free"));
    }

    /// Calls a function for each box within another one.
    fn children(
        &mut self,
        outer: &Part,
        mut each: impl FnMut(&mut Self, &Part) -> Outcome,
    ) -> Outcome {
        let mut at = outer.content;
        // some boxes end with a few zeros
        while at + 8 <= outer.end {
            let part = self.part(at, outer.end)?;
            each(self, &part)?;
            at = part.end;
        }
        Ok(())
    }

    fn movie(&mut self, movie: &Part) -> Outcome {
        if !self.tracks.is_empty() {
            return refuse("it has two movie headers".to_owned());
        }
        self.children(movie, |walk, part| {
            match &part.kind {
                b"trak" => {
                    walk.tracks.push(Track { at: part.at, ..Track::default() });
                    walk.track(part)?;
                }
                b"mvex" => walk.children(part, |walk, part| {
                    if &part.kind == b"trex" {
                        let fields = walk.fields::<24>(part)?;
                        let (id, size) = (be32(&fields[4..]), be32(&fields[16..]));
                        walk.defaults.push(Defaults { at: part.at, id, size });
                    }
                    Ok(())
                })?,
                b"udta" | b"meta" => walk.hide(part.at),
                _ => {}
            }
            if walk.tracks.len().max(walk.defaults.len()) > ALL {
                return refuse(format!("it has more than {ALL} tracks"));
            }
            Ok(())
        })?;
        let audio = self.tracks.iter().filter(|track| track.is_audio).count();
        if audio > TRACKS {
            return refuse(format!("it has {audio} tracks of audio, expected at most {TRACKS}"));
        }
        if audio > 0 {
            let hidden = std::mem::take(&mut self.tracks);
            let (shown, hidden): (Vec<_>, Vec<_>) = hidden.into_iter().partition(|t| t.is_audio);
            for track in &hidden {
                self.hide(track.at);
                let defaults = self.defaults.iter().find(|d| Some(d.id) == track.id);
                if let Some(at) = defaults.map(|defaults| defaults.at) {
                    self.hide(at);
                }
            }
            self.tracks = shown;
        }
        match self.tracks.iter_mut().find_map(|track| track.problem.take()) {
            Some(problem) => refuse(problem),
            None => Ok(()),
        }
    }

    fn track(&mut self, outer: &Part) -> Outcome {
        if self.level == LEVELS {
            return refuse(format!("its boxes are nested in more than {LEVELS} levels"));
        }
        self.level += 1;
        let read = self.children(outer, |walk, part| match walk.of_track(part) {
            Err(Stop::Refused(problem)) => {
                walk.last(|track| {
                    track.problem.get_or_insert(problem);
                });
                Ok(())
            }
            other => other,
        });
        self.level -= 1;
        read
    }

    fn of_track(&mut self, part: &Part) -> Outcome {
        match &part.kind {
            b"edts" | b"mdia" | b"minf" | b"stbl" => self.track(part),
            b"tkhd" => {
                let version = self.fields::<1>(part)?[0];
                let id = part.content + if version == 1 { 20 } else { 12 };
                let id = self.input.array::<4>(id).map(|id| be32(&id));
                self.last(|track| track.id = id);
                Ok(())
            }
            b"hdlr" => {
                let fields = self.fields::<12>(part)?;
                // the handler of the data, beside that of the media
                let is_audio = &fields[8..] == b"soun";
                self.last(|track| track.is_audio |= is_audio);
                Ok(())
            }
            b"elst" => self.edits(part),
            b"stts" => {
                let count = u64::from(be32(&self.fields::<8>(part)?[4..]));
                if count > ENTRIES {
                    return refuse(format!(
                        "a table of times has {count} entries, expected at most {ENTRIES}"
                    ));
                }
                self.table(part, 8, count, 8)
            }
            b"stsz" => {
                let fields = self.fields::<12>(part)?;
                let width = if be32(&fields[4..]) == 0 { 4 } else { 0 };
                self.table(part, 12, u64::from(be32(&fields[8..])), width)
            }
            b"stco" | b"stss" => self.counted(part, 4),
            b"co64" | b"ctts" => self.counted(part, 8),
            b"stsc" => self.counted(part, 12),
            _ => Ok(()),
        }
    }

    fn last(&mut self, change: impl FnOnce(&mut Track)) {
        if let Some(track) = self.tracks.last_mut() {
            change(track);
        }
    }

    /// The first bytes of a box.
    fn fields<const N: usize>(&mut self, part: &Part) -> Outcome<[u8; N]> {
        if part.end - part.content < N as u64 {
            return Err(Stop::Fault);
        }
        self.input.array(part.content).ok_or(Stop::Fault)
    }

    /// Checks a table with its number of entries before it.
    fn counted(&mut self, part: &Part, width: u64) -> Outcome {
        let count = u64::from(be32(&self.fields::<8>(part)?[4..]));
        self.table(part, 8, count, width)
    }

    /// Checks that a box has the entries that it states.
    fn table(&mut self, part: &Part, head: u64, count: u64, width: u64) -> Outcome {
        let size = part.end - part.content;
        if head + count * width > size {
            let kind = String::from_utf8_lossy(&part.kind).into_owned();
            return refuse(format!("its box {kind} states {count} entries in {size} bytes"));
        }
        Ok(())
    }

    /// Reads an edit list: the first edit that is not empty states the start.
    fn edits(&mut self, part: &Part) -> Outcome {
        let fields = self.fields::<8>(part)?;
        let (is_wide, count) = (fields[0] == 1, u64::from(be32(&fields[4..])));
        let width = if is_wide { 20 } else { 12 };
        self.table(part, 8, count, width)?;
        for edit in 0..count.min(RUNS) {
            let at = part.content + 8 + edit * width;
            let time = if is_wide {
                self.input.array(at + 8).map(i64::from_be_bytes)
            } else {
                self.input.array(at + 4).map(|time| i64::from(i32::from_be_bytes(time)))
            };
            if let Ok(time) = u64::try_from(time.ok_or(Stop::Fault)?) {
                self.last(|track| {
                    track.start.get_or_insert(time);
                });
                break;
            }
        }
        Ok(())
    }

    fn fragment(&mut self, outer: &Part) -> Outcome {
        self.fragments += 1;
        if self.fragments * (self.tracks.len() as u64).max(1) > FRAGMENTS {
            return refuse(format!("it has more than {FRAGMENTS} fragments of tracks"));
        }
        self.empty += 1;
        self.children(outer, |walk, part| match &part.kind {
            b"traf" => walk.runs(part),
            _ => Ok(()),
        })?;
        if self.empty > EMPTY {
            return refuse(format!("it has {EMPTY} fragments, one after another, without samples"));
        }
        Ok(())
    }

    /// Checks the runs of a track within a fragment.
    fn runs(&mut self, outer: &Part) -> Outcome {
        let (mut id, mut size) = (0, None);
        let (mut runs, mut samples) = (0, 0);
        self.children(outer, |walk, part| {
            match &part.kind {
                b"tfhd" => (id, size) = walk.fragment_defaults(part)?,
                b"trun" => {
                    let stated = size.or_else(|| {
                        walk.defaults.iter().find(|d| d.id == id).map(|defaults| defaults.size)
                    });
                    samples += walk.run(part, stated.unwrap_or(0))?;
                    runs += 1;
                }
                _ => {}
            }
            if runs > RUNS || samples > ENTRIES {
                return refuse(format!(
                    "a fragment has {runs} runs of {samples} samples, expected at most {RUNS} of {ENTRIES}"
                ));
            }
            Ok(())
        })?;
        if samples > 0 && self.tracks.iter().any(|track| track.id == Some(id)) {
            self.empty = 0;
        }
        Ok(())
    }

    /// The track of a fragment, and the size of its samples.
    fn fragment_defaults(&mut self, part: &Part) -> Outcome<(u32, Option<u32>)> {
        let fields = self.fields::<8>(part)?;
        let (flags, id) = (be32(&fields) & 0x00ff_ffff, be32(&fields[4..]));
        if flags & 0x10 == 0 {
            return Ok((id, None));
        }
        let before = [(0x1, 8), (0x2, 4), (0x8, 4)];
        let before: u64 = before.iter().filter(|(flag, _)| flags & flag != 0).map(|f| f.1).sum();
        let size = self.input.array::<4>(part.content + 8 + before).ok_or(Stop::Fault)?;
        Ok((id, Some(be32(&size))))
    }

    /// Checks a run of samples, and returns their number.
    fn run(&mut self, part: &Part, default: u32) -> Outcome<u64> {
        let fields = self.fields::<8>(part)?;
        let (flags, count) = (be32(&fields) & 0x00ff_ffff, u64::from(be32(&fields[4..])));
        let mut head = 8 + if flags & 0x1 == 0 { 0 } else { 4 };
        if flags & 0x4 != 0 {
            // The flags of the first sample say nothing about audio. The reader takes some for
            // others.
            self.changes.push(Change::new(part.content + head, &[0; 4]));
            head += 4;
        }
        let width = u64::from((flags & 0xf00).count_ones()) * 4;
        self.table(part, head, count, width)?;
        if flags & 0x200 == 0 && default == 0 && count > 0 {
            return refuse(format!("a run has {count} samples without a size"));
        }
        self.samples += count;
        if self.samples > self.length.saturating_add(SAMPLES) {
            let (samples, length) = (self.samples, self.length);
            return refuse(format!("its fragments state {samples} samples in {length} bytes"));
        }
        Ok(count)
    }
}

/// A number of 4 bytes, the highest first.
fn be32(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |value, byte| value << 8 | u32::from(*byte))
}
