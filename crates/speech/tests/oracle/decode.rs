//! Single windows.

use pelton_speech::decode::{DecodeOptions, Decoded, Job, decode};
use pelton_speech::{Features, Recognizer, Vocabulary, Window};
use serde_json::Value;

use crate::expected::{assert_near, set};
use crate::fake::{Fake, Frames, Noise, RANKS, ids, vocabulary};

/// One expectation with its job.
struct Case {
    name: String,
    job: Job,
    expected: Value,
}

fn encode(model: &mut Fake, case: &Value) -> Window {
    let (first, frames) = (case["first"].as_u64().unwrap(), case["frames"].as_u64().unwrap());
    let mut features = Frames { frames: frames as usize, offset: first as usize };
    let mut window = vec![0.0; 3000];
    features.read(0, &mut window).unwrap();
    model.encode(&[&window]).unwrap()[0]
}

fn job(vocabulary: &Vocabulary, window: Window, case: &Value) -> Job {
    let mut options = DecodeOptions::default();
    let mut prompt = Vec::new();
    for (name, value) in case["options"].as_object().unwrap() {
        assert!(set(vocabulary, &mut options, &mut prompt, name, value), "{name}");
    }
    Job { window, id: 0, options, prompt }
}

fn cases() -> Vec<Value> {
    let cases: Value = serde_json::from_str(include_str!("../fixtures/decode.json")).unwrap();
    cases.as_array().unwrap().clone()
}

#[track_caller]
fn check(case: &Case, found: &Decoded) {
    let Case { name, expected, .. } = case;
    assert_eq!(found.tokens, ids(&expected["tokens"]), "{name}");
    assert_eq!(found.text, expected["text"].as_str().unwrap(), "{name}");
    assert_eq!(found.language.code(), expected["language"], "{name}");
    assert_near(found.average_logprob, &expected["logprob"], name);
    assert_near(found.no_speech_prob, &expected["no_speech"], name);
    assert_near(found.compression_ratio, &expected["ratio"], name);
    if let Some(languages) = expected["languages"].as_array() {
        assert_eq!(found.languages.len(), languages.len());
        for (found, expected) in found.languages.iter().zip(languages) {
            assert_near(found.probability, expected, name);
        }
    }
}

#[test]
fn each_window_alone() {
    let (multilingual, english) = (vocabulary(), vocabulary().english_only());
    let mut asked = 0;
    for (case, ranks) in cases().into_iter().flat_map(|case| RANKS.map(|n| (case.clone(), n))) {
        let is_english = case["english"].as_bool().is_some();
        let vocabulary = if is_english { &english } else { &multilingual };
        let mut model = Fake::new(case["seed"].as_u64().unwrap());
        model.ranks = ranks;
        let window = encode(&mut model, &case);
        let [seed, options, frames] = ["seed", "options", "frames"].map(|key| &case[key]);
        let name = format!("seed {seed} options {options} frames {frames} ranks {ranks}");
        let job = job(vocabulary, window, &case);
        let found =
            decode(&mut model, vocabulary, std::slice::from_ref(&job), &mut Noise::default());
        check(&Case { name, job, expected: case["result"].clone() }, &found.unwrap()[0]);
        model.free_window(window);
        model.assert_all_freed();
        asked += model.asked.get();
    }
    assert!(asked > 100, "rankings are in use");
}

/// The three windows of each set of options, and all windows of a seed, at once.
#[test]
fn windows_in_a_batch() {
    let vocabulary = vocabulary();
    let cases: Vec<Value> = cases().into_iter().filter(|case| case["english"].is_null()).collect();
    let seeds = cases.chunk_by(|a, b| a["seed"] == b["seed"]);
    for (together, ranks) in seeds.flat_map(|cases| RANKS.map(|ranks| (cases, ranks))) {
        let mut model = Fake::new(together[0]["seed"].as_u64().unwrap());
        model.ranks = ranks;
        model.sizes.hypotheses = 8;
        let mut built = Vec::new();
        // each case twice, so that jobs wait for hypotheses
        for case in together.iter().chain(together) {
            let window = encode(&mut model, case);
            let (name, expected) = (case["options"].to_string(), case["result"].clone());
            built.push(Case { name, job: job(&vocabulary, window, case), expected });
        }
        let jobs: Vec<Job> = built.iter().map(|case| case.job.clone()).collect();
        let found = decode(&mut model, &vocabulary, &jobs, &mut Noise::default()).unwrap();
        assert_eq!(found.len(), built.len());
        built.iter().zip(&found).for_each(|(case, found)| check(case, found));
        jobs.iter().for_each(|job| model.free_window(job.window));
        model.assert_all_freed();
    }
}
