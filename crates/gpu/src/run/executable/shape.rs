//! The shape of a pass, on which its dispatches depend, and its inputs as kernels read them.

use pelton_graph::{Input, Pass, Phase, Plan, Row, Want};

use crate::{
    device::Mirror,
    lower::buffers::{SAMPLED, reads_places},
};

/// The properties of a pass that its dispatches depend on.
#[derive(Clone, PartialEq)]
pub(super) struct PassShape {
    pub(super) phase: Phase,
    pub(super) rows: usize,
    pub(super) selected: Vec<u32>,
    pub(super) bound: usize,
    pub(super) tiles: usize,
    /// The number of slots, and whether each has one row.
    pub(super) slots: usize,
    pub(super) distinct: bool,
    pub(super) sequences: usize,
    /// Rows below 1, and of those the selected ones.
    pub(super) below: [usize; 2],
    /// Whether it is a decoding pass of one row, which is selected where steps select rows.
    pub(super) alone: bool,
}

impl PassShape {
    /// The shape of a pass with so many tiles over a plan that `selects` rows or does not.
    pub(super) fn of(pass: &Pass<'_>, selected: Vec<u32>, tiles: usize, selects: bool) -> Self {
        let bound = pass.rows.iter().map(|row| row.position as usize + 1).max().unwrap_or(0);
        let mut slots: Vec<u32> = pass.rows.iter().map(|row| row.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        let (phase, rows, slots) = (pass.phase, pass.rows.len(), slots.len());
        let distinct = slots == rows;
        let alone = phase == Phase::Decode && rows == 1 && selected.len() == usize::from(selects);
        let (sequences, below) = (0, [0; 2]);
        Self { phase, rows, selected, bound, tiles, slots, distinct, sequences, below, alone }
    }
}

impl PassShape {
    /// The shape of the pass that decodes the tokens after those of a decoding pass.
    pub(super) fn next(&self) -> Self {
        Self { bound: self.bound + 1, ..self.clone() }
    }
}

/// The inputs of a pass as kernels read them.
pub(super) struct PassWords {
    pub(super) rows: Vec<[u32; 4]>,
    /// The places of rows; empty if the plan reads none.
    pub(super) places: Vec<[u32; 8]>,
    pub(super) tiles: Vec<[u32; 2]>,
    /// The live inputs of rows; empty for a load of full rows alone.
    pub(super) lives: Vec<u32>,
}

/// The contents of the inputs of passes.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) counts: Mirror,
    pub(super) lives: Mirror,
    pub(super) rows: Mirror,
    pub(super) places: Mirror,
    pub(super) selected: Mirror,
    pub(super) order: Mirror,
    pub(super) sequences: Mirror,
}

impl Written {
    /// Takes note that draws have advanced their rows: the sampled token comes in at the position
    /// after the last.
    pub(super) fn advance(&mut self, pass: &Pass<'_>) {
        let (rows, _) = self.rows.words_mut().as_chunks_mut::<4>();
        for want in pass.wants {
            if let (Want::Sample(_), Some([token, position, ..])) =
                (want, rows.get_mut(want.row() as usize))
            {
                *token = SAMPLED;
                *position += pass.repeat;
            }
        }
    }
}

/// The indices of the wanted logits' rows among the selected ones.
pub(super) fn wanted_logits(pass: &Pass<'_>, shape: &PassShape) -> Vec<usize> {
    let at = |want: &Want<'_>| match want {
        Want::Logits { row } => shape.selected.iter().position(|selected| selected == row),
        Want::Sample(_) | Want::Later { .. } => None,
    };
    pass.wants.iter().filter_map(at).collect()
}

/// A row of a plan as kernels read it.
pub(super) fn row_words(plan: &Plan, row: &Row) -> [u32; 4] {
    let token = match row.input {
        Input::Token(token) => token,
        // a drafted token is copied to the ring of sampled ones
        Input::Sampled | Input::Drafted(_) => SAMPLED,
        // the steps of an encoder or a tower read no tokens
        Input::Features => 0,
        Input::Embedding(_) => plan.stand_in(),
    };
    [token, row.position, row.slot, 0]
}

/// The places of the rows of a pass as kernels read them, if the plan reads some. They are relative
/// to positions, which repeats advance.
pub(super) fn place_words(plan: &Plan, pass: &Pass<'_>) -> Vec<[u32; 8]> {
    if !reads_places(plan) {
        return Vec::new();
    }
    let words = |(i, row): (usize, &Row)| {
        let place = pass.place(i);
        let [t, h, w] = place.at.map(|at| at.wrapping_sub(row.position));
        let [first, end] = place.group;
        let embedding = match row.input {
            Input::Embedding(index) => index + 1,
            Input::Token(_) | Input::Sampled | Input::Drafted(_) | Input::Features => 0,
        };
        [t, h, w, embedding, row.position - first, end - 1 - row.position, 0, 0]
    };
    pass.rows.iter().enumerate().map(words).collect()
}
