//! The embeddings of the pictures that were seen last.

use std::{collections::HashMap, sync::Arc};

use super::seen::Key;

/// Embeddings of pictures within a budget of bytes. The one that was not used for longest goes
/// first.
#[derive(Debug)]
pub(super) struct Newest {
    budget: usize,
    bytes: usize,
    time: u64,
    known: HashMap<Key, (u64, Arc<Vec<f32>>)>,
}

impl Newest {
    pub(super) fn new(budget: usize) -> Self {
        Self { budget, bytes: 0, time: 0, known: HashMap::new() }
    }

    pub(super) fn get(&mut self, key: &Key) -> Option<Arc<Vec<f32>>> {
        self.time += 1;
        let (used, embeddings) = self.known.get_mut(key)?;
        *used = self.time;
        Some(Arc::clone(embeddings))
    }

    /// Keeps the embeddings of a picture, unless they alone exceed the budget.
    pub(super) fn keep(&mut self, key: Key, embeddings: &Arc<Vec<f32>>) {
        let bytes = size_of_val(embeddings.as_slice());
        if bytes > self.budget || self.known.contains_key(&key) {
            return;
        }
        while self.bytes + bytes > self.budget {
            let oldest = self.known.iter().min_by_key(|(_, (used, _))| *used);
            let Some(oldest) = oldest.map(|(key, _)| *key) else { break };
            if let Some((_, gone)) = self.known.remove(&oldest) {
                self.bytes -= size_of_val(gone.as_slice());
            }
        }
        self.time += 1;
        self.bytes += bytes;
        self.known.insert(key, (self.time, Arc::clone(embeddings)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes() {
        let mut newest = Newest::new(32);
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
