//! The tokens of a model as a trie of bytes.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use pelton_tokenizer::{TokenType, Tokenizer};
use toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use crate::Error;

/// Bytes of a token that the trie can have: longer ones are never drawn.
const TOKEN_BYTES_MAX: usize = 512;
/// The most bytes of all tokens, the nodes of the trie.
const BYTES_MAX: usize = 1 << 22;

/// The trie of a tokenizer, and its encoding of forced text.
struct Vocabulary {
    trie: TokTrie,
    /// `None` for a vocabulary of single bytes.
    tokenizer: Option<Arc<Tokenizer>>,
    canonical: bool,
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        match &self.tokenizer {
            Some(tokenizer) if self.canonical => {
                self.trie.tokenize_with_greedy_fallback(bytes, |text| {
                    let ids = tokenizer.encode_continuing(text);
                    ids.unwrap_or_else(|_| self.trie.greedy_tokenize(text.as_bytes()))
                })
            }
            _ => self.trie.greedy_tokenize(bytes),
        }
    }

    fn tokenize_is_canonical(&self) -> bool {
        self.canonical
    }
}

/// The tokens of a model's tokenizer. Control tokens are a byte FF and their text, so that only a
/// grammar that names them allows them; unused ones are never allowed.
pub(crate) fn of(tokenizer: &Arc<Tokenizer>) -> Result<TokEnv, Error> {
    let count = tokenizer.vocab_size() as u32;
    let mut words: Vec<Vec<u8>> = (0..count).map(|id| word(tokenizer, id)).collect();
    let mut ends = tokenizer.ends().to_vec();
    if ends.is_empty() {
        // a token that is never drawn: texts then end where no continuation is allowed
        ends.push(count);
        words.push(b"\xff<end>".to_vec());
    }
    let trie = trie(&words, &ends)?;
    // a tokenizer that normalizes texts, or adds spaces in their middle, encodes no other's bytes
    let canonical = ["a", "{\"a", "1"].iter().all(|text| {
        tokenizer.encode_continuing(text).is_ok_and(|ids| {
            let bytes: Vec<u8> = ids.iter().flat_map(|&id| word(tokenizer, id)).collect();
            bytes == text.as_bytes()
        })
    });
    Ok(Arc::new(Vocabulary { trie, tokenizer: Some(Arc::clone(tokenizer)), canonical }))
}

/// A vocabulary of the 256 bytes and an end.
pub(crate) fn bytes() -> Result<TokEnv, Error> {
    // the byte FF, which no UTF-8 has, marks control tokens
    let mut words: Vec<Vec<u8>> = (0..255).map(|byte| vec![byte]).collect();
    words.extend([Vec::new(), b"\xff<end>".to_vec()]);
    let trie = trie(&words, &[256])?;
    Ok(Arc::new(Vocabulary { trie, tokenizer: None, canonical: true }))
}

fn trie(words: &[Vec<u8>], ends: &[u32]) -> Result<TokTrie, Error> {
    let bytes: usize = words.iter().map(Vec::len).sum();
    if bytes > BYTES_MAX {
        return Err(Error::Vocabulary(format!(
            "its tokens have {bytes} bytes, expected at most {BYTES_MAX}"
        )));
    }
    let first = ends.first().copied().unwrap_or(0);
    let build = || {
        let info = TokRxInfo::new(words.len() as u32, first);
        TokTrie::from(&info, words).with_eos_tokens(ends)
    };
    catch_unwind(AssertUnwindSafe(build))
        .map_err(|_| Error::Vocabulary("its tokens make no trie".to_owned()))
}

/// The bytes of a token in the trie; none for one that is never allowed.
fn word(tokenizer: &Tokenizer, id: u32) -> Vec<u8> {
    let bytes = tokenizer.token_bytes(id).unwrap_or_default();
    let word = match tokenizer.token_type(id) {
        Some(TokenType::Normal | TokenType::UserDefined | TokenType::Byte)
            if bytes.first() != Some(&TokTrie::SPECIAL_TOKEN_MARKER) =>
        {
            bytes.to_vec()
        }
        Some(TokenType::Control) if !bytes.is_empty() => {
            [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes].concat()
        }
        _ => Vec::new(),
    };
    if word.len() <= TOKEN_BYTES_MAX { word } else { Vec::new() }
}
