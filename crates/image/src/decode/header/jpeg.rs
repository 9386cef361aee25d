//! The segments of a JPEG file, up to its end marker.
//!
//! A progressive file may have any number of scans over all of its blocks, in a few bytes each. So
//! scans are counted, and their work is bounded.

use super::bytes::Bytes;
use super::facts::Header;
use crate::{ImageError, Job};

/// Greatest number of scans.
const SCANS: u64 = 100;
/// Greatest number of scans times pixels.
const WORK: u64 = 1 << 30;
/// Greatest number of segments: a metadata segment has up to 64 KiB, and every scan its tables.
const SEGMENTS: usize = 4_096;

pub(super) fn read(bytes: &[u8], job: &Job<'_>) -> Result<Header, ImageError> {
    let bytes = Bytes::new(bytes, job);
    let (mut at, mut frame, mut scans, mut segments) = (2, None, 0, 0);
    loop {
        let cut = || job.malformed("it is cut off before its end marker");
        if bytes.byte(at).map_err(|_| cut())? != 0xff {
            return Err(job.malformed(format!("byte {at} is no marker")));
        }
        let marker = bytes.byte(at + 1).map_err(|_| cut())?;
        if marker == 0xff {
            // a filling byte
            at += 1;
            continue;
        }
        at += 2;
        match marker {
            0xd9 => break,
            // markers without content
            0x01 | 0xd0..=0xd8 => continue,
            _ => {}
        }
        segments += 1;
        if segments > SEGMENTS {
            return Err(job.beyond(format!("has more than {SEGMENTS} segments, the limit")));
        }
        let length = usize::from(bytes.u16_be(at).map_err(|_| cut())?);
        if length < 2 {
            return Err(job.malformed(format!("a segment has a length of {length}")));
        }
        match marker {
            0xc0..=0xc2 if frame.is_none() => {
                let (height, width) = (bytes.u16_be(at + 3)?, bytes.u16_be(at + 5)?);
                let components = bytes.byte(at + 7)?;
                check_samples(&bytes, at + 8, components, job)?;
                frame = Some((u32::from(width), u32::from(height), components));
            }
            0xc0..=0xc2 => return Err(job.malformed("it has two frames")),
            0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                let format = "a lossless or arithmetic JPEG picture";
                return Err(ImageError::Format { name: job.name().to_owned(), format });
            }
            _ => {}
        }
        at += length;
        if marker == 0xda {
            scans += 1;
            at = data_end(bytes.all, at).ok_or_else(cut)?;
        }
    }
    let (width, height, components) = frame.ok_or_else(|| job.malformed("it has no frame"))?;
    let work = scans * u64::from(width) * u64::from(height);
    if scans == 0 {
        return Err(job.malformed("it has no scan"));
    }
    if scans > SCANS || work > WORK {
        let size = format!("has {scans} scans of {width} x {height} pixels");
        let most = format!("at most {SCANS} scans, of {WORK} pixels together");
        return Err(job.beyond(format!("{size}: expected {most}")));
    }
    // a file of several scans keeps all coefficients, in two bytes each
    let kept = if scans > 1 { 2 * u64::from(components) } else { 0 };
    Ok(Header { width, height, bytes_per_pixel: 4 + kept })
}

/// Checks the samples of each component of a frame in a block of pixels, across and down. The
/// standard allows 1 to 4 of any component. Cameras and programs write those that double or
/// quadruple the colour of the first component, and decoders are proven on these alone.
fn check_samples(
    bytes: &Bytes<'_>,
    at: usize,
    components: u8,
    job: &Job<'_>,
) -> Result<(), ImageError> {
    let mut first = None;
    for component in 0..usize::from(components) {
        let samples = bytes.byte(at + 3 * component + 1)?;
        let sides = [samples >> 4, samples & 15];
        let most = *first.get_or_insert(sides);
        let fits = |(side, most): (u8, u8)| matches!(side, 1 | 2 | 4) && side <= most;
        if !sides.into_iter().zip(most).all(fits) {
            let [across, down] = sides;
            return Err(job.malformed(format!(
                "component {} of its frame has {across} x {down} samples, expected 1, 2 or 4 a side, and at most those of the first",
                component + 1
            )));
        }
    }
    Ok(())
}

/// The place of the marker that ends the entropy-coded data which begins at a place.
fn data_end(all: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += all.get(at..)?.iter().position(|byte| *byte == 0xff)?;
        match *all.get(at + 1)? {
            // a stuffed byte, a restart, or a filling byte
            0 | 0xd0..=0xd7 => at += 2,
            0xff => at += 1,
            _ => return Some(at),
        }
    }
}
