//! Ogg (RFC 3533): the packets of one logical stream of audio, and of those that are chained behind
//! it.
//!
//! Only the packets of that stream are put together, and comments are skipped as they pass. So
//! memory is bounded by a packet.

mod codec;
mod page;

use self::codec::{Codec, Headers, Stream};
use self::page::{Page, Pages};
use super::input::Input;
use std::io;
use symphonia::core::codecs::audio::AudioCodecParameters;

/// Bytes of a packet of audio at most: a block of FLAC without compression.
const PACKET: usize = 4 << 20;
/// Bytes of a setup header at most.
const SETUP: usize = 1 << 20;
/// The most streams that follow each other in a file. Each builds a decoder.
const CHAINED: usize = 4_096;
/// Streams at the same time at most.
const PARALLEL: usize = 64;
/// Bytes at the end of a file in which its last page is searched.
const TAIL: u64 = 128 << 10;

/// A packet of audio.
pub(super) struct Packet {
    pub(super) data: Vec<u8>,
    /// The samples of the stream up to the end of this packet's page.
    pub(super) granule: Option<u64>,
    /// Whether it is the last one that ends in its page.
    pub(super) ends_page: bool,
    /// Whether the stream ends with its page.
    pub(super) is_last: bool,
}

/// The next item of a file.
pub(super) enum Next {
    Packet(Packet),
    /// Another stream begins.
    Stream,
    End,
}

/// Why a file has no stream to decode.
pub(super) enum Fault {
    Io(io::Error),
    /// Its audio has another codec.
    Codec(&'static str),
    /// The number of its streams, none of which has audio.
    NoAudio(usize),
    Malformed(String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The state of a logical stream.
pub(super) struct Ogg {
    input: Input,
    pages: Pages,
    page: Page,
    /// The next segment of the page, and its place in the data.
    segment: usize,
    at: usize,
    /// Whether the page was not looked at yet.
    is_new: bool,
    serial: u32,
    sequence: u32,
    codec: Codec,
    /// The packet that goes on in the next page.
    part: Vec<u8>,
    /// Whether the rest of the packet is dropped.
    drops: bool,
    chained: usize,
}

impl Ogg {
    /// Reads the headers of the first streams.
    pub(super) fn open(input: Input) -> Result<Self, Fault> {
        let mut pages = Pages::new(input.clone(), 0)?;
        let mut page = Page::default();
        let (serial, codec) = begin(&mut pages, &mut page)?;
        let mut ogg = Self {
            input,
            pages,
            page,
            segment: 0,
            at: 0,
            is_new: true,
            serial,
            sequence: 0,
            codec,
            part: Vec::new(),
            drops: false,
            chained: 0,
        };
        ogg.headers()?;
        Ok(ogg)
    }

    /// The parameters of the stream's decoder.
    pub(super) fn parameters(&self) -> AudioCodecParameters {
        self.codec.parameters()
    }

    /// Seconds before the content.
    pub(super) fn lead(&self) -> f64 {
        self.codec.skip as f64 / f64::from(self.codec.rate.max(1))
    }

    /// The seconds up to the last page of the stream, if that is near the end of the file.
    pub(super) fn seconds(&self) -> Option<f64> {
        let start = self.input.length().saturating_sub(TAIL);
        let mut pages = Pages::new(self.input.clone(), start).ok()?;
        let (mut page, mut last) = (Page::default(), None);
        while pages.next(&mut page).ok()? {
            if page.serial == self.serial {
                last = page.granule.or(last);
            }
        }
        Some(last? as f64 / f64::from(self.codec.rate.max(1)))
    }

    /// Goes on to the stream that begins with the page.
    pub(super) fn reopen(&mut self) -> Result<(), Fault> {
        self.chained += 1;
        if self.chained > CHAINED {
            return Err(Fault::Malformed(format!("it has more than {CHAINED} streams")));
        }
        (self.serial, self.codec) = begin(&mut self.pages, &mut self.page)?;
        self.is_new = true;
        self.headers()
    }

    /// The next packet of audio.
    pub(super) fn next(&mut self) -> Result<Next, Fault> {
        loop {
            match self.packet(PACKET)? {
                // packets of headers that come late
                Next::Packet(packet)
                    if self.codec.headers == Headers::Blocks
                        && packet.data.first() != Some(&0xff) => {}
                next => return Ok(next),
            }
        }
    }

    /// Reads the headers behind the first one.
    fn headers(&mut self) -> Result<(), Fault> {
        // one byte tells what a packet of comments is
        let headers = self.codec.headers;
        let short = || Fault::Malformed("it ends in the middle of its header".to_owned());
        if headers != Headers::Blocks {
            match self.packet(0)? {
                Next::Packet(_) => {}
                _ => return Err(short()),
            }
        }
        if headers == Headers::CommentsAndSetup {
            match self.packet(SETUP)? {
                Next::Packet(packet) if !packet.data.is_empty() => {
                    self.codec.header.extend(packet.data);
                }
                Next::Packet(_) => {
                    let problem = format!("its setup header has more than {SETUP} bytes, or none");
                    return Err(Fault::Malformed(problem));
                }
                _ => return Err(short()),
            }
        }
        Ok(())
    }

    /// The next packet. One with more than `most` bytes is empty.
    fn packet(&mut self, most: usize) -> Result<Next, Fault> {
        loop {
            if self.is_new {
                self.enter();
            }
            if self.page.serial == self.serial {
                while let Some(size) = self.page.segments.get(self.segment).copied() {
                    let end = self.at + usize::from(size);
                    let bytes = self.page.data.get(self.at..end).unwrap_or_default();
                    if self.part.len() + bytes.len() <= most && !self.drops {
                        self.part.extend_from_slice(bytes);
                    } else {
                        self.part.clear();
                        self.drops = true;
                    }
                    (self.segment, self.at) = (self.segment + 1, end);
                    if size < 255 {
                        let rest = &self.page.segments[self.segment..];
                        self.drops = false;
                        return Ok(Next::Packet(Packet {
                            data: std::mem::take(&mut self.part),
                            granule: self.page.granule,
                            ends_page: rest.iter().all(|size| *size == 255),
                            is_last: self.page.is_last,
                        }));
                    }
                }
            }
            if !self.pages.next(&mut self.page)? {
                return Ok(Next::End);
            }
            self.is_new = true;
            if self.page.is_first {
                return Ok(Next::Stream);
            }
        }
    }

    /// Begins a page: the rest of a packet is dropped if its beginning is not there.
    fn enter(&mut self) {
        (self.is_new, self.segment, self.at) = (false, 0, 0);
        if self.page.serial != self.serial {
            return;
        }
        let follows = self.page.sequence == self.sequence.wrapping_add(1);
        self.sequence = self.page.sequence;
        let has_part = !self.part.is_empty() || self.drops;
        if self.page.continues && has_part && follows {
            return;
        }
        self.part.clear();
        self.drops = false;
        if self.page.continues {
            let segments = self.page.segments.iter();
            let count = segments.take_while(|size| **size == 255).count();
            let rest = self.page.segments.len().min(count + 1);
            self.at = self.page.segments[..rest].iter().map(|size| usize::from(*size)).sum();
            self.segment = rest;
        }
    }
}

/// Reads the first pages of streams that begin together, up to a page of another kind. Returns the
/// first stream of audio.
fn begin(pages: &mut Pages, page: &mut Page) -> Result<(u32, Codec), Fault> {
    let (mut found, mut other, mut count) = (None, None, 0);
    if !page.is_first && !pages.next(page)? {
        return Err(Fault::Malformed("it has no page".to_owned()));
    }
    while page.is_first && count < PARALLEL {
        count += 1;
        let size = page.segments.iter().position(|size| *size < 255).map_or(0, |end| {
            page.segments[..=end].iter().map(|size| usize::from(*size)).sum::<usize>()
        });
        match codec::of(&page.data[..size]) {
            Stream::Audio(codec) if found.is_none() => found = Some((page.serial, codec)),
            Stream::Other(name) => other = Some(name),
            _ => {}
        }
        if !pages.next(page)? {
            break;
        }
    }
    found.ok_or(match other {
        Some(name) => Fault::Codec(name),
        None => Fault::NoAudio(count),
    })
}
