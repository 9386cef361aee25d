//! Models of `tokenizer.json`: from a word to ids.

mod bpe;
mod shared;
mod unigram;
mod wordpiece;

use serde_json::Value;

use self::shared::{Ids, MAX_TOKEN, Texts, unencodable};
use super::node::Node;
use crate::Error;
use crate::merge::Merger;

pub(super) use bpe::Bpe;
pub(super) use unigram::Unigram;
pub(super) use wordpiece::WordPiece;

/// A model.
#[derive(Debug)]
pub(super) enum Model {
    Bpe(Bpe),
    WordPiece(WordPiece),
    Unigram(Unigram),
    /// Whole words, and the unknown token.
    WordLevel(Ids, Option<u32>),
}

impl Model {
    /// Reads a model and the texts of its tokens, each with its id below `tokens`.
    ///
    /// # Errors
    /// If a key is missing, malformed or unknown.
    pub(super) fn read(node: Node<'_>, tokens: usize) -> Result<(Self, Texts), Error> {
        // old files do not name it
        let kind = node.text("type")?.unwrap_or("BPE");
        let model = match kind {
            "Unigram" => {
                let (model, texts) = Unigram::read(&node, tokens)?;
                node.finish()?;
                return Ok((Self::Unigram(model), texts));
            }
            "BPE" => |node: &Node<'_>, ids: &Ids| Bpe::read(node, ids).map(Self::Bpe),
            "WordPiece" => {
                |node: &Node<'_>, ids: &Ids| WordPiece::read(node, ids).map(Self::WordPiece)
            }
            "WordLevel" => |node: &Node<'_>, ids: &Ids| {
                let unknown = ids.get(node.required_text("unk_token")?).copied();
                Ok(Self::WordLevel(ids.clone(), unknown))
            },
            _ => return Err(node.wrong("type", "BPE, WordPiece, Unigram or WordLevel")),
        };
        let ids = vocabulary(&node, tokens)?;
        let model = model(&node, &ids)?;
        node.finish()?;
        Ok((model, ids.into_iter().collect()))
    }

    /// Appends the ids of a word, which is not empty.
    ///
    /// # Errors
    /// If the vocabulary has neither tokens for the word nor an unknown token.
    pub(super) fn encode(
        &self,
        word: &str,
        merger: &mut Merger,
        out: &mut Vec<u32>,
    ) -> Result<(), Error> {
        match self {
            Self::Bpe(bpe) => {
                bpe.encode(word, merger, out);
                Ok(())
            }
            Self::WordPiece(wordpiece) => wordpiece.encode(word, out),
            Self::Unigram(unigram) => unigram.encode(word, out),
            Self::WordLevel(ids, unknown) => {
                let id = ids.get(word).copied().or(*unknown);
                out.push(id.ok_or_else(|| unencodable(word))?);
                Ok(())
            }
        }
    }
}

/// Reads an object of ids by token.
fn vocabulary(node: &Node<'_>, tokens: usize) -> Result<Ids, Error> {
    let Some(Value::Object(map)) = node.get("vocab") else {
        return Err(node.wrong("vocab", "an object of ids by token"));
    };
    let mut ids = Ids::with_capacity(map.len());
    for (text, id) in map {
        let id = id.as_u64().filter(|id| *id < tokens as u64);
        let (Some(id), true) = (id, text.len() <= MAX_TOKEN) else {
            let expected = format!("tokens of at most {MAX_TOKEN} bytes with ids below {tokens}");
            return Err(node.wrong("vocab", &expected));
        };
        ids.insert(text.as_str().into(), id as u32);
    }
    Ok(ids)
}
