//! Opens a directory and reads all of it.

use std::path::Path;

use pelton_weights::{Checkpoint, Value};

/// Reads all metadata and tensors of a directory. Returns whether it is a model.
pub(crate) fn read_everything(folder: &Path) -> bool {
    let Ok(model) = Checkpoint::open(folder) else { return false };
    for (_, value) in model.metadata().iter() {
        if let Value::Array(array) = value {
            assert_eq!(array.values().count(), array.len());
        }
    }
    for tensor in model.tensors() {
        assert_eq!(tensor.decode().len(), tensor.row_len() * tensor.rows());
    }
    true
}
