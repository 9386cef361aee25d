//! Tokens that are recognized in a text before encoding, and end-of-generation tokens.

use std::collections::HashSet;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::Error;
use crate::vocabulary::{TokenType, Vocabulary};

/// Treatment of the texts of special tokens in a text, such as `<|im_end|>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Encodes them as ordinary text. For untrusted text, which cannot end or begin a turn then.
    /// (Tokens of type user-defined are recognized nevertheless, as in training.)
    Ignore,
    /// Encodes all of them as ordinary text, those of type user-defined too. For text that a chat
    /// template's own tokens are told apart from, such as a message with `<tool_call>` in it.
    Plain,
    /// Encodes them as the tokens. For prompts rendered by a chat template.
    Parse,
}

/// A fragment of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fragment<'t> {
    /// Text to be encoded, not empty.
    Text(&'t str),
    /// A recognized token.
    Token(u32),
}

/// Search for the tokens that are recognized by their text.
#[derive(Debug)]
pub(crate) struct Specials {
    /// Control, unknown and user-defined tokens.
    all: Search,
    /// User-defined tokens.
    user_defined: Search,
}

/// Search for a set of tokens, leftmost-longest.
#[derive(Debug)]
struct Search {
    engine: AhoCorasick,
    tokens: Vec<Found>,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    id: u32,
    /// Whether the token absorbs the white space before it.
    strip_before: bool,
    /// Whether the token absorbs the white space after it.
    strip_after: bool,
}

impl Specials {
    /// # Errors
    /// If the automaton exceeds its size limit.
    pub(crate) fn new(vocabulary: &Vocabulary<'_>) -> Result<Self, Error> {
        use TokenType::{Control, Unknown, UserDefined};
        Ok(Self {
            all: Search::new(vocabulary, &[Control, Unknown, UserDefined])?,
            user_defined: Search::new(vocabulary, &[UserDefined])?,
        })
    }

    /// Splits a text into recognized tokens and the text between them.
    pub(crate) fn fragments<'t>(
        &self,
        text: &'t str,
        special: Special,
        mut each: impl FnMut(Fragment<'t>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let search = match special {
            Special::Parse => &self.all,
            Special::Ignore => &self.user_defined,
            Special::Plain if text.is_empty() => return Ok(()),
            Special::Plain => return each(Fragment::Text(text)),
        };
        let mut rest = 0;
        for found in search.engine.find_iter(text) {
            let token = search.tokens[found.pattern().as_usize()];
            // The white space absorbed by the previous token may extend to this match.
            let mut before = &text[rest.min(found.start())..found.start()];
            if token.strip_before {
                before = before.trim_ascii_end();
            }
            if !before.is_empty() {
                each(Fragment::Text(before))?;
            }
            each(Fragment::Token(token.id))?;
            rest = found.end();
            if token.strip_after {
                rest = text.len() - text[rest..].trim_ascii_start().len();
            }
        }
        if rest < text.len() { each(Fragment::Text(&text[rest..])) } else { Ok(()) }
    }
}

impl Search {
    fn new(vocabulary: &Vocabulary<'_>, types: &[TokenType]) -> Result<Self, Error> {
        let (mut texts, mut tokens) = (Vec::new(), Vec::new());
        let mut known = HashSet::new();
        for ((id, &text), token_type) in (0..).zip(&vocabulary.tokens).zip(&vocabulary.types) {
            // the lowest id of several with the same text is found
            if types.contains(token_type) && !text.is_empty() && known.insert(text) {
                texts.push(text);
                tokens.push(Found {
                    id,
                    strip_before: strips_before(vocabulary, text),
                    strip_after: strips_after(vocabulary, text),
                });
            }
        }
        let engine = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(texts)
            .map_err(|error| Error::Specials(error.to_string()))?;
        Ok(Self { engine, tokens })
    }
}

// No key corresponds to `lstrip` and `rstrip` of `tokenizer.json`, which state the tokens that
// absorb adjacent white space. The two rules below are those of llama.cpp (`src/llama-vocab.cpp`,
// "set attributes by model/tokenizer/architecture name").

fn strips_before(vocabulary: &Vocabulary<'_>, text: &str) -> bool {
    match text {
        "<mask>" => matches!(vocabulary.pre, Some("jina-v2-de" | "jina-v2-es" | "jina-v2-code")),
        "[MASK]" => vocabulary.pre == Some("modern-bert"),
        _ => false,
    }
}

/// Whether the vocabulary is Phi-3's.
pub(crate) fn is_phi_3(vocabulary: &Vocabulary<'_>) -> bool {
    let name = vocabulary.name.unwrap_or_default().to_ascii_lowercase();
    name.contains("phi-3") || name.contains("phi3")
}

fn strips_after(vocabulary: &Vocabulary<'_>, text: &str) -> bool {
    is_phi_3(vocabulary) && !matches!(text, "<unk>" | "<s>" | "<|endoftext|>")
}

/// Texts of control tokens that end a turn in some family of models, independent of the keys of a
/// file (llama.cpp, `src/llama-vocab.cpp`, `special_eog_ids`).
const ENDS: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
];

/// Changes tokens that end a turn from type user-defined to control, such as `</s>` in Phi-3's
/// files. A user's text must not end the user's turn.
pub(crate) fn protect_ends(vocabulary: &mut Vocabulary<'_>) {
    for (token_type, text) in vocabulary.types.iter_mut().zip(&vocabulary.tokens) {
        if *token_type == TokenType::UserDefined && ENDS.contains(text) {
            *token_type = TokenType::Control;
        }
    }
}

/// The end-of-generation tokens, in ascending order.
pub(crate) fn ends(vocabulary: &Vocabulary<'_>) -> Vec<u32> {
    let (mut ends, mut found) = (Vec::new(), Vec::new());
    for ((id, &text), &token_type) in (0..).zip(&vocabulary.tokens).zip(&vocabulary.types) {
        if token_type == TokenType::Control && ENDS.contains(&text) {
            ends.push(id);
            found.push(text);
        }
    }
    // In formats with these tokens <|end|> ends a message, but not the turn.
    let has = |text| found.contains(&text);
    if has("<|return|>") && has("<|call|>") || has("<|flush|>") && has("<|calls|>") {
        ends.retain(|&id| vocabulary.tokens.get(id as usize) != Some(&"<|end|>"));
    }
    ends.extend([vocabulary.eos, vocabulary.eot, vocabulary.eom].into_iter().flatten());
    ends.sort_unstable();
    ends.dedup();
    ends
}
