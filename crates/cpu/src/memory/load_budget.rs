//! The memory of one load: everything that it allocates is taken from what the system has available
//! when it begins, because memory is mapped lazily and what is not touched yet still counts as
//! available.

use pelton_graph::Error;

use super::available;

/// A use of memory by a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Keys and values.
    Cache,
    /// Values between steps, recurrent states and scratch memory.
    Buffers,
    /// Vectors and small tables, decoded to f32.
    Decoded,
    /// Copies of marked matrices in a second order.
    Second,
    /// Copies of matrices in panels.
    Packed,
}

impl Use {
    const fn name(self) -> &'static str {
        match self {
            Self::Cache => "the KV cache",
            Self::Buffers => "buffers",
            Self::Decoded => "decoded weights",
            Self::Second => "weights in a second order",
            Self::Packed => "packed weights",
        }
    }

    /// How a user makes it smaller.
    const fn remedy(self) -> &'static str {
        match self {
            Self::Cache => "reduce the context, the sequences or the memory for the KV cache",
            Self::Buffers => "reduce the rows of a pass or the sequences",
            Self::Decoded => "choose a smaller model",
            Self::Second => "load without efforts below 1",
            Self::Packed => "load without repacking",
        }
    }
}

/// The memory that is left for a load, and what it has taken.
#[derive(Debug)]
pub(crate) struct LoadBudget {
    /// Bytes that were available at its begin; `None` if the system does not say.
    available: Option<u64>,
    taken: Vec<(Use, u128)>,
}

impl LoadBudget {
    /// All that the system has available.
    pub(crate) fn of_system() -> Self {
        Self::new(available())
    }

    pub(crate) const fn new(available: Option<u64>) -> Self {
        Self { available, taken: Vec::new() }
    }

    /// Whether so many bytes are left.
    pub(crate) fn has(&self, bytes: u128) -> bool {
        let needed = self.taken.iter().fold(bytes, |sum, (_, bytes)| sum.saturating_add(*bytes));
        self.available.is_none_or(|left| needed <= u128::from(left))
    }

    /// Takes bytes for a use.
    ///
    /// # Errors
    /// [`Error::LoadMemory`] if not so many are left; then nothing is taken. It names the largest
    /// uses, and how the largest becomes smaller.
    pub(crate) fn take(&mut self, of: Use, bytes: u128) -> Result<(), Error> {
        self.taken.push((of, bytes));
        let needed = self.taken.iter().fold(0, |sum: u128, (_, bytes)| sum.saturating_add(*bytes));
        let Some(available) = self.available.filter(|&left| needed > u128::from(left)) else {
            return Ok(());
        };
        let mut uses = self.taken.clone();
        self.taken.pop();
        uses.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let uses = uses.iter().filter(|(_, bytes)| *bytes > 0);
        let terms = uses.clone().take(3).map(|(of, bytes)| format!("{bytes} for {}", of.name()));
        let terms = terms.collect::<Vec<_>>().join(", ");
        let remedy = uses.clone().next().map_or("", |(of, _)| of.remedy());
        let (device, terms) = ("cpu".to_owned(), format!("{terms}; {remedy}"));
        Err(Error::LoadMemory { device, needed, available, terms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_add_up() {
        let mut budget = LoadBudget::new(Some(100));
        budget.take(Use::Cache, 60).unwrap();
        budget.take(Use::Decoded, 0).unwrap();
        let error = budget.take(Use::Second, 41).unwrap_err().to_string();
        assert_eq!(
            error,
            "the load needs 101 bytes of memory on 'cpu', but only 100 are available: 60 for the KV \
             cache, 41 for weights in a second order; reduce the context, the sequences or the memory \
             for the KV cache"
        );
        // refused bytes are not taken
        budget.take(Use::Packed, 40).unwrap();
        assert!(budget.take(Use::Buffers, 1).is_err());
        assert!(budget.take(Use::Buffers, u128::MAX).is_err());
        LoadBudget::new(None).take(Use::Buffers, u128::MAX).unwrap();
    }
}
