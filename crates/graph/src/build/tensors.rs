//! The tensors that a plan reads.

use std::collections::HashSet;

use pelton_quant::DType;
use pelton_weights::{Checkpoint, Source};

use crate::{Error, Linear, Norm, NormKind, Part, Weight, WeightId, WeightKind};

/// The weights of a plan, and the names of the tensors of its checkpoint that it uses.
pub(super) struct Tensors<'a> {
    checkpoint: &'a Checkpoint,
    used: HashSet<String>,
    pub(super) weights: Vec<Weight>,
}

impl<'a> Tensors<'a> {
    pub(super) fn new(checkpoint: &'a Checkpoint) -> Self {
        Self { checkpoint, used: HashSet::new(), weights: Vec::new() }
    }

    pub(super) fn source(&self) -> Source {
        self.checkpoint.source()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.checkpoint.tensor(name).is_some()
    }

    /// The length of a tensor's dimension, the innermost first; 0 without the tensor or dimension.
    pub(super) fn dim(&self, name: &str, dimension: usize) -> usize {
        let tensor = self.checkpoint.tensor(name);
        tensor.and_then(|tensor| tensor.shape.get(dimension).copied()).unwrap_or(0)
    }

    /// The elements of a small tensor, whose shape is in GGUF's order.
    pub(super) fn decode(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Error> {
        let tensor = self.checkpoint.require(name, shape)?;
        self.used.insert(name.to_owned());
        Ok(tensor.decode())
    }

    /// The finite number of a tensor `[1]`.
    pub(super) fn factor(&mut self, name: &str) -> Result<f32, Error> {
        match self.decode(name, &[1])?.as_slice() {
            [factor] if factor.is_finite() => Ok(*factor),
            found => {
                let found = found.first().map_or("none".to_owned(), f32::to_string);
                Err(self.value_fault(name, found, "a finite number"))
            }
        }
    }

    /// The error of a tensor's value.
    pub(super) fn value_fault(&self, name: &str, found: String, expected: &'static str) -> Error {
        let (file, tensor) = (self.checkpoint.name().to_owned(), name.to_owned());
        Error::TensorValue { file, tensor, found, expected }
    }

    /// Marks a tensor as known, although the plan does not read it.
    pub(super) fn ignore(&mut self, name: &str) {
        self.used.insert(name.to_owned());
    }

    pub(super) fn vector(&mut self, name: &str, len: usize) -> Result<WeightId, Error> {
        self.weight(name, WeightKind::Vector, 1, len, None)
    }

    /// The vector, if the file has it.
    pub(super) fn optional_vector(
        &mut self,
        name: &str,
        len: usize,
    ) -> Result<Option<WeightId>, Error> {
        self.has(name).then(|| self.vector(name, len)).transpose()
    }

    /// Vectors `[heads, dim]`, one for each head.
    pub(super) fn head_vectors(
        &mut self,
        name: &str,
        heads: usize,
        dim: usize,
    ) -> Result<WeightId, Error> {
        self.weight(name, WeightKind::Vector, heads, heads * dim, None)
    }

    pub(super) fn matrix(
        &mut self,
        name: &str,
        rows: usize,
        row_len: usize,
    ) -> Result<WeightId, Error> {
        self.weight(name, WeightKind::Matrix, rows, row_len, None)
    }

    /// Matrices `[count, rows, row_len]`, or the rows `part` of each.
    pub(super) fn matrices(
        &mut self,
        name: &str,
        [count, rows, row_len]: [usize; 3],
        part: Option<Part>,
    ) -> Result<WeightId, Error> {
        self.weight(name, WeightKind::Matrices { count }, rows, row_len, part)
    }

    /// The linear of the matrix `name.weight` `[rows, row_len]` and, if the file has it, of
    /// `name.bias`.
    pub(super) fn linear(
        &mut self,
        name: &str,
        rows: usize,
        row_len: usize,
    ) -> Result<Linear, Error> {
        let weight = self.matrix(&format!("{name}.weight"), rows, row_len)?;
        let bias = self.optional_vector(&format!("{name}.bias"), rows)?;
        Ok(Linear { weight, bias })
    }

    /// The linear of some rows of the matrix `name.weight` `[part.of, row_len]` and, if the file
    /// has it, of the same elements of `name.bias`.
    pub(super) fn linear_part(
        &mut self,
        name: &str,
        part: Part,
        rows: usize,
        row_len: usize,
    ) -> Result<Linear, Error> {
        let part = Some(part);
        let matrix = format!("{name}.weight");
        let weight = self.weight(&matrix, WeightKind::Matrix, rows, row_len, part)?;
        let bias_name = format!("{name}.bias");
        let bias = match self.has(&bias_name) {
            true => Some(self.weight(&bias_name, WeightKind::Vector, 1, rows, part)?),
            false => None,
        };
        Ok(Linear { weight, bias })
    }

    /// The norm of the factors `name.weight` `[len]` and, if the file has them, of the summands
    /// `name.bias`.
    pub(super) fn norm(
        &mut self,
        kind: NormKind,
        name: &str,
        len: usize,
        eps: f32,
    ) -> Result<Norm, Error> {
        // Falcon-H1's files have no suffix
        let named = format!("{name}.weight");
        let named = if !self.has(&named) && self.has(name) { name } else { named.as_str() };
        let weight = Some(self.vector(named, len)?);
        let bias = self.optional_vector(&format!("{name}.bias"), len)?;
        Ok(Norm { kind, weight, bias, eps })
    }

    fn weight(
        &mut self,
        name: &str,
        kind: WeightKind,
        rows: usize,
        row_len: usize,
        part: Option<Part>,
    ) -> Result<WeightId, Error> {
        let (name_of, dtype) = (name.to_owned(), DType::F32);
        let mut weight = Weight { name: name_of, dtype, kind, rows, row_len, part, marked: false };
        weight.dtype = weight.tensor(self.checkpoint)?.dtype;
        self.used.insert(name.to_owned());
        self.weights.push(weight);
        Ok(WeightId(self.weights.len() - 1))
    }

    /// Refuses a file with tensors that were not used, but for `unused` ones and those of layers
    /// from `layers` on. Such layers predict further tokens (multi-token prediction).
    pub(super) fn refuse_unused(
        &self,
        architecture: &str,
        layers: usize,
        unused: &[&str],
    ) -> Result<(), Error> {
        let is_known = |name: &str| {
            let (layer, part) = match name.strip_prefix("blk.").and_then(|n| n.split_once('.')) {
                Some((layer, part)) => (layer.parse::<usize>().ok(), part),
                None => (None, name),
            };
            layer.is_some_and(|layer| layer >= layers)
                || self.used.contains(name)
                // scales of activations in NVFP4, which stay as they are here
                || name.ends_with(".input_scale")
                || unused.iter().any(|start| part.starts_with(start))
        };
        self.refuse_unknown(architecture, is_known)
    }

    /// Refuses a file with tensors of a layer that were not used.
    pub(super) fn refuse_unused_of(&self, architecture: &str, layer: usize) -> Result<(), Error> {
        let start = format!("blk.{layer}.");
        self.refuse_unknown(architecture, |name| {
            !name.starts_with(&start) || self.used.contains(name) || name.ends_with(".input_scale")
        })
    }

    fn refuse_unknown(
        &self,
        architecture: &str,
        is_known: impl Fn(&str) -> bool,
    ) -> Result<(), Error> {
        match self.checkpoint.tensors().find(|tensor| !is_known(tensor.name)) {
            None => Ok(()),
            Some(tensor) => Err(Error::UnusedTensor {
                file: self.checkpoint.name().to_owned(),
                tensor: tensor.name.to_owned(),
                architecture: architecture.to_owned(),
            }),
        }
    }
}
