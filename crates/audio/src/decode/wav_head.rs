//! The header of a WAV stream that has no end yet.

use std::io::{self, Chain, Cursor, Read, Take};

use super::raw::{Encoding, RawAudio, RawFormat};
use crate::AudioError;

/// Bytes of a chunk before the samples at most.
const CHUNK: u32 = 1 << 20;
/// Chunks before the samples at most.
const CHUNKS: usize = 64;

/// Bytes from which on a size stands for none. A recorder that writes to a pipe states about 2^31
/// or 2^32.
const UNKNOWN: u32 = 0x7fff_0000;

/// The name in errors.
const NAME: &str = "the WAV header";

/// A reader whose first bytes were read before.
pub type Begun<R> = Chain<Cursor<Vec<u8>>, Take<R>>;

impl<R: Read> RawAudio<Begun<R>> {
    /// A stream of a reader that begins with a header of WAV perhaps, which then has the format.
    ///
    /// # Errors
    ///
    /// The reader failed. The header has no format, or one that is no [`Encoding`]. The rate or the
    /// number of channels is out of range.
    pub fn with_header(reader: R, without_header: RawFormat) -> Result<Self, AudioError> {
        let (format, reader) = read(reader, without_header)?;
        Self::new(reader, format)
    }
}

fn refused(problem: String) -> AudioError {
    AudioError::Limit { name: NAME.to_owned(), problem }
}

/// The format of a stream, and the stream from its first sample on.
fn read<R: Read>(
    mut reader: R,
    without_header: RawFormat,
) -> Result<(RawFormat, Begun<R>), AudioError> {
    let begin = some(&mut reader, 12)?;
    if begin.len() < 12 || !begin.starts_with(b"RIFF") || &begin[8..] != b"WAVE" {
        return Ok((without_header, Cursor::new(begin).chain(reader.take(u64::MAX))));
    }
    let mut format = None;
    for _ in 0..CHUNKS {
        let head = some(&mut reader, 8)?;
        let Ok([a, b, c, d, size @ ..]) = <[u8; 8]>::try_from(head) else {
            return Err(refused("it ends before its samples".to_owned()));
        };
        let size = u32::from_le_bytes(size);
        if [a, b, c, d] == *b"data" {
            let format = format.ok_or_else(|| refused("it states no format".to_owned()))?;
            let size = if size == 0 || size >= UNKNOWN { u64::MAX } else { size.into() };
            return Ok((format, Cursor::new(Vec::new()).chain(reader.take(size))));
        }
        if size > CHUNK {
            return Err(refused(format!("a chunk has {size} bytes, expected at most {CHUNK}")));
        }
        let chunk = some(&mut reader, size.next_multiple_of(2).into())?;
        if [a, b, c, d] == *b"fmt " {
            format = Some(format_of(&chunk)?);
        }
    }
    Err(refused(format!("{CHUNKS} chunks precede its samples, expected fewer")))
}

/// At most so many bytes, and fewer at the end.
fn some(reader: &mut impl Read, count: u64) -> Result<Vec<u8>, AudioError> {
    let mut bytes = Vec::new();
    let read = reader.by_ref().take(count).read_to_end(&mut bytes);
    read.map_err(|source: io::Error| AudioError::Io { name: NAME.to_owned(), source })?;
    Ok(bytes)
}

fn format_of(chunk: &[u8]) -> Result<RawFormat, AudioError> {
    let word = |at: usize| {
        let bytes = chunk.get(at..at + 2).and_then(|bytes| <[u8; 2]>::try_from(bytes).ok());
        bytes.map(u16::from_le_bytes).ok_or_else(|| refused("its format is cut".to_owned()))
    };
    let rate = u32::from(word(4)?) | u32::from(word(6)?) << 16;
    // the extensible form has the kind in its sub-format
    let kind = if word(0)? == 0xfffe { word(24)? } else { word(0)? };
    let encoding = match (kind, word(14)?) {
        (1, 16) => Encoding::S16Le,
        (3, 32) => Encoding::F32Le,
        (kind, bits) => {
            return Err(refused(format!(
                "samples are of kind {kind} with {bits} bits, expected integers of 16 bits or floats of 32 bits"
            )));
        }
    };
    Ok(RawFormat { encoding, rate, channels: word(2)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAW: RawFormat = RawFormat { encoding: Encoding::S16Le, rate: 16_000, channels: 1 };

    /// A header as RFC 2361 and Microsoft's documents describe it.
    fn header(kind: u16, channels: u16, rate: u32, bits: u16, size: u32) -> Vec<u8> {
        let frame = u32::from(channels) * u32::from(bits) / 8;
        let mut bytes = b"RIFF\xff\xff\xff\xffWAVELIST\x03\0\0\0abc\0fmt \x10\0\0\0".to_vec();
        bytes.extend([kind.to_le_bytes(), channels.to_le_bytes()].concat());
        bytes.extend([rate.to_le_bytes(), (rate * frame).to_le_bytes()].concat());
        bytes.extend([(frame as u16).to_le_bytes(), bits.to_le_bytes()].concat());
        bytes.extend(b"data");
        bytes.extend(size.to_le_bytes());
        bytes
    }

    fn samples(stream: &[u8]) -> Result<Vec<f32>, AudioError> {
        let mut audio = RawAudio::with_header(stream, RAW)?;
        let mut all = Vec::new();
        while let Some(chunk) = audio.next_chunk()? {
            all.extend_from_slice(chunk);
        }
        Ok(all)
    }

    #[test]
    fn a_header_has_the_format() {
        let data: Vec<u8> = [100_i16, -200, 300].iter().flat_map(|x| x.to_le_bytes()).collect();
        let plain = samples(&data).unwrap();
        assert_eq!(plain.len(), 3);
        for size in [0, 6, u32::MAX] {
            let stream = [header(1, 1, 16_000, 16, size), data.clone()].concat();
            assert_eq!(samples(&stream).unwrap(), plain, "{size}");
        }
        // the bytes after the samples are no samples
        let stream = [header(1, 1, 16_000, 16, 6), data, b"LIST".to_vec()].concat();
        assert_eq!(samples(&stream).unwrap(), plain);
        let floats: Vec<u8> =
            [0.5_f32, 0.25, -0.5, -0.25].iter().flat_map(|x| x.to_le_bytes()).collect();
        let stream = [header(3, 2, 16_000, 32, 16), floats].concat();
        assert_eq!(samples(&stream).unwrap(), [0.375, -0.375]);
    }

    #[test]
    fn wrong_headers_are_refused() {
        for (stream, expected) in [
            (header(1, 1, 8_000, 8, 0), "kind 1 with 8 bits, expected integers of 16 bits"),
            (header(1, 0, 16_000, 16, 0), "0 channels"),
            (header(1, 1, 7, 16, 0), "7 samples a second"),
            (b"RIFF\0\0\0\0WAVE".to_vec(), "ends before its samples"),
            (b"RIFF\0\0\0\0WAVEdata\0\0\0\0".to_vec(), "states no format"),
            (b"RIFF\0\0\0\0WAVEfmt \x02\0\0\0\x01\0".to_vec(), "is cut"),
            (b"RIFF\0\0\0\0WAVELIST\xff\xff\xff\xff".to_vec(), "a chunk has 4294967295 bytes"),
            ([&b"RIFF\0\0\0\0WAVE"[..], &b"LIST\0\0\0\0".repeat(70)].concat(), "64 chunks precede"),
        ] {
            let error = samples(&stream).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(samples(b"").unwrap(), [0.0; 0]);
    }
}
