//! Byte-pair encoding (BPE): SentencePiece's, with scores, and GPT-2's, with a list of merges.

use std::sync::atomic::{AtomicU8, Ordering};

use hashbrown::HashMap;

use crate::Error;
use crate::bytes::push_unmapped;
use crate::lexicon::{Alphabet, Lexicon, NO_TOKEN, SPACE_MARK};
use crate::merge::{Join, Merger, Symbol};
use crate::pretokenize::{Row, Splitter, Whole};
use crate::vocabulary::{MERGES, Vocabulary};

/// The adjacent pairs that are merged, and their priorities.
#[derive(Debug)]
enum Rule {
    /// Listed merges, by the left and right token.
    Merges(HashMap<(u32, u32), Join>),
    /// Every pair that forms a token, by that token's rank.
    Ranks(Vec<u32>),
}

/// A BPE model: encodes words by merging their characters or bytes.
#[derive(Debug)]
pub(crate) struct Bpe {
    splitter: Splitter,
    alphabet: Alphabet,
    rule: Rule,
    whole: Whole,
    unknown: Option<u32>,
    /// Per token, a cache of whether its text as a word is encoded as that one token. It usually
    /// is, but a file does not guarantee it; such a word is encoded once to determine it.
    whole_words: Vec<AtomicU8>,
}

const NOT_TRIED: u8 = 0;
const ITSELF: u8 = 1;
const OTHERS: u8 = 2;

impl Bpe {
    /// Builds SentencePiece's BPE: the pair of the highest score is merged first.
    ///
    /// # Errors
    /// If scores are missing or not finite.
    pub(crate) fn sentence_piece(
        vocabulary: &Vocabulary<'_>,
        lexicon: &Lexicon,
    ) -> Result<Self, Error> {
        let scores = vocabulary.finite_scores()?;
        let mut order: Vec<u32> = (0..).take(scores.len()).collect();
        order.sort_by(|&a, &b| scores[b as usize].total_cmp(&scores[a as usize]));
        let mut ranks = vec![0; scores.len()];
        let mut rank = 0;
        for pair in order.windows(2) {
            // Equal scores have equal ranks, so that the leftmost pair is merged first.
            rank += u32::from(scores[pair[0] as usize] != scores[pair[1] as usize]);
            ranks[pair[1] as usize] = rank;
        }
        let splitter = Splitter::new(&[], may_cut_before_spaces(lexicon));
        let rule = Rule::Ranks(ranks);
        Ok(Self::build(vocabulary, Alphabet::Marked, splitter, rule, Whole::Never))
    }

    /// Builds BPE with a list of merges.
    ///
    /// # Errors
    /// If the list is missing or too long, or if a merge is malformed or refers to no token.
    pub(crate) fn merges(
        vocabulary: &Vocabulary<'_>,
        lexicon: &Lexicon,
        row: &Row,
        alphabet: Alphabet,
    ) -> Result<Self, Error> {
        let merges = vocabulary.merges.as_ref().ok_or(Error::Missing {
            key: MERGES,
            needed: "byte-pair encoding requires a list of merges",
        })?;
        let count = u32::try_from(merges.len()).ok().filter(|&count| count < NO_TOKEN);
        let ranks = 0..count.ok_or(Error::TooLarge { key: MERGES })?;
        let mut joins = HashMap::with_capacity(merges.len());
        let mut bytes = Vec::new();
        for (rank, &merge) in ranks.zip(merges) {
            let (left, right, id) =
                parse_merge(merge, lexicon, alphabet, &mut bytes).map_err(|fault| {
                    let index = rank as usize;
                    Error::Merge { merge: merge.to_owned(), index, fault }
                })?;
            // The first occurrence of a repeated merge decides.
            joins.entry((left, right)).or_insert(Join { rank, id });
        }
        let spaces = alphabet == Alphabet::Marked && may_cut_before_spaces(lexicon);
        let splitter = Splitter::new(row.steps, spaces);
        Ok(Self::build(vocabulary, alphabet, splitter, Rule::Merges(joins), row.whole))
    }

    fn build(
        vocabulary: &Vocabulary<'_>,
        alphabet: Alphabet,
        splitter: Splitter,
        rule: Rule,
        whole: Whole,
    ) -> Self {
        let whole_words = vocabulary.tokens.iter().map(|_| AtomicU8::new(NOT_TRIED)).collect();
        let unknown = vocabulary.unknown;
        Self { splitter, alphabet, rule, whole, unknown, whole_words }
    }

    /// Appends a text's tokens. For a marked vocabulary the text has spaces instead of marks.
    ///
    /// # Errors
    /// If the vocabulary has no token for a piece of the text.
    pub(crate) fn encode(
        &self,
        lexicon: &Lexicon,
        text: &str,
        merger: &mut Merger,
        out: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let begin = out.len();
        self.splitter.split(text, &mut |word| match lexicon.find(word.as_bytes()) {
            Some(id) => self.encode_token(lexicon, word, id, merger, begin, out),
            None => self.encode_word(lexicon, word, merger, begin, out),
        })
    }

    /// Encodes a word that is also the text of a token.
    fn encode_token(
        &self,
        lexicon: &Lexicon,
        word: &str,
        id: u32,
        merger: &mut Merger,
        begin: usize,
        out: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let whole = match self.whole {
            Whole::Always => true,
            Whole::Newlines => word.bytes().all(|byte| byte == b'\n'),
            Whole::Never => false,
        };
        let known = &self.whole_words[id as usize];
        // Relaxed: threads that compute it concurrently store the same value.
        if whole || known.load(Ordering::Relaxed) == ITSELF {
            out.push(id);
            return Ok(());
        }
        let before = out.len();
        self.encode_word(lexicon, word, merger, begin, out)?;
        if known.load(Ordering::Relaxed) == NOT_TRIED {
            let itself = out[before..] == [id];
            known.store(if itself { ITSELF } else { OTHERS }, Ordering::Relaxed);
        }
        Ok(())
    }

    fn encode_word(
        &self,
        lexicon: &Lexicon,
        word: &str,
        merger: &mut Merger,
        begin: usize,
        out: &mut Vec<u32>,
    ) -> Result<(), Error> {
        merger.symbols.clear();
        let mut push = |start: usize, len: usize| {
            let id = lexicon.find(&word.as_bytes()[start..start + len]).unwrap_or(NO_TOKEN);
            // `Tokenizer` ensures that a text is shorter than 2^32 bytes.
            merger.symbols.push(Symbol { id, start: start as u32, end: (start + len) as u32 });
        };
        match self.alphabet {
            Alphabet::Bytes => (0..word.len()).for_each(|start| push(start, 1)),
            Alphabet::Marked => {
                word.char_indices().for_each(|(start, c)| push(start, c.len_utf8()))
            }
        }
        match &self.rule {
            Rule::Merges(joins) => {
                merger.run(|left, right| joins.get(&(left.id, right.id)).copied());
            }
            Rule::Ranks(ranks) => merger.run(|left, right| {
                let id = lexicon.find(&word.as_bytes()[left.start as usize..right.end as usize])?;
                Some(Join { rank: ranks[id as usize], id })
            }),
        }
        for symbol in &merger.symbols {
            if symbol.id == NO_TOKEN {
                let bytes = &word.as_bytes()[symbol.start as usize..symbol.end as usize];
                self.push_unknown(lexicon, bytes, begin, out)?;
            } else {
                out.push(symbol.id);
            }
        }
        Ok(())
    }

    /// Appends byte tokens, or one unknown token per run, as SentencePiece does. A byte without a
    /// token in a byte-level vocabulary is dropped, as in Hugging Face's tokenizers: Falcon has no
    /// token for a vertical tab.
    fn push_unknown(
        &self,
        lexicon: &Lexicon,
        bytes: &[u8],
        begin: usize,
        out: &mut Vec<u32>,
    ) -> Result<(), Error> {
        if self.alphabet == Alphabet::Bytes || lexicon.push_byte_tokens(bytes, out) {
            return Ok(());
        }
        let Some(unknown) = self.unknown else {
            return Err(Error::Unencodable { text: String::from_utf8_lossy(bytes).into_owned() });
        };
        if out[begin..].last() != Some(&unknown) {
            out.push(unknown);
        }
        Ok(())
    }
}

/// Whether no token has a space after another character, so that encoding word by word has the
/// same result as encoding the whole text.
fn may_cut_before_spaces(lexicon: &Lexicon) -> bool {
    !lexicon
        .normal()
        .any(|id| lexicon.bytes_of(id).windows(2).any(|pair| pair[0] != b' ' && pair[1] == b' '))
}

/// Parses a merge into its two tokens and the resulting token.
fn parse_merge(
    merge: &str,
    lexicon: &Lexicon,
    alphabet: Alphabet,
    bytes: &mut Vec<u8>,
) -> Result<(u32, u32, u32), &'static str> {
    // A piece is not empty, but may begin with a space.
    let first = merge.chars().next().map_or(0, char::len_utf8);
    let (left, right) = merge
        .get(first..)
        .and_then(|rest| rest.find(' '))
        .map(|space| (&merge[..first + space], &merge[first + space + 1..]))
        .filter(|(_, right)| !right.is_empty())
        .ok_or("expected two pieces separated by a space")?;
    bytes.clear();
    let mut middle = 0;
    for piece in [left, right] {
        middle = bytes.len();
        match alphabet {
            Alphabet::Bytes => {
                push_unmapped(piece, bytes);
            }
            Alphabet::Marked => bytes.extend(piece.replace(SPACE_MARK, " ").bytes()),
        }
    }
    let id = |bytes| lexicon.find(bytes);
    let left = id(&bytes[..middle]).ok_or("the left piece is not a token")?;
    let right = id(&bytes[middle..]).ok_or("the right piece is not a token")?;
    let joined = id(bytes).ok_or("the concatenation of the pieces is not a token")?;
    Ok((left, right, joined))
}
