//! Renderings of the test data that Pelton does not reproduce, each with the reason.

/// A case that is rendered differently.
pub(crate) struct Exception {
    /// The template's name in the data.
    pub(crate) template: &'static str,
    /// The context or the field of the expectation.
    pub(crate) case: &'static str,
    /// Why Pelton's result is right.
    pub(crate) reason: &'static str,
}

/// All exceptions. Each must still differ from the data.
pub(crate) const EXCEPTIONS: &[Exception] = &[];
