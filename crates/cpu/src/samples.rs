//! Tokens: those of the rows that run, the recent ones of each slot, and the draws of new ones.

use std::ops::Range;

use pelton_graph::{Error, Input, Limits, Pass, RECENT, Row, Sample, Want};
use pelton_sampling::{Draw, Sampled, Sampler};

use crate::batch::BatchRow;
use crate::pool::SharedMut;

/// The newest tokens of each slot `[slots, RECENT]`: the token of position `p` is at index
/// `p % RECENT`.
#[derive(Debug)]
struct Ring(Vec<u32>);

impl Ring {
    fn at(slot: u32, position: u32) -> usize {
        slot as usize * RECENT + position as usize % RECENT
    }

    fn get(&self, slot: u32, position: u32) -> u32 {
        self.0[Self::at(slot, position)]
    }

    fn set(&mut self, slot: u32, position: u32, token: u32) {
        self.0[Self::at(slot, position)] = token;
    }
}

/// Splits `0..n` over the threads of a path, and calls `work` with each thread's index and range.
pub(crate) type Parallel<'a> = &'a dyn Fn(usize, &(dyn Fn(usize, Range<usize>) + Sync));

/// The tokens of a pass and of its slots. Its lists are reused from pass to pass.
#[derive(Debug)]
pub(crate) struct Samples {
    ring: Ring,
    /// The rows of the run, with their tokens.
    rows: Vec<BatchRow>,
    /// The distinct rows of the wants, ascending.
    selected: Vec<u32>,
    /// For each want the index of its row in `selected`.
    places: Vec<usize>,
    /// The indices of the wants that are samples.
    sampled: Vec<usize>,
    /// The history of each sample: its `recent` tokens, then its pending ones.
    histories: Vec<Vec<u32>>,
    /// The scratch memory of each thread.
    samplers: Vec<Sampler>,
    /// The tokens drawn so far `[repeat, samples]`.
    results: Vec<Sampled>,
    /// For each want of logits the index of its row in `selected`.
    kept: Vec<usize>,
}

impl Samples {
    /// Allocates for the slots of `limits` and the draws of `threads` threads.
    ///
    /// # Errors
    /// [`Error::Memory`] if the system refuses the memory.
    pub(crate) fn new(limits: &Limits, threads: usize) -> Result<Self, Error> {
        let ring = limits
            .sequences
            .checked_mul(RECENT)
            .and_then(|len| bytemuck::allocation::try_zeroed_vec(len).ok());
        let what = "recent tokens of the slots";
        let needed = Self::bytes(limits);
        let refused = || Error::Memory { what, needed, available: None };
        Ok(Self {
            ring: Ring(ring.ok_or_else(refused)?),
            rows: Vec::new(),
            selected: Vec::new(),
            places: Vec::new(),
            sampled: Vec::new(),
            histories: Vec::new(),
            samplers: (0..threads).map(|_| Sampler::new()).collect(),
            results: Vec::new(),
            kept: Vec::new(),
        })
    }

    /// Bytes that [`new`](Self::new) allocates.
    pub(crate) fn bytes(limits: &Limits) -> u128 {
        (limits.sequences as u128).saturating_mul((RECENT * size_of::<u32>()) as u128)
    }

    /// Prepares a pass.
    pub(crate) fn begin(&mut self, pass: &Pass<'_>) {
        self.selected.clear();
        self.places.clear();
        self.sampled.clear();
        self.results.clear();
        for (i, want) in pass.wants.iter().enumerate() {
            if self.selected.last() != Some(&want.row()) {
                self.selected.push(want.row());
            }
            self.places.push(self.selected.len() - 1);
            if matches!(want, Want::Sample(_)) {
                self.sampled.push(i);
            }
        }
        if self.histories.len() < self.sampled.len() {
            self.histories.resize_with(self.sampled.len(), Vec::new);
        }
    }

    /// Resolves the tokens of the rows of repeat `repeat`, `stand_in` of rows without one, records
    /// them as the tokens of their positions, and on the first repeat collects the histories of the
    /// draws.
    pub(crate) fn resolve(&mut self, pass: &Pass<'_>, stand_in: u32, repeat: u32) {
        self.rows.clear();
        let mut samples = self.sampled.iter().zip(&mut self.histories).peekable();
        for (i, &Row { input, position, slot }) in (0..).zip(pass.rows) {
            let position = position + repeat;
            let token = match input {
                Input::Token(token) if repeat == 0 => token,
                Input::Token(_) | Input::Sampled | Input::Drafted(_) => {
                    self.ring.get(slot, position)
                }
                Input::Features => 0,
                Input::Embedding(_) => stand_in,
            };
            if input != Input::Features {
                self.ring.set(slot, position, token);
            }
            let embedding = match input {
                Input::Embedding(index) => Some(index),
                Input::Token(_) | Input::Sampled | Input::Drafted(_) | Input::Features => None,
            };
            let place = pass.place(i as usize).after(repeat);
            self.rows.push(BatchRow { token, position, slot, place, embedding });
            // before later rows of the slot replace the oldest tokens of its ring
            while let Some((&want, history)) =
                samples.next_if(|(want, _)| pass.wants[**want].row() == i)
            {
                let Want::Sample(sample) = pass.wants[want] else { continue };
                if repeat == 0 {
                    history.clear();
                    history.extend_from_slice(sample.recent);
                    let end = position + 1;
                    let pending = end.saturating_sub(sample.pending)..end;
                    history.extend(pending.map(|position| self.ring.get(slot, position)));
                }
            }
        }
    }

    /// The rows of the run.
    pub(crate) fn rows(&self) -> &[BatchRow] {
        &self.rows
    }

    /// The rows whose logits are computed.
    pub(crate) fn selected(&self) -> &[u32] {
        &self.selected
    }

    /// Draws the tokens of repeat `repeat` from `logits` `[selected, vocab]`, and records them as
    /// the tokens of the next positions.
    pub(crate) fn draw(
        &mut self,
        pass: &Pass<'_>,
        repeat: u32,
        logits: &[f32],
        vocab: usize,
        tokens: usize,
        parallel: Parallel<'_>,
    ) {
        let count = self.sampled.len();
        if count == 0 {
            return;
        }
        let begin = self.results.len();
        self.results.resize_with(begin + count, Sampled::default);
        let results = SharedMut::new(&mut self.results[begin..]);
        let samplers = SharedMut::new(&mut self.samplers);
        let (sampled, places, histories) = (&self.sampled, &self.places, &self.histories);
        parallel(count, &|thread, samples| {
            // SAFETY: each thread has its own scratch memory and its own range of the results.
            let (samplers, results) = unsafe {
                (samplers.slice_mut(thread..thread + 1), results.slice_mut(samples.clone()))
            };
            let [sampler] = samplers else { return };
            for (i, result) in samples.zip(results) {
                let Want::Sample(sample) = &pass.wants[sampled[i]] else { continue };
                let place = places[sampled[i]];
                let logits = &logits[place * vocab..(place + 1) * vocab];
                *result = draw(sampler, sample, repeat, logits, tokens, &histories[i]);
            }
        });
        for (i, result) in self.results[begin..].iter().enumerate() {
            let row = pass.rows[pass.wants[self.sampled[i]].row() as usize];
            let token = result.token.unwrap_or(0);
            self.ring.set(row.slot, row.position + repeat + 1, token);
            self.histories[i].push(token);
        }
    }

    /// Moves the rows of the [`Want::Logits`] to the front of `logits` `[selected, width]`, and
    /// returns their number.
    pub(crate) fn keep_wanted(
        &mut self,
        pass: &Pass<'_>,
        logits: &mut [f32],
        width: usize,
    ) -> usize {
        self.kept.clear();
        let wants = pass.wants.iter().zip(&self.places);
        let logits_wants = wants.filter(|(want, _)| matches!(want, Want::Logits { row: _ }));
        self.kept.extend(logits_wants.map(|(_, &place)| place));
        // Sources ascend, so a row that moves to the front replaces none that moves to the back,
        // and vice versa. Each direction has the order of a `memmove`.
        let mut copy = |to: usize, from: usize| {
            logits.copy_within(from * width..(from + 1) * width, to * width);
        };
        let moves = || self.kept.iter().copied().enumerate();
        moves().filter(|(to, from)| to < from).for_each(|(to, from)| copy(to, from));
        moves().rev().filter(|(to, from)| to > from).for_each(|(to, from)| copy(to, from));
        self.kept.len()
    }

    /// The tokens drawn in the pass `[repeat, samples]`.
    pub(crate) fn results(&self) -> &[Sampled] {
        &self.results
    }
}

/// Draws the token of one sample in a repeat.
fn draw(
    sampler: &mut Sampler,
    sample: &Sample<'_>,
    repeat: u32,
    logits: &[f32],
    tokens: usize,
    history: &[u32],
) -> Sampled {
    let &Sample { row: _, draw, recent: _, pending: _ } = sample;
    let draw = Draw { index: draw.index.wrapping_add(u64::from(repeat)), ..draw };
    sampler.sample(logits, tokens, &draw, history)
}

#[cfg(test)]
mod tests {
    use pelton_graph::Phase;

    use super::*;

    fn limits() -> Limits {
        Limits {
            rows: 4,
            wants: 8,
            sequences: 2,
            context: 1 << 20,
            pages: vec![],
            snapshots: 0,
            kv: pelton_graph::KvType::F16,
            tokens: 4,
            bias: 0,
        }
    }

    /// Every list of wants of up to three rows, among them repeated and mixed ones.
    #[test]
    fn wanted_logits_are_moved_to_the_front() {
        const VOCAB: usize = 2;
        let rows = [Row { input: Input::Token(0), position: 0, slot: 0 }; 4];
        let sample = |row| Sample { row, draw: Draw::GREEDY, recent: &[], pending: 0 };
        let kinds = [0_u32, 1, 2].map(|row| [Want::Logits { row }, Want::Sample(sample(row))]);
        let kinds = kinds.as_flattened();
        let mut samples = Samples::new(&limits(), 1).unwrap();
        for code in 0..6_usize.pow(5) {
            let mut wants: Vec<Want<'_>> =
                (0..5).map(|i| kinds[code / 6_usize.pow(i) % 6]).collect();
            wants.sort_by_key(Want::row);
            let pass = Pass::new(Phase::Decode, &rows, &wants);
            samples.begin(&pass);
            let mut logits = vec![f32::NAN; wants.len() * VOCAB];
            for (place, row) in samples.selected().iter().enumerate() {
                logits[place * VOCAB..(place + 1) * VOCAB].fill(*row as f32);
            }
            let kept = samples.keep_wanted(&pass, &mut logits, VOCAB);
            let expected: Vec<f32> = wants
                .iter()
                .filter(|want| matches!(want, Want::Logits { row: _ }))
                .flat_map(|want| [want.row() as f32; VOCAB])
                .collect();
            assert_eq!(logits[..kept * VOCAB], expected, "{wants:?}");
        }
    }

    /// The history of a row in the middle of a long prompt, whose later rows replace its tokens in
    /// the ring.
    #[test]
    fn a_history_ends_at_its_row() {
        let rows: Vec<Row> = (0..300_u32)
            .map(|p| Row { input: Input::Token(1000 + p), position: p, slot: 1 })
            .collect();
        let sample =
            |row, pending| Want::Sample(Sample { row, draw: Draw::GREEDY, recent: &[7], pending });
        let wants = [sample(2, 8), sample(130, 128), sample(299, 2)];
        let pass = Pass::new(Phase::Prompt, &rows, &wants);
        let mut samples = Samples::new(&limits(), 1).unwrap();
        samples.begin(&pass);
        samples.resolve(&pass, 0, 0);
        let expected =
            |first: u32, last: u32| [vec![7], (1000 + first..=1000 + last).collect()].concat();
        assert_eq!(samples.histories[0], expected(0, 2));
        assert_eq!(samples.histories[1], expected(3, 130));
        assert_eq!(samples.histories[2], expected(298, 299));
    }
}
