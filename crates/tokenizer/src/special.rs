//! Tokens that are found in a text before it is encoded, and tokens that end one.

use aho_corasick::{AhoCorasick, MatchKind};

use crate::vocabulary::{TokenType, Vocabulary};
use crate::{Error, Special};

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fragment<'t> {
    /// To be encoded; not empty.
    Text(&'t str),
    /// Encoded already.
    Token(u32),
}

/// The tokens that are written out in texts.
#[derive(Debug)]
pub(crate) struct Specials {
    /// Control, unknown and user-defined tokens.
    all: Search,
    /// User-defined tokens.
    user_defined: Search,
}

/// Finds tokens, of those that begin at the same place the longest.
#[derive(Debug)]
struct Search {
    engine: AhoCorasick,
    tokens: Vec<Found>,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    id: u32,
    /// Whether the token takes the white space before it.
    strip_before: bool,
    /// Whether the token takes the white space after it.
    strip_after: bool,
}

impl Specials {
    /// # Errors
    /// If there is too much to search for.
    pub(crate) fn new(vocabulary: &Vocabulary<'_>) -> Result<Self, Error> {
        use TokenType::{Control, Unknown, UserDefined};
        Ok(Self {
            all: Search::new(vocabulary, &[Control, Unknown, UserDefined])?,
            user_defined: Search::new(vocabulary, &[UserDefined])?,
        })
    }

    /// Cuts a text into tokens that are written out in it and the text between them.
    pub(crate) fn fragments<'t>(
        &self,
        text: &'t str,
        special: Special,
        mut each: impl FnMut(Fragment<'t>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let search = match special {
            Special::Parse => &self.all,
            Special::Ignore => &self.user_defined,
        };
        let mut rest = 0;
        for found in search.engine.find_iter(text) {
            let token = search.tokens[found.pattern().as_usize()];
            // White space after the token before may reach to here.
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
        for ((id, &text), token_type) in (0..).zip(&vocabulary.tokens).zip(&vocabulary.types) {
            if types.contains(token_type) && !text.is_empty() {
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

// No key states which tokens take the white space beside them, as `lstrip` and `rstrip` do in
// `tokenizer.json`. The two rules below are those of llama.cpp (`src/llama-vocab.cpp`, "set
// attributes by model/tokenizer/architecture name").

fn strips_before(vocabulary: &Vocabulary<'_>, text: &str) -> bool {
    match text {
        "<mask>" => matches!(vocabulary.pre, Some("jina-v2-de" | "jina-v2-es" | "jina-v2-code")),
        "[MASK]" => vocabulary.pre == Some("modern-bert"),
        _ => false,
    }
}

fn strips_after(vocabulary: &Vocabulary<'_>, text: &str) -> bool {
    let name = vocabulary.name.unwrap_or_default().to_ascii_lowercase();
    (name.contains("phi-3") || name.contains("phi3"))
        && !matches!(text, "<unk>" | "<s>" | "<|endoftext|>")
}

/// Texts of control tokens that end a turn in some family of models, whether or not a key says
/// so (llama.cpp, `src/llama-vocab.cpp`, `special_eog_ids`).
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

/// Makes control tokens of the tokens that end a turn where a file calls them user-defined, as
/// Phi-3's do with `</s>`: a user's text must not end the user's turn.
pub(crate) fn protect_ends(vocabulary: &mut Vocabulary<'_>) {
    for (token_type, text) in vocabulary.types.iter_mut().zip(&vocabulary.tokens) {
        if *token_type == TokenType::UserDefined && ENDS.contains(text) {
            *token_type = TokenType::Control;
        }
    }
}

/// The tokens after which a model has nothing more to say, in ascending order.
pub(crate) fn ends(vocabulary: &Vocabulary<'_>) -> Vec<u32> {
    let (mut ends, mut found) = (Vec::new(), Vec::new());
    for ((id, &text), &token_type) in (0..).zip(&vocabulary.tokens).zip(&vocabulary.types) {
        if token_type == TokenType::Control && ENDS.contains(&text) {
            ends.push(id);
            found.push(text);
        }
    }
    // In the formats that have these tokens, a message ends with <|end|> but the turn goes on.
    let has = |text| found.contains(&text);
    if has("<|return|>") && has("<|call|>") || has("<|flush|>") && has("<|calls|>") {
        ends.retain(|&id| vocabulary.tokens.get(id as usize) != Some(&"<|end|>"));
    }
    ends.extend([vocabulary.eos, vocabulary.eot, vocabulary.eom].into_iter().flatten());
    ends.sort_unstable();
    ends.dedup();
    ends
}
