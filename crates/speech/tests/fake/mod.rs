//! A model without weights: its logits are a hash of the window and the tokens (`fake_model.py`).

#![allow(dead_code, reason = "not every test uses all of it")]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;

use pelton_speech::decode::{Control, DrawKey};
use pelton_speech::transcribe::Observer;
use pelton_speech::{
    Alignment, Append, Features, Hypothesis, Recognizer, Sizes, Tokenizer, Vocabulary, Window,
};
use serde_json::Value;

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
const TEXTS: u64 = 1000;
const LANGUAGES: u32 = 99;
pub(crate) const EOT: u32 = TEXTS as u32;
pub(crate) const SOT: u32 = EOT + 1;
const NO_SPEECH: u32 = SOT + LANGUAGES + 5;
pub(crate) const FIRST_TIMESTAMP: u32 = NO_SPEECH + 2;
pub(crate) const VOCAB: u32 = FIRST_TIMESTAMP + 1501;
const POSITIONS: usize = 1500;
/// Tokens that a model ranks in place of its logits: none, and as many as a GPU.
pub(crate) const RANKS: [usize; 2] = [0, 33];
const HEADS: [u64; 3] = [0, 65, 67];
pub(crate) const CONTEXT: usize = 448;

/// The finalizer of SplitMix64.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn of_id(id: u32) -> u64 {
    (u64::from(id) + 1).wrapping_mul(GOLDEN)
}

fn extend(state: u64, token: u32) -> u64 {
    mix(state ^ of_id(token))
}

/// The logits after `tokens`, whose hash is `state`.
pub(crate) fn row(key: u64, state: u64, tokens: &[u32]) -> Vec<f32> {
    let h = |i: u64| mix(state.wrapping_add(i.wrapping_mul(0xD134_2543_DE82_EF95)));
    let unit = |i: u64, scale: i32| (h(i) >> 44) as f32 * 2f32.powi(-scale);
    let base = |id: u32| -((mix(state ^ of_id(id)) >> 41) as f32) * 2f32.powi(-20);
    let mut logits: Vec<f32> = (0..VOCAB).map(base).collect();
    let mut set = |id: u64, logit: f32| logits[id as usize] = logit;
    if tokens.last() == Some(&SOT) {
        for id in SOT + 1..SOT + 1 + LANGUAGES {
            set(id.into(), (mix(key ^ of_id(id)) >> 44) as f32 * 2f32.powi(-18));
        }
        set(NO_SPEECH.into(), if key.is_multiple_of(5) { 14.0 } else { 2.0 });
    }
    let start = tokens.iter().rposition(|&token| token == SOT).map_or(0, |at| at + 1);
    let tail = &tokens[start..];
    let (mut last, mut texts) = (0, 0);
    for &token in tail {
        if token >= FIRST_TIMESTAMP {
            (last, texts) = (u64::from(token - FIRST_TIMESTAMP), 0);
        } else if token < EOT {
            texts += 1;
        }
    }
    let loops = (key >> 16).is_multiple_of(6);
    let shift = if (key >> 8).is_multiple_of(4) { 9.0 } else { 0.0 };
    for i in 0..12 {
        set(h(i) % TEXTS, 6.0 + unit(i, 18) - shift);
    }
    let strong = if loops { (key >> 24) % TEXTS } else { h(20) % TEXTS };
    set(strong, 13.0 + unit(21, 19) - shift);
    if texts >= if loops { 60 } else { 3 } + h(22) % 10 {
        let at = last + 10 + h(23) % 250;
        match at <= 1500 {
            true => set(u64::from(FIRST_TIMESTAMP) + at, 15.0 + unit(24, 20) - shift),
            false => set(EOT.into(), 15.5 - shift),
        }
    }
    if let [.., before, closing] = *tail
        && closing >= FIRST_TIMESTAMP
        && before < EOT
    {
        set(closing.into(), 14.0 + unit(25, 20) - shift);
        if last > 1300 || h(26).is_multiple_of(5) {
            set(EOT.into(), 15.0 + unit(27, 20) - shift);
        }
    }
    if texts >= 5 && h(28).is_multiple_of(14) {
        set(EOT.into(), 16.0 + unit(29, 20) - shift);
    }
    if h(30).is_multiple_of(6) {
        set(32, 16.5 + unit(31, 20) - shift);
    }
    logits
}

/// A token of noisy logits, as the expectations draw it.
pub(crate) fn draw(logits: &[f32], temperature: f64, key: DrawKey) -> Option<u32> {
    let seed = mix(key.sample as u64 * 1_000_003 + key.index as u64);
    let noise = |id: u32| (mix(seed ^ of_id(id)) >> 48) as f32 * 2f32.powi(-14);
    let value = |id: u32| logits[id as usize] / temperature as f32 + noise(id);
    (0..logits.len() as u32).reduce(|best, id| if value(id) > value(best) { id } else { best })
}

/// Draws as the expectations.
#[derive(Default)]
pub(crate) struct Noise {
    pub(crate) texts: Vec<String>,
}

impl Control for Noise {
    fn draw(&mut self, logits: &[f32], temperature: f64, key: DrawKey) -> Option<u32> {
        draw(logits, temperature, key)
    }
}

impl Observer for Noise {
    fn segment(&mut self, segment: &pelton_speech::Segment) -> ControlFlow<()> {
        self.texts.push(segment.text.clone());
        ControlFlow::Continue(())
    }
}

/// The logits of tokens by their hash.
pub(crate) type Logits = fn(u64, &[u32]) -> Vec<f32>;

/// An encoded window.
#[derive(Clone, Copy)]
struct Encoded {
    key: u64,
    count: usize,
}

/// The model. It counts what lives, and panics where a caller breaks the contract of
/// [`Recognizer`].
pub(crate) struct Fake {
    pub(crate) seed: u64,
    pub(crate) sizes: Sizes,
    windows: BTreeMap<u32, Encoded>,
    hypotheses: BTreeMap<u32, (Window, Vec<u32>)>,
    next: u32,
    logits: Vec<f32>,
    /// Passes until the model fails.
    pub(crate) fails_in: Option<usize>,
    /// Replaces the logits.
    pub(crate) logits_of: Option<Logits>,
    /// The tokens that it ranks, and how often it was asked for their number.
    pub(crate) ranks: usize,
    pub(crate) asked: Cell<usize>,
    pub(crate) passes: usize,
    pub(crate) most_hypotheses: usize,
}

/// The model failed because a test wants it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failed;

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("failed")
    }
}

impl Fake {
    pub(crate) fn new(seed: u64) -> Self {
        let sizes = Sizes {
            mels: 1,
            positions: POSITIONS,
            context: CONTEXT,
            vocab: VOCAB as usize,
            hypotheses: 64,
            windows: 64,
        };
        Self {
            seed,
            sizes,
            windows: BTreeMap::new(),
            hypotheses: BTreeMap::new(),
            next: 0,
            logits: Vec::new(),
            fails_in: None,
            logits_of: None,
            ranks: 0,
            asked: Cell::new(0),
            passes: 0,
            most_hypotheses: 0,
        }
    }

    pub(crate) fn assert_all_freed(&self) {
        assert!(self.hypotheses.is_empty(), "{} hypotheses live", self.hypotheses.len());
        assert!(self.windows.is_empty(), "{} windows live", self.windows.len());
    }

    fn fail(&mut self) -> Result<(), Failed> {
        match &mut self.fails_in {
            Some(0) => Err(Failed),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn insert(&mut self, window: Window, tokens: Vec<u32>) -> Hypothesis {
        self.next += 1;
        self.hypotheses.insert(self.next, (window, tokens));
        self.most_hypotheses = self.most_hypotheses.max(self.hypotheses.len());
        assert!(self.hypotheses.len() <= self.sizes.hypotheses, "too many hypotheses");
        Hypothesis(self.next)
    }

    fn logits(&self, key: u64, state: u64, tokens: &[u32]) -> Vec<f32> {
        match self.logits_of {
            Some(logits) => logits(state, tokens),
            None => row(key, state, tokens),
        }
    }
}

impl Recognizer for Fake {
    type Error = Failed;

    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn encode(&mut self, features: &[&[f32]]) -> Result<Vec<Window>, Failed> {
        self.fail()?;
        let mut windows = Vec::new();
        for features in features {
            assert_eq!(features.len(), 2 * POSITIONS);
            let count = features.iter().filter(|&&value| value != 0.0).count();
            let first = features[0] as u64;
            let key = self.seed.wrapping_mul(GOLDEN).wrapping_add(first * 4096 + count as u64);
            self.next += 1;
            self.windows.insert(self.next, Encoded { key: mix(key), count });
            windows.push(Window(self.next));
        }
        assert!(self.windows.len() <= self.sizes.windows, "too many windows");
        Ok(windows)
    }

    fn free_window(&mut self, window: Window) {
        assert!(
            self.hypotheses.values().all(|(own, _)| *own != window),
            "freed under a hypothesis"
        );
        assert!(self.windows.remove(&window.0).is_some(), "freed twice");
    }

    fn begin(&mut self, window: Window) -> Result<Hypothesis, Failed> {
        self.fail()?;
        assert!(self.windows.contains_key(&window.0));
        Ok(self.insert(window, Vec::new()))
    }

    fn fork(&mut self, hypothesis: Hypothesis) -> Result<Hypothesis, Failed> {
        self.fail()?;
        let (window, tokens) = self.hypotheses[&hypothesis.0].clone();
        Ok(self.insert(window, tokens))
    }

    fn free(&mut self, hypothesis: Hypothesis) {
        assert!(self.hypotheses.remove(&hypothesis.0).is_some(), "freed twice");
    }

    fn append(&mut self, appends: &[Append<'_>]) -> Result<&[f32], Failed> {
        self.fail()?;
        self.passes += 1;
        let distinct: BTreeSet<u32> = appends.iter().map(|append| append.hypothesis.0).collect();
        assert!(!appends.is_empty() && distinct.len() == appends.len(), "not distinct");
        let mut logits = Vec::new();
        for Append { hypothesis, tokens, wants } in appends {
            assert!(!tokens.is_empty() && wants.is_sorted_by(|a, b| a < b));
            let (window, past) = self.hypotheses.get_mut(&hypothesis.0).unwrap();
            let before = past.len();
            past.extend(*tokens);
            assert!(past.len() <= CONTEXT, "beyond the context");
            let (key, past) = (self.windows[&window.0].key, past.clone());
            for want in *wants {
                let past = &past[..=before + want];
                let state = past.iter().fold(key, |state, &token| extend(state, token));
                logits.extend(self.logits(key, state, past));
            }
        }
        self.logits = logits;
        Ok(&self.logits)
    }

    fn ranks(&self) -> usize {
        self.asked.set(self.asked.get() + 1);
        self.ranks
    }

    fn align(&mut self, window: Window, tokens: &[u32]) -> Result<Alignment, Failed> {
        self.fail()?;
        assert!(tokens.len() <= CONTEXT, "beyond the context");
        let Encoded { key, count } = self.windows[&window.0];
        let mut scores = Vec::new();
        for head in HEADS {
            let mut state = key ^ head;
            for (t, &token) in tokens.iter().enumerate() {
                state = extend(state, token);
                let centre = (t * (count / 2).max(1) / tokens.len()) as i64 + (state % 20) as i64;
                scores.extend((0..POSITIONS as i64).map(|position| {
                    let noise = mix(state.wrapping_add(position as u64)) >> 53;
                    let near = (8.0 - (position - centre).abs() as f32 / 16.0).max(-8.0);
                    near + noise as f32 * 2f32.powi(-10)
                }));
            }
        }
        let mut logits = Vec::new();
        let mut state = key;
        for (t, &token) in tokens.iter().enumerate() {
            // most tokens of a text that is given are likely
            if t > 0 && !mix(state).is_multiple_of(8) {
                logits[(t - 1) * VOCAB as usize + token as usize] = 14.0;
            }
            state = extend(state, token);
            logits.extend(self.logits(key, state, &tokens[..=t]));
        }
        let (heads, tokens) = (HEADS.len(), tokens.len());
        Ok(Alignment { heads, tokens, positions: POSITIONS, scores, logits })
    }
}

/// Features whose values are the numbers of their frames, from 1.
pub(crate) struct Frames {
    pub(crate) frames: usize,
    pub(crate) offset: usize,
}

impl Features for Frames {
    type Error = Infallible;

    fn frames(&self) -> usize {
        self.frames
    }

    fn read(&mut self, first: usize, out: &mut [f32]) -> Result<(), Infallible> {
        for (i, value) in out.iter_mut().enumerate() {
            let frame = first + i;
            *value = if frame < self.frames { (frame + 1 + self.offset) as f32 } else { 0.0 };
        }
        Ok(())
    }

    /// Silence is zeros in the fake spectrogram of the expectations too.
    fn read_with_silence(&mut self, first: usize, out: &mut [f32]) -> Result<(), Infallible> {
        self.read(first, out)
    }
}

/// The tokenizer of the expectations: it knows the texts that these encode.
pub(crate) struct Texts {
    texts: Vec<Vec<u8>>,
    encoded: HashMap<String, Vec<u32>>,
}

impl Tokenizer for Texts {
    fn size(&self) -> usize {
        self.texts.len()
    }

    fn text(&self, token: u32) -> &[u8] {
        self.texts.get(token as usize).map_or(&[], |text| text)
    }

    fn encode(&self, text: &str) -> Vec<u32> {
        self.encoded.get(text).unwrap_or_else(|| panic!("{text:?} was not encoded")).clone()
    }
}

pub(crate) fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

pub(crate) fn vocabulary_file() -> Value {
    serde_json::from_str(include_str!("../fixtures/vocabulary.json")).unwrap()
}

pub(crate) fn vocabulary() -> Vocabulary {
    Vocabulary::new(Arc::new(texts())).unwrap()
}

fn texts() -> Texts {
    let file = vocabulary_file();
    let hex = |text: &Value| {
        let text = text.as_str().unwrap();
        (0..text.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap())
            .collect()
    };
    let texts = file["texts"].as_array().unwrap().iter().map(hex).collect();
    let encoded = file["encoded"].as_object().unwrap();
    let encoded = encoded.iter().map(|(text, tokens)| (text.clone(), ids(tokens))).collect();
    Texts { texts, encoded }
}

/// The same vocabulary, whose texts become single bytes.
pub(crate) fn bytes_vocabulary() -> Vocabulary {
    struct Bytes(Texts);
    impl Tokenizer for Bytes {
        fn size(&self) -> usize {
            self.0.size()
        }

        fn text(&self, token: u32) -> &[u8] {
            self.0.text(token)
        }

        fn encode(&self, text: &str) -> Vec<u32> {
            text.bytes().map(u32::from).collect()
        }
    }
    Vocabulary::new(Arc::new(Bytes(texts()))).unwrap()
}
