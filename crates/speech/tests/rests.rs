//! Texts that end before the speech of their piece: the rest is decoded, and nothing is said twice.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panic")]

mod fake;

use fake::{EOT, FIRST_TIMESTAMP, Fake, Frames, VOCAB, vocabulary};
use pelton_speech::transcribe::{
    Piece, TranscribeOptions, Transcript, transcribe_pieces, transcribe_voices,
};

/// The model says a letter for each 5 s that it hears, at most two in a window, then ends without a
/// sign. The times of two texts that follow each other are equal.
fn stops_early(_: u64, tokens: &[u32]) -> Vec<f32> {
    let time = |seconds: u32| FIRST_TIMESTAMP + seconds * 50;
    let start = tokens.iter().position(|&token| token == FIRST_TIMESTAMP);
    let said = start.map_or(0, |at| tokens.len() - at);
    // <0> a <5> <5> b <10> <10> end
    let script = [time(0), 300, time(5), time(5), 301, time(10), time(10), EOT];
    one(script[said.min(script.len() - 1)])
}

/// As [`stops_early`], but the text says that nothing follows it.
fn ends_early(_: u64, tokens: &[u32]) -> Vec<f32> {
    let start = tokens.iter().position(|&token| token == FIRST_TIMESTAMP);
    let said = start.map_or(0, |at| tokens.len() - at);
    let script = [FIRST_TIMESTAMP, 300, FIRST_TIMESTAMP + 500, EOT];
    one(script[said.min(script.len() - 1)])
}

/// The text goes on without an end, and is far too short for the speech.
fn never_ends(_: u64, tokens: &[u32]) -> Vec<f32> {
    let start = tokens.iter().position(|&token| token == FIRST_TIMESTAMP);
    let said = start.map_or(0, |at| tokens.len() - at);
    let at = FIRST_TIMESTAMP + 500;
    let script = [FIRST_TIMESTAMP, 300, at, at, 301, EOT];
    one(script[said.min(script.len() - 1)])
}

fn one(token: u32) -> Vec<f32> {
    let mut logits = vec![0.0; VOCAB as usize];
    logits[token as usize] = 40.0;
    logits
}

fn run(model: &mut Fake, pieces: &[Piece], batch: Option<usize>, words: bool) -> Transcript {
    let vocabulary = vocabulary();
    let options = TranscribeOptions {
        decode: pelton_speech::decode::DecodeOptions {
            language: "en".parse().ok(),
            ..Default::default()
        },
        temperatures: vec![0.0],
        no_speech_threshold: None,
        condition_on_previous_text: false,
        words,
        ..TranscribeOptions::default()
    };
    let mut features = Frames { frames: pieces.last().unwrap().frames.end, offset: 0 };
    let (model, features) = (model, &mut features);
    let found = match batch {
        Some(batch) => {
            transcribe_pieces(model, &vocabulary, features, pieces, batch, &options, &mut ())
        }
        None => transcribe_voices(model, &vocabulary, features, pieces, &options, &mut ()),
    };
    found.unwrap()
}

fn times(found: &Transcript) -> Vec<(f64, f64)> {
    let round = |seconds: f64| (seconds * 100.0).round() / 100.0;
    found.segments.iter().map(|one| (round(one.start), round(one.end))).collect()
}

/// Four pieces of 25 s, in each of which people speak all the time.
fn speech() -> Vec<Piece> {
    let of = |start: usize| Piece {
        frames: start..start + 2500,
        voices: std::iter::once(start..start + 2500).collect(),
    };
    [0, 2500, 5000, 7500].map(of).to_vec()
}

#[test]
fn the_rest_of_a_piece_is_decoded() {
    let pieces = speech();
    // each piece has windows at 0, 10 and 20 s; the last one is 5 s long, and its second text is
    // behind it
    let mut expected = Vec::new();
    for piece in 0..4 {
        let start = f64::from(piece) * 25.0;
        expected
            .extend((0..5).map(|i| (start + 5.0 * f64::from(i), start + 5.0 * f64::from(i + 1))));
    }
    for (logits, name) in [(stops_early as fake::Logits, "stops"), (ends_early, "ends")] {
        for batch in [None, Some(1), Some(3), Some(4), Some(8)] {
            let mut model = Fake::new(1);
            model.logits_of = Some(logits);
            let found = run(&mut model, &pieces, batch, false);
            model.assert_all_freed();
            if name == "stops" {
                assert_eq!(times(&found), expected, "{batch:?}");
            } else {
                let ends = [(0.0, 10.0), (10.0, 20.0), (20.0, 25.0)];
                let of =
                    |at: usize| ends.map(|(a, b)| (a + 25.0 * at as f64, b + 25.0 * at as f64));
                let expected: Vec<_> = (0..4).flat_map(of).collect();
                assert_eq!(times(&found), expected, "{batch:?}");
            }
        }
    }
}

/// A rest without a voice has no text, and costs no window.
#[test]
fn silence_is_not_decoded_again() {
    let mut pieces = speech();
    for piece in &mut pieces {
        let start = piece.frames.start;
        piece.voices = std::iter::once(start..start + 990).collect();
    }
    for batch in [None, Some(1), Some(4)] {
        let mut model = Fake::new(1);
        model.logits_of = Some(stops_early);
        let found = run(&mut model, &pieces, batch, false);
        assert_eq!(found.segments.len(), 8, "{batch:?}");
        assert!(found.segments.iter().all(|one| one.seek % 2500 == 0), "{batch:?}");
    }
}

/// Decoding goes on before the next voice, not in the silence behind the text.
#[test]
fn rests_begin_with_a_voice() {
    let mut pieces = speech();
    for piece in &mut pieces {
        let start = piece.frames.start;
        piece.voices = vec![start..start + 800, start + 1700..start + 2450];
    }
    for batch in [None, Some(4)] {
        let mut model = Fake::new(1);
        model.logits_of = Some(stops_early);
        let found = run(&mut model, &pieces, batch, false);
        let mut seeks: Vec<usize> = found.segments.iter().map(|one| one.seek).collect();
        seeks.dedup();
        let expected: Vec<usize> = (0..4).flat_map(|at| [at * 2500, at * 2500 + 1660]).collect();
        assert_eq!(seeks, expected, "{batch:?}");
    }
}

/// A text without an end is decoded again from its start if it is too short for what is said there,
/// and stays where it fits.
#[test]
fn open_texts_are_whole() {
    for (voices, seeks) in [(1000..2450, vec![0, 1000, 2000]), (1000..1080, vec![0])] {
        let piece = Piece { frames: 0..2500, voices: vec![0..900, voices] };
        let mut model = Fake::new(1);
        model.logits_of = Some(never_ends);
        let found = run(&mut model, std::slice::from_ref(&piece), Some(2), false);
        let mut found: Vec<usize> = found.segments.iter().map(|one| one.seek).collect();
        found.dedup();
        assert_eq!(found, seeks);
    }
}

/// Times are in their piece and ascend, with the times of words too, whatever batches there are.
#[test]
fn times_ascend_within_their_pieces() {
    let odd: Vec<Piece> = [0..3000, 3000..3009, 3010..3011, 3100..6100, 6101..6400]
        .map(|frames| Piece { voices: Vec::from([frames.clone()]), frames })
        .to_vec();
    for words in [false, true] {
        let mut all = Vec::new();
        for batch in [1, 2, 5] {
            let mut model = Fake::new(1);
            model.logits_of = Some(stops_early);
            let found = run(&mut model, &odd, Some(batch), words);
            let mut before = 0.0;
            for segment in &found.segments {
                let piece = odd.iter().find(|one| one.frames.contains(&segment.seek)).unwrap();
                assert!(
                    segment.start + 0.021 >= before && segment.end > segment.start,
                    "{segment:?}"
                );
                assert!(segment.end <= piece.frames.end as f64 / 100.0 + 1e-9, "{segment:?}");
                before = segment.end;
            }
            all.push(format!("{found:?}"));
        }
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
    }
}
