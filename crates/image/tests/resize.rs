//! Resizing, compared with Pillow: `tests/fixtures/make_resized.py`, and Pillow itself.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by it")]

#[path = "common/noise.rs"]
mod noise;

use noise::{digest, noise};
use pelton_image::{Filter, ImageError, Job, Limits, Picture, resize};
use pelton_testing::{Need, skip};
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

const FILTERS: [(&str, Filter); 3] =
    [("bilinear", Filter::Bilinear), ("bicubic", Filter::Bicubic), ("lanczos", Filter::Lanczos)];

fn resized(picture: &Picture, width: u32, height: u32, filter: Filter) -> Picture {
    let job = Job::new("it", Limits::default(), &|| false);
    resize(picture, width, height, filter, &job).unwrap()
}

#[test]
fn pixels_are_those_of_pillow() {
    let table = include_str!("fixtures/resized.tsv");
    assert!(table.lines().count() > 150);
    for line in table.lines() {
        let fields: Vec<_> = line.split('\t').collect();
        let [width, height, wide, high] = [0, 1, 2, 3].map(|i| fields[i].parse::<u32>().unwrap());
        let (_, filter) = FILTERS.into_iter().find(|(name, _)| *name == fields[4]).unwrap();
        let found = resized(&noise(width, height), wide, high, filter);
        assert_eq!((found.width(), found.height()), (wide, high));
        assert_eq!(digest(found.rgb()), fields[5], "{line}");
    }
}

/// Reads lines of sizes and a filter, each followed by pixels, and prints digests.
const PILLOW: &str = "
import hashlib, sys
from PIL import Image
read = sys.stdin.buffer
while line := read.readline():
    width, height, wide, high, kind = line.split()
    size = int(width), int(height)
    picture = Image.frombytes('RGB', size, read.read(size[0] * size[1] * 3))
    kind = Image.Resampling[kind.decode().upper()]
    print(hashlib.sha256(picture.resize((int(wide), int(high)), kind).tobytes()).hexdigest())
";

#[test]
fn pixels_of_random_sizes_are_those_of_an_installed_pillow() {
    let python = std::env::var_os("PELTON_PYTHON").unwrap_or_else(|| "python3".into());
    let import = Command::new(&python).args(["-c", "import PIL"]).output();
    if !import.is_ok_and(|output| output.status.success()) {
        skip(Need::Python, format_args!("{} has no package pillow", python.display()));
        return;
    }
    let mut random = fastrand::Rng::with_seed(7);
    let mut cases = Vec::new();
    for case in 0..300 {
        let top = if case % 10 == 0 { 11.0 } else { 7.0 };
        let mut side = || 2.0_f64.powf(random.f64() * top) as u32;
        let [width, height, wide, high] = [side(), side(), side(), side()];
        let kind = random.u8(..3);
        let bytes = (0..width * height * 3).map(|_| match kind {
            // black and white, which overshoots
            0 => {
                if random.bool() {
                    255
                } else {
                    0
                }
            }
            1 => 255,
            _ => random.u8(..),
        });
        let picture = Picture::new(width, height, bytes.collect()).unwrap();
        cases.push((picture, wide, high, FILTERS[case % 3]));
    }
    let mut pillow = Command::new(&python)
        .args(["-c", PILLOW])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = pillow.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            for (picture, wide, high, (name, _)) in &cases {
                let (width, height) = (picture.width(), picture.height());
                writeln!(input, "{width} {height} {wide} {high} {name}").unwrap();
                input.write_all(picture.rgb()).unwrap();
            }
            drop(input);
        });
        pillow.wait_with_output().unwrap()
    });
    let output = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.lines().count(), cases.len());
    for ((picture, wide, high, (name, filter)), expected) in cases.iter().zip(output.lines()) {
        let found = resized(picture, *wide, *high, *filter);
        assert_eq!(digest(found.rgb()), expected, "{picture:?} to {wide} x {high}, {name}");
    }
}

#[test]
fn absurd_sizes_are_refused() {
    let picture = noise(3, 5_000);
    let job = Job::new("it", Limits::default(), &|| false);
    for (width, height) in [(0, 1), (1, 0), (u32::MAX, 1), (1, u32::MAX), (60_000, 4_999)] {
        let text = resize(&picture, width, height, Filter::Bicubic, &job).unwrap_err().to_string();
        assert!(text.contains("cannot be resized by way of"), "{text}");
    }
}

#[test]
fn a_job_ends_within_a_pass() {
    let picture = noise(50, 100);
    let looks = AtomicUsize::new(0);
    let leaves = || looks.fetch_add(1, Ordering::Relaxed) >= 9;
    let job = Job::new("it", Limits::default(), &leaves);
    let error = resize(&picture, 60, 90, Filter::Lanczos, &job).unwrap_err();
    assert!(matches!(error, ImageError::Cancelled { .. }), "{error}");
}
