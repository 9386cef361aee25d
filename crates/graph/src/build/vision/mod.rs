//! Vision towers: plans over a checkpoint of their own (`Checkpoint::open_tower`).
//!
//! A tower turns the patches of a picture into states, and its projector makes embeddings of the
//! text model from these. Squares of patches become one embedding, so the host folds or pools the
//! states between the two plans.
//!
//! | module | content |
//! |---|---|
//! | `family` | the table of towers |
//! | `sizes` | the numbers of a file |
//! | `steps` | buffers and steps |
//! | `layers` | steps of the tower |
//! | `projector` | steps of the projector |
//! | `places` | tables of positions, for a picture's own grid |
//! | `windows` | windows of attention |
//! | `input` | what the passes of a picture read |

mod family;
mod input;
mod layers;
mod places;
mod projector;
mod sizes;
mod steps;
mod windows;

pub use family::TowerFamily;
pub use input::TowerInput;

use pelton_weights::{Checkpoint, Keys};

use super::tensors::Tensors;
use crate::{Error, Plan};
use family::{Family, Places, family_of};
use sizes::Sizes;

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
    pixels: usize,
    /// Width of the tower's states.
    hidden: usize,
    /// Squares of a side of a window; 0 without windows.
    window: usize,
    /// What is subtracted from means, and by what they are multiplied then `[hidden]`.
    standard: Option<[Vec<f32>; 2]>,
    of: &'static Family,
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
    let standard = match tensors.has("v.std_bias") {
        true => {
            let bias = tensors.decode("v.std_bias", sizes.hidden)?;
            Some([bias, tensors.decode("v.std_scale", sizes.hidden)?])
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
        of,
    })
}

impl Family {
    /// Rows of a pass before those of patches.
    fn class_rows(&self) -> usize {
        usize::from(self.places == Places::Class)
    }
}
