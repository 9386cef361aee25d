//! The vocabulary of a file: the bytes of tokens, whose ids are their ranks.

use std::collections::HashSet;

use super::invalid::invalid;
use crate::Problem;
use crate::gguf::cursor::Cursor;
use crate::whisper::{END, Tokens, specials};

/// The longest token in bytes; OpenAI's have at most 128.
const MAX_TOKEN: u32 = 256;

/// Reads the tokens of text for a model of `vocab` tokens. A file may have the token of the end of
/// a text after them, as older ones do and those of Hugging Face's.
pub(super) fn read<'a>(cursor: &mut Cursor<'a>, vocab: usize) -> Result<Vec<&'a [u8]>, Problem> {
    let texts = specials(vocab).map_or(0, |(first, _)| first);
    let count = cursor.u32(format_args!("the number of tokens"))?;
    if count as usize != texts && count as usize != texts + 1 {
        let expected = format!("{texts} or {} for n_vocab {vocab}", texts + 1);
        return Err(invalid("the number of tokens", count, expected));
    }
    let mut words = Vec::with_capacity(texts);
    for id in 0..count {
        let len = cursor.u32(format_args!("the length of token {id}"))?;
        if len > MAX_TOKEN {
            let expected = format!("at most {MAX_TOKEN} bytes");
            return Err(invalid(&format!("the length of token {id}"), len, expected));
        }
        let word = cursor.take(len.into(), format_args!("token {id}"))?;
        if id as usize == texts {
            if word != END.as_bytes() {
                let found = format!("\"{}\"", word.escape_ascii());
                return Err(invalid(&format!("token {id}"), found, END));
            }
        } else {
            words.push(word);
        }
    }
    check(&words)?;
    Ok(words)
}

/// Checks that no token occurs twice and that each byte is one.
fn check(words: &[&[u8]]) -> Result<(), Problem> {
    let fault = |fault| Problem::WhisperVocabulary { fault };
    let mut seen = HashSet::with_capacity(words.len());
    if let Some(twice) = words.iter().find(|word| !seen.insert(**word)) {
        return Err(fault(format!("token \"{}\" twice", twice.escape_ascii())));
    }
    match (0u8..=255).find(|byte| !seen.contains([*byte].as_slice())) {
        Some(byte) => Err(fault(format!("no token of the byte {byte:#04x}"))),
        None => Ok(()),
    }
}

/// All tokens, with the special ones.
pub(super) fn tokens(words: &[&[u8]], vocab: usize) -> Result<Tokens, Problem> {
    let mut tokens = Tokens::new(vocab);
    tokens.put_ranked(words);
    if let Some((first, texts)) = specials(vocab) {
        // The empty token of text is before the first one.
        tokens.put_specials(first, texts);
    }
    match tokens.fault() {
        Some(fault) => Err(Problem::WhisperVocabulary { fault }),
        None => Ok(tokens),
    }
}
