//! Files of weights that are sorted within buckets.

use std::path::Path;

use crate::{Checkpoint, Error, Problem};

/// The architecture of a file of buckets, which is no model of its own.
pub const BUCKETS_ARCHITECTURE: &str = "pelton-buckets";
/// The key of the model that they were made of.
pub const BUCKETS_MODEL: &str = "pelton-buckets.model";

impl Checkpoint {
    /// Adds the tensors of a file of buckets that was made of the model with this key.
    ///
    /// # Errors
    /// If the file cannot be read, is no such file, or is of another model.
    pub fn attach_buckets(&mut self, path: &Path, key: &str) -> Result<(), Error> {
        let file = Self::open(path)?;
        let refuse = |fault: String| Error::new(file.name(), Problem::Buckets { fault });
        let architecture = file.metadata().string("general.architecture")?;
        if architecture != BUCKETS_ARCHITECTURE {
            return Err(refuse(format!(
                "is a model of the architecture {architecture:?}, expected a file of `pelton effort \
                 pack`"
            )));
        }
        let of = file.metadata().string(BUCKETS_MODEL)?;
        if of != key {
            return Err(refuse(format!("is of the model {of:?}, expected one of {key:?}")));
        }
        for tensor in file.into_tensors() {
            self.add(tensor)?;
        }
        Ok(())
    }
}
