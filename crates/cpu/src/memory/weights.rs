//! The plan's tensors: vectors decoded to f32, matrices as they lie in the file.

use std::sync::Arc;

use pelton_graph::{Error, Plan, WeightId, WeightKind};
use pelton_weights::{Checkpoint, Tensor};

/// The plan's tensors, each of the kind, shape and type that the plan says.
#[derive(Debug)]
pub(crate) struct Weights {
    checkpoint: Arc<Checkpoint>,
    all: Vec<Weight>,
}

#[derive(Debug)]
enum Weight {
    Vector(Vec<f32>),
    /// Its index among the tensors of the checkpoint.
    Matrix(usize),
}

impl Weights {
    /// Finds the tensors of a plan.
    ///
    /// # Errors
    /// If a tensor is missing, or of another shape or type than the plan says.
    pub(crate) fn new(plan: &Plan, checkpoint: Arc<Checkpoint>) -> Result<Self, Error> {
        let mut all = Vec::with_capacity(plan.weights.len());
        for weight in &plan.weights {
            let tensor = checkpoint.require(&weight.name, &weight.dims())?;
            let refused = |what| Error::Matrix { tensor: weight.name.clone(), what };
            all.push(match weight.kind {
                WeightKind::Vector => Weight::Vector(tensor.decode()),
                WeightKind::Matrix => {
                    if tensor.dtype != weight.dtype {
                        let (found, expected) = (tensor.dtype, weight.dtype);
                        return Err(refused(format!("is stored as {found}, expected {expected}")));
                    }
                    let index = checkpoint.tensor_index(&weight.name);
                    Weight::Matrix(index.ok_or_else(|| refused("has no index".to_owned()))?)
                }
            });
        }
        Ok(Self { checkpoint, all })
    }

    /// The elements of a norm or a bias.
    ///
    /// # Errors
    /// If the weight is a matrix.
    pub(crate) fn vector(&self, id: WeightId) -> Result<&[f32], Error> {
        match &self.all[id.0] {
            Weight::Vector(values) => Ok(values),
            Weight::Matrix(index) => Err(Error::Matrix {
                tensor: self.checkpoint.tensor_at(*index).name.to_owned(),
                what: "is a matrix, expected a vector".to_owned(),
            }),
        }
    }

    /// A matrix `[rows, row_len]` in its stored format.
    ///
    /// # Errors
    /// If the weight is a vector.
    pub(crate) fn matrix(&self, plan: &Plan, id: WeightId) -> Result<Tensor<'_>, Error> {
        match &self.all[id.0] {
            Weight::Matrix(index) => Ok(self.checkpoint.tensor_at(*index)),
            Weight::Vector(_) => Err(Error::Matrix {
                tensor: plan.weight(id).name.clone(),
                what: "is a vector, expected a matrix".to_owned(),
            }),
        }
    }

    /// Decodes one row of a matrix into `y` `[row_len]`.
    ///
    /// # Errors
    /// If the weight is a vector.
    pub(crate) fn decode_row(
        &self,
        plan: &Plan,
        id: WeightId,
        row: usize,
        y: &mut [f32],
    ) -> Result<(), Error> {
        let tensor = self.matrix(plan, id)?;
        let bytes = tensor.dtype.bytes_of(y.len()).unwrap_or(0);
        let blocks = &tensor.bytes[row * bytes..(row + 1) * bytes];
        Ok(pelton_quant::decode(tensor.dtype, blocks, y)?)
    }
}
