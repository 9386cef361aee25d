//! A model family: what differs between architectures, as data.

use super::config::{LAYER_TYPES, PATTERN, Stated};
use super::keys::Key;
use super::rules::Rule;

/// The mapping of an architecture to GGUF.
#[derive(Debug)]
pub(super) struct Family {
    /// Values of `architectures[0]`.
    pub(super) classes: &'static [&'static str],
    /// Values of `model_type`, for files without `architectures`.
    pub(super) types: &'static [&'static str],
    /// A key of the configuration that must be above 0, for variants of one class; empty for none.
    pub(super) needs: &'static str,
    /// Kinds of layers of which the configuration must have one, for variants of one class; empty
    /// for none.
    pub(super) layers: &'static [&'static str],
    /// Name in GGUF.
    pub(super) architecture: &'static str,
    /// Groups of keys beyond [`COMMON`](super::common_keys::COMMON), or in place of them. A later
    /// key replaces an earlier one of its name.
    pub(super) keys: &'static [&'static [Key]],
    /// Names outside of blocks.
    pub(super) globals: &'static [&'static [Rule]],
    /// Names within blocks.
    pub(super) blocks: &'static [&'static [Rule]],
    /// Prefixes of all names, of which the first that fits is removed.
    pub(super) prefixes: &'static [&'static str],
    /// Prefix of a block's number.
    pub(super) block: &'static str,
    /// Beginnings of names, after the prefix, that inference does not use.
    pub(super) unused: &'static [&'static str],
    /// The end of the names of norms whose weights are stored minus 1; empty for none.
    pub(super) minus_one: &'static str,
    /// Activations that the architecture's graph computes; empty if a GGUF key has it.
    pub(super) activations: &'static [&'static str],
}

impl Family {
    /// A decoder with the names and the activation of Llama.
    pub(super) const DECODER: Self = Self {
        classes: &[],
        types: &[],
        needs: "",
        layers: &[],
        architecture: "",
        keys: &[],
        globals: &[],
        blocks: &[],
        prefixes: &["model.", ""],
        block: "layers.",
        unused: &[],
        minus_one: "",
        activations: &["silu"],
    };

    /// Whether the configuration is one of this family.
    pub(super) fn has(&self, stated: &Stated) -> bool {
        // a key that decides is one that is read, so only models of the class ask for it
        let is_of_class = match stated.class.is_empty() {
            true => self.types.contains(&stated.model_type.as_str()),
            false => self.classes.contains(&stated.class.as_str()),
        };
        let has_size = || matches!(stated.all.size(&[self.needs]), Ok(Some(size)) if size > 0);
        is_of_class
            && (self.needs.is_empty() || has_size())
            && (self.layers.is_empty() || has_layer(stated, self.layers))
    }
}

/// Whether a configuration has a layer of these kinds.
fn has_layer(stated: &Stated, kinds: &[&str]) -> bool {
    let types = LAYER_TYPES.iter().find_map(|key| stated.all.list(key).ok().flatten());
    let types = types.unwrap_or_default().iter().filter_map(serde_json::Value::as_str);
    let pattern = stated.all.text(&[PATTERN]).ok().flatten().unwrap_or_default();
    types.chain(pattern.split("")).any(|kind| kinds.contains(&kind))
}

/// Activations of the GELU family, which are one activation in GGUF's graphs.
pub(super) const GELU: &[&str] = &["gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast"];
