//! The hidden states of the fake. Each has the position and the token of its row, so that a head
//! notices one that belongs to another row.

use pelton_graph::Row;

/// The hidden states of the passes of one executable.
#[derive(Debug, Default)]
pub(super) struct HiddenStates {
    /// Elements of a state.
    width: usize,
    /// For each slot the position and the next token of each row of a head.
    rows: Vec<Vec<(u32, u32)>>,
}

impl HiddenStates {
    pub(super) fn new(width: usize, slots: usize) -> Self {
        Self { width, rows: vec![Vec::new(); slots] }
    }

    /// The hidden state of a row of a model.
    pub(super) fn of(&self, position: u32, token: u32) -> Vec<f32> {
        let mut state = vec![0.0; self.width];
        for (value, number) in state.iter_mut().zip([position, token]) {
            *value = number as f32;
        }
        state
    }

    /// Runs a row of a head with the token `next`: its own hidden state, and what is wrong with the
    /// one that it was given.
    pub(super) fn run(
        &mut self,
        row: &Row,
        given: &[f32],
        next: u32,
    ) -> (Vec<f32>, Option<String>) {
        let (position, token) = (given[0] as u32, given[1] as u32);
        let rows = &mut self.rows[row.slot as usize];
        rows.truncate(row.position as usize);
        let wrong = match rows.last() {
            _ if rows.len() != row.position as usize => {
                Some(format!("row {} of a head after {} rows", row.position, rows.len()))
            }
            Some(&(before, _)) if before >= position => {
                Some(format!("the hidden state of position {position} after that of {before}"))
            }
            Some(&(before, expected)) if before + 1 == position && expected != token => {
                Some(format!("the hidden state of token {token}, expected of {expected}"))
            }
            _ => None,
        };
        rows.resize(row.position as usize, (0, 0));
        rows.push((position, next));
        (self.of(position + 1, next), wrong)
    }
}
