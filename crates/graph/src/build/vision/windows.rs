//! Windows of attention: tiles of squares of patches, whose rows lie side by side in a pass
//! (Qwen2.5-VL).

/// The order of the squares of a picture by windows.
pub(super) struct Windows {
    /// Indices of squares.
    order: Vec<usize>,
    /// The ends of windows in that order.
    ends: Vec<usize>,
}

impl Windows {
    /// Tiles of `side · side` squares from the top left on, in the order of rows; those at the
    /// right and the bottom may be smaller.
    pub(super) fn new([rows, columns]: [usize; 2], side: usize) -> Self {
        let (mut order, mut ends) = (Vec::with_capacity(rows * columns), Vec::new());
        for top in (0..rows).step_by(side) {
            for left in (0..columns).step_by(side) {
                for y in top..rows.min(top + side) {
                    order.extend((left..columns.min(left + side)).map(|x| y * columns + x));
                }
                ends.push(order.len());
            }
        }
        Self { order, ends }
    }

    /// The squares of each window.
    pub(super) fn groups(&self) -> impl Iterator<Item = Vec<usize>> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| self.order[*start..*end].to_vec())
    }

    /// The place of each square in the order of windows.
    pub(super) fn places(&self) -> Vec<u32> {
        let mut places = vec![0; self.order.len()];
        for (place, of) in (0..).zip(&self.order) {
            places[*of] = place;
        }
        places
    }

    /// Appends values `[squares, len]` in the order of windows.
    pub(super) fn sort(&self, values: &[f32], len: usize, out: &mut Vec<f32>) {
        for of in &self.order {
            out.extend_from_slice(&values[of * len..][..len]);
        }
    }

    /// Values `[squares, len]` in the order of rows again.
    pub(super) fn restored(&self, values: &[f32], len: usize) -> Vec<f32> {
        let mut out = vec![0.0; values.len()];
        for (values, of) in values.chunks_exact(len).zip(&self.order) {
            out[of * len..][..len].copy_from_slice(values);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_tiles_in_the_order_of_rows() {
        let windows = Windows::new([3, 5], 2);
        let groups: Vec<_> = windows.groups().collect();
        let expected: [&[usize]; 6] =
            [&[0, 1, 5, 6], &[2, 3, 7, 8], &[4, 9], &[10, 11], &[12, 13], &[14]];
        assert_eq!(groups, expected);
        let values: Vec<f32> = (0..15).map(|i| i as f32).collect();
        let mut sorted = Vec::new();
        windows.sort(&values, 1, &mut sorted);
        assert_eq!(sorted[..6], [0.0, 1.0, 5.0, 6.0, 2.0, 3.0]);
        assert_eq!(windows.restored(&sorted, 1), values);
        let places = windows.places();
        let restored: Vec<f32> = places.iter().map(|place| sorted[*place as usize]).collect();
        assert_eq!(restored, values);
    }
}
