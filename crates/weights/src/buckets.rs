//! Files of weights that are sorted within buckets.

use std::path::Path;

use crate::{Checkpoint, Error, Problem};

/// The architecture of a file of buckets, which is no model of its own.
pub const BUCKETS_ARCHITECTURE: &str = "pelton-buckets";
/// The key of the model that they were made of.
pub const BUCKETS_MODEL: &str = "pelton-buckets.model";

/// A tensor of a file of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketPart {
    /// Codes, with the greatest ranks first.
    Codes,
    /// Mean magnitudes of the ranks.
    Means,
    /// Inputs and weights of the probes.
    Probes,
    /// The power of two that all are in units of.
    Unit,
}

/// The name of a part of the rows from `first` on of a model's tensor.
pub fn bucket_tensor(tensor: &str, first: usize, part: BucketPart) -> String {
    let part = match part {
        BucketPart::Codes => "buckets",
        BucketPart::Means => "bucket_means",
        BucketPart::Probes => "bucket_probes",
        BucketPart::Unit => "bucket_unit",
    };
    match first {
        0 => format!("{tensor}.{part}"),
        _ => format!("{tensor}.{first}.{part}"),
    }
}

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
        self.add_files(file.files());
        for tensor in file.into_tensors() {
            self.add(tensor)?;
        }
        Ok(())
    }
}
