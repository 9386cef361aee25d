//! The rows of a tensor that a weight is, and the weights that are decoded at load.

use std::{borrow::Cow, ops::Range};

use pelton_graph::{Error, Op, Plan, Weight, WeightKind};

/// The rows `[count · rows]` of a weight in the elements of its tensor: bytes, or decoded values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a, T> {
    elements: &'a [T],
    /// Elements of a row.
    row_len: usize,
    /// Rows of one matrix, and of its tensor; the first of them in the tensor.
    rows: usize,
    tensor_rows: usize,
    first: usize,
    /// Number of matrices.
    count: usize,
}

impl<'a, T: Copy> Source<'a, T> {
    /// The rows of a weight, of which `elements` is the whole tensor.
    pub(crate) fn new(weight: &Weight, elements: &'a [T]) -> Result<Self, Error> {
        // a row of a vector is one element, because its range counts elements
        let (rows, tensor_rows) = match weight.kind {
            WeightKind::Vector => (weight.row_len, weight.part.map_or(weight.row_len, |p| p.of)),
            WeightKind::Matrix | WeightKind::Matrices { .. } => (weight.rows, weight.tensor_rows()),
        };
        let row_len = elements.len() / (tensor_rows * weight.count()).max(1);
        let source = Self {
            elements,
            row_len,
            rows,
            tensor_rows,
            first: weight.first(),
            count: weight.count(),
        };
        match source.first + rows <= tensor_rows && row_len > 0 {
            true => Ok(source),
            false => Err(Error::Matrix {
                tensor: weight.name.clone(),
                what: format!(
                    "rows {} to {} of {tensor_rows}, expected rows within the tensor",
                    source.first,
                    source.first + rows
                ),
            }),
        }
    }

    /// All rows of the weight.
    pub(crate) fn all(&self) -> Result<Cow<'a, [T]>, Error> {
        self.rows(0..self.count * self.rows)
    }

    /// Consecutive rows of the weight; borrowed if they are consecutive in the tensor.
    pub(crate) fn rows(&self, rows: Range<usize>) -> Result<Cow<'a, [T]>, Error> {
        let missing = || Error::Kernel {
            kernel: "weights".into(),
            what: "rows after the end of a tensor".into(),
        };
        let at = |row: usize| row / self.rows * self.tensor_rows + self.first + row % self.rows;
        let slice = |from: usize, len: usize| {
            let begin = at(from) * self.row_len;
            self.elements.get(begin..begin + len * self.row_len).ok_or_else(missing)
        };
        if self.rows == self.tensor_rows || rows.end <= self.rows {
            return slice(rows.start, rows.len()).map(Cow::Borrowed);
        }
        let mut all = Vec::with_capacity(rows.len() * self.row_len);
        let mut row = rows.start;
        while row < rows.end {
            let end = rows.end.min((row / self.rows + 1) * self.rows);
            all.extend_from_slice(slice(row, end - row)?);
            row = end;
        }
        Ok(Cow::Owned(all))
    }
}

/// Whether each weight `[weights]` is decoded to f32 at load: vectors, and small tensors of several
/// rows that no product reads as a matrix.
pub(crate) fn decoded(plan: &Plan) -> Vec<bool> {
    let mut all: Vec<bool> = plan.weights.iter().map(|w| w.kind == WeightKind::Vector).collect();
    for step in &plan.steps {
        let ids = match &step.op {
            Op::ExpertLinear(linear) => vec![linear.bias],
            Op::ExpertGlu { gate, up, gating: _ } => vec![gate.bias, up.bias],
            Op::ShortConv(conv) => vec![Some(conv.weight)],
            _ => Vec::new(),
        };
        ids.into_iter().flatten().for_each(|id| all[id.0] = true);
    }
    all
}

#[cfg(test)]
mod tests {
    use pelton_graph::Part;
    use pelton_quant::DType;

    use super::*;

    fn weight(kind: WeightKind, rows: usize, row_len: usize, part: Option<Part>) -> Weight {
        Weight { name: "w".into(), dtype: DType::F32, kind, rows, row_len, part, marked: false }
    }

    #[test]
    fn rows_of_a_fused_tensor() {
        let tensor: Vec<u32> = (0..60).collect();
        let part = Some(Part { first: 3, of: 10 });
        let matrix = weight(WeightKind::Matrix, 4, 6, part);
        let source = Source::new(&matrix, &tensor).unwrap();
        assert_eq!(*source.all().unwrap(), tensor[18..42]);
        assert_eq!(*source.rows(1..3).unwrap(), tensor[24..36]);
        let vector = weight(WeightKind::Vector, 1, 4, part);
        assert_eq!(*Source::new(&vector, &tensor[..10]).unwrap().all().unwrap(), [3, 4, 5, 6]);
    }

    /// The same rows of each of three matrices, which do not lie side by side.
    #[test]
    fn rows_of_fused_matrices() {
        let tensor: Vec<u32> = (0..3 * 5 * 2).collect();
        let part = Some(Part { first: 1, of: 5 });
        let matrices = weight(WeightKind::Matrices { count: 3 }, 2, 2, part);
        let source = Source::new(&matrices, &tensor).unwrap();
        assert_eq!(*source.all().unwrap(), [2, 3, 4, 5, 12, 13, 14, 15, 22, 23, 24, 25]);
        assert_eq!(*source.rows(1..4).unwrap(), [4, 5, 12, 13, 14, 15]);
        assert_eq!(*source.rows(5..6).unwrap(), [24, 25]);
        let whole = weight(WeightKind::Matrices { count: 3 }, 5, 2, None);
        assert_eq!(*Source::new(&whole, &tensor).unwrap().rows(4..11).unwrap(), tensor[8..22]);
    }

    #[test]
    fn rows_after_the_end_are_refused() {
        let tensor = [0u32; 20];
        let matrix = weight(WeightKind::Matrix, 4, 2, Some(Part { first: 7, of: 10 }));
        assert!(Source::new(&matrix, &tensor).is_err());
        let matrix = weight(WeightKind::Matrix, 10, 2, None);
        assert!(Source::new(&matrix, &tensor).unwrap().rows(9..11).is_err());
    }
}
