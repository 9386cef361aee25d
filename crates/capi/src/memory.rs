//! Memory of the caller: texts and arrays that go in, places and buffers for results.

use std::{ffi::c_char, ptr, slice};

use crate::{fault::Fault, status::pelton_status};

/// An array of the caller; it may be NULL if it is empty.
///
/// # Safety
///
/// If `data` is not NULL, `length` elements can be read there while `'a` lasts.
pub(crate) unsafe fn array<'a, T>(
    data: *const T,
    length: usize,
    name: &str,
) -> Result<&'a [T], Fault> {
    if length == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(Fault::null(name));
    }
    if !data.is_aligned() {
        return Err(Fault::invalid(format_args!("{name} is not aligned for its elements")));
    }
    if length.checked_mul(size_of::<T>()).is_none_or(|bytes| isize::try_from(bytes).is_err()) {
        return Err(Fault::invalid(format_args!(
            "{name} has {length} elements, more than memory has"
        )));
    }
    // SAFETY: it is aligned and not NULL, no longer than an object can be, and readable as
    // the caller promises.
    Ok(unsafe { slice::from_raw_parts(data, length) })
}

/// A text of the caller; it may be NULL if it is empty.
///
/// # Safety
///
/// As [`array()`].
pub(crate) unsafe fn text<'a>(
    data: *const c_char,
    length: usize,
    name: &str,
) -> Result<&'a str, Fault> {
    // SAFETY: the caller promises the same.
    let bytes = unsafe { array(data.cast::<u8>(), length, name)? };
    str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        Fault::invalid(format_args!("{name} is not UTF-8 at byte {at}, expected UTF-8"))
    })
}

/// A place for a result.
pub(crate) struct Out<T>(*mut T);

/// A place for a result, which must not be NULL.
///
/// # Safety
///
/// If it is not NULL, a `T` can be written there until the [`Out`] is used.
pub(crate) unsafe fn out<T>(place: *mut T, name: &str) -> Result<Out<T>, Fault> {
    if place.is_null() {
        return Err(Fault::null(name));
    }
    if !place.is_aligned() {
        return Err(Fault::invalid(format_args!("{name} is not aligned for its value")));
    }
    Ok(Out(place))
}

impl<T> Out<T> {
    pub(crate) fn set(self, value: T) {
        // SAFETY: `out` has checked the place, and its caller promises that it is writable.
        unsafe { self.0.write(value) }
    }
}

/// A place for a struct whose first field is the caller's size of it, a `u32`.
pub(crate) struct SizedOut<T> {
    place: *mut T,
    size: usize,
}

/// A place for a struct that begins with its size. Fields that the caller's version lacks are not
/// written. `first` is the size of the struct's first version.
///
/// # Safety
///
/// If it is not NULL, a `u32` can be read there. As many bytes as that says can be written until
/// the [`SizedOut`] is used.
pub(crate) unsafe fn sized_out<T>(
    place: *mut T,
    first: usize,
    name: &str,
) -> Result<SizedOut<T>, Fault> {
    // SAFETY: the caller promises the same.
    let place = unsafe { out(place, name)?.0 };
    // SAFETY: it is checked, and its first field is the size, as the caller promises.
    let size = unsafe { place.cast::<u32>().read() } as usize;
    match size >= first {
        true => Ok(SizedOut { place, size }),
        false => Err(Fault::invalid(format_args!(
            "{name}->size is {size}, expected sizeof(*{name}), which is {first} or more"
        ))),
    }
}

impl<T> SizedOut<T> {
    /// Writes all but the first field, the size.
    pub(crate) fn set(self, value: T) {
        let skipped = size_of::<u32>();
        let bytes = self.size.min(size_of::<T>()).saturating_sub(skipped);
        let from = (&raw const value).cast::<u8>();
        // SAFETY: both have so many bytes after the first field; `sized_out` has checked the place,
        // and its caller promises that it is writable.
        unsafe {
            ptr::copy_nonoverlapping(
                from.add(skipped),
                self.place.cast::<u8>().add(skipped),
                bytes,
            );
        }
    }
}

/// A buffer of the caller, and the place for the number of its elements.
pub(crate) struct Buffer<T> {
    data: *mut T,
    capacity: usize,
    count: Out<usize>,
}

/// A buffer for an array. The caller asks for the size alone by NULL and the capacity 0.
///
/// # Safety
///
/// Until the [`Buffer`] is used, `capacity` elements can be written at `data` if that is not NULL,
/// and a `usize` at `count`.
pub(crate) unsafe fn buffer<T>(
    data: *mut T,
    capacity: usize,
    count: *mut usize,
    name: &str,
) -> Result<Buffer<T>, Fault> {
    // SAFETY: the caller promises the same.
    let count = unsafe { out(count, "count")? };
    if data.is_null() && capacity > 0 {
        return Err(Fault::null(name));
    }
    if !data.is_aligned() {
        return Err(Fault::invalid(format_args!("{name} is not aligned for its elements")));
    }
    Ok(Buffer { data, capacity, count })
}

impl<T: Copy> Buffer<T> {
    /// Whether the caller asks for the size alone.
    pub(crate) fn is_query(&self) -> bool {
        self.data.is_null()
    }

    /// The elements that it has room for.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Answers the question for the size.
    pub(crate) fn answer(self, count: usize) {
        self.count.set(count);
    }

    /// Writes the number of the items, and the items if there is a buffer.
    ///
    /// # Errors
    ///
    /// The buffer is too small; then it is unchanged.
    pub(crate) fn fill(self, items: &[T]) -> Result<(), Fault> {
        self.count.set(items.len());
        if self.data.is_null() {
            return Ok(());
        }
        if items.len() > self.capacity {
            return Err(Fault::new(
                pelton_status::PELTON_BUFFER,
                format_args!("the buffer has {} elements, expected {}", self.capacity, items.len()),
            ));
        }
        // SAFETY: the items fit; `buffer` has checked the place, and its caller promises that it is
        // writable. The items are the library's, so they do not overlap the caller's memory.
        unsafe { ptr::copy_nonoverlapping(items.as_ptr(), self.data, items.len()) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Old {
        size: u32,
        a: u32,
    }

    #[repr(C)]
    struct New {
        size: u32,
        a: u32,
        b: u64,
    }

    #[test]
    fn texts_are_checked() {
        let word = "größe";
        // SAFETY: the texts live as long as the calls.
        unsafe {
            let data = word.as_ptr().cast::<c_char>();
            assert_eq!(text(data, word.len(), "word").unwrap(), word);
            assert_eq!(text(ptr::null(), 0, "word").unwrap(), "");
            let cut = text(data, 3, "word").unwrap_err();
            assert_eq!(cut.text, "word is not UTF-8 at byte 2, expected UTF-8");
            let null = text(ptr::null(), 1, "word").unwrap_err();
            assert_eq!(null.status, pelton_status::PELTON_NULL);
            let ids = [1_u32, 2, 3];
            let odd = array(ids.as_ptr().wrapping_byte_add(1), 2, "ids").unwrap_err();
            assert_eq!(odd.status, pelton_status::PELTON_INVALID);
            let long = array(ids.as_ptr(), usize::MAX / 2, "ids").unwrap_err();
            assert_eq!(long.status, pelton_status::PELTON_INVALID);
        }
    }

    #[test]
    fn a_buffer_is_filled_as_a_whole_or_not() {
        let (mut ids, mut count) = ([0_u32; 3], 99);
        // SAFETY: the places live as long as the calls.
        unsafe {
            buffer(ptr::null_mut(), 0, &raw mut count, "ids").unwrap().fill(&[1_u32, 2]).unwrap();
            assert_eq!(count, 2);
            let place = ids.as_mut_ptr();
            let small = buffer(place, 1, &raw mut count, "ids").unwrap().fill(&[1, 2, 3]);
            assert_eq!(small.unwrap_err().status, pelton_status::PELTON_BUFFER);
            assert_eq!((count, place.read()), (3, 0));
            buffer(place, 3, &raw mut count, "ids").unwrap().fill(&[1, 2]).unwrap();
        }
        assert_eq!((count, ids), (2, [1, 2, 0]));
    }

    #[test]
    fn an_old_struct_gets_the_fields_that_it_has() {
        let mut old = [Old { size: 8, a: 0 }, Old { size: 5, a: 6 }];
        // SAFETY: the size of the first struct says where it ends.
        unsafe {
            let place = sized_out(old.as_mut_ptr().cast::<u64>().cast::<New>(), 8, "new");
            // the second struct follows at once, and is aligned by 4 alone
            if let Ok(place) = place {
                place.set(New { size: 0, a: 3, b: u64::MAX });
                assert_eq!(old, [Old { size: 8, a: 3 }, Old { size: 5, a: 6 }]);
            }
            let mut small = New { size: 4, a: 0, b: 0 };
            assert!(sized_out(&raw mut small, 8, "new").is_err());
            let mut long = [0_u64; 4];
            let place = long.as_mut_ptr().cast::<New>();
            (&raw mut (*place).size).write(32);
            sized_out(place, 8, "new").unwrap().set(New { size: 0, a: 7, b: 9 });
            assert_eq!(((*place).size, (*place).a, (*place).b, long[2]), (32, 7, 9, 0));
        }
    }
}
