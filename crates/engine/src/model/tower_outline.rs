//! A vision tower that is not loaded.

use crate::{
    Error,
    api::{LoadOptions, ModelSource},
    sources,
    vision::OpenTower,
};

/// The sizes of a vision tower that is not loaded. It needs the feature `unstable`.
#[non_exhaustive]
pub struct TowerOutline {
    /// Its file, or the directory of the whole model.
    pub file: String,
    /// The name of its projector in GGUF files, by which the family is known.
    pub projector: String,
    /// Layers of the tower, elements of their states, and heads of attention.
    pub layers: usize,
    /// See [`layers`](Self::layers).
    pub hidden: usize,
    /// See [`layers`](Self::layers).
    pub heads: usize,
    /// Elements of an embedding: the width of the text model.
    pub width: usize,
    /// Pixels of a side of a patch.
    pub patch: u32,
    /// Pixels of a side of the square that becomes one token.
    pub square: u32,
    /// Pixels of a side of a picture, or of a tile of one, and its tokens. `None` of a tower that
    /// takes pictures of many sizes.
    pub fixed: Option<(u32, usize)>,
    /// The most tokens of a picture.
    pub tokens: usize,
    /// Values of all tensors.
    pub parameters: u64,
    /// Bytes of all tensors.
    pub bytes: u64,
    pub(super) open: OpenTower,
}

impl TowerOutline {
    /// The tower of a model, or of a file with a tower alone; `None` if there is none.
    ///
    /// # Errors
    ///
    /// As [`Engine::load`](crate::Engine::load), as far as it does not depend on the text.
    pub fn of(
        source: impl Into<ModelSource>,
        options: &LoadOptions,
    ) -> Result<Option<Self>, Error> {
        let source = source.into();
        let (path, text) = sources::checkpoint(&source)?;
        Ok(sources::tower(&source, (&path, &text), options)?.map(Self::new))
    }

    fn new(open: OpenTower) -> Self {
        let (tower, checkpoint) = (open.tower(), open.checkpoint());
        let shape = &tower.tower.shape;
        let (mut parameters, mut bytes) = (0, 0);
        for tensor in checkpoint.tensors() {
            parameters += (tensor.row_len() * tensor.rows()) as u64;
            bytes += tensor.bytes.len() as u64;
        }
        let fixed = tower.grid.map(|grid| (grid[0] * tower.patch, tower.tokens(grid)));
        Self {
            file: checkpoint.name().to_owned(),
            projector: shape.architecture.clone(),
            layers: shape.layers,
            hidden: shape.hidden,
            heads: shape.heads,
            width: tower.width,
            patch: tower.patch,
            square: tower.patch * tower.merge,
            fixed,
            tokens: open.tokens(),
            parameters,
            bytes,
            open,
        }
    }
}
