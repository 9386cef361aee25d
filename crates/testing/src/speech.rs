//! One test body for every backend: an encoder, a decoder that attends to its windows, and what
//! openai-whisper computes with the same weights.

use std::path::Path;
use std::sync::Arc;

use pelton_graph::{
    Backend, BuildOptions, Executable, Hidden, Input, KvType, Limits, Op, Pass, Phase, Plan, Row,
    TableEdit, Want, build_with, pages_for,
};
use serde_json::Value;

use crate::WhisperSpec;
use crate::backend::{relative_difference, unfused};

/// Windows and hypotheses of each that fit.
const WINDOWS: usize = 2;
const BEAMS: usize = 3;

/// A loaded model. Window `w` has the slot `w` of the encoder, and hypothesis `h` of it the slot
/// `WINDOWS + w · BEAMS + h`.
pub struct Speech {
    executable: Box<dyn Executable>,
    plan: Plan,
    spec: WhisperSpec,
}

/// Tokens of a hypothesis from a position on.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    /// The window.
    pub window: usize,
    /// The hypothesis.
    pub beam: usize,
    /// The position of the first token.
    pub first: usize,
    /// The tokens.
    pub tokens: &'a [u32],
}

impl Speech {
    /// Loads the model with the fused ops that `accepts` accepts.
    ///
    /// # Panics
    /// If the backend refuses it.
    pub fn load(
        backend: &dyn Backend,
        spec: &WhisperSpec,
        accepts: &dyn Fn(&Op, &Plan) -> bool,
        (kv, keeps_states): (KvType, bool),
    ) -> Self {
        let checkpoint = Arc::new(spec.checkpoint());
        let options = BuildOptions { hidden: keeps_states, ..BuildOptions::default() };
        let plan = build_with(&checkpoint, &options).unwrap().fuse(accepts);
        let window = pages_for(spec.positions);
        let limits = Limits {
            rows: WINDOWS * spec.positions,
            wants: 128,
            sequences: WINDOWS * (1 + BEAMS),
            context: spec.context,
            pages: vec![
                WINDOWS * BEAMS * pages_for(spec.context),
                WINDOWS * window,
                WINDOWS * window,
            ],
            snapshots: 0,
            kv,
            tokens: spec.vocab,
            bias: 0,
        };
        let executable = backend.load(plan.clone(), checkpoint, limits, &mut |_, _| {}).unwrap();
        Self { executable, plan, spec: spec.clone() }
    }

    /// Encodes windows in one pass, and returns what it keeps.
    ///
    /// # Panics
    /// If the pass fails.
    pub fn encode(&mut self, windows: &[(usize, &[f32])]) -> Vec<f32> {
        let (positions, mels) = (self.spec.positions, self.spec.mels);
        let pages: Vec<Vec<u32>> =
            windows.iter().map(|(w, _)| window_pages(*w, positions)).collect();
        let mut edits = Vec::new();
        let (mut rows, mut features) = (Vec::new(), Vec::new());
        for (&(window, frames), pages) in windows.iter().zip(&pages) {
            let slot = window as u32;
            edits.extend([1, 2].map(|group| TableEdit { group, slot, first: 0, pages }));
            for position in 0..positions {
                rows.push(Row { input: Input::Features, position: position as u32, slot });
                unfold(frames, mels, position, &mut features);
            }
        }
        let keeps_hidden = !self.plan.kept(Phase::Encode).is_empty();
        let pass = Pass {
            tables: &edits,
            hidden: Hidden::Given(&features),
            keeps_hidden,
            ..Pass::new(Phase::Encode, &rows, &[])
        };
        let ticket = self.executable.submit(&pass).unwrap();
        self.executable.take(ticket).unwrap().hidden.to_vec()
    }

    /// The logits after all tokens, and the queries of the heads that follow the audio.
    ///
    /// # Panics
    /// If the pass fails.
    pub fn append(&mut self, phase: Phase, all: &[Tokens<'_>]) -> (Vec<f32>, Vec<f32>) {
        let own = pages_for(self.spec.context) as u32;
        let pages: Vec<[Vec<u32>; 2]> = all
            .iter()
            .map(|of| {
                let first = (of.window * BEAMS + of.beam) as u32 * own;
                [(first..first + own).rev().collect(), window_pages(of.window, self.spec.positions)]
            })
            .collect();
        let (mut edits, mut rows) = (Vec::new(), Vec::new());
        for (of, pages) in all.iter().zip(&pages) {
            let slot = (WINDOWS + of.window * BEAMS + of.beam) as u32;
            for (group, pages) in (0..).zip(pages) {
                edits.push(TableEdit { group, slot, first: 0, pages });
            }
            rows.extend((of.first..).zip(of.tokens).map(|(position, &token)| Row {
                input: Input::Token(token),
                position: position as u32,
                slot,
            }));
        }
        let wants: Vec<Want<'_>> = (0..rows.len() as u32).map(|row| Want::Logits { row }).collect();
        let keeps_hidden = !self.plan.kept(phase).is_empty();
        let pass = Pass { tables: &edits, keeps_hidden, ..Pass::new(phase, &rows, &wants) };
        let ticket = self.executable.submit(&pass).unwrap();
        let outputs = self.executable.take(ticket).unwrap();
        (outputs.logits.to_vec(), outputs.hidden.to_vec())
    }
}

/// The pages of a window, out of order, so that a mistake in the table shows.
fn window_pages(window: usize, positions: usize) -> Vec<u32> {
    let count = pages_for(positions) as u32;
    (window as u32 * count..(window as u32 + 1) * count).rev().collect()
}

/// Appends the features of a position: the inputs `[mels, 3]` of the first convolution at three
/// neighbouring frames, and whether the first of them is in the window.
fn unfold(frames: &[f32], mels: usize, position: usize, out: &mut Vec<f32>) {
    let frame = |index: isize, mel: usize| {
        let at = usize::try_from(index).ok().and_then(|index| frames.get(index * mels + mel));
        at.copied().unwrap_or(0.0)
    };
    for center in 2 * position as isize - 1..2 * position as isize + 2 {
        for mel in 0..mels {
            out.extend((center - 1..center + 2).map(|index| frame(index, mel)));
        }
    }
    out.push(if position == 0 { 0.0 } else { 1.0 });
}

/// A small model, whose windows have two chunks of positions, the last page not full.
fn small() -> WhisperSpec {
    WhisperSpec {
        width: 128,
        positions: 300,
        context: 80,
        mels: 5,
        vocab: 50,
        encoder_layers: 2,
        decoder_layers: 2,
        ..WhisperSpec::default()
    }
}

/// Compares a backend with the reference, for each type of cache, with fused ops and without.
///
/// # Panics
/// If a result differs by more than `limits` allow for the caches in f32, f16 and q8_0.
pub fn equals_reference(backend: &dyn Backend, reference: &dyn Backend, limits: [f32; 3]) {
    let spec = small();
    let frames = spec.features(3);
    let tokens: Vec<u32> = (0..70).map(|i| i * 7 % 50).collect();
    let run = |backend: &dyn Backend, accepts: &dyn Fn(&Op, &Plan) -> bool, kv| {
        let mut model = Speech::load(backend, &spec, accepts, (kv, false));
        let keys = model.encode(&[(1, &frames)]);
        let of = |first: usize, end: usize| Tokens {
            window: 1,
            beam: 1,
            first,
            tokens: &tokens[first..end],
        };
        let (mut logits, mut queries) = model.append(Phase::Prompt, &[of(0, 61)]);
        for first in 61..70 {
            let (more, q) = model.append(Phase::Decode, &[of(first, first + 1)]);
            logits.extend(more);
            queries.extend(q);
        }
        [keys, queries, logits]
    };
    for (kv, limit) in [KvType::F32, KvType::F16, KvType::Q8_0].into_iter().zip(limits) {
        let expected = run(reference, &unfused, kv);
        for accepts in
            [&unfused as &dyn Fn(&Op, &Plan) -> bool, &|op, plan| backend.accepts(op, plan)]
        {
            let got = run(backend, accepts, kv);
            for (what, (expected, got)) in
                ["keys", "queries", "logits"].into_iter().zip(expected.iter().zip(&got))
            {
                let difference = relative_difference(expected, got);
                assert!(difference <= limit, "{what} with caches in {kv}: {difference}");
            }
        }
    }
}

/// Asserts that the results of a window and of a hypothesis are the same bits, whatever else is in
/// their passes. The `backends` differ in their number of threads.
///
/// # Panics
/// If a result differs.
pub fn batches_change_nothing(backends: &[&dyn Backend]) {
    let spec = small();
    let frames = [spec.features(3), spec.features(4)];
    let tokens: Vec<Vec<u32>> =
        (0..BEAMS as u32).map(|beam| (0..20).map(|i| (i * 7 + 3 * beam) % 50).collect()).collect();
    let all: Vec<(usize, usize)> =
        (0..WINDOWS).flat_map(|window| (0..BEAMS).map(move |beam| (window, beam))).collect();
    let mut first: Option<[Vec<f32>; 2]> = None;
    for backend in backends {
        for together in [true, false] {
            let accepts = |op: &Op, plan: &Plan| backend.accepts(op, plan);
            let mut model = Speech::load(*backend, &spec, &accepts, (KvType::F16, false));
            let windows: Vec<(usize, &[f32])> =
                frames.iter().enumerate().map(|(window, frames)| (window, &**frames)).collect();
            let keys = match together {
                true => model.encode(&windows),
                false => windows.iter().flat_map(|&of| model.encode(&[of])).collect(),
            };
            let mut results = Vec::new();
            let steps = [(Phase::Prompt, 0, 6)]
                .into_iter()
                .chain((6..20).map(|i| (Phase::Decode, i, i + 1)));
            for (phase, first, end) in steps {
                let of = |&(window, beam): &(usize, usize)| Tokens {
                    window,
                    beam,
                    first,
                    tokens: &tokens[beam][first..end],
                };
                let batch: Vec<Tokens<'_>> = all.iter().map(of).collect();
                let passes = batch.chunks(if together { batch.len() } else { 1 });
                for pass in passes {
                    let (logits, queries) = model.append(phase, pass);
                    results.extend(logits);
                    // the order of the two kinds does not depend on the batch
                    assert_eq!(queries.len() % (2 * 64), 0);
                }
            }
            let found = [keys, results];
            let expected = first.get_or_insert_with(|| found.clone());
            let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            for (what, (expected, found)) in
                ["keys", "logits"].into_iter().zip(expected.iter().zip(&found))
            {
                assert!(bits(expected) == bits(found), "{what}, together {together}");
            }
        }
    }
}

/// The expectations of openai-whisper with so many values of a frame: 80 or 128.
///
/// # Panics
/// If the file cannot be read.
pub fn oracle(mels: usize) -> (WhisperSpec, Value) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/speech");
    let text = std::fs::read_to_string(folder.join(format!("model-{mels}.json"))).unwrap();
    let oracle: Value = serde_json::from_str(&text).unwrap();
    let number = |name: &str| oracle[name].as_u64().unwrap();
    let spec = WhisperSpec {
        mels,
        vocab: number("vocab") as usize,
        seed: number("seed"),
        ..WhisperSpec::default()
    };
    (spec, oracle)
}

/// The numbers of a list of expectations.
///
/// # Panics
/// If it is none.
pub fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

/// Compares a backend with openai-whisper: encoder states, logits, greedy tokens and the scores of
/// the heads that follow the audio, with caches in f32.
///
/// # Panics
/// If a number differs by more than 1e-3, or a token at all.
pub fn equals_the_oracle(backend: &dyn Backend, mels: usize) {
    const LIMIT: f64 = 1e-3;
    let (spec, oracle) = oracle(mels);
    let size = |name: &str| oracle[name].as_u64().unwrap() as usize;
    let accepts = |op: &Op, plan: &Plan| backend.accepts(op, plan);
    let [mut states, mut model] =
        [true, false].map(|states| Speech::load(backend, &spec, &accepts, (KvType::F32, states)));
    let close = |what: &str, expected: &[f64], got: &mut dyn Iterator<Item = f32>| {
        let mut count = 0;
        for (expected, got) in expected.iter().zip(got) {
            let difference = (expected - f64::from(got)).abs();
            assert!(difference <= LIMIT, "{what} {count}: {got}, expected {expected}");
            count += 1;
        }
        assert_eq!(count, expected.len(), "{what}");
    };
    let windows = oracle["windows"].as_array().unwrap();
    let frames: Vec<Vec<f32>> =
        windows.iter().map(|of| spec.features(of["features_seed"].as_u64().unwrap())).collect();
    let both: Vec<(usize, &[f32])> =
        frames.iter().enumerate().map(|(window, frames)| (window, &**frames)).collect();
    let (states, keys) = (states.encode(&both), model.encode(&both));
    for (window, of) in windows.iter().enumerate() {
        let rows = numbers(&oracle["states_of"]);
        let row = |row: f64| (window * spec.positions + row as usize) * spec.width;
        let mut got = rows.iter().flat_map(|&at| &states[row(at)..row(at) + spec.width]).copied();
        close("state", &numbers(&of["states"]), &mut got);

        let prompt: Vec<u32> = numbers(&of["prompt"]).into_iter().map(|id| id as u32).collect();
        let tokens = Tokens { window, beam: 0, first: 0, tokens: &prompt };
        let (logits, queries) = model.append(Phase::Prompt, &[tokens]);
        for (row, expected) in
            numbers(&of["logits_of"]).iter().zip(of["logits"].as_array().unwrap())
        {
            let row = &logits[*row as usize * spec.vocab..][..spec.vocab];
            let mut got = row.iter().copied().step_by(size("logits_step"));
            close("logit", &numbers(expected), &mut got);
        }

        let heads = spec.alignment_heads.len();
        let key = |position: usize, head: usize| {
            &keys[((window * spec.positions + position) * heads + head) * 64..][..64]
        };
        let mut got = (0..heads).flat_map(|head| {
            let queries = &queries;
            (0..size("scores_tokens")).flat_map(move |token| {
                let q = &queries[(token * heads + head) * 64..][..64];
                (0..spec.positions).step_by(size("scores_step")).map(move |position| {
                    let product: f32 = q.iter().zip(key(position, head)).map(|(q, k)| q * k).sum();
                    product / 8.0
                })
            })
        });
        close("score", &numbers(&of["scores"]), &mut got);

        let expected: Vec<u32> = numbers(&of["greedy"]).into_iter().map(|id| id as u32).collect();
        let (mut tokens, mut first, mut phase) = (expected[..3].to_vec(), 0, Phase::Prompt);
        while tokens.len() < expected.len() {
            let new = Tokens { window, beam: 1, first, tokens: &tokens[first..] };
            let (logits, _) = model.append(phase, &[new]);
            let last = &logits[logits.len() - spec.vocab..];
            let best = (0..spec.vocab).max_by(|&a, &b| last[a].total_cmp(&last[b])).unwrap();
            (first, phase) = (tokens.len(), Phase::Decode);
            tokens.push(best as u32);
        }
        assert_eq!(tokens, expected);
    }
}
