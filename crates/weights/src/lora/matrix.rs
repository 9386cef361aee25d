//! The addition to one matrix.

use crate::Checkpoint;
use crate::hf::lora as peft;
use crate::interleaved::HeadOrder;

/// The addition to one matrix.
#[derive(Clone, Debug)]
pub struct LoraMatrix {
    /// The matrix's name in the model's checkpoint.
    pub tensor: String,
    /// Rows of `a`.
    pub rank: usize,
    /// The factor of `b`: `alpha / rank`, or with rsLoRA `alpha / √rank`.
    pub scale: f64,
    /// `[rank, inputs]`.
    pub(super) a: Vec<f32>,
    /// `[outputs, rank]`.
    pub(super) b: Vec<f32>,
}

impl LoraMatrix {
    pub(super) fn of_peft(pair: peft::Pair) -> Result<Self, String> {
        let peft::Pair { tensor, a, b, scale } = pair;
        let ([rank, inputs], [outputs, same]) = (dims(&a.shape), dims(&b.shape));
        Self::new(tensor, [rank, inputs], [outputs, same], a.values, b.values, scale)
    }

    pub(super) fn new(
        tensor: String,
        [rank, inputs]: [usize; 2],
        [outputs, same]: [usize; 2],
        a: Vec<f32>,
        b: Vec<f32>,
        scale: f64,
    ) -> Result<Self, String> {
        let has = |values: &[f32], shape: [usize; 2]| {
            shape[0].checked_mul(shape[1]).is_some_and(|n| n > 0 && n == values.len())
        };
        if rank != same || !has(&a, [rank, inputs]) || !has(&b, [outputs, rank]) {
            return Err(format!(
                "has factors [{rank}, {inputs}] and [{outputs}, {same}] of {tensor:?}, expected \
                 equal ranks"
            ));
        }
        // the scale is applied in f32
        let scaled = b.iter().all(|&value| ((f64::from(value) * scale) as f32).is_finite());
        if !scaled || a.iter().any(|value| !value.is_finite()) || !scale.is_finite() {
            return Err(format!("has values for {tensor:?} that are not finite"));
        }
        Ok(Self { tensor, rank, scale, a, b })
    }

    /// Inputs and outputs of the matrix.
    pub(super) fn sizes(&self) -> [usize; 2] {
        [self.a.len() / self.rank, self.b.len() / self.rank]
    }

    /// Compares the factors with their matrix.
    pub(super) fn check(&self, base: &Checkpoint) -> Result<(), String> {
        let found = self.sizes();
        match base.tensor(&self.tensor) {
            Some(_) if self.tensor == "token_embd.weight" => {
                Err("is for the token embedding, expected matrices of linear layers".to_owned())
            }
            Some(matrix) if matrix.shape == found => Ok(()),
            Some(matrix) => Err(format!(
                "has factors for {found:?} of {:?}, expected {:?} as in the model",
                self.tensor, matrix.shape
            )),
            None => Err(format!("is for {:?}, which the model does not have", self.tensor)),
        }
    }

    /// Gives the outputs of so many heads the order of GGUF files, or that of directories.
    pub(super) fn reorder(&mut self, heads: usize, to_gguf: bool) -> Result<(), String> {
        let [_, outputs] = self.sizes();
        let Some(order) = HeadOrder::new(outputs, heads) else {
            return Err(format!(
                "has {outputs} outputs of {:?}, expected a whole number of pairs in {heads} heads",
                self.tensor
            ));
        };
        let mut reordered = vec![0.0; self.b.len()];
        for row in 0..outputs {
            let source = order.source(row);
            let (from, to) = if to_gguf { (source, row) } else { (row, source) };
            let from = &self.b[from * self.rank..][..self.rank];
            reordered[to * self.rank..][..self.rank].copy_from_slice(from);
        }
        self.b = reordered;
        Ok(())
    }
}

fn dims(shape: &[usize]) -> [usize; 2] {
    match *shape {
        [outer, inner] => [outer, inner],
        _ => [0, 0],
    }
}
