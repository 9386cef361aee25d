//! The plans of a tower's file.

use pelton_weights::{Checkpoint, Keys};

use super::super::tensors::Tensors;
use super::family::{Family, TowerFamily, family_of};
use super::places::PlaceRows;
use super::sizes::Sizes;
use super::{layers, projector};
use crate::{Error, Plan};

/// The plans of a vision tower and of what joins it to a text model, and how pictures go through
/// them.
///
/// The grid of a picture is the number of its rows and of its columns of patches. Patches come as
/// `pelton-image` has them: a square of `merge · merge` patches after another, in the order of
/// rows, and so the patches of a square.
#[derive(Clone, Debug)]
pub struct VisionTower {
    /// The kind of tower.
    pub family: TowerFamily,
    /// From the values of patches, and where the tower has a table of positions their rows of it,
    /// to states: [`Plan::entry`] and [`Plan::exit`]. All rows of a picture are in one pass.
    pub tower: Plan,
    /// From folded or pooled states to embeddings, its entry and its exit.
    pub projector: Plan,
    /// Pixels of a side of a patch.
    pub patch: u32,
    /// Patches of a side of the square that becomes one embedding.
    pub merge: u32,
    /// Rows and columns of patches, of a tower that takes one size alone.
    pub grid: Option<[u32; 2]>,
    /// Elements of an embedding: the width of the text model.
    pub width: usize,
    /// Further embeddings of each row, for as many of the text model's first layers.
    pub deepstack: usize,
    /// Values of a patch.
    pub(super) pixels: usize,
    /// Width of the tower's states.
    pub(super) hidden: usize,
    /// Squares of a side of a window; 0 without windows.
    pub(super) window: usize,
    /// The subtrahends of means, and then their factors `[hidden]`.
    pub(super) standard: Option<[Vec<f32>; 2]>,
    /// The rows that are added to patches.
    pub(super) place_rows: PlaceRows,
    pub(super) of: &'static Family,
}

/// Builds the plans of a vision tower.
///
/// # Errors
///
/// If the tower is of no known kind, a key is missing or absurd, or a tensor is missing or its
/// shape differs from the keys. Also if the file has a tensor that the plans do not read.
pub fn build_tower(checkpoint: &Checkpoint) -> Result<VisionTower, Error> {
    let keys = Keys::new(checkpoint.metadata())?;
    let of = family_of(&keys)?;
    let mut tensors = Tensors::new(checkpoint);
    let sizes = Sizes::read(of, &keys, &tensors)?;
    let tower = layers::build(of, &sizes, &mut tensors)?;
    let projector = projector::build(of, &sizes, &mut tensors)?;
    let place_rows = PlaceRows::read(of.places, &sizes, &mut tensors)?;
    let standard = match tensors.has("v.std_bias") {
        true => {
            let bias = tensors.decode("v.std_bias", &[sizes.hidden])?;
            Some([bias, tensors.decode("v.std_scale", &[sizes.hidden])?])
        }
        false => None,
    };
    // Towers of sounds are plans of their own, and marks between rows are tokens of the text.
    tensors.refuse_unused("clip", 0, &["a.", "mm.a.", "v.token_embd.img_break"])?;
    Ok(VisionTower {
        family: of.kind,
        tower,
        projector,
        patch: sizes.patch as u32,
        merge: sizes.merge as u32,
        grid: sizes.side.map(|side| [side as u32; 2]),
        width: sizes.width,
        deepstack: sizes.deepstack.len(),
        pixels: sizes.pixels,
        hidden: sizes.hidden,
        window: sizes.window,
        standard,
        place_rows,
        of,
    })
}
