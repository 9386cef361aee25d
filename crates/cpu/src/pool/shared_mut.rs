//! A slice that several threads write to.

use std::marker::PhantomData;
use std::ops::Range;

/// A slice that several threads write to, each to elements of its own.
#[derive(Clone, Copy, Debug)]
pub struct SharedMut<'a, T> {
    start: *mut T,
    len: usize,
    marker: PhantomData<&'a mut [T]>,
}

// SAFETY: it stands for a `&mut [T]` of which each thread borrows a disjoint range (the contract
// of `slice_mut`), and ranges of a `&mut [T]` may go to other threads if `T: Send`.
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

    /// The address of element `index`, in bounds or not, for a prefetch.
    pub fn address(&self, index: usize) -> *const T {
        self.start.wrapping_add(index)
    }

    /// The elements of `range`, to write.
    ///
    /// # Safety
    /// While the returned slice is in use, no other reference to any of these elements exists, on
    /// this or another thread. Before another thread borrows an element, there is a barrier (or the
    /// end of the region).
    ///
    /// # Panics
    /// If `range` reaches outside of the slice.
    #[allow(clippy::mut_from_ref, reason = "the caller promises that ranges are disjoint")]
    pub unsafe fn slice_mut(&self, range: Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "range outside of the slice");
        // SAFETY: inside of the slice (checked), which is borrowed for `'a`; unaliased by contract.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }

    /// The elements of `range`, to read.
    ///
    /// # Safety
    /// While the returned slice is in use, no thread writes any of these elements; after earlier
    /// writes by other threads there is a barrier.
    ///
    /// # Panics
    /// If `range` reaches outside of the slice.
    pub unsafe fn slice(&self, range: Range<usize>) -> &'a [T] {
        assert!(range.start <= range.end && range.end <= self.len, "range outside of the slice");
        // SAFETY: inside of the slice (checked), which is borrowed for `'a`; unwritten by contract.
        unsafe { std::slice::from_raw_parts(self.start.add(range.start), range.len()) }
    }
}
