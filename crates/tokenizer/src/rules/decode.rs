//! Decoders of `tokenizer.json`, as the bytes that each token adds to a text.
//!
//! A text is decoded token by token while it is generated. So only decoders are supported that
//! depend on a token alone, on whether it is the first or the last one, and on the beginning of
//! the text.

use super::node::Node;
use super::normalize::MAX_STEPS;
use super::pattern::Pattern;
use crate::Error;
use crate::bytes::{byte_token, push_unmapped};

/// The longest text that a token becomes, in bytes.
const MAX_PIECE: usize = 1 << 16;

/// The decoder of a file.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    steps: Vec<Step>,
    /// Whether the tokens are joined, so that later steps see the whole text.
    joined: bool,
    /// A character that is removed at the beginning of a text, and how often at most.
    pub(super) leading: Option<(char, usize)>,
    /// The end of tokens that a space follows, unless they end the text.
    suffix: Option<Box<str>>,
    /// Whether a space precedes every token but the first: a file has no decoder.
    spaced: bool,
}

#[derive(Debug)]
enum Step {
    Replace(Pattern, Box<str>),
    /// Spaces for marks, which are removed in the first token.
    Metaspace {
        mark: char,
        first: bool,
    },
    /// A space before tokens that do not continue a word.
    Words {
        prefix: Box<str>,
        clean: bool,
    },
    Strip {
        content: char,
        start: usize,
        stop: usize,
    },
    /// A byte for `<0x00>` to `<0xFF>`.
    Bytes,
    /// Bytes for characters of GPT-2's alphabet.
    Alphabet,
}

/// The bytes of a token.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rendered {
    pub(super) bytes: Vec<u8>,
    /// Whether a space follows, unless the text ends.
    pub(super) space: bool,
}

impl Decoder {
    /// # Errors
    /// If a rule is unknown, malformed, or depends on more than a token.
    pub(super) fn read(node: Option<Node<'_>>) -> Result<Self, Error> {
        let mut this = Self::default();
        match node {
            Some(node) => this.add(node)?,
            None => this.spaced = true,
        }
        Ok(this)
    }

    fn add(&mut self, node: Node<'_>) -> Result<(), Error> {
        if self.steps.len() >= MAX_STEPS {
            return Err(node.error(format!("is one of more than {MAX_STEPS} decoders")));
        }
        let kind = node.required_text("type")?;
        let after_text =
            || node.error("follows a decoder that joins the tokens, expected before it");
        let step = match kind {
            "Sequence" => {
                for inner in node.nodes("decoders")? {
                    self.add(inner)?;
                }
                return node.finish();
            }
            "Fuse" => {
                self.joined = true;
                return node.finish();
            }
            "Strip" => {
                let content = node.required_char("content")?;
                let count = |key| node.integer(key).map(|count| count.unwrap_or(0) as usize);
                let (start, stop) = (count("start")?, count("stop")?);
                if !self.joined {
                    self.steps.push(Step::Strip { content, start, stop });
                } else if stop > 0 || self.leading.is_some() {
                    return Err(node.error("strips the end of a whole text, expected its start"));
                } else {
                    self.leading = (start > 0).then_some((content, start));
                }
                return node.finish();
            }
            _ if self.joined => return Err(after_text()),
            "ByteLevel" => {
                node.disregard(&["add_prefix_space", "trim_offsets", "use_regex"]);
                self.joined = true;
                Step::Alphabet
            }
            "ByteFallback" => Step::Bytes,
            "Replace" => {
                Step::Replace(Pattern::read(&node)?, node.required_text("content")?.into())
            }
            "WordPiece" => Step::Words {
                prefix: node.required_text("prefix")?.into(),
                clean: node.flag("cleanup")?.unwrap_or(true),
            },
            "Metaspace" => {
                let never = node.text("prepend_scheme")? == Some("never")
                    || node.flag("add_prefix_space")? == Some(false);
                node.disregard(&["split", "str_rep"]);
                Step::Metaspace { mark: node.required_char("replacement")?, first: !never }
            }
            "BPEDecoder" if self.suffix.is_none() => {
                self.suffix = Some(node.required_text("suffix")?.into());
                return node.finish();
            }
            _ => return Err(node.wrong("type", "a decoder that is computed")),
        };
        node.finish()?;
        self.steps.push(step);
        Ok(())
    }

    /// The bytes of a token with this text; `first` if no token precedes it.
    pub(super) fn render(&self, text: &str, first: bool) -> Result<Rendered, Error> {
        let mut text = text.to_owned();
        if self.spaced && !first {
            text.insert(0, ' ');
        }
        for step in &self.steps {
            match step {
                Step::Replace(pattern, content) => {
                    let mut out = String::new();
                    pattern.matches(&text, &mut |range, is_match| {
                        out.push_str(if is_match { content } else { &text[range] });
                        if out.len() > MAX_PIECE {
                            return Err(Error::Grown { limit: MAX_PIECE });
                        }
                        Ok(())
                    })?;
                    text = out;
                }
                Step::Metaspace { mark, first: true } if first => text.retain(|c| c != *mark),
                Step::Metaspace { mark, .. } => text = text.replace(*mark, " "),
                Step::Words { prefix, clean } => {
                    if !first {
                        text = match text.strip_prefix(&**prefix) {
                            Some(rest) => rest.to_owned(),
                            None => format!(" {text}"),
                        };
                    }
                    if *clean {
                        text = cleaned(text);
                    }
                }
                Step::Strip { content, start, stop } => {
                    text = stripped(&text, *content, *start, *stop).to_owned();
                }
                Step::Bytes => {
                    if let Some(byte) = byte_token(&text) {
                        return Ok(Rendered { bytes: vec![byte], space: false });
                    }
                }
                Step::Alphabet => {
                    let mut bytes = Vec::with_capacity(text.len());
                    if !push_unmapped(&text, &mut bytes) {
                        bytes = text.into_bytes();
                    }
                    return Ok(Rendered { bytes, space: false });
                }
            }
        }
        let mut space = false;
        if let Some(suffix) = self.suffix.as_deref().filter(|suffix| !suffix.is_empty()) {
            if let Some(rest) = text.strip_suffix(suffix) {
                (text, space) = (rest.to_owned(), true);
            }
            text = text.replace(suffix, " ");
        }
        Ok(Rendered { bytes: text.into_bytes(), space })
    }
}

/// A text without a character at its ends, at most so often.
fn stripped(mut text: &str, content: char, start: usize, stop: usize) -> &str {
    for _ in 0..start {
        let Some(rest) = text.strip_prefix(content) else { break };
        text = rest;
    }
    for _ in 0..stop {
        let Some(rest) = text.strip_suffix(content) else { break };
        text = rest;
    }
    text
}

/// English spacing, as `tokenizers` restores it in each token.
fn cleaned(text: String) -> String {
    const PAIRS: &[(&str, &str)] = &[
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" do not", " don't"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ];
    PAIRS.iter().fold(text, |text, (from, to)| text.replace(from, to))
}
