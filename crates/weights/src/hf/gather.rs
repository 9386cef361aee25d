//! Reordered copies of tensors: strided views, as numpy has them.

use bytes::{Bytes, BytesMut};

/// A view of a tensor: dimensions of (length, stride), outermost first, from an offset; all in
/// elements. It covers transposes, slices, splits and permutations of reshaped tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    offset: usize,
    dims: Vec<(usize, usize)>,
}

impl View {
    /// The whole tensor in its order.
    pub(super) fn new(shape: &[usize]) -> Self {
        let mut stride = 1;
        let mut dims: Vec<_> = shape
            .iter()
            .rev()
            .map(|&len| {
                let dim = (len, stride);
                stride *= len;
                dim
            })
            .collect();
        dims.reverse();
        Self { offset: 0, dims }
    }

    /// Lengths of the dimensions.
    pub(super) fn shape(&self) -> Vec<usize> {
        self.dims.iter().map(|&(len, _)| len).collect()
    }

    /// Number of elements.
    pub(super) fn len(&self) -> usize {
        self.dims.iter().map(|&(len, _)| len).product()
    }

    /// Swaps two dimensions.
    pub(super) fn swapped(mut self, a: usize, b: usize) -> Self {
        self.dims.swap(a, b);
        self
    }

    /// The indexes `start..start + len` of a dimension.
    pub(super) fn narrow(mut self, dim: usize, start: usize, len: usize) -> Self {
        let (old, stride) = self.dims[dim];
        assert!(start + len <= old, "{start} + {len} is beyond {old}");
        self.offset += start * stride;
        self.dims[dim].0 = len;
        self
    }

    /// The view without its first dimension, of which it has the first index.
    pub(super) fn without_first(mut self) -> Self {
        self.dims.remove(0);
        self
    }

    /// Every `step`th index of a dimension from `start` on; `step` divides its length.
    pub(super) fn every(mut self, dim: usize, start: usize, step: usize) -> Self {
        let (old, stride) = self.dims[dim];
        assert!(start < step && old.is_multiple_of(step), "{start} in steps of {step} of {old}");
        self.offset += start * stride;
        self.dims[dim] = (old / step, stride * step);
        self
    }

    /// Splits a dimension into several, whose lengths have its length as their product.
    pub(super) fn split(mut self, dim: usize, lens: &[usize]) -> Self {
        let (old, mut stride) = self.dims.remove(dim);
        assert_eq!(lens.iter().product::<usize>(), old, "{lens:?}");
        for &len in lens.iter().rev() {
            self.dims.insert(dim, (len, stride));
            stride *= len;
        }
        self
    }

    /// Merges neighbouring dimensions that lie in order in memory.
    fn merged(&self) -> Vec<(usize, usize)> {
        let mut merged: Vec<(usize, usize)> = Vec::new();
        for &(len, stride) in self.dims.iter().filter(|(len, _)| *len != 1) {
            match merged.last_mut() {
                Some((outer, outer_stride)) if *outer_stride == len * stride => {
                    *outer *= len;
                    *outer_stride = stride;
                }
                _ => merged.push((len, stride)),
            }
        }
        merged
    }

    /// The view's elements of `size` bytes in the order of its dimensions. It is a slice of `bytes`
    /// where they lie in this order already, otherwise a copy.
    pub(super) fn take(&self, bytes: &Bytes, size: usize) -> Bytes {
        let dims = self.merged();
        if self.len() == 0 {
            return Bytes::new();
        }
        if let Some(range) = self.contiguous(&dims, size) {
            return bytes.slice(range);
        }
        let mut out = BytesMut::with_capacity(self.len() * size);
        copy(&dims, self.offset * size, bytes, size, &mut out);
        out.freeze()
    }

    fn contiguous(&self, dims: &[(usize, usize)], size: usize) -> Option<std::ops::Range<usize>> {
        let in_order = matches!(dims, [] | [(_, 1)]);
        let start = self.offset * size;
        in_order.then(|| start..start + self.len() * size)
    }
}

/// Appends the elements of a strided view that begins at the byte `start`.
fn copy(dims: &[(usize, usize)], start: usize, bytes: &[u8], size: usize, out: &mut BytesMut) {
    match dims {
        [] => out.extend_from_slice(&bytes[start..start + size]),
        [(len, 1)] => out.extend_from_slice(&bytes[start..start + len * size]),
        [(len, stride), inner @ ..] => {
            for index in 0..*len {
                copy(inner, start + index * stride * size, bytes, size, out);
            }
        }
    }
}

/// The elements of several views, one after another.
pub(super) fn joined(views: &[View], bytes: &Bytes, size: usize) -> Bytes {
    if let [view] = views {
        return view.take(bytes, size);
    }
    let mut out = BytesMut::with_capacity(views.iter().map(View::len).sum::<usize>() * size);
    for view in views {
        out.extend_from_slice(&view.take(bytes, size));
    }
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(view: &View) -> Vec<u8> {
        let bytes = Bytes::from((0..24).collect::<Vec<u8>>());
        view.take(&bytes, 1).to_vec()
    }

    /// Expected values are those of numpy's `arange(24).reshape(2, 3, 4)`.
    #[test]
    fn views_are_those_of_numpy() {
        let view = View::new(&[2, 3, 4]);
        assert_eq!(taken(&view), (0..24).collect::<Vec<u8>>());
        // a[:, 1:, :]
        assert_eq!(
            taken(&view.clone().narrow(1, 1, 2)),
            [4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23]
        );
        // a.transpose(0, 2, 1)[1]
        assert_eq!(
            taken(&view.clone().swapped(1, 2).narrow(0, 1, 1)),
            [12, 16, 20, 13, 17, 21, 14, 18, 22, 15, 19, 23]
        );
        // a[:, :, 1::2]
        assert_eq!(
            taken(&view.clone().every(2, 1, 2)),
            [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23]
        );
        // a[1] lies in order, so it is a slice.
        let bytes = Bytes::from((0..48).collect::<Vec<u8>>());
        let slice = view.narrow(0, 1, 1).take(&bytes, 2);
        assert_eq!(slice.as_ptr(), bytes[24..].as_ptr());
        assert_eq!(slice.len(), 24);
    }
}
