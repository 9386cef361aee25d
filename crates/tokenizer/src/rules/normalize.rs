//! Normalizers of `tokenizer.json`.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use unicode_segmentation::UnicodeSegmentation;

use super::chars::{Form, is_control, is_ideograph, is_mark, is_nonspacing};
use super::node::Node;
use super::pattern::Pattern;
use super::piece::Piece;
use crate::Error;
use crate::bytes::char_of;
use crate::charsmap::Charsmap;

/// The most steps of a file, after sequences are resolved.
pub(super) const MAX_STEPS: usize = 64;

/// The longest text that is inserted, in bytes.
const MAX_INSERTED: usize = 1024;

/// A normalizer.
#[derive(Debug)]
pub(super) enum Normalizer {
    Form(Form),
    Lowercase,
    StripAccents,
    Strip { left: bool, right: bool },
    Replace(Pattern, Box<str>),
    Prepend(Box<str>),
    Bert { clean: bool, ideographs: bool, accents: bool, lowercase: bool },
    Nmt,
    Precompiled(Charsmap),
    ByteLevel,
}

/// Reads a normalizer and appends its steps.
///
/// # Errors
/// If a rule is unknown or malformed.
pub(super) fn read(node: Node<'_>, steps: &mut Vec<Normalizer>) -> Result<(), Error> {
    if steps.len() >= MAX_STEPS {
        return Err(node.error(format!("is one of more than {MAX_STEPS} normalizers")));
    }
    let step = match node.required_text("type")? {
        "Sequence" => {
            for inner in node.nodes("normalizers")? {
                read(inner, steps)?;
            }
            return node.finish();
        }
        "NFC" => Normalizer::Form(Form::Nfc),
        "NFD" => Normalizer::Form(Form::Nfd),
        "NFKC" => Normalizer::Form(Form::Nfkc),
        "NFKD" => Normalizer::Form(Form::Nfkd),
        "Lowercase" => Normalizer::Lowercase,
        "StripAccents" => Normalizer::StripAccents,
        "Nmt" => Normalizer::Nmt,
        "ByteLevel" => Normalizer::ByteLevel,
        "Strip" => Normalizer::Strip {
            left: node.required_flag("strip_left")?,
            right: node.required_flag("strip_right")?,
        },
        "Replace" => Normalizer::Replace(Pattern::read(&node)?, inserted(&node, "content")?.into()),
        "Prepend" => Normalizer::Prepend(inserted(&node, "prepend")?.into()),
        "BertNormalizer" => {
            let lowercase = node.required_flag("lowercase")?;
            Normalizer::Bert {
                clean: node.required_flag("clean_text")?,
                ideographs: node.required_flag("handle_chinese_chars")?,
                accents: node.flag("strip_accents")?.unwrap_or(lowercase),
                lowercase,
            }
        }
        "Precompiled" => {
            let text = node.text("precompiled_charsmap")?.unwrap_or_default();
            let bytes = STANDARD.decode(text);
            let bytes = bytes.map_err(|_| node.wrong("precompiled_charsmap", "base64"))?;
            Normalizer::Precompiled(Charsmap::new(&bytes)?)
        }
        _ => return Err(node.wrong("type", "a normalizer that is computed")),
    };
    node.finish()?;
    steps.push(step);
    Ok(())
}

fn inserted<'a>(node: &Node<'a>, key: &'static str) -> Result<&'a str, Error> {
    let text = node.required_text(key)?;
    if text.len() > MAX_INSERTED {
        return Err(node.wrong(key, "a text of at most 1024 bytes"));
    }
    Ok(text)
}

/// Applies the normalizers in order.
///
/// # Errors
/// If a pattern backtracks too often, or the text grows beyond 64 times its size.
pub(super) fn apply(steps: &[Normalizer], piece: &mut Piece<'_>) -> Result<(), Error> {
    let limit = piece.text.len().saturating_mul(64).saturating_add(1 << 16);
    for step in steps {
        step.apply(piece, limit)?;
        if piece.text.len() > limit {
            return Err(Error::Grown { limit });
        }
    }
    Ok(())
}

impl Normalizer {
    fn apply(&self, piece: &mut Piece<'_>, limit: usize) -> Result<(), Error> {
        let text = &*piece.text;
        match self {
            Self::Form(form) => normalize(piece, *form),
            Self::Lowercase => lowercase(piece),
            Self::StripAccents => filter(piece, |c| !is_mark(c)),
            Self::Strip { left, right } => strip(piece, *left, *right),
            Self::Replace(pattern, content) => replace(piece, pattern, content, limit)?,
            Self::Prepend(prepend) => piece.prepend(prepend),
            Self::Bert { clean, ideographs, accents, lowercase: lower } => {
                if *clean {
                    filter(piece, |c| c != '\0' && c != '\u{fffd}' && !is_control(c));
                    map(piece, |c| if c.is_whitespace() { ' ' } else { c });
                }
                if *ideographs && piece.text.chars().any(is_ideograph) {
                    isolate_ideographs(piece);
                }
                if *accents {
                    normalize(piece, Form::Nfd);
                    filter(piece, |c| !is_nonspacing(c));
                }
                if *lower {
                    lowercase(piece);
                }
            }
            Self::Nmt => {
                filter(piece, |c| !is_nmt_control(c));
                map(piece, |c| if is_nmt_space(c) { ' ' } else { c });
            }
            Self::Precompiled(charsmap) => precompiled(piece, charsmap)?,
            Self::ByteLevel => {
                let text: String = text.bytes().map(char_of).collect();
                piece.set(text);
            }
        }
        Ok(())
    }
}

fn normalize(piece: &mut Piece<'_>, form: Form) {
    if let Cow::Owned(text) = form.of(&piece.text) {
        piece.set(text);
    }
}

/// Lower case of each character alone: a final sigma is like others.
fn lowercase(piece: &mut Piece<'_>) {
    let text = &*piece.text;
    if text.is_ascii() {
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            piece.set(text.to_ascii_lowercase());
        }
        return;
    }
    let text = text.chars().flat_map(char::to_lowercase).collect();
    piece.set(text);
}

fn filter(piece: &mut Piece<'_>, keep: impl Fn(char) -> bool) {
    let text = &*piece.text;
    if text.chars().all(&keep) {
        return;
    }
    let first = text.chars().next().is_some_and(&keep);
    let text: String = text.chars().filter(|&c| keep(c)).collect();
    piece.set(text);
    piece.at_start &= first;
}

fn map(piece: &mut Piece<'_>, change: impl Fn(char) -> char) {
    if piece.text.chars().any(|c| change(c) != c) {
        let text: String = piece.text.chars().map(change).collect();
        piece.set(text);
    }
}

fn strip(piece: &mut Piece<'_>, left: bool, right: bool) {
    let mut text = &*piece.text;
    if left {
        text = text.trim_start();
    }
    if right {
        text = text.trim_end();
    }
    let first = !left || text.len() == piece.text.len() || piece.text.starts_with(text);
    if text.len() != piece.text.len() {
        let text = text.to_owned();
        piece.set(text);
        piece.at_start &= first;
    }
}

fn replace(
    piece: &mut Piece<'_>,
    pattern: &Pattern,
    content: &str,
    limit: usize,
) -> Result<(), Error> {
    let (mut out, mut changed, mut removed_first) = (String::new(), false, false);
    let text = &*piece.text;
    pattern.matches(text, &mut |range, is_match| {
        if is_match {
            changed = true;
            removed_first |= range.start == 0 && range.end > 0 && content.is_empty();
            out.push_str(content);
        } else {
            out.push_str(&text[range]);
        }
        if out.len() > limit { Err(Error::Grown { limit }) } else { Ok(()) }
    })?;
    if changed {
        piece.set(out);
        piece.at_start &= !removed_first;
    }
    Ok(())
}

fn isolate_ideographs(piece: &mut Piece<'_>) {
    let mut out = String::with_capacity(piece.text.len() * 2);
    for c in piece.text.chars() {
        if is_ideograph(c) {
            out.extend([' ', c, ' ']);
        } else {
            out.push(c);
        }
    }
    piece.set(out);
}

/// SentencePiece's table as `tokenizers` applies it: the shortest entry that begins a short
/// grapheme replaces all of it, otherwise characters are replaced one by one.
fn precompiled(piece: &mut Piece<'_>, charsmap: &Charsmap) -> Result<(), Error> {
    let mut out = Vec::with_capacity(piece.text.len());
    for grapheme in piece.text.graphemes(true) {
        if grapheme.len() < 6
            && let Some(replacement) = charsmap.shortest(grapheme.as_bytes())?
        {
            out.extend_from_slice(replacement);
            continue;
        }
        for c in grapheme.chars() {
            let mut buffer = [0; 4];
            let c = c.encode_utf8(&mut buffer).as_bytes();
            out.extend_from_slice(charsmap.shortest(c)?.unwrap_or(c));
        }
    }
    let text = String::from_utf8(out)
        .map_err(|_| Error::Charsmap { fault: "points into the middle of a character" })?;
    piece.text = Cow::Owned(text);
    Ok(())
}

fn is_nmt_control(c: char) -> bool {
    matches!(c,
        '\u{1}'..='\u{8}' | '\u{b}' | '\u{e}'..='\u{1f}' | '\u{7f}' | '\u{8f}' | '\u{9f}')
}

fn is_nmt_space(c: char) -> bool {
    matches!(
        c,
        '\t' | '\n' | '\u{c}' | '\r' | '\u{1680}' | '\u{200b}'
            ..='\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{2581}' | '\u{feff}' | '\u{fffd}'
    )
}
