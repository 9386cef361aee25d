//! The Unigram model: the most probable segmentation of a text into pieces.
//!
//! Kudo 2018, section 3.3, by dynamic programming over the text (Viterbi). The penalty of the
//! unknown token and the normalization are SentencePiece's (google/sentencepiece,
//! `src/unigram_model.cc` and `src/normalizer.cc`).

use crate::Error;
use crate::charsmap::Charsmap;
use crate::lexicon::{Lexicon, SPACE_MARK};
use crate::trie::Trie;
use crate::vocabulary::{Prefix, UNKNOWN, Vocabulary};

/// Log-probability of the least likely piece minus that of the unknown token.
const UNKNOWN_PENALTY: f64 = 10.0;

/// A Unigram vocabulary.
#[derive(Debug)]
pub(crate) struct Unigram {
    pieces: Trie,
    /// Log-probabilities, indexed by token.
    scores: Vec<f32>,
    unknown: u32,
    unknown_score: f64,
    charsmap: Charsmap,
    /// Whether runs of spaces are collapsed and spaces at both ends are removed.
    merge_spaces: bool,
}

/// The best segmentation up to a position in the text.
#[derive(Clone, Copy)]
struct Best {
    score: f64,
    /// Offset of its last piece.
    from: u32,
    /// Its last piece; the unknown token for a character without one.
    token: u32,
}

impl Unigram {
    /// # Errors
    /// If the scores or the unknown token are missing, or the normalization table is invalid.
    pub(crate) fn new(vocabulary: &Vocabulary<'_>, lexicon: &Lexicon) -> Result<Self, Error> {
        let scores = vocabulary.finite_scores()?.to_vec();
        let unknown = vocabulary.unknown.ok_or(Error::Missing {
            key: UNKNOWN,
            needed: "a Unigram vocabulary requires it for characters without a piece",
        })?;
        let least =
            lexicon.normal().map(|id| scores[id as usize]).min_by(f32::total_cmp).unwrap_or(0.0);
        Ok(Self {
            pieces: Trie::new(lexicon.normal().map(|id| (lexicon.bytes_of(id), id))),
            scores,
            unknown,
            unknown_score: f64::from(least) - UNKNOWN_PENALTY,
            charsmap: Charsmap::new(&vocabulary.charsmap)?,
            merge_spaces: vocabulary.remove_extra_whitespaces,
        })
    }

    /// Appends a text's tokens.
    ///
    /// # Errors
    /// If an offset in the normalization table is out of range.
    pub(crate) fn encode(
        &self,
        lexicon: &Lexicon,
        text: &str,
        prefix: Prefix,
        out: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let text = self.normalize(text, prefix)?;
        let length = u32::try_from(text.len());
        length.map_err(|_| Error::TextTooLong { found: text.len() })?;

        let unreached = Best { score: f64::NEG_INFINITY, from: 0, token: self.unknown };
        let mut best = vec![unreached; text.len() + 1];
        best[0].score = 0.0;
        for (from, c) in text.char_indices() {
            let here = best[from].score;
            let mut reach = |to: usize, token, score| {
                if score > best[to].score {
                    best[to] = Best { score, from: from as u32, token };
                }
            };
            let mut character_is_piece = false;
            for (len, token) in self.pieces.prefixes(&text.as_bytes()[from..]) {
                character_is_piece |= len == c.len_utf8();
                reach(from + len, token, here + f64::from(self.scores[token as usize]));
            }
            if !character_is_piece {
                reach(from + c.len_utf8(), self.unknown, here + self.unknown_score);
            }
        }
        self.trace(lexicon, &text, &best, out);
        Ok(())
    }

    /// Appends the pieces of the best segmentation.
    fn trace(&self, lexicon: &Lexicon, text: &str, best: &[Best], out: &mut Vec<u32>) {
        let mut path = Vec::new();
        let mut end = text.len();
        while end > 0 {
            let Best { from, token, .. } = best[end];
            path.push((from as usize..end, token));
            end = from as usize;
        }
        let mut in_unknown = false;
        for (range, token) in path.into_iter().rev() {
            if token != self.unknown {
                in_unknown = false;
                out.push(token);
            } else if !lexicon.push_byte_tokens(&text.as_bytes()[range], out) && !in_unknown {
                // A run of unknown characters becomes one unknown token.
                in_unknown = true;
                out.push(token);
            }
        }
    }

    fn normalize(&self, text: &str, prefix: Prefix) -> Result<String, Error> {
        let mut bytes = Vec::with_capacity(text.len() + 1);
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            match self.charsmap.longest(&text.as_bytes()[at..])? {
                Some((length, replacement)) if text.is_char_boundary(at + length) => {
                    bytes.extend_from_slice(replacement);
                    at += length;
                }
                _ => {
                    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                    at += c.len_utf8();
                }
            }
        }
        // The result is not UTF-8 only if a replacement begins inside a character.
        let text = String::from_utf8(bytes)
            .map_err(|_| Error::Charsmap { fault: "points into the middle of a character" })?;
        let mut words = text.split(' ').filter(|word| !word.is_empty() || !self.merge_spaces);
        let mut normal = String::with_capacity(text.len() + 1);
        let Some(first) = words.next() else { return Ok(normal) };
        // Not removed, a space at the beginning is an empty word before it.
        let spaced = first.is_empty() || first.starts_with(SPACE_MARK);
        if !text.is_empty() && prefix.applies(spaced) {
            normal.push(' ');
        }
        normal.push_str(first);
        for word in words {
            normal.push(' ');
            normal.push_str(word);
        }
        // Marks in the text count as spaces. As in SentencePiece, runs of them stay, and those at
        // the end of the text go where spaces are merged.
        if normal.contains(SPACE_MARK) {
            normal = normal.replace(SPACE_MARK, " ");
            if self.merge_spaces {
                normal.truncate(normal.trim_end_matches(' ').len());
            }
        }
        Ok(normal)
    }
}
