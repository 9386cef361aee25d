//! Decoding, compared with Pillow and transformers: `tests/fixtures/make_pictures.py`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by it")]

#[path = "common/noise.rs"]
#[allow(dead_code, reason = "other tests make noise")]
mod noise;

use noise::digest;
use pelton_image::{ImageError, Job, Limits, Picture, decode};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pictures")
}

fn file(name: &str) -> Vec<u8> {
    fs::read(folder().join(name)).unwrap()
}

fn read(bytes: &[u8], name: &str) -> Result<Picture, ImageError> {
    decode(bytes, &Job::new(name, Limits::default(), &|| false))
}

fn refusal(bytes: &[u8], limits: Limits) -> String {
    decode(bytes, &Job::new("it", limits, &|| false)).unwrap_err().to_string()
}

#[test]
fn pixels_are_those_of_pillow() {
    let table = fs::read_to_string(folder().join("pictures.tsv")).unwrap();
    assert!(table.lines().count() > 50);
    let mut wrong = Vec::new();
    for line in table.lines() {
        let [name, width, height, tolerance, expected] =
            line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let picture = read(&file(name), name).unwrap_or_else(|error| panic!("{error}"));
        let size = (picture.width().to_string(), picture.height().to_string());
        assert_eq!(size, (width.to_owned(), height.to_owned()), "{name}");
        let tolerance: u8 = tolerance.parse().unwrap();
        if tolerance == 0 {
            if digest(picture.rgb()) != expected {
                wrong.push(format!("{name}: other bytes"));
            }
            continue;
        }
        let pixels = file(&format!("{name}.rgb"));
        assert_eq!(pixels.len(), picture.rgb().len(), "{name}");
        let distances: Vec<u8> =
            pixels.iter().zip(picture.rgb()).map(|(a, b)| a.abs_diff(*b)).collect();
        let far = *distances.iter().max().unwrap();
        let sum: u32 = distances.iter().map(|distance| u32::from(*distance)).sum();
        let mean = f64::from(sum) / distances.len() as f64;
        println!("{name}: at most {far}, {mean:.2} in the mean");
        if far > tolerance || mean > 0.5 {
            wrong.push(format!("{name}: a byte is {far} away, {mean:.2} in the mean"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn other_formats_are_refused_by_name() {
    for (bytes, expected) in [
        (&b"\0\0\0\x18ftypheic\0\0\0\0"[..], "a HEIC picture"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0", "a HEIF picture"),
        (b"\0\0\0\x20ftypavif\0\0\0\0", "an AVIF picture"),
        (b"\0\0\0\x20ftypisom\0\0\0\0", "a video"),
        (b"<?xml version='1.0'?>\n<!-- a --><svg width='9'/>", "an SVG drawing"),
        (b"\xef\xbb\xbf  <svg xmlns='x'/>", "an SVG drawing"),
        (b"%PDF-1.7\n", "a PDF document"),
        (b"II*\0\x08\0\0\0", "a TIFF picture"),
        (b"MM\0*\0\0\0\x08", "a TIFF picture"),
        (b"\0\0\0\x0cJXL \r\n\x87\n", "a JPEG XL picture"),
    ] {
        let text = refusal(bytes, Limits::default());
        let rest = "which is not supported: expected PNG, JPEG, WebP, GIF or BMP";
        assert_eq!(text, format!("it is {expected}, {rest}"));
    }
    for bytes in [&b""[..], b"\x89", b"hello", b"RIFF\0\0\0\0WAVE", b"<html><body>", b"\xff\xd8"] {
        let text = refusal(bytes, Limits::default());
        assert!(text.starts_with("it is not a picture of a known format"), "{text}");
    }
}

#[test]
fn limits_are_compared_with_the_header() {
    let limits = Limits::default();
    for (limits, expected) in [
        (Limits { bytes: 100, ..limits }, "bytes: expected at most 100"),
        (Limits { side: 52, ..limits }, "37 x 53 pixels: expected at most 52 on a side"),
        (Limits { pixels: 1_960, ..limits }, "37 x 53 pixels: expected at most 1960 in all"),
        (Limits { aspect: 1, ..limits }, "a longer side of at most 1 times the shorter one"),
        (Limits { memory: 9_000, ..limits }, "expected at most 9000 bytes"),
    ] {
        for name in ["rgb.png", "444.jpg", "lossy.webp", "lossless_alpha.webp", "plain.gif"] {
            let text = refusal(&file(name), limits);
            assert!(text.ends_with(expected), "{name}: {text}");
        }
    }
    let zero = [&file("rgb.png")[..16], &[0; 4], &file("rgb.png")[20..]].concat();
    assert!(refusal(&zero, limits).contains("0 x 53 pixels"));
}

#[test]
fn a_job_ends_by_its_caller_and_by_time() {
    let bytes = file("rgb_16.png");
    let text = decode(&bytes, &Job::new("it", Limits::default(), &|| true)).unwrap_err();
    assert!(matches!(text, ImageError::Cancelled { .. }), "{text}");
    let none = Limits { time: Duration::ZERO, ..Limits::default() };
    assert_eq!(refusal(&bytes, none), "it was not read within 0 seconds, the limit");
    // a caller who leaves at any later look
    let looks = AtomicUsize::new(0);
    let counting = || looks.fetch_add(1, Ordering::Relaxed) > usize::MAX / 2;
    decode(&bytes, &Job::new("it", Limits::default(), &counting)).unwrap();
    let all = looks.load(Ordering::Relaxed);
    assert!(all >= 3, "{all} looks");
    for last in 0..all {
        let looks = AtomicUsize::new(0);
        let leaves = || looks.fetch_add(1, Ordering::Relaxed) >= last;
        let error = decode(&bytes, &Job::new("it", Limits::default(), &leaves)).unwrap_err();
        assert!(matches!(error, ImageError::Cancelled { .. }), "{last}: {error}");
    }
}

#[test]
fn files_that_are_cut_off_are_errors() {
    for name in ["rgb.png", "420.jpg", "progressive.jpg", "lossy.webp", "lossless.webp", "rgb.bmp"]
    {
        let bytes = file(name);
        // a PNG's last chunk is empty
        for length in [30, bytes.len() / 2, bytes.len() - 16] {
            let text = refusal(&bytes[..length], Limits::default());
            assert!(text.starts_with("it is damaged: "), "{name}, {length}: {text}");
        }
    }
}
