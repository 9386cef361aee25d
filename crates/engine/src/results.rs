//! The results of models in words.

use pelton_graph::OutputKind;

/// The results of a model, for errors.
pub(crate) fn results(output: OutputKind) -> &'static str {
    match output {
        OutputKind::Logits => "logits of tokens, from which text is generated",
        OutputKind::Embedding => "embeddings",
        OutputKind::Scores => "relevance scores",
    }
}
