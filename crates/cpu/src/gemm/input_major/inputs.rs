//! The inputs of a row that are multiplied with a block of weights: all, or the live ones.

use super::super::activations::Block;
use super::live::LiveBlock;

/// The inputs of a row that are multiplied with a block.
pub(super) trait BlockInputs: Copy {
    /// The block of activations.
    fn block(&self) -> &Block;
    /// The line of input `i` of those.
    fn line(&self, i: usize) -> u8;
    /// Groups of four of each half, or all, and none.
    fn groups(&self, halves: bool) -> [usize; 2];
    /// The inputs of nested codes whose lower halves are multiplied too.
    fn lower(&self) -> Lower;
}

/// The inputs of a block whose lower halves are multiplied: those of the first groups.
#[derive(Clone, Copy)]
pub(super) struct Lower {
    pub(super) groups: usize,
    /// The codes of the last of these groups, 0 for inputs whose upper half alone is multiplied.
    pub(super) last: [i8; 4],
    /// The sum of the codes of the others.
    pub(super) left_out: i32,
}

/// All inputs of a block.
#[derive(Clone, Copy)]
pub(super) struct All<'a>(pub(super) &'a Block);

impl BlockInputs for All<'_> {
    #[inline(always)]
    fn block(&self) -> &Block {
        self.0
    }
    #[inline(always)]
    fn line(&self, i: usize) -> u8 {
        i as u8
    }
    #[inline(always)]
    fn groups(&self, halves: bool) -> [usize; 2] {
        if halves { [4, 4] } else { [8, 0] }
    }
    #[inline(always)]
    fn lower(&self) -> Lower {
        let [.., a, b, c, d] = self.0.codes;
        Lower { groups: 8, last: [a, b, c, d], left_out: 0 }
    }
}

impl BlockInputs for &LiveBlock {
    #[inline(always)]
    fn block(&self) -> &Block {
        &self.block
    }
    #[inline(always)]
    fn line(&self, i: usize) -> u8 {
        self.lines[i] & 31
    }
    #[inline(always)]
    fn groups(&self, _: bool) -> [usize; 2] {
        // at most eight of both
        self.groups.map(|groups| usize::from(groups.min(8)))
    }
    #[inline(always)]
    fn lower(&self) -> Lower {
        let groups = usize::from(self.lower_groups.min(self.groups[0]));
        Lower { groups, last: self.last_lower, left_out: self.upper_sum }
    }
}
