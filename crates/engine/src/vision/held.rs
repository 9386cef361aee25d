//! The bound of the patches that wait for the tower.

use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;

/// Bytes of patches that requests hold until the tower has seen them.
#[derive(Debug)]
pub(super) struct Held {
    bytes: Mutex<usize>,
    limit: usize,
}

/// Bytes of patches, which are free on drop.
#[derive(Debug)]
pub(super) struct Hold {
    of: Arc<Held>,
    bytes: usize,
}

impl Held {
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: Mutex::new(0), limit }
    }

    /// Holds bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if others hold too many. Without others there is room for any number.
    pub(super) fn take(self: &Arc<Self>, bytes: usize) -> Result<Hold, Error> {
        let mut held = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let found = held.saturating_add(bytes);
        if found > self.limit && *held > 0 {
            return Err(Error::Busy { what: "bytes of pictures", found, limit: self.limit });
        }
        *held = found;
        Ok(Hold { of: Arc::clone(self), bytes })
    }
}

impl Hold {
    /// A part of the bytes, which is free on its own drop.
    pub(super) fn part(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { of: Arc::clone(&self.of), bytes }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        *self.of.bytes.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_bounded_and_free_on_drop() {
        let held = Arc::new(Held::new(100));
        let great = held.take(1_000).unwrap();
        assert!(matches!(held.take(1), Err(Error::Busy { found: 1_001, limit: 100, .. })));
        drop(great);
        let mut two = held.take(60).unwrap();
        let one = two.part(40);
        assert!(held.take(41).is_err());
        drop(two);
        let rest = held.take(60).unwrap();
        assert!(held.take(1).is_err());
        drop((one, rest));
        assert_eq!(*held.bytes.lock().unwrap(), 0);
    }
}
