//! Relevance scores of documents.

use std::ops::ControlFlow;

use pelton_graph::OutputKind;
use pelton_tokenizer::Special;
use web_time::Instant;

use super::{Model, value_requests::Text};
use crate::{
    Error,
    api::{Prompt, RequestHandle, RerankOptions, RerankQuery, Score},
    schedule::WantedRows,
};

/// The key of the prompt of a reranker that is a language model, with `{query}` and `{document}`.
const TEMPLATE: &str = "tokenizer.chat_template.rerank";

/// From a reranker's labels to a score.
#[derive(Clone, Copy)]
enum Labels {
    /// One label: its logit.
    Relevance,
    /// The probabilities of the answers yes and no.
    YesNo { yes: usize, no: usize },
}

impl Labels {
    fn score(self, values: &[f32], raw: bool) -> f32 {
        let at = |i: usize| values.get(i).map_or(f64::NAN, |&value| f64::from(value));
        let score = match (self, raw) {
            (Self::Relevance, true) => at(0),
            (Self::Relevance, false) => 1.0 / (1.0 + (-at(0)).exp()),
            (Self::YesNo { yes, no }, true) => at(yes).ln() - at(no).ln(),
            (Self::YesNo { yes, .. }, false) => at(yes),
        };
        score as f32
    }
}

impl Model {
    /// The relevance of documents for a query, in the order of the documents. Waits for all of
    /// them; several run at the same time, with those of other calls.
    ///
    /// A pair is encoded as its file says: by the template `tokenizer.chat_template.rerank`, or
    /// with separators as BERT and XLM-RoBERTa have them. Special tokens written in a query or a
    /// document are ordinary text. Where the model has token types, as BERT does, the document and
    /// the separator after it have the type 1, as in transformers (llama.cpp: 0).
    ///
    /// # Errors
    ///
    /// As [`submit_rerank`](Self::submit_rerank), the first error of any document: the others are
    /// cancelled then. [`Error::OwnThread`] in a callback. Where the queue is
    /// full of other requests, [`Error::Busy`].
    pub fn rerank(
        &self,
        query: &str,
        documents: &[impl AsRef<str>],
        options: &RerankOptions,
    ) -> Result<Vec<Score>, Error> {
        let mut all: Vec<Option<Score>> = documents.iter().map(|_| None).collect();
        self.rerank_each(query, documents, options, |i, score| {
            all[i] = Some(score);
            ControlFlow::Continue(())
        })?;
        all.into_iter().map(|score| score.ok_or(Error::Stopped)).collect()
    }

    /// As [`rerank`](Self::rerank); passes each score to `each` with the number of its
    /// document, in the order in which they are finished. [`ControlFlow::Break`] cancels the
    /// documents that are left.
    ///
    /// # Errors
    ///
    /// As [`rerank`](Self::rerank).
    pub fn rerank_each(
        &self,
        query: &str,
        documents: &[impl AsRef<str>],
        options: &RerankOptions,
        each: impl FnMut(usize, Score) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let query = self.rerank_query(query)?;
        self.score_many(
            documents.len(),
            |i| self.pair(i, &query, documents[i].as_ref()),
            options,
            each,
        )
    }

    /// The scores of prompts, each of which has a query and a document already, in their order.
    /// All tokens have the type 0. Otherwise as [`rerank`](Self::rerank).
    ///
    /// # Errors
    ///
    /// As [`rerank`](Self::rerank).
    pub fn score(&self, prompts: &[Prompt], options: &RerankOptions) -> Result<Vec<Score>, Error> {
        let mut all: Vec<Option<Score>> = prompts.iter().map(|_| None).collect();
        self.score_many(
            prompts.len(),
            |i| self.text(i, &prompts[i]),
            options,
            |i, score| {
                all[i] = Some(score);
                ControlFlow::Continue(())
            },
        )?;
        all.into_iter().map(|score| score.ok_or(Error::Stopped)).collect()
    }

    fn score_many(
        &self,
        count: usize,
        encode: impl Fn(usize) -> Result<Text, Error>,
        options: &RerankOptions,
        each: impl FnMut(usize, Score) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let (labels, raw) = (self.labels()?, options.raw);
        let begun = Instant::now();
        self.run_many(count, encode, each, |text, sender| {
            let (number, count) = (text.number, text.tokens.len());
            self.submit_values(text, WantedRows::Last, options.common(), begun, move |outcome| {
                let score = outcome.map(|values| Score::new(labels.score(&values, raw), count));
                // the caller may have gone
                let _ = sender.send((number, score));
            })
        })
    }

    /// Submits a document to be scored. The result is passed to `done`, on the thread that runs the
    /// model, which must not block.
    ///
    /// # Errors
    ///
    /// [`Error::Output`] if the model computes no relevance scores; [`Error::TextTooLong`] if query
    /// and document are longer than the context or than a pass that has to run them as a whole;
    /// otherwise as [`submit`](Self::submit).
    pub fn submit_rerank(
        &self,
        query: &RerankQuery,
        document: &str,
        options: &RerankOptions,
        done: impl FnOnce(Result<Score, Error>) + Send + 'static,
    ) -> Result<RequestHandle, Error> {
        let (labels, raw) = (self.labels()?, options.raw);
        let text = self.pair(0, query, document)?;
        let count = text.tokens.len();
        let begun = Instant::now();
        self.submit_values(text, WantedRows::Last, options.common(), begun, move |outcome| {
            done(outcome.map(|values| Score::new(labels.score(&values, raw), count)));
        })
    }

    /// A query, for [`submit_rerank`](Self::submit_rerank) with each of its documents.
    ///
    /// # Errors
    ///
    /// [`Error::Output`] if the model computes no relevance scores; if the query cannot be encoded;
    /// [`Error::TooManyBytes`] if it alone is far longer than the context.
    pub fn rerank_query(&self, query: &str) -> Result<RerankQuery, Error> {
        self.labels()?;
        let tokenizer = self.tokenizer()?;
        self.check_bytes(query.len())?;
        let template = self.loaded.checkpoint.metadata().opt_string(TEMPLATE)?;
        let tokens = match template {
            Some(_) => None,
            None => Some(tokenizer.encode_pair_first(query)?),
        };
        Ok(RerankQuery { text: query.to_owned(), tokens })
    }

    /// A query and a document as text `number`.
    fn pair(&self, number: usize, query: &RerankQuery, document: &str) -> Result<Text, Error> {
        let tokenizer = self.tokenizer()?;
        self.check_bytes(query.text.len().saturating_add(document.len()))?;
        let Some(tokens) = &query.tokens else {
            let template = self.loaded.checkpoint.metadata().opt_string(TEMPLATE)?;
            let parts = fill(template.unwrap_or_default(), &query.text, document);
            return Ok(Text::one(number, tokenizer.encode_parts(&parts)?));
        };
        let mut tokens = tokens.clone();
        let second = tokens.len();
        tokens.extend(tokenizer.encode_pair_second(document)?);
        Ok(Text { number, tokens, second })
    }

    /// The meaning of the plan's scores.
    fn labels(&self) -> Result<Labels, Error> {
        let loaded = &self.loaded;
        loaded.check_output(OutputKind::Scores)?;
        let metadata = loaded.checkpoint.metadata();
        let key = format!("{}.classifier.output_labels", loaded.plan.shape.architecture);
        let names: Vec<&str> = match metadata.opt_string_array(&key)? {
            Some(names) => names.collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        let at = |name: &str| names.iter().position(|&other| other == name);
        match (loaded.plan.output_width(), at("yes"), at("no")) {
            (1, ..) => Ok(Labels::Relevance),
            (2, Some(yes), Some(no)) => Ok(Labels::YesNo { yes, no }),
            (width, ..) => {
                Err(Error::Labels { file: loaded.checkpoint.name().to_owned(), found: width, key })
            }
        }
    }
}

/// The parts of a template, in which only the template's own text can have special tokens.
fn fill<'a>(template: &'a str, query: &'a str, document: &'a str) -> Vec<(&'a str, Special)> {
    let names = [("{query}", query), ("{document}", document)];
    let mut parts = Vec::new();
    let mut rest = template;
    let next = |rest: &str| {
        names.iter().filter_map(|&(name, text)| Some((rest.find(name)?, name.len(), text))).min()
    };
    while let Some((at, len, text)) = next(rest) {
        parts.extend([(&rest[..at], Special::Parse), (text, Special::Ignore)]);
        rest = &rest[at + len..];
    }
    parts.push((rest, Special::Parse));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_filled_once() {
        let parts = fill("<q>{query}</q>{document}.", "{document}", "{query}");
        let texts: Vec<&str> = parts.iter().map(|(text, _)| *text).collect();
        assert_eq!(texts, ["<q>", "{document}", "</q>", "{query}", "."]);
        let untrusted: Vec<bool> = parts.iter().map(|(_, s)| *s == Special::Ignore).collect();
        assert_eq!(untrusted, [false, true, false, true, false]);
    }

    #[test]
    fn scores_of_labels() {
        let close = |a: f32, b: f64| assert!((f64::from(a) - b).abs() < 1e-6, "{a} {b}");
        close(Labels::Relevance.score(&[0.0], false), 0.5);
        close(Labels::Relevance.score(&[-2.5], true), -2.5);
        let labels = Labels::YesNo { yes: 0, no: 1 };
        close(labels.score(&[0.75, 0.25], false), 0.75);
        close(labels.score(&[0.75, 0.25], true), 3f64.ln());
        close(Labels::YesNo { yes: 1, no: 0 }.score(&[0.75, 0.25], true), -3f64.ln());
    }
}
