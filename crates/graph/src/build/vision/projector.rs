//! The steps of a projector: from folded or pooled states to embeddings of the text model.

use super::super::builder::bare_norm;
use super::super::tensors::Tensors;
use super::family::{Family, Join, Layer};
use super::sizes::Sizes;
use super::steps::Steps;
use crate::{Activation, BufferId, Error, NormKind, Op, Plan};

/// The plan of a projector.
pub(super) fn build(of: &Family, sizes: &Sizes, tensors: &mut Tensors<'_>) -> Result<Plan, Error> {
    let square = sizes.merge * sizes.merge;
    let folded = sizes.hidden.saturating_mul(square);
    let width = match of.join {
        Join::Fold | Join::FoldElements => folded,
        Join::Mean | Join::StandardMean => sizes.hidden,
    };
    let mut steps = Steps::new(of.name, sizes, tensors);
    steps.plan.context = (sizes.rows / square).max(1);
    let entry = steps.entry("squares", width);
    let deep: Vec<_> =
        sizes.deepstack.iter().map(|layer| (*layer, steps.entry("deep", folded))).collect();
    let mut exit = vec![steps.project(of.projector, entry, sizes.width)?];
    for (layer, entry) in deep {
        exit.push(steps.project_deep(layer, entry, sizes.width)?);
    }
    Ok(steps.finish(exit))
}

impl Steps<'_, '_> {
    /// The layers of a projector, of which the last linear has `width` outputs. A linear that the
    /// file does not have is none.
    fn project(
        &mut self,
        layers: &[Layer],
        entry: BufferId,
        width: usize,
    ) -> Result<BufferId, Error> {
        let last = layers.iter().rposition(|layer| matches!(layer, Layer::Linear(_)));
        let mut x = entry;
        for (i, layer) in layers.iter().enumerate() {
            match *layer {
                Layer::Norm(kind, name, eps) => {
                    let own = self.eps;
                    self.eps = eps.unwrap_or(own);
                    x = self.norm(kind, name, x, "normed")?;
                    self.eps = own;
                }
                Layer::BareNorm => {
                    let normed = self.buffer("normed", self.width(x));
                    let norm = bare_norm(self.eps);
                    self.step(Op::Norm(norm), &[x], &[normed]);
                    x = normed;
                }
                Layer::Linear(name) if Some(i) == last => {
                    let y = self.new_buffer("embeddings", width);
                    self.linear_to(name, x, y)?;
                    x = y;
                }
                // Pixtral merges no patches, Mistral 3 does
                Layer::Linear("mm.patch_merger") if !self.tensors.has("mm.patch_merger.weight") => {
                }
                Layer::Linear(name) => {
                    let rows = self.tensors.dim(&format!("{name}.weight"), 1).max(1);
                    let y = self.new_buffer("inner", rows);
                    self.linear_to(name, x, y)?;
                    x = y;
                }
                Layer::Activate(activation) => self.in_place(Op::Activate(activation), x),
            }
        }
        Ok(x)
    }

    /// The further embeddings of the states after a layer of the tower: a norm of the whole square,
    /// and a network.
    fn project_deep(
        &mut self,
        layer: usize,
        entry: BufferId,
        width: usize,
    ) -> Result<BufferId, Error> {
        let name = |part: &str| format!("v.deepstack.{layer}.{part}");
        let n = self.norm(NormKind::Layer, &name("norm"), entry, "normed")?;
        let rows = self.tensors.dim(&name("fc1.weight"), 1).max(1);
        let inner = self.new_buffer("inner", rows);
        self.linear_to(&name("fc1"), n, inner)?;
        self.in_place(Op::Activate(Activation::GeluErf), inner);
        let y = self.new_buffer("embeddings", width);
        self.linear_to(&name("fc2"), inner, y)?;
        Ok(y)
    }
}
