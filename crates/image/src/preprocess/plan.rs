//! The pictures that a tower sees, before any pixel is touched.

use super::size::{Area, Size};
use super::tower::Tower;

/// One picture that the tower sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Whether it is made of the resized picture, not of the original one.
    pub is_of_base: bool,
    /// The part that is cut out; all of it otherwise.
    pub area: Option<Area>,
    /// The size to which that is stretched.
    pub size: Size,
}

/// The pictures that a tower sees of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The sizes to which the whole picture is stretched, one after another.
    pub base: Vec<Size>,
    /// The tower's pictures in order.
    pub views: Vec<View>,
    /// Rows and columns of tiles or crops; zeros if there are none.
    pub tiles: (u32, u32),
    tower: Tower,
}

impl Plan {
    pub(super) fn new(tower: Tower) -> Self {
        Self { base: Vec::new(), views: Vec::new(), tiles: (0, 0), tower }
    }

    /// The whole picture, stretched.
    pub(super) fn whole(tower: Tower, size: Size) -> Self {
        let mut plan = Self::new(tower);
        plan.add(None, size);
        plan
    }

    /// Adds a view of the original picture.
    pub(super) fn add(&mut self, area: Option<Area>, size: Size) {
        self.views.push(View { is_of_base: false, area, size });
    }

    /// Adds square tiles of the resized picture, row by row.
    pub(super) fn cut(&mut self, base: Size, side: u32) {
        self.tiles = (base.height / side, base.width / side);
        for row in 0..self.tiles.0 {
            for column in 0..self.tiles.1 {
                let (x, y, size) = (column * side, row * side, Size::square(side));
                self.views.push(View { is_of_base: true, area: Some(Area { x, y, size }), size });
            }
        }
    }

    /// The grids of patches of the views.
    #[must_use]
    pub fn grids(&self) -> Vec<Grid> {
        self.views.iter().map(|view| Grid::new(view.size, self.tower)).collect()
    }

    /// Embeddings that the tower gives, without the markers between them.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.grids().iter().map(Grid::tokens).sum()
    }
}

/// The patches of one picture of a tower.
///
/// Patches are in blocks: a block is the square of patches that become one embedding. Blocks are in
/// raster order, and so are the patches of a block. Without merging this is plain raster order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Rows of patches.
    pub rows: u32,
    /// Columns of patches.
    pub columns: u32,
    /// Patches of a side of a block.
    pub merge: u32,
}

impl Grid {
    fn new(size: Size, tower: Tower) -> Self {
        let Tower { patch, merge } = tower;
        Self { rows: size.height / patch, columns: size.width / patch, merge }
    }

    /// Patches.
    #[must_use]
    pub fn patches(&self) -> usize {
        self.rows as usize * self.columns as usize
    }

    /// Embeddings.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.patches() / (self.merge as usize).pow(2)
    }

    /// The row and the column of each patch, in order.
    pub fn places(self) -> impl Iterator<Item = (u32, u32)> {
        let Self { rows, columns, merge } = self;
        let blocks = (0..rows / merge).flat_map(move |y| (0..columns / merge).map(move |x| (y, x)));
        blocks.flat_map(move |(y, x)| {
            let inside = (0..merge).flat_map(move |dy| (0..merge).map(move |dx| (dy, dx)));
            inside.map(move |(dy, dx)| (y * merge + dy, x * merge + dx))
        })
    }
}
