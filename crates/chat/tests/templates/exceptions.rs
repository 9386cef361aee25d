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
pub(crate) const EXCEPTIONS: &[Exception] = &[Exception {
    template: "ai-sage/GigaChat-20B-A3B-instruct",
    case: "expected_jinja",
    reason: "The expectation is that of llama.cpp's built-in formatter, which writes <s> itself (the \
             data says supported_with_jinja: false). The template writes bos_token, which is empty \
             in this case. With <s> for it the rendering is the expected one.",
}];
