//! Choices by measurement that outlive a process, in a file of the user's cache directory.

use std::{collections::BTreeMap, io, path::Path};

use pelton_records::Records;

use crate::device::Device;

/// The two numbers of each choice, by its key.
pub(crate) type Known = BTreeMap<String, [usize; 2]>;

/// The choices of a GPU with its driver.
pub(crate) struct Choices {
    /// Those of all GPUs, by their [owners](owner).
    records: Records<Known>,
    owner: String,
}

impl Choices {
    /// Those of a GPU in a file.
    pub(crate) fn new(records: Records<Known>, device: &Device) -> Self {
        Self { records, owner: owner(device) }
    }

    /// Those of a GPU in the user's file, if there can be one.
    pub(crate) fn of_user(device: &Device) -> Option<Self> {
        Records::of_user("gpu-tuning.json").map(|records| Self::new(records, device))
    }

    /// All of them; none of a file that cannot be read.
    pub(crate) fn all(&self) -> Known {
        self.records.get(&self.owner).unwrap_or_default()
    }

    /// The numbers of a choice.
    pub(crate) fn get(&self, key: &str) -> Option<[usize; 2]> {
        self.all().remove(key)
    }

    /// Adds choices, in place of earlier ones of their keys.
    ///
    /// # Errors
    ///
    /// If the file cannot be written: the next load measures again.
    pub(crate) fn add(&self, known: Known) -> io::Result<()> {
        self.records.update(&self.owner, |all| all.extend(known))
    }

    /// The file.
    pub(crate) fn file(&self) -> &Path {
        self.records.file()
    }
}

/// The GPU and its driver, on which measurements depend.
pub(crate) fn owner(device: &Device) -> String {
    format!("{}, {}", device.name, device.driver)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file is that of earlier versions.
    #[test]
    fn choices_are_stored_by_gpu() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::at(folder.path().join("tuning.json"));
        let of = |owner: &str| Choices { records: records.clone(), owner: owner.to_owned() };
        assert_eq!(of("x").all(), Known::new());
        std::fs::write(records.file(), r#"{"x": {"k": [512, 132], "l": [1, 2]}}"#).unwrap();
        for (owner, numbers) in [("x", [256, 264]), ("y", [128, 528])] {
            of(owner).add(Known::from([("k".to_owned(), numbers)])).unwrap();
        }
        assert_eq!([of("x").get("k"), of("x").get("l")], [Some([256, 264]), Some([1, 2])]);
        assert_eq!(of("y").all(), Known::from([("k".to_owned(), [128, 528])]));
    }
}
