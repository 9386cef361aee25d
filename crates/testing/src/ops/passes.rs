//! The passes over the plans of the cases.

use pelton_graph::{Input, Phase, Place, Plan, Row};

use super::case::Case;
use crate::Random;
use crate::backend::rows;

/// Rows of the passes, one after the other in one sequence; the sum is more than two pages.
pub(super) const ROWS: [usize; 10] = [40, 17, 5, 2, 1, 1, 2, 5, 17, 40];
/// Rows of a second sequence.
pub(super) const SHORT: usize = 6;
/// Sequences of the passes, in slots 0 and 1.
pub(super) const SEQUENCES: u32 = 2;
/// Lengths of the sequences of each pass over whole sequences.
const WHOLE: [&[(u32, usize)]; 6] = [
    &[(0, 40)],
    &[(1, 17), (0, 23)],
    &[(0, 1), (1, 2)],
    &[(1, 38), (0, 1)],
    &[(0, 5)],
    &[(0, 33), (1, 7)],
];
/// The pictures in the passes of [`ROWS`], if the plan takes any: their first rows and lengths. The
/// last crosses the border of a page.
const PICTURES: [&[(usize, usize)]; 10] = [
    &[(0, 9), (12, 1), (18, 22)],
    &[(0, 17)],
    &[(1, 3)],
    &[],
    &[],
    &[],
    &[],
    &[],
    &[(2, 13)],
    &[(8, 32)],
];
/// Lengths of the windows of a picture, which take turns.
const WINDOWS: [usize; 6] = [1, 7, 16, 3, 20, 60];

/// One pass: its rows with their places and embeddings, and those of them whose logits are wanted.
/// Slots are 0 and 1, the two sequences of a phase.
pub(super) struct RowsOfPass {
    pub(super) rows: Vec<Row>,
    pub(super) wanted: Vec<u32>,
    /// Empty in plans without pictures.
    pub(super) places: Vec<Place>,
    pub(super) embeddings: Vec<f32>,
}

impl RowsOfPass {
    /// The phase of the pass, where rows without pictures run in `phase`.
    pub(super) fn phase(&self, phase: Phase) -> Phase {
        let whole = self.places.iter().any(|place| place.group[0] + 1 < place.group[1]);
        if whole || !self.embeddings.is_empty() { Phase::Prompt } else { phase }
    }

    /// The same rows, each in a pass of its own, or if sequences or pictures must be whole each of
    /// those.
    pub(super) fn alone(&self, case: &Case) -> Vec<Self> {
        let plan = case.builder.plan();
        let (whole, width) = (plan.whole_sequences, plan.injected_width());
        let mut passes = Vec::new();
        let mut first = 0;
        while first < self.rows.len() {
            let slot = self.rows[first].slot;
            let group = self.places.get(first).map_or(1, |place| place.group[1] - place.group[0]);
            let len = match whole {
                true => self.rows[first..].iter().take_while(|row| row.slot == slot).count(),
                false => group as usize,
            };
            let range = first..first + len;
            let mut embeddings = Vec::new();
            let mut row_of = |row: &Row| {
                let Input::Embedding(i) = row.input else { return *row };
                let of = &self.embeddings[i as usize * width..][..width];
                embeddings.extend_from_slice(of);
                let index = embeddings.len() / width - 1;
                Row { input: Input::Embedding(index as u32), ..*row }
            };
            let rows = self.rows[range.clone()].iter().map(&mut row_of).collect();
            let wanted = self.wanted.iter().filter(|&&row| range.contains(&(row as usize)));
            passes.push(Self {
                rows,
                wanted: wanted.map(|row| row - first as u32).collect(),
                places: self.places.get(range).unwrap_or(&[]).to_vec(),
                embeddings,
            });
            first += len;
        }
        passes
    }
}

/// The passes over a plan.
pub(super) fn passes(plan: &Plan) -> Vec<RowsOfPass> {
    let mut random = Random::new(5);
    let mut rows_of = |slot: u32, position: usize, len: usize| {
        let tokens: Vec<u32> = (0..len).map(|_| random.below(plan.input_tokens()) as u32).collect();
        rows(&tokens, position, slot)
    };
    let pictured = plan.has_places() || plan.injected.is_some();
    let mut all: Vec<Vec<Row>> = Vec::new();
    if plan.whole_sequences {
        for sequences in WHOLE {
            let rows = sequences.iter().flat_map(|&(slot, len)| rows_of(slot, 0, len));
            all.push(rows.collect());
        }
        if pictured {
            all.push(rows_of(0, 0, 100));
        }
    } else {
        let mut position = 0;
        for len in ROWS {
            all.push(rows_of(0, position, len));
            position += len;
        }
        // a second sequence, whose rows alternate with those of the first, and which begins again
        let pairs = rows_of(0, position, SHORT).into_iter().zip(rows_of(1, 0, SHORT));
        all.push(pairs.flat_map(<[Row; 2]>::from).collect());
        all.push(rows_of(1, 0, SHORT - 2));
        all.push(rows_of(1, SHORT - 2, 1));
    }
    // the coordinates of the next token of each sequence
    let mut next = [0; SEQUENCES as usize];
    let pass = |(i, rows): (usize, Vec<Row>)| {
        // half of the passes leave rows out
        let len = rows.len() as u32;
        let wanted = (0..len).filter(|row| i < 5 || len == 1 || row % 3 != 1).collect();
        let pass = RowsOfPass { rows, wanted, places: Vec::new(), embeddings: Vec::new() };
        match pictured {
            true => with_pictures(plan, pass, i, &mut next),
            false => pass,
        }
    };
    all.into_iter().enumerate().map(pass).collect()
}

/// Gives the rows of pass `i` places, and those of pictures embeddings.
fn with_pictures(plan: &Plan, mut pass: RowsOfPass, i: usize, next: &mut [u32]) -> RowsOfPass {
    let pictures: Vec<(usize, usize)> = match plan.whole_sequences {
        true => windows(&pass.rows),
        false => PICTURES.get(i).map_or_else(Vec::new, |pictures| pictures.to_vec()),
    };
    let mut first = 0;
    while first < pass.rows.len() {
        let Row { position, slot, .. } = pass.rows[first];
        let start = if position == 0 { 0 } else { next[slot as usize] };
        let picture = pictures.iter().find(|(at, _)| *at == first);
        let len = picture.map_or(1, |(_, len)| *len) as u32;
        let columns = 1 + len % 5;
        let place = |k: u32| Place {
            at: [start, start + k / columns, start + k % columns],
            group: [position, position + len],
        };
        pass.places.extend((0..len).map(place));
        next[slot as usize] = start + columns.max(len.div_ceil(columns));
        first += len as usize;
    }
    if plan.injected.is_some() {
        let of_pictures = pictures.iter().flat_map(|&(first, len)| first..first + len);
        let count = pictures.iter().map(|(_, len)| len).sum::<usize>() as u32;
        for (index, row) in (0..count).rev().zip(of_pictures) {
            pass.rows[row].input = Input::Embedding(index);
        }
        let len = count as usize * plan.injected_width();
        pass.embeddings = Random::new(11 + i as u64).normals(len, 0.0, 1.0);
    }
    pass
}

/// The first rows and the lengths of the windows of whole sequences.
fn windows(rows: &[Row]) -> Vec<(usize, usize)> {
    let mut windows = Vec::new();
    let mut first = 0;
    for sequence in rows.chunk_by(|a, b| a.slot == b.slot) {
        let end = first + sequence.len();
        for len in WINDOWS.into_iter().cycle() {
            let len = len.min(end - first);
            if len == 0 {
                break;
            }
            windows.push((first, len));
            first += len;
        }
    }
    windows
}
