//! WordPiece: longest match first.

use super::shared::{Ids, unencodable};
use crate::Error;
use crate::rules::node::Node;
use crate::trie::Trie;

/// A WordPiece model.
#[derive(Debug)]
pub(in crate::rules) struct WordPiece {
    /// Tokens at the beginning of a word.
    first: Trie,
    /// Tokens after it, without the prefix that marks them.
    further: Trie,
    unknown: Option<u32>,
    /// The longest word in characters; longer ones are unknown.
    longest: usize,
}

impl WordPiece {
    /// # Errors
    /// If a key is missing or malformed.
    pub(super) fn read(node: &Node<'_>, ids: &Ids) -> Result<Self, Error> {
        let prefix = node.required_text("continuing_subword_prefix")?;
        let longest = node.integer("max_input_chars_per_word")?.ok_or_else(|| {
            node.wrong("max_input_chars_per_word", "the longest word in characters")
        })?;
        let tokens = || ids.iter().map(|(text, &id)| (&**text, id));
        let trie = |tokens: &mut dyn Iterator<Item = (&str, u32)>| {
            let tokens = tokens.filter(|(text, _)| !text.is_empty());
            let tokens: Vec<_> = tokens.map(|(text, id)| (text.as_bytes(), id)).collect();
            Trie::new(tokens.into_iter())
        };
        Ok(Self {
            first: trie(&mut tokens()),
            further: trie(
                &mut tokens().filter_map(|(text, id)| Some((text.strip_prefix(prefix)?, id))),
            ),
            unknown: ids.get(node.required_text("unk_token")?).copied(),
            longest: longest as usize,
        })
    }

    /// Appends the ids of a word.
    ///
    /// # Errors
    /// If it is unknown and the vocabulary has no unknown token.
    pub(super) fn encode(&self, word: &str, out: &mut Vec<u32>) -> Result<(), Error> {
        let begin = out.len();
        let mut known = word.chars().nth(self.longest).is_none();
        let mut at = 0;
        while known && at < word.len() {
            let pieces = if at == 0 { &self.first } else { &self.further };
            match pieces.prefixes(&word.as_bytes()[at..]).last() {
                Some((length, id)) => {
                    out.push(id);
                    at += length;
                }
                None => known = false,
            }
        }
        if !known {
            out.truncate(begin);
            out.push(self.unknown.ok_or_else(|| unencodable(word))?);
        }
        Ok(())
    }
}
