//! Pages of Ogg (RFC 3533, section 6).

use crate::decode::input::Input;
use std::io::{self, Read, Seek, SeekFrom};

/// Bytes of the head of a page, before its table of segments.
const HEAD: usize = 27;
/// Bytes of a page at most.
const PAGE: usize = HEAD + 255 + 255 * 255;
/// Bytes that are read at a time.
const BLOCK: usize = 64 << 10;
/// Pages with another checksum at most. Each costs the time of a checksum.
const WRONG: usize = 4_096;

/// A page.
#[derive(Default)]
pub(super) struct Page {
    pub(super) serial: u32,
    pub(super) sequence: u32,
    /// The number of samples up to its end; `None` if no packet ends in it.
    pub(super) granule: Option<u64>,
    /// Whether it begins with the rest of a packet.
    pub(super) continues: bool,
    pub(super) is_first: bool,
    pub(super) is_last: bool,
    /// Bytes of its segments.
    pub(super) segments: Vec<u8>,
    pub(super) data: Vec<u8>,
}

/// The pages of a file, one after another. Bytes between pages are skipped.
pub(super) struct Pages {
    input: Input,
    buffer: Vec<u8>,
    /// The first byte of the buffer that was not taken.
    at: usize,
    wrong: usize,
}

impl Pages {
    /// Pages from a place of a file on.
    pub(super) fn new(mut input: Input, at: u64) -> io::Result<Self> {
        input.seek(SeekFrom::Start(at))?;
        Ok(Self { input, buffer: Vec::new(), at: 0, wrong: 0 })
    }

    /// Reads the next page. Returns false at the end.
    pub(super) fn next(&mut self, page: &mut Page) -> io::Result<bool> {
        loop {
            if !self.fill(HEAD)? {
                return Ok(false);
            }
            let rest = &self.buffer[self.at..];
            match rest.windows(4).position(|bytes| bytes == b"OggS") {
                Some(0) => {}
                Some(place) => {
                    self.at += place;
                    continue;
                }
                None => {
                    self.at = self.buffer.len() - 3;
                    continue;
                }
            }
            match self.page()? {
                Some(length) if checksum(&self.buffer[self.at..self.at + length]) => {
                    page.take(&self.buffer[self.at..self.at + length]);
                    self.at += length;
                    return Ok(true);
                }
                Some(_) => {
                    self.wrong += 1;
                    if self.wrong > WRONG {
                        return Err(io::Error::other(format!("{WRONG} pages are damaged")));
                    }
                }
                None => {}
            }
            self.at += 1;
        }
    }

    /// The length of the page at the place, if it is there as a whole.
    fn page(&mut self) -> io::Result<Option<usize>> {
        let head = &self.buffer[self.at..];
        if head[4] != 0 {
            return Ok(None);
        }
        let table = HEAD + usize::from(head[26]);
        if !self.fill(table)? {
            return Ok(None);
        }
        let segments = &self.buffer[self.at + HEAD..self.at + table];
        let length = table + segments.iter().map(|size| usize::from(*size)).sum::<usize>();
        Ok(self.fill(length)?.then_some(length))
    }

    /// Makes that many bytes follow the place, if the file has them.
    fn fill(&mut self, count: usize) -> io::Result<bool> {
        if self.buffer.len() - self.at >= count {
            return Ok(true);
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        while self.buffer.len() < count {
            let filled = self.buffer.len();
            self.buffer.resize(filled + BLOCK.max(PAGE), 0);
            let more = self.input.read(&mut self.buffer[filled..]);
            self.buffer.truncate(filled + *more.as_ref().unwrap_or(&0));
            if more? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Page {
    fn take(&mut self, bytes: &[u8]) {
        let number = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let granule = u64::from(number(6)) | u64::from(number(10)) << 32;
        self.continues = bytes[5] & 1 != 0;
        self.is_first = bytes[5] & 2 != 0;
        self.is_last = bytes[5] & 4 != 0;
        self.granule = Some(granule).filter(|granule| *granule != u64::MAX);
        (self.serial, self.sequence) = (number(14), number(18));
        let (table, data) = bytes[HEAD..].split_at(usize::from(bytes[26]));
        self.segments.clear();
        self.segments.extend_from_slice(table);
        self.data.clear();
        self.data.extend_from_slice(data);
    }
}

/// Whether a page has the checksum that it states.
fn checksum(page: &[u8]) -> bool {
    let step = |sum: u32, byte: u8| sum << 8 ^ TABLE[usize::from((sum >> 24) as u8 ^ byte)];
    let zeroed =
        page.iter().enumerate().map(|(i, byte)| if (22..26).contains(&i) { 0 } else { *byte });
    zeroed.fold(0, step) == u32::from_le_bytes([page[22], page[23], page[24], page[25]])
}

/// The remainders of bytes by the polynomial 0x04c11db7.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut sum = (i as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum >> 31 == 1 { sum << 1 ^ 0x04c1_1db7 } else { sum << 1 };
            bit += 1;
        }
        table[i] = sum;
        i += 1;
    }
    table
};
