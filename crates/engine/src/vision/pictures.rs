//! The rows of pictures in one sequence.

use std::ops::Range;

use pelton_graph::Place;

use super::shown::{Form, Shown};

/// Neighbouring rows of a picture in a sequence.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// The positions.
    pub(crate) rows: Range<usize>,
    /// The picture.
    pub(crate) picture: usize,
    /// The first of its embeddings.
    pub(crate) first: usize,
    /// Rows and columns of embeddings, where the block has coordinates of two axes.
    pub(crate) grid: Option<[u32; 2]>,
}

/// The rows of pictures in one sequence.
#[derive(Debug)]
pub(crate) struct Pictures {
    pub(super) all: Vec<Shown>,
    /// In the order of positions.
    blocks: Vec<Block>,
    /// The token of each position, in place of which rows of pictures have their numbers.
    identities: Vec<u32>,
    /// Whether rows of a block see each other, so that a block is whole in a pass.
    is_whole: bool,
    /// Elements of an embedding.
    width: usize,
}

impl Pictures {
    pub(super) fn new(
        all: Vec<Shown>,
        blocks: Vec<Block>,
        tokens: &[u32],
        is_whole: bool,
        width: usize,
    ) -> Self {
        let mut identities = tokens.to_vec();
        for block in &blocks {
            let numbers = all[block.picture].numbers.clone().unwrap_or_default();
            let own = numbers.skip(block.first);
            for (to, number) in identities[block.rows.clone()].iter_mut().zip(own) {
                *to = number;
            }
        }
        Self { all, blocks, identities, is_whole, width }
    }

    /// Whether all pictures have numbers, so that pages can be shared.
    pub(crate) fn have_numbers(&self) -> bool {
        self.all.iter().all(|shown| shown.numbers.is_some())
    }

    /// The tokens by which cached prefixes are found. `tokens` are all of the sequence.
    pub(crate) fn identities(&self) -> &[u32] {
        &self.identities
    }

    /// Adds a token to the identities.
    pub(crate) fn push(&mut self, token: u32) {
        self.identities.push(token);
    }

    /// The embedding of the row at a position, if it is one of a picture.
    pub(crate) fn embedding(&self, position: usize) -> Option<&[f32]> {
        let block = self.block_at(position)?;
        let row = block.first + position - block.rows.start;
        let Form::Embeddings(embeddings) = &self.all[block.picture].form else { return None };
        embeddings.get(row * self.width..(row + 1) * self.width)
    }

    /// The first picture with rows from `position` on whose embeddings are not known, and its first
    /// row there.
    pub(crate) fn unseen(&self, position: usize) -> Option<(usize, usize)> {
        let rest = self.blocks.iter().filter(|block| block.rows.end > position);
        let mut unseen =
            rest.filter(|block| matches!(self.all[block.picture].form, Form::Patches { .. }));
        unseen.next().map(|block| (block.picture, block.rows.start.max(position)))
    }

    /// The block that a border at `position` would cut, where blocks are whole.
    pub(crate) fn cut(&self, position: usize) -> Option<Range<usize>> {
        let block = self.block_at(position).filter(|_| self.is_whole)?;
        (block.rows.start < position).then(|| block.rows.clone())
    }

    /// The place of the row at a position.
    pub(crate) fn place(&self, position: usize) -> Place {
        let before = self.blocks.partition_point(|block| block.rows.start <= position);
        // coordinates are behind their positions after each picture
        let behind: usize = self.blocks[..before.saturating_sub(1)].iter().map(lag).sum();
        let own = Place::of(position as u32);
        let Some(block) = before.checked_sub(1).map(|last| &self.blocks[last]) else { return own };
        let is_inside = block.rows.contains(&position);
        let group = match is_inside && self.is_whole {
            true => [block.rows.start as u32, block.rows.end as u32],
            false => own.group,
        };
        let at = match block.grid {
            Some([_, columns]) if is_inside => {
                let (start, row) =
                    ((block.rows.start - behind) as u32, position - block.rows.start);
                let (y, x) = (row as u32 / columns, row as u32 % columns);
                [start, start + y, start + x]
            }
            _ => [(position - behind - lag(block)) as u32; 3],
        };
        Place { at, group }
    }

    fn block_at(&self, position: usize) -> Option<&Block> {
        let after = self.blocks.partition_point(|block| block.rows.start <= position);
        let block = self.blocks.get(after.checked_sub(1)?)?;
        block.rows.contains(&position).then_some(block)
    }
}

/// The positions by which the coordinates after a block are behind: its rows, less the longer side
/// of its grid.
fn lag(block: &Block) -> usize {
    block.grid.map_or(0, |grid| block.rows.len().saturating_sub(grid[0].max(grid[1]) as usize))
}
