//! Models in several files, as `llama-gguf-split` makes them.
//!
//! The first part holds the metadata; every part holds some of the tensors and the keys
//! `split.no`, `split.count` and `split.tensors.count`. Parts are called
//! `NAME-00001-of-00003.gguf` and so on, and lie in one folder.

use std::path::{Path, PathBuf};

use crate::Problem;
use crate::metadata::Entries;

/// What a part says about the split it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    /// This part, from 0.
    pub(crate) number: u64,
    pub(crate) count: u64,
    /// Tensors in all parts together.
    pub(crate) tensors: u64,
}

impl Split {
    /// What a file says about a split, or `None` if nothing.
    pub(crate) fn of(metadata: &Entries) -> Result<Option<Self>, Problem> {
        if metadata.get("split.count").is_none() {
            return Ok(None);
        }
        let integer = |key: &'static str| match metadata.get(key) {
            None => {
                Err(Problem::MissingKey { key: key.to_owned(), expected: "a number of 0 or more" })
            }
            Some(value) => {
                value.as_integer().and_then(|v| u64::try_from(v).ok()).ok_or_else(|| {
                    Problem::KeyType {
                        key: key.to_owned(),
                        found: value.describe(),
                        expected: "a number of 0 or more",
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

    /// Whether there are other parts; a splitter may also have made just one.
    pub(crate) fn has_others(&self) -> bool {
        self.count > 1
    }

    /// Refuses a model that was opened by another part than the first.
    pub(crate) fn require_first(self, path: &Path) -> Result<(), Problem> {
        if self.number == 0 {
            return Ok(());
        }
        let hint = prefix(path, self.number, self.count)
            .map_or_else(String::new, |prefix| format!(", {}", name(&prefix, 0, self.count)));
        Err(Problem::NotFirstPart {
            number: self.number.saturating_add(1),
            count: self.count,
            hint,
        })
    }

    /// Refuses a file that is not part `number` of the split that `self` begins.
    pub(crate) fn require_part(self, number: u64, metadata: &Entries) -> Result<(), Problem> {
        let part = Self::of(metadata)?;
        let check = |key, found: Option<u64>, expected| match found {
            Some(found) if found == expected => Ok(()),
            Some(found) => Err(Problem::Part { key, found: found.to_string(), expected }),
            None => Err(Problem::Part { key, found: "missing".to_owned(), expected }),
        };
        check("split.count", part.map(|part| part.count), self.count)?;
        check("split.no", part.map(|part| part.number), number)?;
        check("split.tensors.count", part.map(|part| part.tensors), self.tensors)
    }

    /// Refuses a split whose parts do not hold as many tensors as it says.
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

/// `NAME` of a part called `NAME-00001-of-00003.gguf`.
fn prefix(path: &Path, number: u64, count: u64) -> Option<String> {
    let file_name = path.file_name()?.to_str()?;
    file_name.strip_suffix(&name("", number, count)).map(str::to_owned)
}

/// Where part `number` lies, given the path of the first.
pub(crate) fn part_path(first: &Path, number: u64, count: u64) -> Result<PathBuf, Problem> {
    let prefix = prefix(first, 0, count).ok_or(Problem::PartName { count })?;
    Ok(first.with_file_name(name(&prefix, number, count)))
}
