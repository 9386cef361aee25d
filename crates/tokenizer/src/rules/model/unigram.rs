//! Unigram: the most probable segmentation, with the scores and the arithmetic of `tokenizers`.

use std::ops::Range;

use serde_json::Value;

use super::shared::{MAX_TOKEN, Texts, unencodable};
use crate::Error;
use crate::rules::node::Node;
use crate::trie::Trie;

/// Log-probability of the least likely piece minus that of the unknown token.
const UNKNOWN_PENALTY: f64 = 10.0;

/// A Unigram model.
#[derive(Debug)]
pub(in crate::rules) struct Unigram {
    pieces: Trie,
    /// Log-probabilities by id.
    scores: Vec<f64>,
    unknown: Option<u32>,
    unknown_score: f64,
    /// The tokens `<0x00>` to `<0xFF>`, if they stand for bytes.
    bytes: Option<Box<[Option<u32>; 256]>>,
}

/// The best segmentation up to a position in the text.
#[derive(Clone, Copy)]
struct Best {
    score: f64,
    /// Offset of its last piece.
    from: u32,
    /// Its last piece, or the unknown token.
    token: u32,
    /// Whether the last piece is a character without a token.
    unknown: bool,
    reached: bool,
}

impl Unigram {
    /// # Errors
    /// If a key is missing or malformed.
    pub(super) fn read(node: &Node<'_>, tokens: usize) -> Result<(Self, Texts), Error> {
        let vocab = node.list("vocab")?;
        let entry = |entry: &Value| {
            let [text, score] = entry.as_array()?.as_slice() else { return None };
            // Both read numbers by `serde_json` without `float_roundtrip`, so near-ties fall alike.
            let score = score.as_f64().filter(|score| score.is_finite())?;
            let text = text.as_str().filter(|text| text.len() <= MAX_TOKEN)?;
            Some((Box::<str>::from(text), score))
        };
        let (mut texts, mut scores) = (Vec::new(), Vec::new());
        for (at, item) in (0..).zip(vocab) {
            let (Some((text, score)), true) = (entry(item), (at as usize) < tokens) else {
                let expected = format!("at most {tokens} pairs of a token and its score");
                return Err(node.wrong("vocab", &expected));
            };
            texts.push((text, at));
            scores.push(score);
        }
        let unknown = node.integer("unk_id")?;
        if unknown.is_some_and(|unknown| unknown as usize >= texts.len()) {
            return Err(node.wrong("unk_id", "the id of a token of the vocabulary"));
        }
        let bytes = node.flag("byte_fallback")?.unwrap_or(false).then(|| {
            let mut bytes = Box::new([None; 256]);
            for (text, id) in &texts {
                if let Some(byte) = crate::bytes::byte_token(text)
                    && **text == *format!("<0x{byte:02X}>")
                {
                    bytes[usize::from(byte)] = Some(*id);
                }
            }
            bytes
        });
        let least = scores.iter().copied().min_by(f64::total_cmp).unwrap_or(0.0);
        let pieces = texts.iter().filter(|(text, _)| !text.is_empty());
        let pieces: Vec<_> = pieces.map(|(text, id)| (text.as_bytes(), *id)).collect();
        let model = Self {
            pieces: Trie::new(pieces.into_iter()),
            scores,
            unknown,
            unknown_score: least - UNKNOWN_PENALTY,
            bytes,
        };
        Ok((model, texts))
    }

    /// Appends the ids of a word.
    ///
    /// # Errors
    /// If a character has no token and the vocabulary has no unknown token.
    pub(super) fn encode(&self, word: &str, out: &mut Vec<u32>) -> Result<(), Error> {
        let start = Best { score: 0.0, from: 0, token: 0, unknown: false, reached: false };
        let mut best = vec![start; word.len() + 1];
        for (from, c) in word.char_indices() {
            let here = best[from].score;
            let mut reach = |to: usize, score: f64, token, unknown| {
                if !best[to].reached || score > best[to].score {
                    best[to] = Best { score, from: from as u32, token, unknown, reached: true };
                }
            };
            let mut is_piece = false;
            for (length, token) in self.pieces.prefixes(&word.as_bytes()[from..]) {
                is_piece |= length == c.len_utf8();
                let unknown = Some(token) == self.unknown;
                reach(from + length, self.scores[token as usize] + here, token, unknown);
            }
            if !is_piece {
                let unknown = self.unknown.ok_or_else(|| unencodable(word))?;
                reach(from + c.len_utf8(), self.unknown_score + here, unknown, true);
            }
        }
        self.trace(word, &best, out);
        Ok(())
    }

    /// Appends the pieces of the best segmentation. A run of unknown characters is one piece.
    fn trace(&self, word: &str, best: &[Best], out: &mut Vec<u32>) {
        let mut path: Vec<(Range<usize>, u32, bool)> = Vec::new();
        let mut end = word.len();
        while end > 0 {
            let Best { from, token, unknown, .. } = best[end];
            let from = from as usize;
            match path.last_mut() {
                Some((range, _, true)) if unknown => *range = from..range.end,
                _ => path.push((from..end, token, unknown)),
            }
            end = from;
        }
        for (range, token, unknown) in path.into_iter().rev() {
            let text = &word.as_bytes()[range];
            if !unknown {
                out.push(token);
            } else if let Some(id) = self.whole(text) {
                out.push(id);
            } else if let Some(bytes) = &self.bytes
                && text.iter().all(|byte| bytes[usize::from(*byte)].is_some())
            {
                out.extend(text.iter().filter_map(|byte| bytes[usize::from(*byte)]));
            } else {
                out.push(token);
            }
        }
    }

    /// The token with exactly this text: a run of unknown characters may be one.
    fn whole(&self, text: &[u8]) -> Option<u32> {
        let found = self.pieces.prefixes(text).last();
        found.filter(|(length, _)| *length == text.len()).map(|(_, id)| id)
    }
}
