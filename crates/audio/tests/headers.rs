//! Headers that real writers leave behind: tags of many megabytes, sizes that were never written,
//! files that are cut off. The samples are those of the files as they were made.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by it")]

use pelton_audio::{AudioFile, Cancel, Samples};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

fn file(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/containers");
    fs::read(folder.join(name)).unwrap()
}

fn decode(bytes: Vec<u8>, name: &str) -> Vec<f32> {
    let length = bytes.len();
    let read = AudioFile::from_bytes(bytes, name).and_then(|mut file| file.read_all());
    read.unwrap_or_else(|error| panic!("{error} ({length} bytes)"))
}

/// A tag of ID3v2 with a cover of that many bytes, which look like audio in places.
fn id3(size: usize, has_footer: bool) -> Vec<u8> {
    let digits = [21, 14, 7, 0].map(|shift| (size >> shift & 0x7f) as u8);
    let flags = if has_footer { 0x10 } else { 0 };
    let mut tag = [&b"ID3\x04\0"[..], &[flags], &digits].concat();
    tag.extend(b"\xff\xfb\x90\x64fLaCOggS".iter().cycle().take(size));
    if has_footer {
        tag.extend([&b"3DI\x04\0\x10"[..], &digits].concat());
    }
    tag
}

fn ape(size: u32, has_header: bool) -> Vec<u8> {
    let part = |flags: u32| {
        let fields = [2_000, size + 32, 1, flags].map(u32::to_le_bytes).concat();
        [&b"APETAGEX"[..], &fields, &[0; 8]].concat()
    };
    let header = if has_header { part(0xa000_0000) } else { Vec::new() };
    let footer = part(if has_header { 0x8000_0000 } else { 0 });
    [header, vec![7; size as usize], footer].concat()
}

#[test]
fn tags_of_any_size_are_skipped() {
    for name in ["cbr.mp3", "adts.aac", "s16.flac", "s16.wav", "opus.ogg", "aac.m4a", "s16.aiff"] {
        let expected = decode(file(name), name);
        for tags in [
            id3(30_000, false),
            id3(40_000, false),
            id3(4_800_000, false),
            [id3(70_000, true), id3(9, false), vec![0; 5_000], id3(50_000, false)].concat(),
            [id3(70_000, false), vec![0; 60_000]].concat(),
            ape(50_000, true),
        ] {
            // MP4 counts its places from the start of the file, with the tag or without it
            let bytes = [tags.clone(), file(name)].concat();
            assert!(decode(bytes, name) == expected, "{name} behind {} bytes", tags.len());
        }
        if !["cbr.mp3", "adts.aac", "s16.flac"].contains(&name) {
            continue;
        }
        let old = [&b"TAG"[..], &[b'x'; 125]].concat();
        for tags in
            [old.clone(), ape(50_000, true), ape(900, false), [ape(900, true), old].concat()]
        {
            let bytes = [file(name), tags.clone()].concat();
            assert!(decode(bytes, name) == expected, "{name} before {} bytes", tags.len());
        }
    }
}

#[test]
fn a_tag_that_is_longer_than_the_file_is_none() {
    let mut bytes = id3(1_000, false);
    bytes[6..10].fill(0x7f);
    let error = AudioFile::from_bytes(bytes, "upload").err().map(|error| error.to_string());
    assert!(error.is_some());
}

/// A wav file whose sizes are these.
fn wav(name: &[u8; 4], riff: u32, before: &[u8], data: u32, samples: &[i16]) -> Vec<u8> {
    let mut bytes = [&name[..], &riff.to_le_bytes(), b"WAVE", before].concat();
    bytes.extend(b"fmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0data");
    bytes.extend(data.to_le_bytes());
    bytes.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
    bytes
}

#[test]
fn sizes_that_were_never_written_reach_to_the_end() {
    let samples: Vec<i16> = (0..20_000).map(|i| (i % 500) as i16).collect();
    let expected: Vec<f32> = samples.iter().map(|x| f32::from(*x) / 32768.0).collect();
    let (size, all) = (40_000, u32::MAX);
    let list = b"LIST\x0a\0\0\0INFOISFT\0\0".to_vec();
    let wide = |data: u64| {
        let sizes = [data.wrapping_add(36), data, data / 2].map(u64::to_le_bytes).concat();
        [&b"ds64\x1c\0\0\0"[..], &sizes, &[0; 4]].concat()
    };
    for (name, riff, before, data) in [
        (b"RIFF", size + 36, vec![], 0),
        (b"RIFF", 0, vec![], 0),
        (b"RIFF", 36, vec![], 0),
        (b"RIFF", 0, vec![], size),
        (b"RIFF", 36, vec![], size),
        (b"RIFF", all, vec![], all),
        (b"RIFF", 36, list.clone(), 0),
        (b"RF64", all, wide(u64::from(size)), all),
        (b"BW64", all, wide(u64::from(size)), all),
        (b"RF64", all, wide(0), all),
        (b"RF64", all, wide(u64::MAX), all),
    ] {
        let mut bytes = wav(name, riff, &before, data, &samples);
        // half a sample at the end
        if data != size {
            bytes.push(9);
        }
        let mut file = AudioFile::from_bytes(bytes, "upload").unwrap();
        let found = file.read_all().unwrap();
        let name = String::from_utf8_lossy(name);
        let count = found.len();
        assert!(
            count >= expected.len() && found[..20_000] == expected,
            "{name} {riff} {data}: {count}"
        );
        assert!(count <= 20_001 && file.warnings().is_empty(), "{name} {riff} {data}: {count}");
    }
    // a chunk behind the samples is not read as some
    let mut bytes = wav(b"RIFF", size + 36 + list.len() as u32, &[], size, &samples);
    bytes.extend(list);
    assert!(decode(bytes, "upload") == expected);
}

#[test]
fn files_that_are_cut_off_give_their_start() {
    // the movie header first, as for streaming, and all samples behind it
    for (name, start) in [("fragmented.mp4", 1_024), ("aac.m4a", 1_024)] {
        let whole = file(name);
        let bytes = if name == "aac.m4a" { for_streaming(&whole) } else { whole.clone() };
        let expected = decode(whole, name);
        assert!(decode(bytes.clone(), name) == expected, "{name}");
        let found = decode(bytes[..bytes.len() * 7 / 10].to_vec(), name);
        assert!(found.len() > start && found.len() < expected.len(), "{name}: {}", found.len());
        let same = found.len() - start;
        assert!(found[..same] == expected[..same], "{name}");
    }
    let bytes = file("s16.aiff");
    let expected = decode(bytes.clone(), "s16.aiff");
    let mut cut = AudioFile::from_bytes(bytes[..bytes.len() / 2].to_vec(), "cut.aiff").unwrap();
    let found = cut.read_all().unwrap();
    assert!(found.len() > expected.len() / 3 && found[..] == expected[..found.len()]);
}

/// Moves the movie header of a file before its samples.
fn for_streaming(bytes: &[u8]) -> Vec<u8> {
    let (mut at, mut boxes) = (0, Vec::new());
    while at < bytes.len() {
        let size = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        boxes.push(&bytes[at..at + size]);
        at += size;
    }
    let place = |kind: &[u8; 4]| boxes.iter().position(|one| &one[4..8] == kind).unwrap();
    let mut movie = boxes[place(b"moov")].to_vec();
    let table = movie.windows(4).position(|kind| kind == b"stco").unwrap();
    let count = u32::from_be_bytes(movie[table + 8..table + 12].try_into().unwrap()) as usize;
    let length = movie.len() as u32;
    for entry in movie[table + 12..table + 12 + 4 * count].chunks_exact_mut(4) {
        let offset = u32::from_be_bytes(entry.try_into().unwrap()) + length;
        entry.copy_from_slice(&offset.to_be_bytes());
    }
    let rest = boxes.iter().filter(|one| &one[4..8] != b"moov" && &one[4..8] != b"ftyp");
    let mut all = [boxes[place(b"ftyp")].to_vec(), movie].concat();
    rest.for_each(|one| all.extend_from_slice(one));
    all
}

#[test]
fn streams_of_opus_that_follow_each_other_are_decoded() {
    let one = file("opus.ogg");
    let expected = decode(one.clone(), "opus.ogg");
    let found = decode(one.repeat(3), "chained");
    // the resampler goes on over the borders
    assert!(found.len().abs_diff(3 * expected.len()) <= 2, "{}", found.len());
    let middle = &found[expected.len() + 200..2 * expected.len() - 200];
    let worst = middle.iter().zip(&expected[200..]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-3, "{worst}");
}

#[test]
fn a_gain_of_opus_is_applied() {
    let expected = decode(file("opus.mp4"), "opus.mp4");
    let mut bytes = file("opus.mp4");
    let place = bytes.windows(4).position(|kind| kind == b"dOps").unwrap();
    // -6.02 dB, 256 to the dB
    bytes[place + 12..place + 14].copy_from_slice(&(-1_541_i16).to_be_bytes());
    let found = decode(bytes, "opus.mp4");
    let worst = found.iter().zip(&expected).map(|(a, b)| (2.0 * a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-3, "{worst}");
}

#[test]
fn a_reading_that_is_cancelled_ends() {
    let cancel = Cancel::new();
    let reader = std::io::Cursor::new(file("cbr.mp3"));
    let mut audio = AudioFile::from_reader_until(reader, "upload", &cancel).unwrap();
    assert!(audio.next_chunk().unwrap().is_some());
    cancel.cancel();
    let text = audio.next_chunk().unwrap_err().to_string();
    assert_eq!(text, "upload was not read to its end: the reading was cancelled");
    assert!(audio.next_chunk().unwrap().is_none());
    let late = Cancel::at(Instant::now() + Duration::from_millis(1));
    std::thread::sleep(Duration::from_millis(2));
    assert!(late.is_late() && late.is_due());
}
