//! What a forward pass is run on: rows, and the pages where their sequences keep keys and values.

use crate::{Error, Limits, Plan};

/// Positions in a page of the key and value caches.
///
/// A page is the unit in which cache memory is handed to sequences, shared between them and taken
/// back. At 64 the keys of one head in one page are a few kilobytes in a row: enough to stream,
/// and little to waste at the end of a sequence.
pub const PAGE: usize = 64;

/// Pages that `positions` positions need.
pub const fn pages_for(positions: usize) -> usize {
    positions.div_ceil(PAGE)
}

/// One token of one sequence, to be run through the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The token's id.
    pub token: u32,
    /// Its position in the sequence, from 0.
    pub position: u32,
    /// The index of the sequence's page table in [`Batch::tables`].
    pub sequence: u32,
}

/// The rows of one forward pass.
///
/// A row attends to what is cached of its sequence up to its own position, the batch's own rows
/// included: so the rows of a sequence come in the order of their positions, and every position
/// before the first of them has been run before.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// What to run; one row is decode, a few are batched decode, more are prefill.
    pub rows: &'a [Row],
    /// For each sequence the pages of its positions: position `p` is in page `table[p / PAGE]`.
    pub tables: &'a [Vec<u32>],
    /// The indices of the rows whose logits are wanted.
    pub selected: &'a [u32],
}

impl Batch<'_> {
    /// Checks every index, so that an executable may trust them: tokens, positions, sequences,
    /// pages and selected rows.
    pub fn check(&self, plan: &Plan, limits: &Limits) -> Result<(), Error> {
        let fail = |what: String| Err(Error::Batch(what));
        if self.rows.is_empty() || self.rows.len() > limits.rows {
            return fail(format!("{} rows, expected 1 to {}", self.rows.len(), limits.rows));
        }
        if self.tables.len() > limits.sequences {
            return fail(format!(
                "{} page tables, expected at most {}",
                self.tables.len(),
                limits.sequences
            ));
        }
        for (i, row) in self.rows.iter().enumerate() {
            if row.token as usize >= plan.vocab {
                return fail(format!(
                    "token {} of row {i} is not below the vocabulary's {}",
                    row.token, plan.vocab
                ));
            }
            if row.position as usize >= plan.context {
                return fail(format!(
                    "position {} of row {i} is not below the context's {}",
                    row.position, plan.context
                ));
            }
            let Some(table) = self.tables.get(row.sequence as usize) else {
                return fail(format!(
                    "sequence {} of row {i}, expected one of {}",
                    row.sequence,
                    self.tables.len()
                ));
            };
            if row.position as usize / PAGE >= table.len() {
                return fail(format!(
                    "position {} of row {i} is past the {} pages of its sequence",
                    row.position,
                    table.len()
                ));
            }
        }
        if let Some(page) =
            self.tables.iter().flatten().find(|&&page| page as usize >= limits.pages)
        {
            return fail(format!("page {page} of a table, expected one of {}", limits.pages));
        }
        if let Some(i) = self.selected.iter().find(|&&i| i as usize >= self.rows.len()) {
            return fail(format!("selected row {i}, expected one of {}", self.rows.len()));
        }
        if self.selected.len() > limits.selected {
            return fail(format!(
                "{} selected rows, expected at most {}",
                self.selected.len(),
                limits.selected
            ));
        }
        Ok(())
    }
}
