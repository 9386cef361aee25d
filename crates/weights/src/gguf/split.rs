//! Models split into several files, as by `llama-gguf-split`.
//!
//! The first shard has the metadata; every shard has some of the tensors and the keys
//! `split.no`, `split.count` and `split.tensors.count`. Shards are named
//! `NAME-00001-of-00003.gguf` and so on, and are in the same folder.

use std::path::{Path, PathBuf};

use crate::Problem;
use crate::metadata::Entries;

/// A shard's keys about the split that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    /// Index of the shard, from 0.
    pub(crate) number: u64,
    pub(crate) count: u64,
    /// Total number of tensors in all shards.
    pub(crate) tensors: u64,
}

impl Split {
    /// Reads the keys of a split, or `None` for a file that is not split.
    pub(crate) fn of(metadata: &Entries) -> Result<Option<Self>, Problem> {
        if metadata.get("split.count").is_none() {
            return Ok(None);
        }
        let integer = |key: &'static str| match metadata.get(key) {
            None => Err(Problem::MissingKey {
                key: key.to_owned(),
                expected: "an integer of 0 or more",
            }),
            Some(value) => {
                value.as_integer().and_then(|v| u64::try_from(v).ok()).ok_or_else(|| {
                    Problem::KeyType {
                        key: key.to_owned(),
                        found: value.describe(),
                        expected: "an integer of 0 or more",
                    }
                })
            }
        };
        Ok(Some(Self {
            number: integer("split.no")?,
            count: integer("split.count")?,
            tensors: integer("split.tensors.count")?,
        }))
    }

    /// Whether there are other shards; a split may have only one.
    pub(crate) fn has_others(&self) -> bool {
        self.count > 1
    }

    /// Checks that the opened file is the first shard.
    pub(crate) fn require_first(self, path: &Path) -> Result<(), Problem> {
        if self.number == 0 {
            return Ok(());
        }
        let hint = prefix(path, self.number, self.count)
            .map_or_else(String::new, |prefix| format!(", {}", name(&prefix, 0, self.count)));
        Err(Problem::NotFirstShard {
            number: self.number.saturating_add(1),
            count: self.count,
            hint,
        })
    }

    /// Checks that a file is shard `number` of the same split; `self` is the first shard's.
    pub(crate) fn require_shard(self, number: u64, metadata: &Entries) -> Result<(), Problem> {
        let shard = Self::of(metadata)?;
        let check = |key, found: Option<u64>, expected| match found {
            Some(found) if found == expected => Ok(()),
            Some(found) => Err(Problem::Shard { key, found: found.to_string(), expected }),
            None => Err(Problem::Shard { key, found: "missing".to_owned(), expected }),
        };
        check("split.count", shard.map(|shard| shard.count), self.count)?;
        check("split.no", shard.map(|shard| shard.number), number)?;
        check("split.tensors.count", shard.map(|shard| shard.tensors), self.tensors)
    }

    /// Checks the total number of tensors against `split.tensors.count`.
    pub(crate) fn require_all(self, found: usize) -> Result<(), Problem> {
        if found as u64 == self.tensors {
            return Ok(());
        }
        Err(Problem::SplitTensors { found, expected: self.tensors })
    }
}

fn name(prefix: &str, number: u64, count: u64) -> String {
    format!("{prefix}-{:05}-of-{count:05}.gguf", number.saturating_add(1))
}

/// `NAME` of a shard named `NAME-00001-of-00003.gguf`.
fn prefix(path: &Path, number: u64, count: u64) -> Option<String> {
    let file_name = path.file_name()?.to_str()?;
    file_name.strip_suffix(&name("", number, count)).map(str::to_owned)
}

/// Path of shard `number`, given the path of the first.
pub(crate) fn shard_path(first: &Path, number: u64, count: u64) -> Result<PathBuf, Problem> {
    let prefix = prefix(first, 0, count).ok_or(Problem::ShardName { count })?;
    Ok(first.with_file_name(name(&prefix, number, count)))
}
