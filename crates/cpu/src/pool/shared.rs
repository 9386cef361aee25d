//! Writing to one slice from several threads.

use std::marker::PhantomData;
use std::ops::Range;

/// A slice into which several threads write, each its own part.
#[derive(Clone, Copy, Debug)]
pub struct SharedMut<'a, T> {
    start: *mut T,
    len: usize,
    marker: PhantomData<&'a mut [T]>,
}

// SAFETY: it stands for a `&mut [T]` of which each thread takes a disjoint part (the contract
// of `slice_mut`), and parts of a `&mut [T]` may go to other threads if `T: Send`.
unsafe impl<T: Send> Send for SharedMut<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for SharedMut<'_, T> {}

impl<'a, T> SharedMut<'a, T> {
    /// Shares `slice` for as long as it is borrowed.
    pub fn new(slice: &'a mut [T]) -> Self {
        Self { start: slice.as_mut_ptr(), len: slice.len(), marker: PhantomData }
    }

    /// Number of elements of the whole slice.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the slice has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where element `index` is, or would be, for a hint to the processor.
    pub fn address(&self, index: usize) -> *const T {
        self.start.wrapping_add(index)
    }

    /// The part at `range`, to write.
    ///
    /// # Safety
    /// As long as the returned slice is in use, no other reference to any of these elements may
    /// be, on this or another thread. Handing a part on to another thread needs a barrier (or
    /// the end of the region) in between.
    ///
    /// # Panics
    /// If `range` reaches outside of the slice.
    #[allow(clippy::mut_from_ref, reason = "that the parts are disjoint is the caller's promise")]
    pub unsafe fn slice_mut(&self, range: Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "range outside of the slice");
        // SAFETY: inside of the slice (checked), which is borrowed for `'a`; unaliased by contract.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }

    /// The part at `range`, to read.
    ///
    /// # Safety
    /// As long as the returned slice is in use, no thread may write any of these elements;
    /// earlier writes by other threads need a barrier in between.
    ///
    /// # Panics
    /// If `range` reaches outside of the slice.
    pub unsafe fn slice(&self, range: Range<usize>) -> &'a [T] {
        assert!(range.start <= range.end && range.end <= self.len, "range outside of the slice");
        // SAFETY: inside of the slice (checked), which is borrowed for `'a`; unwritten by contract.
        unsafe { std::slice::from_raw_parts(self.start.add(range.start), range.len()) }
    }
}
