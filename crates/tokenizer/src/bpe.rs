//! Byte-pair encoding: SentencePiece's, by scores, and GPT-2's, by a list of merges.

use std::sync::atomic::{AtomicU8, Ordering};

use hashbrown::HashMap;

use crate::Error;
use crate::bytes::push_unmapped;
use crate::lexicon::{Alphabet, Lexicon, NO_TOKEN, SPACE_MARK};
use crate::merge::{Join, Merger, Symbol};
use crate::pretokenize::{Row, Splitter, Whole};
use crate::vocabulary::{MERGES, Vocabulary};

/// What a vocabulary says about which neighbours are joined, and in which order.
#[derive(Debug)]
enum Rule {
    /// These, by the tokens on the left and right.
    Merges(HashMap<(u32, u32), Join>),
    /// All that make a token, by that token's rank.
    Ranks(Vec<u32>),
}

/// A model that encodes words by joining their characters or bytes.
#[derive(Debug)]
pub(crate) struct Bpe {
    splitter: Splitter,
    alphabet: Alphabet,
    rule: Rule,
    whole: Whole,
    unknown: Option<u32>,
    /// Per token, whether its text as a word is encoded as the token. Normally it is, but
    /// nothing in a file makes it so; a word that is a token is encoded once to find out.
    whole_words: Vec<AtomicU8>,
}

const NOT_TRIED: u8 = 0;
const ITSELF: u8 = 1;
const OTHERS: u8 = 2;

impl Bpe {
    /// SentencePiece's BPE: the scores say what is joined first.
    ///
    /// # Errors
    /// If scores are missing or not numbers.
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
            // Equal scores are equally urgent, so that the leftmost pair is joined first.
            rank += u32::from(scores[pair[0] as usize] != scores[pair[1] as usize]);
            ranks[pair[1] as usize] = rank;
        }
        let splitter = Splitter::new(&[], may_cut_before_spaces(lexicon));
        let rule = Rule::Ranks(ranks);
        Ok(Self::build(vocabulary, Alphabet::Marked, splitter, rule, Whole::Never))
    }

    /// BPE by a list of merges.
    ///
    /// # Errors
    /// If merges are missing, malformed or name tokens that do not exist.
    pub(crate) fn merges(
        vocabulary: &Vocabulary<'_>,
        lexicon: &Lexicon,
        row: &Row,
        alphabet: Alphabet,
    ) -> Result<Self, Error> {
        let merges = vocabulary
            .merges
            .as_ref()
            .ok_or(Error::Missing { key: MERGES, needed: "byte-pair encoding is made of them" })?;
        let count = u32::try_from(merges.len()).ok().filter(|&count| count < NO_TOKEN);
        let ranks = 0..count.ok_or(Error::TooLarge { key: MERGES })?;
        let mut joins = HashMap::with_capacity(merges.len());
        let mut bytes = Vec::new();
        for (rank, &merge) in ranks.zip(merges) {
            let (left, right, id) =
                parse_merge(merge, lexicon, alphabet, &mut bytes).map_err(|fault| {
                    let place = rank as usize;
                    Error::Merge { merge: merge.to_owned(), place, fault }
                })?;
            // Of a merge that is listed twice the first counts.
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

    /// Appends a text's tokens. In a marked vocabulary the text has spaces, not marks.
    ///
    /// # Errors
    /// If the vocabulary has no token for a part of the text.
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

    /// Encodes a word that is the text of a token.
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
        // Relaxed: two threads that find out at the same time find out the same.
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
            // A text is shorter than 2^32 bytes; `Tokenizer` sees to that.
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

    /// Appends byte tokens, or else one unknown token for a run, as SentencePiece does. A byte
    /// that a byte-level vocabulary lacks is left out, as Hugging Face's tokenizers do: Falcon
    /// has no token for a vertical tab.
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

/// Whether no token goes on over a space after another character, so that words can be encoded
/// one by one with the same result as the whole text.
fn may_cut_before_spaces(lexicon: &Lexicon) -> bool {
    !lexicon
        .normal()
        .any(|id| lexicon.bytes_of(id).windows(2).any(|pair| pair[0] != b' ' && pair[1] == b' '))
}

/// The two tokens of a merge and what they make.
fn parse_merge(
    merge: &str,
    lexicon: &Lexicon,
    alphabet: Alphabet,
    bytes: &mut Vec<u8>,
) -> Result<(u32, u32, u32), &'static str> {
    // A piece may itself begin with a space, but it is not empty.
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
    let left = id(&bytes[..middle]).ok_or("the left piece is no token")?;
    let right = id(&bytes[middle..]).ok_or("the right piece is no token")?;
    let joined = id(bytes).ok_or("the two pieces together are no token")?;
    Ok((left, right, joined))
}
