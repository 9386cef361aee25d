//! Any logits and any options: results exist, calls end, and everything is freed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panic")]

mod fake;

use std::ops::ControlFlow;

use fake::{
    EOT, FIRST_TIMESTAMP, Failed, Fake, Frames, Logits, Noise, RANKS, VOCAB, bytes_vocabulary, mix,
    vocabulary,
};
use pelton_speech::decode::{
    Control, DecodeOptions, Decoded, Job, Place, Suppress, Task, decode, detect_languages,
};
use pelton_speech::filters::Repetition;
use pelton_speech::stream::Stream;
use pelton_speech::transcribe::{
    Observer, Piece, TranscribeOptions, Transcript, transcribe, transcribe_pieces,
    transcribe_voices,
};
use pelton_speech::{Error, Features, Language, Recognizer, Segment};
use proptest::prelude::*;

/// Logits of all kinds of numbers, from the hash of the tokens.
fn wild(state: u64, _: &[u32]) -> Vec<f32> {
    let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e38, -1e38, 0.0, 1e-40];
    let logit = |id: u64| match mix(state ^ id) % 97 {
        kind @ 0..7 if state.is_multiple_of(3) => special[kind as usize],
        n => n as f32 / 4.0 - 12.0,
    };
    (0..u64::from(VOCAB)).map(logit).collect()
}

/// No token is possible.
fn banned(_: u64, _: &[u32]) -> Vec<f32> {
    vec![f32::NEG_INFINITY; VOCAB as usize]
}

/// Timestamps are by far the likeliest tokens.
fn timestamps(state: u64, _: &[u32]) -> Vec<f32> {
    let value = |id: u32| if id >= FIRST_TIMESTAMP { 30.0 } else { 0.0 };
    (0..VOCAB).map(|id| value(id) + (mix(state ^ u64::from(id)) % 64) as f32 / 64.0).collect()
}

const LOGITS: [Option<Logits>; 4] = [None, Some(wild), Some(banned), Some(timestamps)];

fn decode_options() -> impl Strategy<Value = DecodeOptions> {
    let search = prop_oneof![
        Just((0.0, None, None, None)),
        (0.01..5.0, prop::option::of(1usize..5)).prop_map(|(t, n)| (t, n, None, None)),
        (1usize..6, prop::option::of(0.6..2.5)).prop_map(|(n, p)| (0.0, None, Some(n), p)),
    ];
    let limits = (prop::option::of(0usize..40), prop::option::of(0.0..1.0), 0usize..4, 0.5f32..3.0);
    let texts = (
        prop::collection::vec(0u32..VOCAB, 0..12),
        prop::collection::vec(0u32..VOCAB, 0..130),
        prop::collection::vec(0u32..VOCAB + 9, 0..30),
    );
    let switches = (any::<[bool; 4]>(), prop::option::of(0.0..30.0), any::<u64>());
    (search, limits, texts, switches).prop_map(
        |((temperature, best_of, beam_size, patience), limits, texts, switches)| {
            let (sample_len, length_penalty, no_repeat_ngram, penalty) = limits;
            let ([translate, non_speech, suppress_blank, without_timestamps], latest, seed) =
                switches;
            DecodeOptions {
                task: if translate { Task::Translate } else { Task::Transcribe },
                language: (seed % 3 > 0).then_some(Language::ENGLISH),
                temperature,
                sample_len: sample_len.or(Some(25)),
                best_of,
                beam_size,
                patience,
                length_penalty,
                prefix: texts.0,
                hot_words: texts.1,
                suppress: Suppress { non_speech, tokens: texts.2 },
                suppress_blank,
                without_timestamps,
                max_initial_timestamp: latest,
                repetition: Repetition { penalty, no_repeat_ngram },
                seed,
            }
        },
    )
}

fn encode(model: &mut Fake, kinds: &[usize]) -> Vec<pelton_speech::Window> {
    let windows: Vec<Vec<f32>> = kinds
        .iter()
        .map(|&offset| {
            let mut window = vec![0.0; 3000];
            Frames { frames: 3000 - offset, offset }.read(0, &mut window).unwrap();
            window
        })
        .collect();
    model.encode(&windows.iter().map(|window| &**window).collect::<Vec<_>>()).unwrap()
}

/// NaN is equal to itself here, which `PartialEq` denies.
fn same(a: &Decoded, b: &Decoded) -> bool {
    format!("{a:?}") == format!("{b:?}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn windows(
        all in prop::collection::vec((decode_options(), 0usize..900), 1..4),
        seed in any::<u64>(),
        logits in 0..LOGITS.len(),
        room in 5usize..12,
    ) {
        let vocabulary = vocabulary();
        let mut model = Fake::new(seed);
        model.logits_of = LOGITS[logits];
        model.sizes.hypotheses = room;
        let kinds: Vec<usize> = all.iter().map(|(_, kind)| *kind).collect();
        let windows = encode(&mut model, &kinds);
        let jobs: Vec<Job> = all
            .into_iter()
            .zip(&windows)
            .map(|((options, kind), &window)| Job {
                window,
                id: kind as u64,
                options,
                prompt: (0..kind as u32).collect(),
            })
            .collect();
        let together = decode(&mut model, &vocabulary, &jobs, &mut ()).unwrap();
        prop_assert_eq!(together.len(), jobs.len());
        for (job, found) in jobs.iter().zip(&together) {
            let alone = decode(&mut model, &vocabulary, std::slice::from_ref(job), &mut ()).unwrap();
            prop_assert!(same(&alone[0], found), "{:?} alone, {:?} in a batch", alone[0], found);
            prop_assert!(!found.tokens.contains(&EOT));
            prop_assert!((0.0..=1.0).contains(&found.no_speech_prob));
            if !job.options.without_timestamps {
                let times = found.tokens.iter().filter(|&&token| token >= FIRST_TIMESTAMP);
                prop_assert!(times.is_sorted(), "times ascend");
            }
        }
        windows.into_iter().for_each(|window| model.free_window(window));
        model.assert_all_freed();
    }

    #[test]
    fn a_beam_of_one_is_greedy(seed in any::<u64>(), options in decode_options()) {
        let vocabulary = vocabulary();
        let mut model = Fake::new(seed);
        let window = encode(&mut model, &[0])[0];
        let greedy = DecodeOptions {
            temperature: 0.0, best_of: None, beam_size: None, patience: None, ..options
        };
        let beam = DecodeOptions { beam_size: Some(1), ..greedy.clone() };
        let job = |options| Job { window, id: 0, options, prompt: Vec::new() };
        let found = decode(&mut model, &vocabulary, &[job(greedy), job(beam)], &mut ()).unwrap();
        prop_assert!(same(&found[0], &found[1]), "{:?} and {:?}", found[0], found[1]);
    }

    /// A prefix of every run fails, or is cancelled.
    #[test]
    fn failures_free_everything(
        seed in any::<u64>(),
        options in decode_options(),
        fails_in in 0usize..60,
        cancels in any::<bool>(),
    ) {
        let vocabulary = vocabulary();
        let mut model = Fake::new(seed);
        let options = TranscribeOptions { words: true, temperatures: vec![0.0, 0.5], decode: options,
            ..TranscribeOptions::default() };
        let options = TranscribeOptions {
            decode: DecodeOptions { best_of: None, ..options.decode.clone() }, ..options };
        let mut features = Frames { frames: 7000, offset: 0 };
        let mut cancel = Cancel { after: if cancels { fails_in } else { usize::MAX } };
        if !cancels {
            model.fails_in = Some(fails_in);
        }
        let found = transcribe(&mut model, &vocabulary, &mut features, &options, &mut cancel);
        model.assert_all_freed();
        match found {
            Ok(_) => {}
            Err(error) => prop_assert_eq!(error, match cancels {
                true => Error::Cancelled,
                false => Error::Model(Failed),
            }),
        }
    }

    #[test]
    fn files(
        seed in any::<u64>(),
        options in decode_options(),
        frames in 0usize..8000,
        logits in 0..LOGITS.len(),
        switches in any::<[bool; 5]>(),
        silence in prop::option::of(0.0..2.0),
    ) {
        let vocabulary = vocabulary();
        let mut model = Fake::new(seed);
        model.logits_of = LOGITS[logits];
        let [words, conditioned, carries, multilingual, ranks] = switches;
        model.ranks = RANKS[usize::from(ranks)];
        let decode = DecodeOptions { best_of: None, ..options };
        let options = TranscribeOptions {
            decode,
            temperatures: vec![0.0, 1.0],
            condition_on_previous_text: conditioned,
            carry_initial_prompt: carries,
            multilingual,
            words: words || silence.is_some(),
            hallucination_silence_threshold: silence,
            ..TranscribeOptions::default()
        };
        let mut features = Frames { frames, offset: 0 };
        let found = transcribe(&mut model, &vocabulary, &mut features, &options, &mut ()).unwrap();
        model.assert_all_freed();
        check_times(&found, frames)?;
    }

    #[test]
    fn pieces(
        seed in any::<u64>(),
        cuts in prop::collection::vec((0usize..900, 1usize..3000), 0..6),
        logits in 0..LOGITS.len(),
        words in any::<bool>(),
        multilingual in any::<bool>(),
    ) {
        let vocabulary = vocabulary();
        let mut end = 0;
        let pieces: Vec<_> = cuts.into_iter().map(|(gap, length)| {
            let start = end + gap;
            end = start + length;
            // voices in the middle, so that texts end before and behind them
            let third = length / 3;
            Piece { frames: start..end, voices: std::iter::once(start + third..end - third / 2).collect() }
        }).collect();
        let decode = DecodeOptions { sample_len: Some(20), ..DecodeOptions::default() };
        let temperatures = vec![0.0, 0.6];
        let options = TranscribeOptions {
            decode, temperatures, words, multilingual, ..TranscribeOptions::default()
        };
        let mut results = Vec::new();
        for batch in [1, 4] {
            let mut model = Fake::new(seed);
            model.logits_of = LOGITS[logits];
            let mut features = Frames { frames: end, offset: 0 };
            let found = transcribe_pieces(
                &mut model, &vocabulary, &mut features, &pieces, batch, &options, &mut (),
            ).unwrap();
            model.assert_all_freed();
            check_times(&found, end)?;
            for segment in &found.segments {
                let of = |piece: &&Piece| piece.frames.contains(&segment.seek);
                let piece = pieces.iter().find(of).unwrap();
                let stop = piece.frames.end as f64 / 100.0 + 1e-9;
                prop_assert!(segment.start < segment.end || words, "{segment:?}");
                prop_assert!(segment.start <= stop && segment.end <= stop, "{segment:?} of {piece:?}");
            }
            results.push(format!("{found:?}"));
        }
        prop_assert_eq!(&results[0], &results[1]);
        let mut model = Fake::new(seed);
        model.logits_of = LOGITS[logits];
        let mut features = Frames { frames: end, offset: 0 };
        let found = transcribe_voices(
            &mut model, &vocabulary, &mut features, &pieces, &options, &mut (),
        ).unwrap();
        model.assert_all_freed();
        check_times(&found, end)?;
    }

    /// Committed words stay: their text is a prefix of what follows, and their times ascend.
    #[test]
    fn streams(seed in any::<u64>(), steps in prop::collection::vec(1usize..400, 1..12)) {
        // prompts are texts that no expectation has
        let vocabulary = bytes_vocabulary();
        let mut model = Fake::new(seed);
        let decode = DecodeOptions { sample_len: Some(40), ..DecodeOptions::default() };
        let temperatures = vec![0.0];
        let options = TranscribeOptions { decode, temperatures, ..TranscribeOptions::default() };
        let mut stream = Stream::new(options);
        let mut frames = 0;
        let mut first = 0;
        for step in steps {
            frames += step;
            let mut features = Frames { frames, offset: 0 };
            stream.advance(&mut model, &vocabulary, &mut features, &mut ()).unwrap();
            model.assert_all_freed();
            prop_assert!(stream.first_frame() >= first, "the buffer moves forward");
            first = stream.first_frame();
            prop_assert!(frames < first + 3001, "the buffer has a window at most");
        }
        stream.finish();
    }
}

fn check_times(found: &Transcript, frames: usize) -> Result<(), TestCaseError> {
    let end = frames as f64 / 100.0 + 1e-9;
    let mut before = 0;
    for (i, segment) in found.segments.iter().enumerate() {
        let Segment { id, seek, start, end: stop, words, .. } = segment;
        prop_assert_eq!(*id, i);
        prop_assert!(*seek >= before && *seek <= frames, "windows ascend");
        before = *seek;
        prop_assert!((0.0..=end).contains(start) && (0.0..=end).contains(stop), "{segment:?}");
        for word in words {
            prop_assert!((0.0..=end).contains(&word.start) && (0.0..=end).contains(&word.end));
            prop_assert!((0.0..=1.0).contains(&word.probability) || word.probability.is_nan());
        }
        if words.is_empty() {
            prop_assert!(start <= stop, "{segment:?}");
        }
    }
    Ok(())
}

/// Cancels after some passes.
struct Cancel {
    after: usize,
}

impl Control for Cancel {
    fn step(&mut self) -> ControlFlow<()> {
        match self.after.checked_sub(1) {
            Some(after) => self.after = after,
            None => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }
}

impl Observer for Cancel {}

/// Allows two texts, timestamps and the end.
struct Grammar {
    mask: Vec<u32>,
    places: usize,
}

impl Control for Grammar {
    fn allowed(&mut self, place: Place<'_>) -> Option<&[u32]> {
        assert_eq!(place.job, 7);
        self.places += 1;
        Some(&self.mask)
    }
}

#[test]
fn constraints() {
    for ranks in RANKS {
        constrained(ranks);
    }
}

fn constrained(ranks: usize) {
    let vocabulary = vocabulary();
    let mut model = Fake::new(3);
    model.ranks = ranks;
    let window = encode(&mut model, &[0])[0];
    let mut mask = vec![0; VOCAB.div_ceil(32) as usize];
    let allowed = |id: u32| [300, 400, EOT].contains(&id) || id >= FIRST_TIMESTAMP;
    (0..VOCAB).filter(|&id| allowed(id)).for_each(|id| mask[id as usize / 32] |= 1 << (id % 32));
    let mut grammar = Grammar { mask, places: 0 };
    let options = DecodeOptions { beam_size: Some(3), ..DecodeOptions::default() };
    let job = Job { window, id: 7, options, prompt: Vec::new() };
    let found = decode(&mut model, &vocabulary, &[job], &mut grammar).unwrap();
    assert!(
        found[0].tokens.len() > 2 && found[0].tokens.iter().all(|&id| allowed(id)),
        "{found:?}"
    );
    assert!(grammar.places > 3);
}

/// Draws at a temperature have the softmax's frequencies.
#[test]
fn draws_follow_the_softmax() {
    let logits = [1.0f32, 2.0, 0.0, f32::NEG_INFINITY];
    let weights = logits.map(|logit| f64::from(logit / 0.5).exp());
    let sum: f64 = weights.iter().sum();
    let n = 20_000;
    let mut counts = [0u32; 4];
    for index in 0..n {
        let key = pelton_speech::decode::DrawKey { seed: 5, job: 9, sample: 2, index };
        counts[().draw(&logits, 0.5, key).unwrap() as usize] += 1;
    }
    for (count, weight) in counts.iter().zip(weights) {
        let p = weight / sum;
        // four standard deviations
        let deviation = 4.0 * (p * (1.0 - p) / n as f64).sqrt();
        let found = f64::from(*count) / n as f64;
        assert!((found - p).abs() <= deviation, "{found} for {p}");
    }
}

#[test]
fn beams_of_a_window_are_few() {
    let vocabulary = vocabulary();
    let mut model = Fake::new(11);
    let windows = encode(&mut model, &[0, 10, 20, 30]);
    let options = DecodeOptions { beam_size: Some(5), ..DecodeOptions::default() };
    model.sizes.hypotheses = 10;
    let job = |&window| Job { window, id: 0, options: options.clone(), prompt: Vec::new() };
    let jobs: Vec<Job> = windows.iter().map(job).collect();
    decode(&mut model, &vocabulary, &jobs, &mut Noise::default()).unwrap();
    // two windows at a time, never more than their beams; `Fake` asserts the limit
    assert!(model.most_hypotheses > 5);
    model.sizes.hypotheses = 4;
    let error = decode(&mut model, &vocabulary, &jobs, &mut ()).unwrap_err().to_string();
    assert!(error.contains("at most 4"), "{error}");
    let options = DecodeOptions { prefix: vec![VOCAB], ..DecodeOptions::default() };
    let job = Job { window: windows[0], id: 0, options, prompt: Vec::new() };
    let error = decode(&mut model, &vocabulary, &[job], &mut ()).unwrap_err().to_string();
    assert!(error.contains(&VOCAB.to_string()), "{error}");
}

#[test]
fn options_out_of_range() {
    let check = |options: DecodeOptions| options.check().unwrap_err();
    let good = DecodeOptions::default;
    for (options, word) in [
        (DecodeOptions { beam_size: Some(0), ..good() }, "beam_size"),
        (DecodeOptions { beam_size: Some(2), best_of: Some(2), ..good() }, "exclude"),
        (DecodeOptions { best_of: Some(2), ..good() }, "temperature"),
        (DecodeOptions { patience: Some(1.0), ..good() }, "beam_size"),
        (DecodeOptions { beam_size: Some(1), patience: Some(0.1), ..good() }, "patience"),
        (DecodeOptions { beam_size: Some(1), patience: Some(f64::NAN), ..good() }, "patience"),
        (DecodeOptions { temperature: f64::NAN, ..good() }, "temperature"),
        (DecodeOptions { temperature: -1.0, ..good() }, "temperature"),
        (DecodeOptions { length_penalty: Some(1.5), ..good() }, "length_penalty"),
        (DecodeOptions { max_initial_timestamp: Some(-1.0), ..good() }, "max_initial_timestamp"),
    ] {
        let error = check(options);
        assert!(error.contains(word), "{error}");
    }
    let file = TranscribeOptions::default;
    for (options, word) in [
        (TranscribeOptions { temperatures: Vec::new(), ..file() }, "temperature"),
        (TranscribeOptions { clip_timestamps: vec![3.0, 1.0], ..file() }, "order"),
        (TranscribeOptions { clip_timestamps: vec![f64::INFINITY], ..file() }, "clip"),
        (TranscribeOptions { hallucination_silence_threshold: Some(1.0), ..file() }, "words"),
    ] {
        let error = options.check().unwrap_err();
        assert!(error.contains(word), "{error}");
    }
}

/// Keeps the languages that it is told.
#[derive(Default)]
struct Languages(Vec<Language>);

impl Control for Languages {}

impl Observer for Languages {
    fn language(&mut self, language: Language) {
        self.0.push(language);
    }
}

/// A file of several languages: each window has the language that is detected in it alone.
#[test]
fn the_language_of_each_window() {
    let vocabulary = vocabulary();
    let mut model = Fake::new(21);
    let options = TranscribeOptions {
        multilingual: true,
        temperatures: vec![0.0],
        // no window is skipped, so that every one has a segment
        no_speech_threshold: None,
        ..TranscribeOptions::default()
    };
    let mut features = Frames { frames: 9500, offset: 0 };
    let mut told = Languages::default();
    let found = transcribe(&mut model, &vocabulary, &mut features, &options, &mut told).unwrap();
    let mut seeks: Vec<usize> = found.segments.iter().map(|segment| segment.seek).collect();
    seeks.dedup();
    let mut expected: Vec<Language> = Vec::new();
    for seek in seeks {
        let mut window = vec![0.0; 3000];
        features.read(seek, &mut window).unwrap();
        let window = model.encode(&[&window]).unwrap()[0];
        let languages = detect_languages(&mut model, &vocabulary, &[window]).unwrap();
        model.free_window(window);
        let greater = |a: f64, b: f64| a.total_cmp(&b);
        let best = languages[0].iter().max_by(|a, b| greater(a.probability, b.probability));
        expected.push(best.unwrap().language);
    }
    expected.dedup();
    assert!(expected.len() > 1);
    assert_eq!(told.0, expected);
    assert_eq!(found.language, expected[0]);
    model.assert_all_freed();
}
