//! From a checkpoint to a plan of elementary steps. Keys and tensors give the shapes of layers, and
//! one builder turns these into steps, whatever the architecture's name.
//!
//! | module | content |
//! |---|---|
//! | `tensors` | the tensors that a plan reads, and the refusal of files with others |
//! | `options` | what a file leaves open |
//! | `sizes`, `heads`, `rope`, `pictures`, `shapes` | keys → [`shapes::LayerShape`]s, caches, rotations |
//! | `builder` | buffers and steps |
//! | `vision` | towers of vision models, with plans of their own |
//! | `whisper` | the keys and steps of Whisper, an encoder and a decoder |
//! | `embed`, `layers`, `attention`, `latent`, `recurrent`, `scan`, `feed_forward`, `experts`, `output`, `next_token` | steps |
//!
//! Tensors show biases, a tied output, fused matrices and experts. Keys give numbers. The table of
//! the architecture has the rest. Each tensor is checked for its shape, and a tensor that nothing
//! reads is an error. A vector is decoded to f32 at load; a matrix keeps its stored format.
//!
//! A weight can be a range of rows of a fused tensor (`Part`), or many matrices of equal shape
//! (`WeightKind::Matrices`). These are experts, or one matrix for each head of latent attention.
//! `Route` writes the ids of the chosen experts to a buffer, which `ExpertLinear` reads, so routing
//! never returns to the host.
//!
//! Bidirectional and pooled models must run each sequence in a single pass
//! (`Plan::whole_sequences`).

mod attention;
mod builder;
mod embed;
mod experts;
mod feed_forward;
mod heads;
mod latent;
mod layers;
mod next_token;
mod options;
mod output;
mod pictures;
mod recurrent;
mod rope;
mod scan;
mod shapes;
mod sizes;
mod tensors;
mod vision;
mod whisper;

pub use options::{BuildOptions, PictureRows, PoolingType};
pub use vision::{TowerFamily, TowerInput, VisionTower, build_tower};

use pelton_weights::{Checkpoint, Keys};

use crate::{
    Error, Plan,
    arch::{Architecture, architectures},
};
use builder::Builder;
use shapes::Shapes;
use sizes::Sizes;
use tensors::Tensors;

/// Builds the plan of a checkpoint's model for its whole context.
///
/// # Errors
///
/// As [`build_with`].
pub fn build(checkpoint: &Checkpoint) -> Result<Plan, Error> {
    build_with(checkpoint, &BuildOptions::default())
}

/// Builds the plan of a checkpoint's model for sequences of at most `context` positions, `None` for
/// its whole context.
///
/// # Errors
///
/// As [`build_with`].
pub fn build_for(checkpoint: &Checkpoint, context: Option<usize>) -> Result<Plan, Error> {
    build_with(checkpoint, &BuildOptions { context, ..BuildOptions::default() })
}

/// Builds the plan of a checkpoint's model.
///
/// # Errors
///
/// If the architecture is not supported, a key is missing or absurd, or a tensor is missing or its
/// shape differs from the keys. Also if the file has a tensor that the plan does not read: such a
/// file holds another model than the plan would run.
pub fn build_with(checkpoint: &Checkpoint, options: &BuildOptions) -> Result<Plan, Error> {
    let keys = Keys::new(checkpoint.metadata())?;
    if keys.architecture() == whisper::WHISPER.name {
        return whisper::build(checkpoint, keys, options.context, options.hidden);
    }
    let (arch, keys) = architecture(checkpoint)?;
    let mut tensors = Tensors::new(checkpoint);
    let sizes = Sizes::read(arch, &keys, checkpoint)?;
    let layers = 0..sizes.layers;
    let shapes = Shapes::read(arch, &keys, &sizes, &mut tensors, options, layers)?;
    let mut builder = Builder::new(arch, keys, sizes, tensors, &shapes);
    builder.embed(options.pictures)?;
    for (index, layer) in shapes.layers.iter().enumerate() {
        builder.layer(index, layer)?;
        builder.inject(index + 1);
    }
    builder.output(options.pooling, options.hidden)?;
    builder.finish()
}

/// Builds the plan of the head that predicts the token after the next one of a row, from the row's
/// [hidden state](Plan::exit) and its next token (multi-token prediction; DeepSeek-V3, arXiv
/// 2412.19437, section 2.2). The input of a row is that next token; its own token is not read.
///
/// It is the first of several heads. `None` if the file has none, or none of a known form.
///
/// # Errors
///
/// As [`build_with`]; the file may not have other tensors of the head than the plan reads.
pub fn build_head(checkpoint: &Checkpoint, options: &BuildOptions) -> Result<Option<Plan>, Error> {
    if Keys::new(checkpoint.metadata())?.architecture() == whisper::WHISPER.name {
        return Ok(None);
    }
    let (arch, keys) = architecture(checkpoint)?;
    let mut tensors = Tensors::new(checkpoint);
    let sizes = Sizes::read(arch, &keys, checkpoint)?;
    let index = sizes.layers;
    let start = format!("blk.{index}.nextn.");
    let has_head = checkpoint.tensors().any(|tensor| tensor.name.starts_with(&start));
    if !arch.next_token_heads || index >= sizes.all_layers || !has_head {
        return Ok(None);
    }
    let layers = index..index + 1;
    let shapes = Shapes::read(arch, &keys, &sizes, &mut tensors, options, layers)?;
    let mut builder = Builder::new(arch, keys, sizes, tensors, &shapes);
    for layer in &shapes.layers {
        builder.next_token_head(index, layer)?;
    }
    builder.finish_head(index).map(Some)
}

/// The table of a file's architecture, and the file's keys.
fn architecture(checkpoint: &Checkpoint) -> Result<(&'static Architecture, Keys<'_>), Error> {
    let keys = Keys::new(checkpoint.metadata())?;
    let found = architectures().iter().find(|a| a.name == keys.architecture());
    let arch = found.ok_or_else(|| Error::Architecture {
        file: checkpoint.name().to_owned(),
        found: keys.architecture().to_owned(),
        known: architectures().iter().map(|a| a.name).collect(),
    })?;
    Ok((arch, keys))
}
