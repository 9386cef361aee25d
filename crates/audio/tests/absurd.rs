//! Headers that are legal and absurd stay within bounds of memory and time.
//!
//! `PELTON_FUZZ_RUNS=N` makes N files in place of 4,000, in as many processes as there are cores,
//! from `PELTON_FUZZ_SEED` on. Those of one process run one after another, as memory is counted
//! over all threads.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "common/absurd.rs"]
mod absurd;

use absurd::{Choices, atom, movie, page, setup, tables, track, vorbis_with, words};
use pelton_audio::{AudioError, AudioFile, Samples};
use pelton_watchdog::{Budget, Counting, within};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

/// One input at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Opens and decodes a file of at most 60 s within the usual bounds. Samples count for more time.
fn decode(bytes: Vec<u8>, name: &str) -> Result<usize, AudioError> {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (mut seconds, mut count) = (0.0, 0);
    // building a decoder, and resampling of what comes from few bytes, in a build without
    // optimization
    let budget = Budget { bytes: 64 << 20, time: Duration::from_millis(1_500) };
    within(budget, name, || {
        let mut file = AudioFile::from_bytes(bytes, name)?.limit(60);
        while let Some(chunk) = file.next_chunk()? {
            count += chunk.len();
            seconds = file.position();
        }
        Ok(())
    })
    .map(|()| count)
    .inspect_err(|_| assert!(seconds <= 61.0))
}

#[test]
fn codebooks_are_bounded_by_their_sum() {
    for books in [1, 2, 16, 64, 256] {
        let text = decode(vorbis_with(1, &setup(books, 31, 17)), "books").unwrap_err().to_string();
        assert!(text.contains("codebooks take at least"), "{books}: {text}");
    }
    // small ones are built
    assert!(decode(vorbis_with(1, &setup(8, 4, 8)), "small").is_ok_and(|count| count > 0));
}

fn fragments(runs: &[Vec<u8>], tracks: &[Vec<u8>], size: u32) -> Vec<u8> {
    let mut bytes = movie(tracks, tracks.len() as u32, size);
    let header = atom(b"mfhd", &words(&[0, 1]));
    bytes.extend(atom(b"moof", &[header, runs.concat()].concat()));
    bytes.extend(atom(b"mdat", &vec![7; 64_000]));
    bytes
}

fn runs(id: u32, size: u32, counts: &[u32]) -> Vec<u8> {
    let header = atom(b"tfhd", &words(&[0x2_0018, id, 1, size]));
    let runs = counts.iter().map(|count| atom(b"trun", &words(&[0, *count])));
    atom(b"traf", &[header, runs.collect::<Vec<_>>().concat()].concat())
}

#[test]
fn runs_of_samples_that_a_file_cannot_hold_are_refused() {
    let empty = tables(&[0, 0], &[0, 0, 0], &[0, 0], &[0, 0]);
    let pcm = track(1, b"sowt", &empty);
    for (counts, size, expected) in [
        (vec![u32::MAX; 5_000], 2, "samples in 144606 bytes"),
        (vec![300_000], 2, "expected at most 4096 of 262144"),
        (vec![u32::MAX - 1], 0, "without a size"),
        (vec![1; 5_000], 2, "runs of"),
    ] {
        let bytes = fragments(&[runs(1, size, &counts)], std::slice::from_ref(&pcm), 2);
        let text = decode(bytes, "runs").unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
    // a track of an unknown codec before that of PCM
    let both = [track(1, b"Qclp", &empty), track(2, b"sowt", &empty)];
    let bytes = fragments(&[runs(1, 0, &[u32::MAX - 1]), runs(2, 2, &[32_000])], &both, 2);
    assert!(decode(bytes, "junk").unwrap_err().to_string().contains("without a size"));
    // files that follow the format are decoded: two tracks, of which the second one is known
    let bytes = fragments(&[runs(1, 1, &[3_000]), runs(2, 2, &[32_000])], &both, 2);
    assert!(decode(bytes, "whole").is_ok_and(|count| count > 20_000));
}

#[test]
fn tables_that_a_box_cannot_hold_are_refused() {
    for (sizes, times) in
        [(vec![0, 0, u32::MAX], vec![0, 1, 9, 1]), (vec![0, 2, 9], vec![0, 90, 9])]
    {
        let tables = tables(&times, &sizes, &[0, 1, 1, 9, 1], &[0, 1, 500]);
        let mut bytes = movie(&[track(1, b"sowt", &tables)], 0, 0);
        bytes.extend(atom(b"mdat", &[1; 90]));
        let text = decode(bytes, "tables").unwrap_err().to_string();
        assert!(text.contains("entries in"), "{text}");
    }
}

/// A box may contain itself in eight bytes a level.
#[test]
fn boxes_that_are_nested_without_end_are_refused() {
    for levels in [20, 200_000] {
        for kind in [b"edts", b"mdia", b"minf", b"stbl"] {
            let mut bytes = atom(b"ftyp", b"isom\0\0\0\0isom");
            let whole = 16 + 8 * levels as u32;
            for (at, kind) in [b"moov", b"trak"].into_iter().enumerate() {
                bytes.extend((whole - 8 * at as u32).to_be_bytes());
                bytes.extend(kind);
            }
            for level in 0..levels {
                bytes.extend((8 * (levels - level) as u32).to_be_bytes());
                bytes.extend(kind);
            }
            let text = decode(bytes, "nested").unwrap_err().to_string();
            assert!(text.contains("nested in more than 8 levels"), "{levels}: {text}");
        }
    }
}

#[test]
fn streams_that_follow_each_other_without_samples_end() {
    let ident = absurd::ident(1);
    let setup = setup(8, 4, 8);
    let stream = [page(0, 2, 0, &[&ident]), page(1, 0, 0, &[b"\x03vorbis", &setup])].concat();
    let text = decode(stream.repeat(3_000), "chained").unwrap_err().to_string();
    assert!(text.contains("none of its audio could be decoded"), "{text}");
}

/// Makes files of random choices.
fn generate(runs: u64, seed: u64) -> (u64, u64) {
    let (mut opened, mut decoded) = (0, 0);
    for run in 0..runs {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_add(run));
        let choices: Vec<u8> = (0..random.usize(..4_000)).map(|_| random.u8(..)).collect();
        let bytes = absurd::file(&mut Choices(&choices));
        let name = format!("the file of seed {}", seed + run);
        match decode(bytes, &name) {
            Ok(count) => {
                opened += 1;
                decoded += u64::from(count > 0);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    (opened, decoded)
}

#[test]
fn random_headers_stay_within_bounds() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let runs = number("PELTON_FUZZ_RUNS").unwrap_or(4_000);
    let seed = number("PELTON_FUZZ_SEED").unwrap_or(1);
    if runs <= 100_000 {
        let (opened, decoded) = generate(runs, seed);
        println!("{runs} files, {opened} opened, {decoded} with samples");
        assert!(runs < 1_000 || decoded > runs / 20, "{decoded} of {runs} have samples");
        return;
    }
    // processes with a part each, again in parts that they make at once
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    std::thread::scope(|scope| {
        for worker in 0..workers {
            scope.spawn(move || {
                for part in (worker..runs.div_ceil(100_000)).step_by(workers as usize) {
                    let status = Command::new(std::env::current_exe().unwrap())
                        .args(["random_headers_stay_within_bounds", "--exact"])
                        .env("PELTON_FUZZ_RUNS", 100_000.min(runs - part * 100_000).to_string())
                        .env("PELTON_FUZZ_SEED", (seed + part * 100_000).to_string())
                        .status();
                    assert!(status.unwrap().success(), "seeds from {}", seed + part * 100_000);
                }
            });
        }
    });
}
