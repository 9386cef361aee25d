//! Bans after 1,000 histories.

use pelton_speech::filters::Rules;
use serde_json::Value;

use crate::expected::fnv;
use crate::fake::{SOT, ids, mix, row, vocabulary};

#[test]
fn the_bans_of_a_thousand_histories() {
    let cases: Value = serde_json::from_str(include_str!("../fixtures/filters.json")).unwrap();
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 1000);
    let vocabulary = vocabulary();
    let mut suppressed = vocabulary.non_speech().to_vec();
    suppressed.extend([vocabulary.transcribe, vocabulary.translate, vocabulary.sot]);
    suppressed.extend([vocabulary.start_of_previous, vocabulary.start_of_lm, vocabulary.no_speech]);
    for (number, case) in cases.iter().enumerate() {
        let history = ids(&case["history"]);
        let rules = Rules::new(
            &vocabulary,
            suppressed.clone(),
            case["blank"].as_bool().unwrap(),
            case["timestamps"].as_bool().unwrap(),
            case["latest"].as_u64().map(|index| index as u32),
        );
        let bans = rules.bans(&history);
        let prompt = [SOT, SOT + 1, SOT + 101];
        let tokens: Vec<u32> = prompt.into_iter().chain(history.iter().copied()).collect();
        let key = mix(number as u64);
        let mut logits = row(key, key, &tokens);
        rules.apply(&bans, &mut logits);
        let banned = |logits: &[f32]| -> Vec<u32> {
            let ids = (0..).zip(logits).filter(|(_, logit)| logit.is_infinite());
            ids.map(|(id, _)| id).collect()
        };
        // the mask says the same as the changed logits
        let mask = rules.mask(&bans);
        let in_mask = |id: &u32| mask[(id / 32) as usize] >> (id % 32) & 1 == 0;
        let masked: Vec<u32> = (0..logits.len() as u32).filter(in_mask).collect();
        assert_eq!(banned(&logits), masked, "case {number}");
        rules.prefer_timestamps(&mut logits);
        assert_eq!(fnv(banned(&logits)), case["banned"], "case {number}: {history:?}");
    }
}
