//! The summary of a load.

use std::{collections::BTreeMap, fmt, path::Path};

use pelton_place::Size;
use pelton_weights::Checkpoint;

/// The share of a model's bytes from which a type of weights is named.
const NAMED_SHARE: f64 = 0.1;

/// The outcome of a load: the model, its formats, its memory and its device. It
/// displays as one line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Summary {
    /// The model's name in its file, or that of the file.
    pub name: String,
    /// The types of the weights by their bytes, those of at least a tenth of them, such as `Q4_K`.
    pub formats: Vec<&'static str>,
    /// Bytes of the weights.
    pub weight_bytes: u64,
    /// Bytes of keys and values, and of recurrent states.
    pub kv_bytes: u64,
    /// Tokens that a sequence can have.
    pub context: usize,
    /// The longest context that the file declares, in tokens.
    pub longest_context: usize,
    /// The device, its threads, and why it is not a GPU where that was not chosen.
    pub device: String,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {}: {} of weights and {} of KV for a context of {}",
            self.name.escape_debug(),
            self.formats.join(" and "),
            Size(self.weight_bytes),
            Size(self.kv_bytes),
            self.context,
        )?;
        if self.context < self.longest_context {
            write!(f, " of {}", self.longest_context)?;
        }
        write!(f, " tokens; on {}", self.device)
    }
}

/// The name that a file gives its model, or that of the file.
pub(super) fn name_of(checkpoint: &Checkpoint) -> String {
    let name = checkpoint.metadata().opt_string("general.name").ok().flatten();
    if let Some(name) = name.filter(|name| !name.trim().is_empty()) {
        return name.to_owned();
    }
    let file = Path::new(checkpoint.name()).file_stem();
    file.map_or_else(|| checkpoint.name().to_owned(), |file| file.to_string_lossy().into_owned())
}

/// The types that have at least a tenth of the bytes, the greatest share first.
pub(super) fn formats(checkpoint: &Checkpoint) -> Vec<&'static str> {
    let mut bytes: BTreeMap<&'static str, u64> = BTreeMap::new();
    for tensor in checkpoint.tensors() {
        *bytes.entry(tensor.dtype.name()).or_default() += tensor.bytes.len() as u64;
    }
    let all: u64 = bytes.values().sum();
    let mut named: Vec<_> =
        bytes.into_iter().filter(|(_, own)| *own as f64 >= NAMED_SHARE * all as f64).collect();
    named.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    named.into_iter().map(|(name, _)| name).collect()
}
