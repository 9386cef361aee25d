//! The numbers of a tower's file.

use pelton_weights::{Keys, MAX_SIZE};

use super::super::tensors::Tensors;
use super::family::{Family, Places};
use crate::{Error, NormKind};

const MAX_LAYERS: usize = 1000;
/// Elements of a head at most, where that is more than the width.
const MAX_HEAD: usize = 512;
/// Colours of a pixel.
const CHANNELS: usize = 3;
/// Pixels of a side of a patch, and patches of a side of a square at most.
const MAX_SIDE: usize = 256;
/// Patches of a picture at most: 16,384 embeddings of four patches each.
const MAX_PATCHES: usize = 1 << 16;

pub(super) struct Sizes {
    pub(super) layers: usize,
    pub(super) hidden: usize,
    pub(super) heads: usize,
    pub(super) head_dim: usize,
    pub(super) ffn: usize,
    /// The norms of the tower.
    pub(super) norm: NormKind,
    /// Added under the root of norms.
    pub(super) eps: f32,
    /// Pixels of a side of a patch.
    pub(super) patch: usize,
    /// Values of a patch.
    pub(super) pixels: usize,
    /// Patches of a side of a square.
    pub(super) merge: usize,
    /// Patches of a side of the picture, of a tower that takes one size alone.
    pub(super) side: Option<usize>,
    /// Squares of a side of a window; 0 without windows.
    pub(super) window: usize,
    /// The distance between layers that see the whole picture, where others have windows.
    pub(super) full_every: usize,
    /// Rows of a pass at most.
    pub(super) rows: usize,
    /// Width of the text model.
    pub(super) width: usize,
    /// Layers whose states are further embeddings.
    pub(super) deepstack: Vec<usize>,
}

impl Sizes {
    pub(super) fn read(of: &Family, keys: &Keys<'_>, tensors: &Tensors<'_>) -> Result<Self, Error> {
        let key = |name: &str| format!("vision.{name}");
        let size = |name: &str, limit| keys.size(&key(name), limit);
        let hidden = size("embedding_length", MAX_SIZE)?;
        let (layers, heads) = match of.has_layers {
            true => (size("block_count", MAX_LAYERS)?, size("attention.head_count", hidden)?),
            false => (0, 1),
        };
        let head_dim = match keys.opt_size(&key("attention.head_dim"), hidden.max(MAX_HEAD))? {
            Some(dim) => dim,
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => {
                let expected = format!("a divisor of the width {hidden}");
                return Err(keys.invalid(&key("attention.head_count"), heads, expected).into());
            }
        };
        if of.rotation.is_some() && !head_dim.is_multiple_of(4) {
            let expected = "heads of a multiple of 4 elements".to_owned();
            return Err(keys.invalid(&key("attention.head_count"), heads, expected).into());
        }
        let mut patch = size("patch_size", MAX_SIDE)?;
        let mut merge = keys.opt_size(&key(of.merge_key), MAX_SIDE)?.unwrap_or(of.merge);
        if !of.has_layers {
            (patch, merge) = (patch * merge, 1);
        }
        let eps = match of.eps {
            Some(eps) => eps,
            None => keys.positive(&key("attention.layer_norm_epsilon"))?,
        };
        let side = match of.places {
            Places::Table | Places::Class => {
                let image = size("image_size", MAX_SIDE * MAX_SIDE)?;
                // convolutions drop what is left of a picture's sides
                let side = image / patch;
                if side == 0 || !side.is_multiple_of(merge) || side * side > MAX_PATCHES {
                    let expected = format!(
                        "a multiple of {merge} patches of {patch} pixels, of at most {MAX_PATCHES}"
                    );
                    return Err(keys.invalid(&key("image_size"), image, expected).into());
                }
                Some(side)
            }
            Places::None | Places::Resampled | Places::Axes => None,
        };
        let (mut window, mut full_every) = (0, 1);
        if of.window > 0 {
            let pixels = keys.opt_size(&key("window_size"), MAX_SIZE)?.unwrap_or(of.window);
            window = pixels / merge / patch;
            full_every = size("n_wa_pattern", MAX_LAYERS)?;
            if window == 0 {
                let expected = format!("at least {merge} patches of {patch} pixels");
                return Err(keys.invalid(&key("window_size"), pixels, expected).into());
            }
        }
        let has_deep = |layer: &usize| tensors.has(&format!("v.deepstack.{layer}.fc1.weight"));
        // the greatest InternViT has no summands, and root-mean-square norms
        let is_rms = of.places == Places::Class && !tensors.has("v.blk.0.ln1.bias");
        Ok(Self {
            norm: if is_rms { NormKind::Rms } else { of.norm },
            layers,
            hidden,
            heads,
            head_dim,
            ffn: tensors.dim("v.blk.0.ffn_up.weight", 1).max(1),
            eps,
            patch,
            pixels: CHANNELS * patch * patch,
            merge,
            side,
            window,
            full_every,
            rows: side.map_or(MAX_PATCHES, |side| side * side) + of.class_rows(),
            width: size("projection_dim", MAX_SIZE)?,
            deepstack: (0..layers).filter(has_deep).collect(),
        })
    }
}
