//! The results: logits, embeddings or scores.

use super::builder::Builder;
use super::options::PoolingType;
use crate::{
    Activation, BufferId, Error, Linear, Norm, NormKind, Op, OutputKind, Pooling,
    arch::{FeedForward, Head, LogitScale, Multipliers},
};

impl Builder<'_> {
    /// The steps after the last layer; `pooling` replaces the file's.
    pub(super) fn output(
        &mut self,
        pooling: Option<PoolingType>,
        keeps_hidden: bool,
    ) -> Result<(), Error> {
        match pooling.or(self.pooling_type()?) {
            None => self.logits(keeps_hidden),
            Some(pooling) => self.embedding(pooling),
        }
    }

    /// The pooling of the file, the mean if an encoder's names none; `None` for logits.
    fn pooling_type(&self) -> Result<Option<PoolingType>, Error> {
        let name = "pooling_type";
        let is_encoder = self.arch.head == Head::Encoder;
        Ok(match self.keys.metadata().opt_usize(&self.keys.key(name))? {
            // converters do not tell that a classifier is one
            None if is_encoder && self.tensors.has("cls.output.weight") => Some(PoolingType::Rank),
            // as sentence-transformers does; a load asks for a stated one
            None => is_encoder.then_some(PoolingType::Mean),
            Some(0) => is_encoder.then_some(PoolingType::None),
            Some(1) => Some(PoolingType::Mean),
            Some(2) => Some(PoolingType::First),
            Some(3) => Some(PoolingType::Last),
            Some(4) => Some(PoolingType::Rank),
            Some(other) => {
                let expected = "0 to 4 (none, mean, first, last, rank)".to_owned();
                return Err(self.keys.invalid(name, other, expected).into());
            }
        })
    }

    fn logits(&mut self, keeps_hidden: bool) -> Result<(), Error> {
        let x = self.stream();
        let hidden = self.sizes.hidden;
        if keeps_hidden {
            // apart from the norm of selected rows, whose bits do not depend on it
            let buffer = self.normed(self.arch.output_norm, x, "hidden")?;
            self.plan.exit = vec![buffer];
        }
        let last = self.selected("last", hidden);
        self.step(Op::Select, &[x], &[last]);
        let norm = self.norm(self.arch.output_norm, hidden)?;
        let last_n = self.selected("last_n", hidden);
        self.step(Op::Norm(norm), &[last], &[last_n]);
        let linear = match self.plan.shape.tied {
            true => Linear { weight: self.table, bias: None },
            false => self.tensors.linear("output", self.sizes.vocab, hidden)?,
        };
        self.logits_of(last_n, "output", linear)
    }

    /// The logits by the matrix of the tensor `name.weight` of the normed rows `last`.
    pub(super) fn logits_of(
        &mut self,
        last: BufferId,
        name: &str,
        linear: Linear,
    ) -> Result<(), Error> {
        let logits = self.selected("logits", self.sizes.vocab);
        self.linear_step(name, linear, last, logits)?;
        if let Some(factor) = self.logit_scale()? {
            self.in_place(Op::Scale(factor), logits);
        }
        if self.arch.softcap
            && let Some(cap) = self.keys.opt_nonnegative("final_logit_softcapping")?
        {
            self.in_place(Op::Softcap(cap), logits);
        }
        self.plan.logits = logits;
        Ok(())
    }

    fn logit_scale(&self) -> Result<Option<f32>, Error> {
        let stated = self.keys.opt_nonnegative("logit_scale")?;
        let factor = match (self.arch.logit_scale, self.arch.multipliers) {
            (LogitScale::None, _) => return Ok(None),
            (LogitScale::Multiply, _) => stated,
            (LogitScale::Divide, Multipliers::MiniCpm) => {
                Some(1.0 / stated.unwrap_or(self.sizes.hidden as f32 / 256.0))
            }
            (LogitScale::Divide, _) => Some(1.0 / self.keys.positive("logit_scale")?),
        };
        Ok(factor.filter(|&factor| factor != 1.0))
    }

    /// The embedding or scores of a text, or with no pooling the embedding of each row.
    fn embedding(&mut self, pooling: PoolingType) -> Result<(), Error> {
        // an embedder made of a language model may still have that one's output matrix
        self.tensors.ignore("output.weight");
        if pooling != PoolingType::Rank {
            // another pooling than a classifier's was chosen
            for name in ["cls", "cls.norm", "cls.output"] {
                self.tensors.ignore(&format!("{name}.weight"));
                self.tensors.ignore(&format!("{name}.bias"));
            }
        }
        let mut x = self.stream();
        if self.tensors.has(&format!("{}.weight", self.arch.output_norm)) {
            x = self.normed(self.arch.output_norm, x, "n")?;
        }
        let pooled = self.pool(pooling, x)?;
        self.plan.logits = match pooling {
            PoolingType::Rank => {
                self.plan.output = OutputKind::Scores;
                self.classify(pooled)?
            }
            _ => {
                self.plan.output = OutputKind::Embedding;
                self.dense_layers(pooling, pooled)?
            }
        };
        Ok(())
    }

    fn pool(&mut self, pooling: PoolingType, x: BufferId) -> Result<BufferId, Error> {
        let op = match pooling {
            PoolingType::None => None,
            PoolingType::Mean => Some(Pooling::Mean),
            PoolingType::First => Some(Pooling::First),
            PoolingType::Last => Some(Pooling::Last),
            PoolingType::Rank => Some(self.classifier_pooling()?),
        };
        // The last row of a causal model has seen all others: it is the row that is wanted, and its
        // text may run in chunks.
        let op = match op {
            Some(Pooling::Last) if !self.plan.whole_sequences => Op::Select,
            Some(pooling) => {
                self.plan.whole_sequences = true;
                Op::Pool(pooling)
            }
            None => Op::Select,
        };
        let pooled = self.selected("pooled", self.sizes.hidden);
        self.step(op, &[x], &[pooled]);
        Ok(pooled)
    }

    /// The rows that a classifier reads, by the key `classifier.pooling_type`. Without it they are
    /// the mean with a gated network (ModernBERT), the first row of another encoder, or the last of
    /// a decoder.
    fn classifier_pooling(&self) -> Result<Pooling, Error> {
        let name = "classifier.pooling_type";
        Ok(match self.keys.metadata().opt_usize(&self.keys.key(name))? {
            Some(1) => Pooling::Mean,
            Some(2) => Pooling::First,
            Some(3) => Pooling::Last,
            Some(other) => {
                let expected = "1 to 3 (mean, first, last)".to_owned();
                return Err(self.keys.invalid(name, other, expected).into());
            }
            None if self.arch.head == Head::Logits => Pooling::Last,
            None if self.tensors.has("output_norm.weight") => Pooling::Mean,
            None => Pooling::First,
        })
    }

    /// The relevance scores `[labels]` of a text.
    fn classify(&mut self, pooled: BufferId) -> Result<BufferId, Error> {
        let hidden = self.sizes.hidden;
        let mut y = pooled;
        let is_modern = self.tensors.has("output_norm.weight");
        if self.tensors.has("cls.weight") {
            y = self.linear("cls", y, "class", hidden)?;
            let activation = match (self.named_activation("classifier.activation")?, is_modern) {
                (Some(activation), _) => activation,
                (None, true) => match self.activation()? {
                    FeedForward::Gated(layers) | FeedForward::Plain(layers) => layers,
                },
                (None, false) => Activation::Tanh,
            };
            self.in_place(Op::Activate(activation), y);
            if self.tensors.has("cls.norm.weight") {
                let norm = self.norm("cls.norm", hidden)?;
                let n = self.selected("class_n", hidden);
                self.step(Op::Norm(norm), &[y], &[n]);
                y = n;
            }
        }
        let labels = self.tensors.dim("cls.output.weight", 1).max(1);
        let scores = self.linear("cls.output", y, "scores", labels)?;
        if self.arch.head == Head::Logits {
            self.softmax_of_two(scores, labels)?;
        }
        Ok(scores)
    }

    /// The softmax of two scores, in place: the sigmoid of each score less the other.
    fn softmax_of_two(&mut self, scores: BufferId, labels: usize) -> Result<(), Error> {
        if labels != 2 {
            let expected = "2, \"yes\" and \"no\"".to_owned();
            return Err(self.keys.invalid("classifier.output_labels", labels, expected).into());
        }
        let swapped = self.selected("swapped", labels);
        self.copy([scores, swapped], [1, 1], [0, 1], [1, 1]);
        self.copy([scores, swapped], [1, 1], [1, 1], [0, 1]);
        self.in_place(Op::Scale(-1.0), swapped);
        self.add(scores, swapped);
        self.in_place(Op::Activate(Activation::Sigmoid), scores);
        Ok(())
    }

    /// The linears that follow pooling (`dense_2`, `dense_3`), and the norm of the embedding
    /// of a text to length 1.
    fn dense_layers(&mut self, pooling: PoolingType, pooled: BufferId) -> Result<BufferId, Error> {
        let mut y = pooled;
        for (part, name) in [("dense_2", "dense_2"), ("dense_3", "dense_3")] {
            let rows = self.tensors.dim(&format!("{part}.weight"), 1);
            if rows > 0 {
                y = self.linear(part, y, name, rows)?;
            }
        }
        if pooling == PoolingType::None {
            return Ok(y);
        }
        let norm = Norm { kind: NormKind::L2, weight: None, bias: None, eps: 1e-12 };
        let width = self.width(y);
        let embedding = self.selected("embedding", width);
        self.step(Op::Norm(norm), &[y], &[embedding]);
        Ok(embedding)
    }
}
