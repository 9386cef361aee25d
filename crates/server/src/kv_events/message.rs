//! The content of a message, as msgpack: `[time, [event, ...], rank]`. The rank is the number of
//! the replica whose events these are, and nil for a model without others.
//!
//! An event is one of
//! `["BlockStored", [id], parent, [token, ...], block_size, lora_id, medium, lora_name, extra_keys]`,
//! `["BlockRemoved", [id], medium]` and `["AllBlocksCleared"]`. The medium is `GPU`, vLLM's word
//! for the engine's own memory. Extra keys stand with the first page of a prefix: a router that
//! hashes the tokens of a prompt hashes them too.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use pelton::{CacheEvent, CachedPage};
use rmp::encode::{ValueWriteError, write_array_len, write_f64, write_nil, write_str, write_uint};

use crate::salts::Salts;

const MEDIUM: &str = "GPU";

/// The words for the numbers in events.
pub(crate) struct Names {
    /// LoRA adapters, in the order of the load.
    pub(crate) loras: Vec<String>,
    pub(crate) salts: Arc<Salts>,
}

impl Names {
    /// The adapters of a page as one name: that of a single adapter with the scale 1, and otherwise
    /// one that no router knows.
    fn lora_name(&self, loras: &[(u32, f32)]) -> Option<String> {
        let one = |&(index, scale): &(u32, f32)| {
            let name = self.loras.get(index as usize).map_or("", String::as_str);
            if scale == 1.0 { name.to_owned() } else { format!("{name}:{scale}") }
        };
        let names: Vec<String> = loras.iter().map(one).collect();
        (!names.is_empty()).then(|| names.join("+"))
    }

    /// The other values that divide prefixes: the salt of the request, the API key and the effort.
    fn key_words(&self, salt: u64, effort: f64) -> Vec<String> {
        let mut keys = Vec::new();
        if salt != 0 {
            match self.salts.pair(salt) {
                Some((key, chosen)) => {
                    keys.extend(chosen);
                    keys.extend(key.map(|key| format!("key {key}")));
                }
                None => keys.push(format!("salt {}", salt)),
            }
        }
        if effort != 1.0 {
            keys.push(format!("effort {}", effort));
        }
        keys
    }
}

/// The content of a message with events of this moment, of the replica with a rank.
pub(super) fn payload(events: &[CacheEvent], names: &Names, rank: Option<usize>) -> Vec<u8> {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let mut out = Vec::new();
    // writing to a vector does not fail
    let _ = batch(&mut out, time, events, names, rank);
    out
}

fn nil(out: &mut Vec<u8>) -> Result<(), ValueWriteError> {
    write_nil(out).map_err(ValueWriteError::InvalidMarkerWrite)
}

fn batch(
    out: &mut Vec<u8>,
    time: f64,
    events: &[CacheEvent],
    names: &Names,
    rank: Option<usize>,
) -> Result<(), ValueWriteError> {
    write_array_len(out, 3)?;
    write_f64(out, time)?;
    write_array_len(out, events.len() as u32)?;
    for event in events {
        match event {
            CacheEvent::Stored(page) => stored(out, page, names)?,
            CacheEvent::Removed(id) => {
                write_array_len(out, 3)?;
                write_str(out, "BlockRemoved")?;
                write_array_len(out, 1)?;
                write_uint(out, *id)?;
                write_str(out, MEDIUM)?;
            }
            _ => {
                write_array_len(out, 1)?;
                write_str(out, "AllBlocksCleared")?;
            }
        }
    }
    match rank {
        Some(rank) => write_uint(out, rank as u64).map(drop),
        None => nil(out),
    }
}

fn stored(out: &mut Vec<u8>, page: &CachedPage, names: &Names) -> Result<(), ValueWriteError> {
    write_array_len(out, 9)?;
    write_str(out, "BlockStored")?;
    write_array_len(out, 1)?;
    write_uint(out, page.id)?;
    match page.parent {
        Some(parent) => {
            write_uint(out, parent)?;
        }
        None => nil(out)?,
    }
    write_array_len(out, page.tokens.len() as u32)?;
    for &token in &page.tokens {
        write_uint(out, token.into())?;
    }
    write_uint(out, page.tokens.len() as u64)?;
    nil(out)?;
    write_str(out, MEDIUM)?;
    match names.lora_name(&page.loras) {
        Some(name) => write_str(out, &name)?,
        None => nil(out)?,
    }
    let keys =
        if page.parent.is_none() { names.key_words(page.salt, page.effort) } else { Vec::new() };
    if keys.is_empty() {
        nil(out)?;
        return Ok(());
    }
    write_array_len(out, 1)?;
    write_array_len(out, keys.len() as u32)?;
    keys.iter().try_for_each(|key| write_str(out, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_rank_of_a_replica() {
        let names = Names { loras: Vec::new(), salts: Arc::default() };
        let last = |rank| payload(&[CacheEvent::Removed(5)], &names, rank).pop();
        assert_eq!([None, Some(0), Some(3)].map(last), [Some(0xc0), Some(0), Some(3)]);
    }

    #[test]
    fn words_of_a_page() {
        let names = Names { loras: vec!["one".into(), "two".into()], salts: Arc::default() };
        let salt = names.salts.number(Some(3), Some("mine"));
        assert_eq!(names.key_words(0, 1.0), [""; 0]);
        assert_eq!(names.key_words(salt, 0.5), ["mine", "key 3", "effort 0.5"]);
        assert_eq!(names.key_words(99, 1.0), ["salt 99"]);
        assert_eq!(names.lora_name(&[]), None);
        assert_eq!(names.lora_name(&[(1, 1.0)]).as_deref(), Some("two"));
        assert_eq!(names.lora_name(&[(0, 0.5), (1, 1.0)]).as_deref(), Some("one:0.5+two"));
    }
}
