//! The kinds of passes.

/// The kind of work of a pass, which decides the kernels of a GPU, and of unquantized weights on a
/// CPU.
///
/// Kernels for prompts and for decoding sum in different orders. So a row always runs in the phase
/// of its position, whatever the number of rows. Its result then depends neither on the other rows
/// of the batch nor on the chunks of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Rows of prompts.
    Prompt,
    /// Rows of decoding and of the verification of drafts.
    Decode,
    /// The positions of windows, which the [encoder](crate::Encoder) of a plan runs over.
    Encode,
}
