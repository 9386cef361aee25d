//! The kinds of passes.

/// The kind of work of a pass, which decides the kernels of a GPU, and of unquantized weights on a
/// CPU.
///
/// Kernels for prompts and for decoding sum in different orders. So a row runs in the phase of its
/// position, whatever the number of rows. Its result then depends neither on the other rows of the
/// batch nor on the chunks of the prompt. The exception are passes with many rows of decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Rows of prompts.
    Prompt,
    /// Rows of decoding and of the verification of drafts.
    Decode,
    /// Rows of decoding, then rows of prompts, in the kernels for prompts: one reading of the
    /// weights serves both. A scheduler mixes more rows of decoding than [have the bits of a row
    /// alone](crate::Pipeline::exact_rows) anyway.
    Mixed {
        /// Rows of decoding, one of each sequence.
        decoding: usize,
    },
    /// The positions of windows, which the [encoder](crate::Encoder) of a plan runs over.
    Encode,
}
