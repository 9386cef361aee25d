//! Matroska and WebM: of what precedes the first cluster, only the tracks are shown.
//!
//! Tags, chapters, covers, fonts and indexes become void elements (RFC 8794, section 11.3.3).

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
            CLUSTER => return Ok(walked),
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

/// The header of the element at a place.
fn element(input: &mut Input, at: u64) -> Option<Element> {
    let mut head = [0; 12];
    let count = input.read_at(at, &mut head).ok()?;
    let head = &head[..count];
    let width = head.first()?.leading_zeros() as usize + 1;
    let id = head.get(..width).filter(|_| width <= 4)?;
    let id = id.iter().fold(0, |id, byte| id << 8 | u32::from(*byte));
    let first = *head.get(width)?;
    let length = first.leading_zeros() as usize + 1;
    let size = head.get(width..width + length)?;
    let mask = 0xff_u32 >> length;
    let size = size[1..]
        .iter()
        .fold(u64::from(u32::from(first) & mask), |size, byte| size << 8 | u64::from(*byte));
    let content = at + (width + length) as u64;
    let unknown = (1 << (7 * length)) - 1;
    let end = content.checked_add(size).filter(|_| size != unknown);
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
