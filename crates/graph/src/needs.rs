//! The memory that a load needs: the sum that holds before anything is uploaded.

use crate::Error;

/// The bytes that [`Backend::load`](crate::Backend::load) allocates for a plan, by their use.
///
/// The functions that allocate compute them, so a sum that fits is a load that fits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Weights in the backend's own memory.
    pub weights: u64,
    /// Keys and values, and snapshots of recurrent states.
    pub caches: u64,
    /// Values between steps, recurrent states, and the inputs and results of passes.
    pub buffers: u64,
    /// Values within steps.
    pub scratch: u64,
    /// Places for weights of the [host](crate::Plan::host), and the buffers through which they
    /// come.
    pub streamed: u64,
    /// Memory that is free again after the load.
    pub staging: u64,
    /// Weights that stay in the map of their file. The system can evict them, and reads them again.
    pub mapped: u64,
}

impl Needs {
    /// Bytes that stay allocated after the load.
    pub fn total(&self) -> u64 {
        [self.caches, self.buffers, self.scratch, self.streamed]
            .into_iter()
            .fold(self.weights, u64::saturating_add)
    }

    /// The most bytes that are allocated at one time. Weights are uploaded before all others.
    pub fn most(&self) -> u64 {
        self.total().max(self.weights.saturating_add(self.staging))
    }

    /// The sum of both loads.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            weights: self.weights.saturating_add(other.weights),
            caches: self.caches.saturating_add(other.caches),
            buffers: self.buffers.saturating_add(other.buffers),
            scratch: self.scratch.saturating_add(other.scratch),
            streamed: self.streamed.saturating_add(other.streamed),
            staging: self.staging.saturating_add(other.staging),
            mapped: self.mapped.saturating_add(other.mapped),
        }
    }

    /// The terms of the total with their names in messages, the largest first.
    pub fn terms(&self) -> [(&'static str, u64); 5] {
        let mut terms = [
            ("weights", self.weights),
            ("the KV cache", self.caches),
            ("buffers", self.buffers),
            ("scratch memory", self.scratch),
            ("streamed weights", self.streamed),
        ];
        terms.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        terms
    }

    /// Refuses a load that needs more than `available` bytes. `fitting` is a context that
    /// would fit, 0 for none.
    ///
    /// # Errors
    ///
    /// [`Error::LoadMemory`] naming the largest terms, and how the largest becomes smaller.
    pub fn check(&self, device: &str, available: u64, fitting: usize) -> Result<(), Error> {
        if self.most() <= available {
            return Ok(());
        }
        let terms = self.terms();
        let remedy = match (terms[0].0, fitting) {
            (_, 1..) => format!("a context of {fitting} would fit"),
            ("weights", 0) => "choose a smaller model, or one of fewer bits".to_owned(),
            ("the KV cache", 0) => "reduce the sequences, or the bits of the KV cache".to_owned(),
            ("streamed weights", 0) => {
                "run whole layers on the CPU, with fewer on the GPU".to_owned()
            }
            _ => "reduce the rows of a pass or the sequences".to_owned(),
        };
        let terms = terms.iter().filter(|(_, bytes)| *bytes > 0);
        let terms = terms.map(|(name, bytes)| format!("{bytes} for {name}"));
        Err(Error::LoadMemory {
            device: device.to_owned(),
            needed: u128::from(self.most()),
            available,
            terms: format!("{}; {remedy}", terms.collect::<Vec<_>>().join(", ")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_term_is_named_first() {
        let needs = Needs { weights: 10, caches: 60, buffers: 5, ..Needs::default() };
        let needs = Needs { staging: 70, mapped: 1000, ..needs };
        assert_eq!((needs.total(), needs.most()), (75, 80));
        needs.check("gpu", 80, 0).unwrap();
        let error = needs.check("gpu", 79, 128).unwrap_err().to_string();
        assert_eq!(
            error,
            "the load needs 80 bytes of memory on 'gpu', but only 79 are available: 60 for the KV \
             cache, 10 for weights, 5 for buffers; a context of 128 would fit"
        );
        let most = Needs { weights: u64::MAX, caches: 1, ..Needs::default() };
        assert!(most.check("gpu", u64::MAX - 1, 0).unwrap_err().to_string().contains("fewer bits"));
    }
}
