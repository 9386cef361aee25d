//! The facts of a header.

/// The size of a picture, and the memory of its decoding.
pub(crate) struct Header {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Bytes of memory of the decoder, its output included.
    pub(crate) bytes_per_pixel: u64,
}
