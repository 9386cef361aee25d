//! Matrices that several plans over one checkpoint read, such as a model's and its head's.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use pelton_graph::Weight;
use pelton_weights::Checkpoint;

use crate::weights::Matrix;

/// The matrices of the loaded plans of one GPU, as long as any of these plans is loaded.
#[derive(Debug, Default)]
pub(crate) struct SharedMatrices(Mutex<Vec<Entry>>);

/// The sources of the weights of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources<'a> {
    pub(crate) checkpoint: &'a Arc<Checkpoint>,
    /// The matrices of plans that are loaded.
    pub(crate) matrices: &'a SharedMatrices,
}

#[derive(Debug)]
struct Entry {
    checkpoint: Weak<Checkpoint>,
    weight: Weight,
    matrix: Weak<Matrix>,
}

impl SharedMatrices {
    /// The matrix of a weight of this checkpoint, if a plan that is loaded has it.
    pub(crate) fn find(
        &self,
        checkpoint: &Arc<Checkpoint>,
        weight: &Weight,
    ) -> Option<Arc<Matrix>> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| entry.matrix.strong_count() > 0);
        // a checkpoint that is alive has an address of its own
        let is_same = |entry: &&Entry| {
            entry.checkpoint.as_ptr() == Arc::as_ptr(checkpoint)
                && entry.checkpoint.strong_count() > 0
                && entry.weight == *weight
        };
        entries.iter().find(is_same).and_then(|entry| entry.matrix.upgrade())
    }

    /// The number of matrices.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Adds the matrix of a weight.
    pub(crate) fn add(&self, checkpoint: &Arc<Checkpoint>, weight: &Weight, matrix: &Arc<Matrix>) {
        let entry = Entry {
            checkpoint: Arc::downgrade(checkpoint),
            weight: weight.clone(),
            matrix: Arc::downgrade(matrix),
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }
}
