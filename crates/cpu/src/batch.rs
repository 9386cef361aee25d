//! The rows of one run of a pass, with their tokens known.

use pelton_graph::{Effort, PageTables, Phase, Place, Plan, Rows};

/// One token of one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchRow {
    /// The token.
    pub(crate) token: u32,
    /// Its position in the sequence, from 0.
    pub(crate) position: u32,
    /// The slot of its sequence.
    pub(crate) slot: u32,
    /// Its coordinates for rotary embeddings, and the positions of its group.
    pub(crate) place: Place,
    /// Its index among the embeddings of the pass, of a row without a token.
    pub(crate) embedding: Option<u32>,
}

/// The rows that the steps of a plan run over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch<'a> {
    pub(crate) phase: Phase,
    pub(crate) rows: &'a [BatchRow],
    /// Indices of the rows whose logits are computed, ascending.
    pub(crate) selected: &'a [u32],
    pub(crate) tables: &'a PageTables,
    /// The embeddings of rows without a token `[embeddings, slices, hidden]`.
    pub(crate) embeddings: &'a [f32],
    /// How much each row multiplies; empty if all are full.
    pub(crate) efforts: &'a [Effort],
}

impl<'a> Batch<'a> {
    /// The pages of a row's sequence in a cache group, in the order of positions.
    pub(crate) fn table(&self, group: usize, row: &BatchRow) -> &'a [u32] {
        self.tables.table(group, row.slot as usize)
    }

    /// The row that row `i` of a buffer belongs to.
    pub(crate) fn row(&self, rows: Rows, i: usize) -> &'a BatchRow {
        match rows {
            Rows::All => &self.rows[i],
            Rows::Selected => &self.rows[self.selected[i] as usize],
        }
    }

    /// Slice `slice` of the embedding of a row without a token.
    pub(crate) fn slice(&self, plan: &Plan, row: &BatchRow, slice: usize) -> Option<&'a [f32]> {
        let (width, hidden) = (plan.injected_width(), plan.shape.hidden);
        let first = row.embedding? as usize * width + slice * hidden;
        self.embeddings.get(first..first + hidden)
    }

    /// How much row `i` of a buffer multiplies.
    pub(crate) fn level(&self, rows: Rows, i: usize) -> Effort {
        let row = match rows {
            Rows::All => i,
            Rows::Selected => self.selected[i] as usize,
        };
        self.efforts.get(row).copied().unwrap_or_default()
    }

    /// The positions of a slot's sequence with those of this pass, of which the last is the
    /// newest.
    pub(crate) fn len_of(&self, slot: u32) -> usize {
        let rows = self.rows.iter().rev();
        rows.filter(|row| row.slot == slot).map(|row| row.position as usize + 1).max().unwrap_or(0)
    }
}
