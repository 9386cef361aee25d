//! Arbitrary bytes as an audio file: decoded twice, within limits, to samples and features.

#![allow(clippy::panic, reason = "a test fails by it")]

use pelton_audio::{AudioError, AudioFile, MelStream, Samples};

/// Seconds after which decoding stops.
const LIMIT: u64 = 20;

/// Keeps panics that the crate catches, those of its decoders, from filling the terminal.
pub(crate) fn quiet() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.location().is_some_and(|place| place.file().contains("symphonia")) {
            before(panic);
        }
    }));
}

/// Opens bytes and reads them to their end, then their features. Returns whether they are audio.
pub(crate) fn exercise(bytes: &[u8]) -> bool {
    let Ok(file) = AudioFile::from_bytes(bytes.to_vec(), "bytes") else { return false };
    let mut file = file.limit(LIMIT);
    let first = samples(&mut file);
    let _ = (file.warnings(), file.duration(), file.position());
    let again = file.rewind().and_then(|()| samples(&mut file));
    match (first, again) {
        (Ok(first), Ok(again)) => assert!(first == again, "two passes differ"),
        (Err(_), Err(_)) => return false,
        (first, again) => panic!("one pass fails: {:?} {:?}", first.err(), again.err()),
    }
    if file.rewind().is_err() {
        return false;
    }
    let Ok(mut mel) = MelStream::new(file, 80) else { return false };
    let mut window = vec![0.0; 50 * 80];
    let mut first = 0;
    while first < mel.frames() {
        if mel.read(first, &mut window).is_err() {
            return false;
        }
        assert!(window.iter().all(|x| x.is_finite()), "a feature at {first} is not finite");
        first += 47;
    }
    true
}

/// The number of samples and a sum of their bits: a second pass has to give the same.
fn samples(file: &mut AudioFile) -> Result<(usize, u64), AudioError> {
    let (mut count, mut sum) = (0, 0_u64);
    while let Some(chunk) = file.next_chunk()? {
        assert!(!chunk.is_empty(), "an empty chunk");
        for sample in chunk {
            assert!(sample.abs() <= 1.0, "a sample of {sample}");
            sum = sum.rotate_left(1) ^ u64::from(sample.to_bits());
        }
        count += chunk.len();
    }
    Ok((count, sum))
}
