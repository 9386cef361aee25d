//! Byte-pair encoding with a list of merges.

use std::sync::atomic::{AtomicU8, Ordering};

use hashbrown::HashMap;
use serde_json::Value;

use super::shared::Ids;
use crate::Error;
use crate::merge::{Join, Merger, Symbol};
use crate::rules::node::Node;

/// A BPE model.
#[derive(Debug)]
pub(in crate::rules) struct Bpe {
    ids: Ids,
    /// Tokens of one character, which need no lookup by text.
    single: HashMap<char, u32>,
    joins: HashMap<(u32, u32), Join>,
    unknown: Option<u32>,
    fuse_unknown: bool,
    /// The tokens `<0x00>` to `<0xFF>`, if all or some of them stand for bytes.
    bytes: Option<Box<[Option<u32>; 256]>>,
    /// Put before every character but the first of a word.
    prefix: Option<Box<str>>,
    /// Put after the last character of a word.
    suffix: Option<Box<str>>,
    /// Whether a word that is a token is not merged.
    whole: bool,
    /// Per token, a cache of whether its text as a word is encoded as that one token.
    itself: Vec<AtomicU8>,
}

const NOT_TRIED: u8 = 0;
const ITSELF: u8 = 1;
const OTHERS: u8 = 2;

impl Bpe {
    /// # Errors
    /// If a key is missing or malformed, or a merge names tokens that do not exist.
    pub(super) fn read(node: &Node<'_>, ids: &Ids) -> Result<Self, Error> {
        if node.get("dropout").is_some_and(|dropout| dropout.as_f64() != Some(0.0)) {
            return Err(node.wrong("dropout", "null or 0, as texts have the same ids every time"));
        }
        node.disregard(&["cache_capacity"]);
        let affix = |key| Ok::<_, Error>(node.text(key)?.filter(|text| !text.is_empty()));
        let prefix = affix("continuing_subword_prefix")?;
        let flag = |key| Ok::<_, Error>(node.flag(key)?.unwrap_or(false));
        let unknown = match node.text("unk_token")? {
            // A file may name one that is not in the vocabulary. Characters without tokens are
            // dropped then, where `tokenizers` fails.
            Some(text) => ids.get(text).copied(),
            None => None,
        };
        let bytes = flag("byte_fallback")?.then(|| {
            let of = |byte: usize| ids.get(format!("<0x{byte:02X}>").as_str()).copied();
            Box::new(std::array::from_fn(of))
        });
        let single = ids.iter().filter_map(|(text, id)| {
            let mut chars = text.chars();
            chars.next().filter(|_| chars.next().is_none()).map(|c| (c, *id))
        });
        let tokens = ids.values().max().map_or(0, |max| *max as usize + 1);
        Ok(Self {
            joins: merges(node, ids, prefix.unwrap_or_default())?,
            single: single.collect(),
            unknown,
            fuse_unknown: flag("fuse_unk")?,
            bytes,
            prefix: prefix.map(Into::into),
            suffix: affix("end_of_word_suffix")?.map(Into::into),
            whole: flag("ignore_merges")?,
            itself: (0..tokens).map(|_| AtomicU8::new(NOT_TRIED)).collect(),
            ids: ids.clone(),
        })
    }

    /// Appends the ids of a word.
    pub(super) fn encode(&self, word: &str, merger: &mut Merger, out: &mut Vec<u32>) {
        let Some(&id) = self.ids.get(word) else { return self.merge(word, merger, out) };
        let known = &self.itself[id as usize];
        // Relaxed: threads that compute it concurrently store the same value.
        if self.whole || known.load(Ordering::Relaxed) == ITSELF {
            return out.push(id);
        }
        let before = out.len();
        self.merge(word, merger, out);
        if known.load(Ordering::Relaxed) == NOT_TRIED {
            let itself = out[before..] == [id];
            known.store(if itself { ITSELF } else { OTHERS }, Ordering::Relaxed);
        }
    }

    fn merge(&self, word: &str, merger: &mut Merger, out: &mut Vec<u32>) {
        self.split(word, &mut merger.symbols);
        merger.run(|left, right| self.joins.get(&(left.id, right.id)).copied());
        out.extend(merger.symbols.iter().map(|symbol| symbol.id));
    }

    /// The tokens of a word's characters. An unknown token follows the byte tokens after it, as in
    /// `tokenizers`, and a character without any token is dropped.
    fn split(&self, word: &str, symbols: &mut Vec<Symbol>) {
        symbols.clear();
        let mut push = |id: u32| {
            let start = symbols.len() as u32;
            symbols.push(Symbol { id, start, end: start + 1 });
        };
        let mut pending = None;
        let mut text = String::new();
        for (at, c) in word.char_indices() {
            let last = at + c.len_utf8() == word.len();
            let prefix = self.prefix.as_deref().filter(|_| at > 0);
            let suffix = self.suffix.as_deref().filter(|_| last);
            let found = if prefix.is_none() && suffix.is_none() {
                self.single.get(&c)
            } else {
                text.clear();
                text.extend(prefix);
                text.push(c);
                text.extend(suffix);
                self.ids.get(text.as_str())
            };
            if let Some(&id) = found {
                pending.take().into_iter().for_each(&mut push);
                push(id);
                continue;
            }
            if let Some(bytes) = &self.bytes {
                let mut buffer = [0; 4];
                let own = c.encode_utf8(&mut buffer).bytes();
                let all = prefix.unwrap_or_default().bytes().chain(own);
                let all = all.chain(suffix.unwrap_or_default().bytes());
                let ids = all.map(|byte| bytes[usize::from(byte)]);
                if ids.clone().all(|id| id.is_some()) {
                    ids.flatten().for_each(&mut push);
                    continue;
                }
            }
            if let Some(unknown) = self.unknown
                && !(self.fuse_unknown && pending.is_some())
            {
                pending.replace(unknown).into_iter().for_each(&mut push);
            }
        }
        pending.into_iter().for_each(push);
    }
}

/// Reads the merges as pairs of ids.
fn merges(node: &Node<'_>, ids: &Ids, prefix: &str) -> Result<HashMap<(u32, u32), Join>, Error> {
    let merges = node.list("merges")?;
    let ranks = 0..u32::try_from(merges.len()).map_err(|_| node.wrong("merges", "fewer"))?;
    let mut joins = HashMap::with_capacity(merges.len());
    let mut joined = String::new();
    for (rank, merge) in ranks.zip(merges) {
        let found = pair(merge).and_then(|(left, right)| {
            joined.clear();
            joined.push_str(left);
            joined.push_str(right.get(prefix.len()..)?);
            Some(((*ids.get(left)?, *ids.get(right)?), *ids.get(joined.as_str())?))
        });
        let Some((pair, id)) = found else {
            let merge: String = merge.to_string().chars().take(80).collect();
            return Err(node.error(format!(
                "has the merge {merge} at index {rank}, expected two tokens that form a third"
            )));
        };
        // The last occurrence of a repeated merge decides.
        joins.insert(pair, Join { rank, id });
    }
    Ok(joins)
}

/// The halves of a merge: a list of two since tokenizers 0.20, before "left right".
fn pair(merge: &Value) -> Option<(&str, &str)> {
    match merge {
        Value::String(text) => text.split_once(' ').filter(|(_, right)| !right.contains(' ')),
        Value::Array(halves) => match halves.as_slice() {
            [left, right] => Some((left.as_str()?, right.as_str()?)),
            _ => None,
        },
        _ => None,
    }
}
