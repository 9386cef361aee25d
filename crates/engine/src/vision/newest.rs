//! The embeddings of the pictures that were seen last.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::shown::Key;

/// Embeddings of pictures within a budget of bytes. The one that was not used for longest goes
/// first. Callers look here before they prepare a picture, and the model's thread before a pass.
#[derive(Debug)]
pub(super) struct Newest {
    budget: usize,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    bytes: usize,
    time: u64,
    known: HashMap<Key, (u64, Arc<Vec<f32>>)>,
}

impl Newest {
    pub(super) fn new(budget: usize) -> Self {
        Self { budget, all: Mutex::default() }
    }

    pub(super) fn get(&self, key: &Key) -> Option<Arc<Vec<f32>>> {
        let all = &mut *self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.time += 1;
        let (used, embeddings) = all.known.get_mut(key)?;
        *used = all.time;
        Some(Arc::clone(embeddings))
    }

    /// Keeps the embeddings of a picture, unless they alone exceed the budget.
    pub(super) fn keep(&self, key: Key, embeddings: &Arc<Vec<f32>>) {
        let all = &mut *self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = size_of_val(embeddings.as_slice());
        if bytes > self.budget || all.known.contains_key(&key) {
            return;
        }
        while all.bytes + bytes > self.budget {
            let oldest = all.known.iter().min_by_key(|(_, (used, _))| *used);
            let Some(oldest) = oldest.map(|(key, _)| *key) else { break };
            if let Some((_, gone)) = all.known.remove(&oldest) {
                all.bytes -= size_of_val(gone.as_slice());
            }
        }
        all.time += 1;
        all.bytes += bytes;
        all.known.insert(key, (all.time, Arc::clone(embeddings)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes() {
        let newest = Newest::new(32);
        let of = |len: usize| Arc::new(vec![0.0; len]);
        newest.keep([1; 32], &of(4));
        newest.keep([2; 32], &of(4));
        assert!(newest.get(&[1; 32]).is_some());
        newest.keep([3; 32], &of(3));
        assert!(newest.get(&[2; 32]).is_none());
        assert!(newest.get(&[1; 32]).is_some() && newest.get(&[3; 32]).is_some());
        newest.keep([4; 32], &of(9));
        assert!(newest.get(&[4; 32]).is_none() && newest.get(&[1; 32]).is_some());
    }
}
