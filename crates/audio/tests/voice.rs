//! Voice activity: no speech in silence, noise and notes; speech where it is.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "common/signals.rs"]
mod signals;

use pelton_audio::{AudioFile, Memory, Packing, Voice, VoiceDetector, VoiceOptions, voices};
use pelton_testing::{Need, skip};
use proptest::prelude::*;
use signals::noise;
use std::f64::consts::TAU;
use std::ops::Range;
use std::path::Path;

/// The parts with their padding, in which the speech lies.
fn find(samples: &[f32], options: VoiceOptions) -> Vec<Range<u64>> {
    let found = voices(&mut Memory::new(samples), options).unwrap();
    let padding = (options.padding * 16_000.0).round() as u64;
    let inside = |Voice { padded, speech }: Voice| {
        assert!(padded.start <= speech.start && speech.start < speech.end);
        assert!(speech.end <= padded.end && padded.end - speech.end <= padding);
        padded
    };
    found.into_iter().map(inside).collect()
}

fn nothing(name: &str, samples: &[f32]) {
    let found = find(samples, VoiceOptions::default());
    assert!(found.is_empty(), "{name}: {found:?}");
}

const MINUTES: usize = 3 * 60 * 16_000;

#[test]
fn silence_and_noise_are_no_speech() {
    nothing("silence", &vec![0.0; MINUTES]);
    nothing("offset", &vec![0.3; MINUTES]);
    let white = noise(MINUTES, 9);
    // Three poles: Paul Kellet's filter of white noise to pink noise.
    let mut poles = [0.0_f32; 3];
    let pink: Vec<f32> = white
        .iter()
        .map(|x| {
            poles[0] = 0.99765 * poles[0] + x * 0.0990460;
            poles[1] = 0.963 * poles[1] + x * 0.2965164;
            poles[2] = 0.57 * poles[2] + x * 1.0526913;
            0.2 * (poles[0] + poles[1] + poles[2] + x * 0.1848)
        })
        .collect();
    for gain in [0.001, 0.01, 0.1, 0.5, 1.0] {
        let scale = |signal: &[f32]| -> Vec<f32> { signal.iter().map(|x| x * gain).collect() };
        nothing(&format!("white noise, {gain}"), &scale(&white));
        nothing(&format!("pink noise, {gain}"), &scale(&pink));
    }
}

#[test]
fn tones_and_chords_are_no_speech() {
    let tone = |hz: f64, i: usize| (TAU * (hz * i as f64 / 16_000.0).fract()).sin();
    for hz in [50.0, 220.0, 1_000.0, 3_000.0] {
        let signal: Vec<f32> = (0..MINUTES / 3).map(|i| 0.3 * tone(hz, i) as f32).collect();
        nothing(&format!("{hz} Hz"), &signal);
    }
    for seconds in [0.25, 0.5, 2.0] {
        for overtones in [1, 4, 10] {
            let note = (seconds * 16_000.0) as usize;
            let signal: Vec<f32> = (0..MINUTES / 3)
                .map(|i| {
                    let (root, since) =
                        ([220.0, 174.61, 261.63, 196.0][i / note % 4], (i % note) as f64);
                    let envelope = (-3.0 * since / note as f64).exp() * (since / 80.0).min(1.0);
                    let chord: f64 = [1.0, 1.25, 1.5, 2.0]
                        .iter()
                        .flat_map(|part| (1..=overtones).map(move |h| (root * part, h)))
                        .map(|(hz, h)| tone(hz * f64::from(h), i) / f64::from(h))
                        .sum();
                    (0.08 * envelope * chord) as f32
                })
                .collect();
            nothing(&format!("chords of {seconds} s, {overtones} overtones"), &signal);
        }
    }
}

fn speech() -> Option<Vec<f32>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/audio/jfk.wav");
    if !path.exists() {
        skip(Need::Data, "shared/data/audio/jfk.wav is missing");
        return None;
    }
    Some(AudioFile::open(path).unwrap().read_all().unwrap())
}

fn length(parts: &[Range<u64>]) -> f64 {
    parts.iter().map(|part| part.end - part.start).sum::<u64>() as f64 / 16_000.0
}

#[test]
fn speech_is_found_in_quiet_loudness_and_noise() {
    let Some(speech) = speech() else { return };
    for gain in [0.1, 1.0, 3.0] {
        let signal: Vec<f32> = speech.iter().map(|x| (x * gain).clamp(-1.0, 1.0)).collect();
        let found = find(&signal, VoiceOptions::default());
        assert!(length(&found) > 9.0 && found.len() < 10, "gain {gain}: {found:?}");
    }
    let power = speech.iter().map(|x| x * x).sum::<f32>() / speech.len() as f32;
    for decibels in [20.0, 10.0] {
        // Uniform noise in [-1, 1) has a power of a third.
        let gain = (3.0 * power * 10.0_f32.powf(-decibels / 10.0)).sqrt();
        let noise = noise(speech.len(), 4);
        let signal: Vec<f32> =
            speech.iter().zip(noise).map(|(x, n)| (x + gain * n).clamp(-1.0, 1.0)).collect();
        let found = find(&signal, VoiceOptions::default());
        assert!(length(&found) > 6.0, "{decibels} dB: {found:?}");
    }
}

#[test]
fn inserted_pauses_are_found() {
    let Some(speech) = speech() else { return };
    let options = VoiceOptions { padding: 0.0, ..VoiceOptions::default() };
    // Pieces from inside of what is found as speech, so that they begin and end loudly.
    let (first, second) = (&speech[8_000..30_000], &speech[56_000..120_000]);
    for seconds in [0.5, 2.0, 40.0] {
        let pause = (seconds * 16_000.0) as usize;
        let mut signal = vec![0.0; 16_000];
        signal.extend(first);
        signal.extend(std::iter::repeat_n(0.0, pause));
        signal.extend(second);
        signal.extend(std::iter::repeat_n(0.0, 16_000));
        let found = find(&signal, options);
        let (start, end) = (16_000 + first.len(), 16_000 + first.len() + pause);
        let near = |a: u64, b: usize| (a as i64 - b as i64).abs() <= 2 * 256;
        let around = found.windows(2).any(|p| near(p[0].end, start) && near(p[1].start, end));
        assert!(around, "{seconds} s, {start}..{end}: {found:?}");
        assert!(near(found[0].start, 16_000), "{found:?}");
    }
}

#[test]
fn long_speech_is_cut() {
    let Some(speech) = speech() else { return };
    let signal: Vec<f32> = speech.iter().copied().cycle().take(180 * 16_000).collect();
    // A pause is never long enough, so only the greatest length ends a part.
    let options = VoiceOptions { least_silence: 60.0, ..VoiceOptions::default() };
    let found = find(&signal, options);
    assert!(found.len() >= 6, "{found:?}");
    assert!(found.iter().all(|part| part.end - part.start <= 30 * 16_000), "{found:?}");
    assert!(length(&found) > 170.0, "{found:?}");
    let whole = find(&signal, VoiceOptions { padding: 0.0, ..options });
    assert!(whole.windows(2).all(|pair| pair[0].end == pair[1].start), "{whole:?}");
}

#[test]
fn chunks_do_not_matter() {
    let Some(speech) = speech() else { return };
    let expected = find(&speech, VoiceOptions::default());
    for size in [1, 255, 1_000] {
        let mut detector = VoiceDetector::new(VoiceOptions::default());
        let mut found: Vec<Voice> = Vec::new();
        speech.chunks(size).for_each(|chunk| detector.push(chunk, &mut found));
        detector.finish(&mut found);
        let found: Vec<Range<u64>> = found.into_iter().map(|voice| voice.padded).collect();
        assert_eq!(found, expected, "{size}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Bursts of modulated noise, any settings.
    #[test]
    fn parts_are_ascending_disjoint_and_inside(
        bursts in prop::collection::vec((0_usize..20_000, 0_usize..30_000), 1..12),
        onset in 0.0_f32..0.9,
        padding in 0.0_f64..1.0,
        greatest in 0.5_f64..4.0,
        least_silence in 0.0_f64..0.4,
    ) {
        let mut signal = Vec::new();
        for (pause, burst) in bursts {
            signal.extend(std::iter::repeat_n(0.0, pause));
            let noise = noise(burst, 8);
            signal.extend(noise.iter().enumerate().map(|(i, x)| x * (i as f32 * 0.002).sin()));
        }
        let options = VoiceOptions {
            onset,
            offset: onset * 0.7,
            least_change: 0.0,
            least_speech: 0.05,
            least_silence,
            greatest,
            padding,
        };
        let found = find(&signal, options);
        for part in &found {
            prop_assert!(part.start < part.end && part.end <= signal.len() as u64);
        }
        for pair in found.windows(2) {
            prop_assert!(pair[0].end <= pair[1].start);
        }
    }

    #[test]
    fn packing_is_inverse(
        lengths in prop::collection::vec((1_u64..100_000, 1_u64..700_000), 0..30),
    ) {
        let (mut parts, mut at) = (Vec::new(), 0);
        for (pause, length) in lengths {
            parts.push(at + pause..at + pause + length);
            at += pause + length;
        }
        let windows = Packing::pack(&parts, 30.0);
        let mut pieces = Vec::new();
        for window in &windows {
            prop_assert!(window.samples() <= 480_000 && !window.pieces().is_empty());
            for piece in window.pieces() {
                let length = piece.file.end - piece.file.start;
                for offset in [0, length / 2, length - 1] {
                    let (file, packed) = (piece.file.start + offset, piece.window + offset);
                    prop_assert_eq!(window.start_in_file(packed), file);
                    prop_assert_eq!(window.end_in_file(packed + 1), file + 1);
                    prop_assert_eq!(window.in_window(file), Some(packed));
                }
                pieces.push(piece.file.clone());
            }
            prop_assert_eq!(window.start_in_file(u64::MAX), window.pieces().last().unwrap().file.end);
            prop_assert_eq!(window.in_window(u64::MAX), None);
        }
        // All samples are there once, in order.
        let total = |ranges: &[Range<u64>]| ranges.iter().map(|r| r.end - r.start).sum::<u64>();
        prop_assert_eq!(total(&pieces), total(&parts));
        for pair in pieces.windows(2) {
            prop_assert!(pair[0].end <= pair[1].start);
        }
        // A window is full: the first part of the next one does not fit.
        for pair in windows.windows(2) {
            let next = &pair[1].pieces()[0].file;
            prop_assert!(pair[0].samples() + next.end - next.start > 480_000);
        }
    }
}
