//! Embeddings of texts.

use std::ops::{ControlFlow, Range};

use pelton_graph::OutputKind;
use web_time::Instant;

use super::Model;
use crate::{
    Error,
    api::{EmbedOptions, Embedding, Pooling, Prompt, RequestHandle},
    schedule::WantedRows,
};

/// From the results of a text's rows to its embedding.
#[derive(Clone, Copy)]
struct Finish {
    /// Whether the rows are averaged.
    mean: bool,
    width: usize,
    dimensions: usize,
    normalize: bool,
}

impl Finish {
    fn embedding(self, mut values: Vec<f32>, tokens: usize) -> Embedding {
        if self.mean {
            let rows = (values.len() / self.width.max(1)).max(1) as f64;
            let column = |i| values.iter().skip(i).step_by(self.width).map(|&v| f64::from(v));
            values = (0..self.width).map(|i| (column(i).sum::<f64>() / rows) as f32).collect();
        }
        if self.dimensions < self.width {
            let rows = values.chunks_exact(self.width);
            values = rows.flat_map(|row| &row[..self.dimensions]).copied().collect();
        }
        if self.normalize {
            values.chunks_exact_mut(self.dimensions).for_each(normalize);
        }
        Embedding::new(values, self.dimensions, tokens)
    }
}

/// Divides a vector by its Euclidean norm; zeros stay.
fn normalize(vector: &mut [f32]) {
    let norm = vector.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt();
    if norm > 0.0 {
        vector.iter_mut().for_each(|v| *v = (f64::from(*v) / norm) as f32);
    }
}

impl Model {
    /// The embeddings of texts, in their order. Waits for all of them; several run at the same
    /// time, with those of other calls.
    ///
    /// ```no_run
    /// use pelton::{EmbedOptions, Engine, LoadOptions, Prompt};
    ///
    /// let engine = Engine::builder().build()?;
    /// let model = engine.load("embedder.gguf", &LoadOptions::default())?;
    /// let texts = ["one", "another"].map(Prompt::from);
    /// for embedding in model.embed(&texts, &EmbedOptions::default())? {
    ///     println!("{:?}", embedding.values);
    /// }
    /// # Ok::<(), pelton::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`submit_embedding`](Self::submit_embedding), the first error of any text: the others are
    /// cancelled then. [`Error::OwnThread`] in a callback. Where the queue is
    /// full of other requests, [`Error::Busy`].
    pub fn embed(&self, texts: &[Prompt], options: &EmbedOptions) -> Result<Vec<Embedding>, Error> {
        let mut all: Vec<Option<Embedding>> = texts.iter().map(|_| None).collect();
        self.embed_each(texts, options, |i, embedding| {
            all[i] = Some(embedding);
            ControlFlow::Continue(())
        })?;
        all.into_iter().map(|embedding| embedding.ok_or(Error::Stopped)).collect()
    }

    /// As [`embed`](Self::embed); passes each embedding to `each` with the number of its
    /// text, in the order in which they are finished. [`ControlFlow::Break`] cancels the
    /// texts that are left.
    ///
    /// # Errors
    ///
    /// As [`embed`](Self::embed).
    pub fn embed_each(
        &self,
        texts: &[Prompt],
        options: &EmbedOptions,
        each: impl FnMut(usize, Embedding) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let finish = self.finish(options)?;
        let encode = |i: usize| self.text(i, &texts[i]);
        let begun = Instant::now();
        self.run_many(texts.len(), encode, each, |text, sender| {
            let (number, count) = (text.number, text.tokens.len());
            self.submit_values(text, self.wanted_rows(), options.common(), begun, move |outcome| {
                let embedding = outcome.map(|values| finish.embedding(values, count));
                // the caller may have gone
                let _ = sender.send((number, embedding));
            })
        })
    }

    /// Submits a text to be embedded. The result is passed to `done`, on the thread that runs the
    /// model, which must not block.
    ///
    /// # Errors
    ///
    /// [`Error::Output`] if the model computes no embeddings; [`Error::RequestOption`] for an
    /// option out of its range. [`Error::TextTooLong`] if the text is longer than the context or
    /// than a pass that has to run it as a whole. Otherwise as [`submit`](Self::submit).
    pub fn submit_embedding(
        &self,
        text: &Prompt,
        options: &EmbedOptions,
        done: impl FnOnce(Result<Embedding, Error>) + Send + 'static,
    ) -> Result<RequestHandle, Error> {
        let finish = self.finish(options)?;
        let text = self.text(0, text)?;
        let count = text.tokens.len();
        let (rows, salt) = (self.wanted_rows(), options.common());
        self.submit_values(text, rows, salt, Instant::now(), move |outcome| {
            done(outcome.map(|values| finish.embedding(values, count)));
        })
    }

    /// The pooling of the model's embeddings.
    ///
    /// # Errors
    ///
    /// [`Error::Output`] if the model computes none.
    pub fn pooling(&self) -> Result<Pooling, Error> {
        self.loaded.check_output(OutputKind::Embedding)?;
        Ok(self.loaded.pooling)
    }

    /// The tokens that a text to embed may have: those of the context, or of a pass that has
    /// to run it as a whole.
    pub fn longest_text(&self) -> usize {
        match self.loaded.plan.whole_sequences {
            true => self.loaded.limits.context.min(self.loaded.limits.rows),
            false => self.loaded.limits.context,
        }
    }

    /// The rows of the plan's results that an embedding needs.
    fn wanted_rows(&self) -> WantedRows {
        match self.loaded.pooling {
            _ if self.loaded.pools() => WantedRows::Last,
            Pooling::None | Pooling::Mean => WantedRows::All,
            Pooling::Cls => WantedRows::First,
            Pooling::Last => WantedRows::Last,
        }
    }

    fn finish(&self, options: &EmbedOptions) -> Result<Finish, Error> {
        self.loaded.check_output(OutputKind::Embedding)?;
        let width = self.loaded.plan.output_width();
        let dimensions = options.dimensions.unwrap_or(width);
        let expected: Range<usize> = 1..width + 1;
        if !expected.contains(&dimensions) {
            return Err(Error::RequestOption {
                option: "dimensions",
                found: dimensions.to_string(),
                expected: format!("1 to the model's {width}"),
            });
        }
        let mean = self.loaded.pooling == Pooling::Mean && !self.loaded.pools();
        Ok(Finish { mean, width, dimensions, normalize: options.normalize })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINISH: Finish = Finish { mean: false, width: 4, dimensions: 4, normalize: false };

    /// The cut comes first: the norm of what is left is 1.
    #[test]
    fn cut_then_normalized() {
        let values = vec![3.0, 4.0, 12.0, 84.0];
        let all = Finish { normalize: true, ..FINISH }.embedding(values.clone(), 7);
        assert_eq!((all.tokens, all.dimensions), (7, 4));
        // 3² + 4² + 12² + 84² = 85²
        for (got, expected) in all.values.iter().zip([3.0, 4.0, 12.0, 84.0]) {
            assert!((got - expected / 85.0).abs() < 1e-6);
        }
        let cut = Finish { dimensions: 2, normalize: true, ..FINISH }.embedding(values, 7);
        assert_eq!(cut.values, [0.6, 0.8]);
        let zeros = Finish { normalize: true, ..FINISH }.embedding(vec![0.0; 4], 1);
        assert_eq!(zeros.values, [0.0; 4]);
    }

    #[test]
    fn means_and_single_tokens() {
        let rows = vec![1.0, 2.0, 3.0, 4.0, 3.0, 6.0, 5.0, 0.0];
        let mean = Finish { mean: true, ..FINISH }.embedding(rows.clone(), 2);
        assert_eq!(mean.values, [2.0, 4.0, 4.0, 2.0]);
        let each = Finish { dimensions: 2, ..FINISH }.embedding(rows, 2);
        assert_eq!(each.vectors().collect::<Vec<_>>(), [&[1.0, 2.0], &[3.0, 6.0]]);
    }
}
