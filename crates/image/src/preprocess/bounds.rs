//! How many embeddings a picture should have.

/// The embeddings that a picture should have at least and at most.
///
/// A family keeps to them where the sizes that it knows allow. Without bounds a picture has the
/// size that the settings of the model give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Embeddings at least. The greater bound wins over the less one.
    pub least: usize,
    /// Embeddings at most.
    pub most: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { least: 0, most: usize::MAX }
    }
}
