//! The work split of attention of prompt rows on matrix cores.

/// The work split of attention of prompt rows on matrix cores.
///
/// A row's result depends on [`step`](Self::step) alone, which is the same in all of
/// [`ALL`](Self::ALL).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkSplit {
    /// Queries of a subgroup: 16 or 32.
    pub queries: usize,
    /// Subgroups of a workgroup.
    pub subgroups: usize,
    /// Positions whose keys and values are in workgroup memory at a time: a divisor of a page.
    pub staged: usize,
    /// Positions of a step of the softmax: 16 or 32, and a divisor of `staged`.
    pub step: usize,
    /// Whether the next positions are loaded to registers while the staged ones are multiplied.
    pub prefetch: bool,
}

/// Threads of a subgroup; where there are matrix cores for us it is so.
const SUBGROUP: usize = 32;

/// Edge of a product of matrix cores.
pub(super) const CORE: usize = 16;

impl WorkSplit {
    /// The work splits to choose from, the fastest for long prompts first.
    pub const ALL: [Self; 6] = [
        Self::of(32, 8, 64),
        Self::of(32, 8, 32),
        Self::of(16, 8, 64),
        Self::of(16, 8, 32),
        Self::of(16, 4, 32),
        Self { prefetch: false, ..Self::of(16, 4, 32) },
    ];

    /// A work split with prefetch and steps of 32 positions.
    pub const fn of(queries: usize, subgroups: usize, staged: usize) -> Self {
        Self { queries, subgroups, staged, step: 32, prefetch: true }
    }

    /// Threads of a workgroup.
    pub(super) const fn threads(&self) -> usize {
        self.subgroups * SUBGROUP
    }

    /// Bytes of workgroup memory, for keys and values of these lengths.
    pub(crate) const fn bytes(&self, key_dim: usize, value_dim: usize) -> usize {
        const fn row(dim: usize) -> usize {
            (dim.next_multiple_of(CORE) + 8) * 2
        }
        let scores = (self.step + if self.step == 32 { 8 } else { 4 }) * 4 + (self.step + 8) * 2;
        self.staged * (row(key_dim) + row(value_dim)) + self.subgroups * CORE * scores
    }
}
