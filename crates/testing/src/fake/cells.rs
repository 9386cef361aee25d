//! The paged caches of the fake: one cell for each position of a page.

use pelton_graph::{PAGE, PageTables};

/// A token with a hash of everything before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) token: u32,
    pub(super) position: u32,
    /// How the row was run: its phase and its place in its chunk.
    pub(super) mode: u64,
    pub(super) state: u64,
}

/// The state of a token after the states of the tokens before it.
pub(super) fn state(before: u64, token: u32, position: u32, mode: u64) -> u64 {
    mix(mix(mix(before, u64::from(token) + 1), u64::from(position)), mode)
}

/// A hash of two words (the finalizer of SplitMix64).
pub(super) fn mix(a: u64, b: u64) -> u64 {
    let mut z = a.rotate_left(23) ^ b.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The caches of all groups.
pub(super) struct Cells {
    /// `[groups][pages · PAGE]`.
    groups: Vec<Vec<Cell>>,
}

impl Cells {
    pub(super) fn new(pages: &[usize]) -> Self {
        Self { groups: pages.iter().map(|&n| vec![Cell::default(); n * PAGE]).collect() }
    }

    fn index(tables: &PageTables, group: usize, slot: usize, position: usize) -> usize {
        tables.table(group, slot)[position / PAGE] as usize * PAGE + position % PAGE
    }

    pub(super) fn get(&self, tables: &PageTables, g: usize, slot: usize, position: usize) -> Cell {
        self.groups[g][Self::index(tables, g, slot, position)]
    }

    pub(super) fn set(&mut self, tables: &PageTables, g: usize, slot: usize, cell: Cell) {
        let at = Self::index(tables, g, slot, cell.position as usize);
        self.groups[g][at] = cell;
    }

    pub(super) fn copy_page(&mut self, group: usize, from: usize, to: usize) {
        self.groups[group].copy_within(from * PAGE..(from + 1) * PAGE, to * PAGE);
    }
}
