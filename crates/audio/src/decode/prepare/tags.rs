//! Tags before and behind audio: titles and covers, which no decoder needs.
//!
//! Layouts: ID3v2 (id3.org, 2.4.0 sections 3.1 and 3.4), APEv2 (wiki.hydrogenaud.io), Lyrics3v2,
//! ID3v1.

use crate::decode::input::Input;
use std::ops::Range;

/// Tags that are skipped at most, at each end.
const TAGS: usize = 64;
/// Zeros that may follow a tag.
const ZEROS: u64 = 64 << 10;
/// Bytes of the header or the footer of an APE tag.
const APE: u64 = 32;

/// The place of the first byte behind the tags at the start of a file. A tag that is longer than
/// the file is none.
pub(super) fn start(input: &mut Input) -> u64 {
    let mut at = 0;
    for _ in 0..TAGS {
        let Some(length) = tag(input, at) else { break };
        match at.checked_add(length) {
            Some(next) if next < input.length() => at = zeros(input, next),
            _ => break,
        }
    }
    at
}

/// The length of the tag at a place.
fn tag(input: &mut Input, at: u64) -> Option<u64> {
    let head = input.array::<16>(at)?;
    if head.starts_with(b"ID3") {
        let size = &head[6..10];
        if head[3] == 0xff || head[4] == 0xff || size.iter().any(|byte| *byte >= 0x80) {
            return None;
        }
        let size = size.iter().fold(0, |size, byte| size << 7 | u64::from(*byte));
        let footer = if head[5] & 0x10 == 0 { 0 } else { 10 };
        return Some(10 + size + footer);
    }
    head.starts_with(b"APETAGEX").then(|| APE + u64::from(little(&head[12..16])))
}

/// The place of the first byte that is not zero, if it is near.
fn zeros(input: &mut Input, at: u64) -> u64 {
    let mut block = vec![0; ZEROS as usize];
    let count = input.read_at(at, &mut block).unwrap_or(0);
    let zeros = block[..count].iter().position(|byte| *byte != 0);
    let to = at + zeros.unwrap_or(0) as u64;
    // the first box of MP4 begins with up to three zeros of its size
    let back = (1..=3).find(|back| input.array(to + 4 - back) == Some(*b"ftyp"));
    to.saturating_sub(back.unwrap_or(0)).max(at)
}

/// The part of a file before the tags at its end.
pub(super) fn end(input: &mut Input) -> Range<u64> {
    let mut end = input.length();
    for _ in 0..TAGS {
        match tag_before(input, end) {
            Some(length) if length > 0 && length < end => end -= length,
            _ => break,
        }
    }
    0..end
}

/// The length of the tag that ends at a place.
fn tag_before(input: &mut Input, end: u64) -> Option<u64> {
    if input.array::<3>(end.checked_sub(128)?)? == *b"TAG" {
        let extended = end.checked_sub(128 + 227).and_then(|at| input.array::<4>(at));
        return Some(if extended == Some(*b"TAG+") { 128 + 227 } else { 128 });
    }
    if let Some(foot) = end.checked_sub(APE).and_then(|at| input.array::<24>(at))
        && foot.starts_with(b"APETAGEX")
    {
        let header = if foot[23] & 0x80 == 0 { 0 } else { APE };
        return Some(u64::from(little(&foot[12..16])) + header);
    }
    let foot = input.array::<15>(end.checked_sub(15)?)?;
    if foot.ends_with(b"LYRICS200") {
        let size = std::str::from_utf8(&foot[..6]).ok()?.parse::<u64>().ok()?;
        return Some(size + 15);
    }
    if foot[5..].starts_with(b"3DI") {
        let size = foot[11..].iter().fold(0, |size, byte| size << 7 | u64::from(*byte & 0x7f));
        return Some(size + 20);
    }
    None
}

fn little(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
}
