//! Embeddings of tokens and positions.

use pelton_weights::MAX_SIZE;

use super::builder::Builder;
use crate::{
    Activation, BufferId, Error, Gating, Injected, NormKind, Op, PictureRows, TableRow,
    arch::{Embed, Multipliers},
};

impl Builder<'_> {
    pub(super) fn embed(&mut self, pictures: Option<PictureRows>) -> Result<(), Error> {
        let (vocab, hidden) = (self.sizes.vocab, self.sizes.hidden);
        self.table = self.tensors.matrix("token_embd.weight", vocab, hidden)?;
        let x = self.stream();
        self.step(Op::Embed { table: self.table }, &[], &[x]);
        if let Some(factor) = self.embedding_scale()? {
            self.in_place(Op::Scale(factor), x);
        }
        if self.arch.embed == Embed::Normed {
            let norm = self.bare_norm();
            self.in_place(Op::HeadNorm { norm, heads: 1 }, x);
        }
        self.plan.injected =
            pictures.map(|PictureRows { slices, token }| Injected { slices, token });
        self.inject(0);
        if self.tensors.has("token_types.weight") {
            // ids of all types have to be sizes
            let most = (MAX_SIZE / vocab).max(1);
            let rows = self.tensors.dim("token_types.weight", 1).clamp(1, most);
            let table = self.tensors.matrix("token_types.weight", rows, hidden)?;
            self.plan.token_types = rows;
            let row = if rows > 1 { TableRow::TokenType } else { TableRow::Fixed(0) };
            self.in_place(Op::AddTable { table, row }, x);
        }
        if self.tensors.has("position_embd.weight") {
            let table = self.tensors.matrix("position_embd.weight", self.sizes.context, hidden)?;
            self.in_place(Op::AddTable { table, row: TableRow::Position }, x);
        }
        let norm = "token_embd_norm";
        if self.arch.output_norm != norm && self.tensors.has(&format!("{norm}.weight")) {
            let norm = self.norm(norm, hidden)?;
            self.in_place(Op::HeadNorm { norm, heads: 1 }, x);
        }
        if self.arch.gemma_extras {
            self.per_layer_inputs(x)?;
        }
        Ok(())
    }

    /// Slice `slice` of the embeddings of pictures, if they have it.
    pub(super) fn inject(&mut self, slice: usize) {
        if self.plan.injected.is_some_and(|of| slice < of.slices) {
            let x = self.stream();
            self.in_place(Op::Inject { slice, adds: slice > 0 }, x);
        }
    }

    pub(super) fn embedding_scale(&self) -> Result<Option<f32>, Error> {
        let factor = match (self.arch.multipliers, self.arch.embed) {
            (Multipliers::None, Embed::One | Embed::Normed) => return Ok(None),
            (Multipliers::None, Embed::SqrtHidden) => (self.sizes.hidden as f64).sqrt() as f32,
            (Multipliers::Keys, _) => self.keys.opt_nonnegative("embedding_scale")?.unwrap_or(1.0),
            (Multipliers::MiniCpm, _) => {
                self.keys.opt_nonnegative("embedding_scale")?.unwrap_or(12.0)
            }
        };
        Ok((factor != 1.0).then_some(factor))
    }

    /// Width of a layer's own embedding; 0 for none.
    fn per_layer_width(&self) -> Result<usize, Error> {
        let limit = MAX_SIZE / self.sizes.layers;
        Ok(self.keys.opt_nonzero("embedding_length_per_layer_input", limit)?.unwrap_or(0))
    }

    /// The inputs `[layers, width]` that layers have next to the residual stream: the mean of an
    /// embedding and of a projection of `x`, times √2 (Gemma 3n).
    fn per_layer_inputs(&mut self, x: BufferId) -> Result<(), Error> {
        let width = self.per_layer_width()?;
        if width == 0 {
            return Ok(());
        }
        let all = width * self.sizes.layers;
        let per_root = |n: usize| (1.0 / (n as f64).sqrt()) as f32;
        let table = self.tensors.matrix("per_layer_token_embd.weight", self.sizes.vocab, all)?;
        let inputs = self.buffer("inputs", all);
        self.step(Op::Embed { table }, &[], &[inputs]);
        self.in_place(Op::Scale((width as f64).sqrt() as f32), inputs);
        let projected = self.linear("per_layer_model_proj", x, "projected", all)?;
        self.in_place(Op::Scale(per_root(self.sizes.hidden)), projected);
        let (name, eps) = ("per_layer_proj_norm", self.sizes.eps);
        let norm = self.tensors.norm(NormKind::Rms, name, width, eps)?;
        self.in_place(Op::HeadNorm { norm, heads: self.sizes.layers }, projected);
        self.add(inputs, projected);
        self.in_place(Op::Scale(per_root(2)), inputs);
        Ok(())
    }

    /// Adds to the residual stream what a layer makes of its own input.
    pub(super) fn per_layer_input(&mut self, layer: usize) -> Result<(), Error> {
        let width = self.per_layer_width()?;
        if width == 0 {
            return Ok(());
        }
        let inputs = self.buffer("inputs", width * self.sizes.layers);
        let input = self.buffer("input", width);
        let x = self.stream();
        self.copy([inputs, input], [1, width], [layer * width, width], [0, width]);
        let gate = self.linear("inp_gate", x, "input_gate", width)?;
        self.step(Op::Glu(Gating::Product(Activation::GeluTanh)), &[gate, input], &[input]);
        let o = self.linear("proj", input, "o", self.sizes.hidden)?;
        let o = self.normed("post_norm", o, "o_n")?;
        self.add(x, o);
        Ok(())
    }
}
