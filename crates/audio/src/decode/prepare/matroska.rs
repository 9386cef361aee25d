//! Matroska and WebM: of what precedes the first cluster, only the tracks are shown.
//!
//! Tags, chapters, covers, fonts and indexes become void elements (RFC 8794, section 11.3.3).
//! The last cluster is looked at too: the reader of packets does not tell the padding of a track's
//! last one.

use super::walked::{CHUNKS, Walked};
use crate::decode::input::{Change, Input};

/// Bytes of the tracks at most. Subtitles keep their styles there.
const TRACKS: u64 = 4 << 20;
/// Bytes of the tracks beside the private data of their codecs at most.
const FIELDS: u64 = 256 << 10;
/// Tracks at most.
const COUNT: usize = 256;
/// Bytes of small elements at most: the header of the file, its general information.
const SMALL: u64 = 64 << 10;

const SEGMENT: u32 = 0x1853_8067;
const INFO: u32 = 0x1549_a966;
const LIST: u32 = 0x1654_ae6b;
const ENTRY: u32 = 0xae;
const PRIVATE: u32 = 0x63a2;
const CLUSTER: u32 = 0x1f43_b675;
const VOID: u8 = 0xec;
const SIMPLE_BLOCK: u32 = 0xa3;
const BLOCK_GROUP: u32 = 0xa0;
const BLOCK: u32 = 0xa1;
const DISCARD_PADDING: u32 = 0x75a2;

/// The most elements behind the first cluster, and of the last one.
const ELEMENTS: usize = 1 << 15;
/// The most elements of a group of a block.
const GROUPED: usize = 32;

/// The header of an element.
struct Element {
    id: u32,
    at: u64,
    content: u64,
    /// The end; `None` if the element does not state it.
    end: Option<u64>,
}

pub(super) fn walk(input: &mut Input) -> Result<Walked, String> {
    let mut walked = Walked::whole(input);
    let Some(header) = element(input, 0) else { return Ok(walked) };
    let Some(at) = header.end else { return Ok(walked) };
    small(&header, "header")?;
    let Some(segment) = element(input, at) else { return Ok(walked) };
    if segment.id != SEGMENT {
        return Ok(walked);
    }
    let mut at = segment.content;
    let mut tracks = Tracks::default();
    for _ in 0..CHUNKS {
        let Some(child) = element(input, at) else { return Ok(walked) };
        match child.id {
            CLUSTER if tracks.count == 0 => {
                return Err("its tracks do not precede its first cluster".to_owned());
            }
            CLUSTER => {
                walked.paddings = paddings(input, child);
                return Ok(walked);
            }
            LIST => tracks.add(input, &child)?,
            INFO => small(&child, "information")?,
            _ => walked.changes.extend(void(&child)),
        }
        let Some(end) = child.end else { return Ok(walked) };
        at = end;
    }
    Err(format!("it has {CHUNKS} elements before its first cluster, expected fewer"))
}

/// Refuses an element that is larger than any real one.
fn small(element: &Element, what: &str) -> Result<(), String> {
    match element.end.map(|end| end - element.content) {
        Some(size) if size > SMALL => {
            Err(format!("its {what} has {size} bytes, expected at most {SMALL}"))
        }
        _ => Ok(()),
    }
}

/// The tracks of a file.
#[derive(Default)]
struct Tracks {
    count: usize,
    bytes: u64,
    fields: u64,
}

impl Tracks {
    fn add(&mut self, input: &mut Input, list: &Element) -> Result<(), String> {
        let end = list.end.unwrap_or(list.content);
        self.bytes += end - list.content;
        if self.bytes > TRACKS {
            return Err(format!("its tracks have {} bytes, expected at most {TRACKS}", self.bytes));
        }
        let mut at = list.content;
        while at < end
            && let Some(entry) = element(input, at)
        {
            let next = entry.end.unwrap_or(end);
            if entry.id == ENTRY {
                self.count += 1;
                self.entry(input, entry.content, next);
            } else {
                self.fields += next - at;
            }
            if self.count > COUNT || self.fields > FIELDS {
                return Err(format!(
                    "it has more than {COUNT} tracks, or more than {FIELDS} bytes about them"
                ));
            }
            at = next;
        }
        Ok(())
    }

    fn entry(&mut self, input: &mut Input, mut at: u64, end: u64) {
        while at < end
            && self.fields <= FIELDS
            && let Some(field) = element(input, at)
        {
            let next = field.end.unwrap_or(end);
            self.fields += if field.id == PRIVATE { field.content - at } else { next - at };
            at = next;
        }
    }
}

/// The padding at the end of each track, in nanoseconds, as its last block states it (RFC 9559,
/// section 5.1.3.5.7). A track keeps its padding if its last block is not in the last cluster, or
/// if clusters state no size, as in live streams.
fn paddings(input: &mut Input, first: Element) -> Vec<(u32, u64)> {
    let mut all: Vec<(u32, u64)> = Vec::new();
    let Some(Element { content: mut at, end: Some(end), .. }) = last_cluster(input, first) else {
        return all;
    };
    for _ in 0..ELEMENTS {
        if at >= end {
            return all;
        }
        let Some(child) = element(input, at) else { break };
        let Some(next) = child.end else { break };
        let (track, padding) = match child.id {
            SIMPLE_BLOCK => (track(input, &child), 0),
            BLOCK_GROUP => group(input, &child),
            _ => (None, 0),
        };
        if let Some(track) = track {
            all.retain(|(other, _)| *other != track);
            if padding > 0 {
                all.push((track, padding));
            }
        }
        at = next;
    }
    Vec::new()
}

/// The last cluster from a first one on.
fn last_cluster(input: &mut Input, first: Element) -> Option<Element> {
    let mut at = first.end?;
    let mut last = first;
    for _ in 0..ELEMENTS {
        let Some(next) = element(input, at) else { return Some(last) };
        at = next.end?;
        if next.id == CLUSTER {
            last = next;
        }
    }
    None
}

/// The track and the padding of a group with one block.
fn group(input: &mut Input, group: &Element) -> (Option<u32>, u64) {
    let (mut at, end) = (group.content, group.end.unwrap_or(group.content));
    let mut found = (None, 0);
    for _ in 0..GROUPED {
        if at >= end {
            break;
        }
        let Some(child) = element(input, at) else { break };
        match child.id {
            BLOCK => found.0 = track(input, &child),
            DISCARD_PADDING => found.1 = padding(input, &child).unwrap_or(0),
            _ => {}
        }
        let Some(next) = child.end else { break };
        at = next;
    }
    found
}

/// The number of a block's track.
fn track(input: &mut Input, block: &Element) -> Option<u32> {
    let mut head = [0; 8];
    let count = input.read_at(block.content, &mut head).ok()?;
    u32::try_from(number(&head[..count])?.0).ok()
}

/// The value of a signed element. A negative one is a padding before the content.
fn padding(input: &mut Input, element: &Element) -> Option<u64> {
    let size = usize::try_from(element.end? - element.content).ok()?;
    let mut bytes = [0; 8];
    let value = bytes.get_mut(..size).filter(|value| !value.is_empty())?;
    if input.read_at(element.content, value).ok()? != size {
        return None;
    }
    u64::try_from(i64::from_be_bytes(bytes) >> (64 - 8 * size)).ok()
}

/// A number of variable length, its bytes, and whether it stands for an unknown one (RFC 8794,
/// section 4).
fn number(bytes: &[u8]) -> Option<(u64, usize, bool)> {
    let first = *bytes.first()?;
    let length = first.leading_zeros() as usize + 1;
    let all = bytes.get(..length).filter(|_| length <= 8)?;
    let mask = 0xff_u64 >> length;
    let value =
        all[1..].iter().fold(u64::from(first) & mask, |value, byte| value << 8 | u64::from(*byte));
    Some((value, length, value == (1 << (7 * length)) - 1))
}

/// The header of the element at a place.
fn element(input: &mut Input, at: u64) -> Option<Element> {
    let mut head = [0; 12];
    let count = input.read_at(at, &mut head).ok()?;
    let head = &head[..count];
    let width = head.first()?.leading_zeros() as usize + 1;
    let id = head.get(..width).filter(|_| width <= 4)?;
    let id = id.iter().fold(0, |id, byte| id << 8 | u32::from(*byte));
    let (size, length, is_unknown) = number(&head[width..])?;
    let content = at + (width + length) as u64;
    let end = content.checked_add(size).filter(|_| !is_unknown);
    Some(Element { id, at, content, end })
}

/// The change that makes an element void. One without an end stays: it is the last.
fn void(element: &Element) -> Option<Change> {
    let size = element.end? - element.content;
    let header = element.content - element.at;
    // the size of a void element takes the rest of the header, at most 8 bytes
    let width = (header - 1).min(8);
    let size = size + (header - 1 - width);
    let mut bytes = vec![VOID];
    bytes.extend(&size.to_be_bytes()[8 - width as usize..]);
    bytes[1] |= 0x80 >> (width - 1);
    Some(Change::new(element.at, &bytes))
}
