//! The head that predicts the token after the next one (multi-token prediction; DeepSeek-V3, arXiv
//! 2412.19437, section 2.2).

use super::builder::Builder;
use super::shapes::LayerShape;
use crate::{Error, Linear, Op};

/// The model's embedding table.
const TABLE: &str = "token_embd.weight";

impl Builder<'_> {
    /// The steps of the head in layer `index`:
    /// `x = eh_proj · [enorm(embedding); hnorm(hidden)]`, the layer, its last norm, and the
    /// logits. Tables that the head does not have are the model's.
    ///
    /// The order of the halves of `eh_proj` is that of published files. The hidden state of the
    /// model, and of the head itself, is the one after the last norm. Both are as in llama.cpp's
    /// graphs.
    pub(super) fn next_token_head(
        &mut self,
        index: usize,
        shape: &LayerShape,
    ) -> Result<(), Error> {
        let (vocab, width) = (self.sizes.vocab, self.sizes.hidden);
        let h = self.buffer("hidden", width);
        (self.plan.entry, self.plan.exit) = (vec![h], vec![h]);
        self.layer = Some(index);
        let own_table = self.name("nextn.embed_tokens.weight");
        let table = match self.tensors.has(&own_table) {
            true => own_table,
            false => TABLE.to_owned(),
        };
        self.table = self.tensors.matrix(&table, vocab, width)?;
        let e = self.buffer("e", width);
        self.step(Op::Embed { table: self.table }, &[], &[e]);
        if let Some(factor) = self.embedding_scale()? {
            self.in_place(Op::Scale(factor), e);
        }
        let halves = [self.normed("nextn.enorm", e, "e_n")?, self.normed("nextn.hnorm", h, "h_n")?];
        let both = self.buffer("e_h", 2 * width);
        for (half, offset) in halves.into_iter().zip([0, width]) {
            self.copy([half, both], [1, width], [0, width], [offset, width]);
        }
        self.linear("nextn.eh_proj", both, "x", width)?;
        self.layer(index, shape)?;
        self.next_token_logits(index)
    }

    fn next_token_logits(&mut self, index: usize) -> Result<(), Error> {
        let (vocab, width) = (self.sizes.vocab, self.sizes.hidden);
        let x = self.stream();
        let own = |part: &str| format!("blk.{index}.nextn.{part}");
        let own_norm = own("shared_head_norm");
        let norm = match self.tensors.has(&format!("{own_norm}.weight")) {
            true => own_norm,
            false => "output_norm".to_owned(),
        };
        // a repeat goes on from it
        let h = self.normed(&norm, x, "hidden")?;
        let last = self.selected("last", width);
        self.step(Op::Select, &[h], &[last]);
        let own_output = own("shared_head_head");
        let tied = self.plan.shape.tied;
        let (name, linear) = if self.tensors.has(&format!("{own_output}.weight")) {
            let linear = self.tensors.linear(&own_output, vocab, width)?;
            (own_output, linear)
        } else if !tied {
            ("output".to_owned(), self.tensors.linear("output", vocab, width)?)
        } else {
            let is_own = self.tensors.weights[self.table.0].name != TABLE;
            let weight =
                if is_own { self.tensors.matrix(TABLE, vocab, width)? } else { self.table };
            ("output".to_owned(), Linear { weight, bias: None })
        };
        self.logits_of(last, &name, linear)
    }
}
