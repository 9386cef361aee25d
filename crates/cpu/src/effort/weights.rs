//! The weights of a matrix in the order that rows below 1 read.

use pelton_graph::{EffortCurve, EffortForm, Error, Plan, Weight, WeightId};
use pelton_weights::{BucketPart, Checkpoint, bucket_tensor};

use crate::gemm::buckets::{BucketParts, Buckets};
use crate::gemm::input_major::InputMajor;
use crate::pool::Pool;

/// The weights of one or several matrices.
#[derive(Debug)]
pub(crate) enum EffortWeights {
    /// In input-major order, and the thresholds of live inputs.
    Lines(Box<(InputMajor, EffortCurve)>),
    /// Sorted buckets of each matrix.
    Buckets(Vec<Buckets>),
}

/// Bytes of all weights of a plan in such an order.
///
/// # Errors
/// [`Error::Effort`] if the shape of one has none.
pub(crate) fn effort_bytes(plan: &Plan) -> Result<u128, Error> {
    let bytes = |weight: &Weight| {
        let (rows, cols) = (weight.rows, weight.row_len);
        let each = match weight.form()? {
            EffortForm::Nested => InputMajor::bytes_of(rows, cols),
            EffortForm::Bucket => Buckets::bytes_of((rows, cols), plan.marks.ranks),
        };
        Some(each.map(|each| each as u128 * weight.count() as u128).ok_or_else(|| {
            let name = &weight.name;
            Error::Effort(format!("tensor '{name}' is {rows} x {cols}, expected whole buckets"))
        }))
    };
    plan.weights.iter().filter_map(bytes).sum()
}

impl EffortWeights {
    /// The weights of a marked weight, whose matrices `rows` gives, or the sorted ones of a file.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is not enough memory, [`Error::Effort`] if the parts of
    /// the file are not sound.
    pub(crate) fn new<'a>(
        plan: &Plan,
        id: WeightId,
        rows: &dyn Fn(usize) -> &'a [u8],
        checkpoint: &Checkpoint,
        pool: &Pool,
    ) -> Result<Self, Error> {
        let (weight, ranks) = (plan.weight(id), plan.marks.ranks);
        let shape = (weight.rows, weight.row_len);
        let memory = || {
            let what = "weights for efforts below 1";
            Error::Memory { what, needed: effort_bytes(plan).unwrap_or(0), available: None }
        };
        if weight.form() == Some(EffortForm::Nested) {
            let lines = InputMajor::new(shape.0, shape.1, rows(0), pool).ok_or_else(memory)?;
            return Ok(Self::Lines(Box::new((lines, plan.effort_curve(id)))));
        }
        let sorted = |index| match bucket_parts(checkpoint, weight, index) {
            Some(parts) => Buckets::from_parts(shape, &parts, ranks, pool).map_err(|what| {
                Error::Effort(format!("the file of buckets of '{}' {what}", weight.name))
            }),
            None => Buckets::new(weight.dtype, shape, rows(index), ranks, pool).ok_or_else(memory),
        };
        Ok(Self::Buckets((0..weight.count()).map(sorted).collect::<Result<_, _>>()?))
    }
}

/// The parts of matrix `index` of a weight that a file of sorted ones has, empty where they are of
/// another number of matrices; `None` without such a file.
fn bucket_parts<'a>(
    checkpoint: &'a Checkpoint,
    weight: &Weight,
    index: usize,
) -> Option<BucketParts<'a>> {
    let of = |part| checkpoint.tensor(&bucket_tensor(&weight.name, weight.first(), part));
    let part = |part| {
        let bytes = of(part).map(|tensor| tensor.bytes).unwrap_or_default();
        let len = bytes.len() / weight.count();
        match bytes.len().is_multiple_of(weight.count()) {
            true => &bytes[index * len..(index + 1) * len],
            false => &[],
        }
    };
    of(BucketPart::Codes)?;
    Some(BucketParts {
        codes: part(BucketPart::Codes),
        means: part(BucketPart::Means),
        probes: part(BucketPart::Probes),
        unit: part(BucketPart::Unit),
    })
}
