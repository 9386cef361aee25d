//! The f32 operations of one native vector, of which vectors of sixteen lanes and the vectors of
//! matrix products are made.

/// A native vector of f32: one register, or a pair of short ones.
///
/// # Safety
/// All functions require the instruction set of the implementation. They are inlined into a
/// function with the `target_feature`s of the set: hence `inline(always)` everywhere. Pointers have
/// any alignment, and `LANES` elements.
pub(crate) trait Register: Copy + 'static {
    /// Lanes of the vector.
    const LANES: usize;
    /// The vector.
    type F: Copy;

    unsafe fn splat(value: f32) -> Self::F;
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, rounded once.
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// Loads little-endian f32.
    unsafe fn load_f32(from: *const u8) -> Self::F;
    /// Loads little-endian f16.
    unsafe fn load_f16(from: *const u8) -> Self::F;
    /// Loads little-endian bf16.
    unsafe fn load_bf16(from: *const u8) -> Self::F;
    /// Writes `LANES` elements.
    unsafe fn store(a: Self::F, to: *mut f32);
}
