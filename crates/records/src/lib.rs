//! Files that are replaced whole, and measurements that outlive a process, such as the rates of
//! devices and the launch shapes of kernels.
//!
//! An [`Output`] is the file of a result. [`Records`] are in small JSON files of the user's cache
//! directory: an object with an entry for each key. A file is never a reason to fail. Without it,
//! or without a right to write it, the next process measures again.
//!
//! ```
//! use pelton_records::Records;
//!
//! let folder = tempfile::tempdir()?;
//! let rates = Records::<f64>::at(folder.path().join("rates.json"));
//! assert_eq!(rates.get("NVIDIA H200"), None);
//! rates.update("NVIDIA H200", |rate| *rate = 4.3e12)?;
//! assert_eq!(rates.get("NVIDIA H200"), Some(4.3e12));
//! # std::io::Result::Ok(())
//! ```

mod output;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read, Write},
    marker::PhantomData,
    path::{Path, PathBuf},
};

use etcetera::BaseStrategy;
pub use output::Output;
use serde::{Serialize, de::DeserializeOwned};

/// The most bytes of a file that are read: far more than the measurements of many devices.
const MOST: u64 = 1 << 20;

/// A file of entries by key, which processes read and write at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Records<T> {
    file: PathBuf,
    entries: PhantomData<T>,
}

impl<T> Records<T> {
    /// Those of a file, which need not exist.
    pub fn at(file: impl Into<PathBuf>) -> Self {
        Self { file: file.into(), entries: PhantomData }
    }

    /// Those of a file in the folder `pelton` of the user's cache directory. `None` if the user has
    /// none.
    pub fn of_user(name: &str) -> Option<Self> {
        let directories = etcetera::choose_base_strategy().ok()?;
        Some(Self::at(directories.cache_dir().join("pelton").join(name)))
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

impl<T: Serialize + DeserializeOwned + Default> Records<T> {
    /// The entry of a key. `None` if there is none, or the file cannot be read.
    pub fn get(&self, key: &str) -> Option<T> {
        self.read().ok()??.remove(key)
    }

    /// Changes the entry of a key, or the default where there is none. Writers take turns by a
    /// lock. A file that cannot be parsed may be of a later version, so it is kept under another
    /// name.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written.
    pub fn update(&self, key: &str, change: impl FnOnce(&mut T)) -> io::Result<()> {
        let file = &self.file;
        make_parent(file)?;
        let turn = fs::File::create(file.with_extension("lock"))?;
        // a file system without locks loses entries that are written at the same time, which are
        // measured again
        let _ = turn.lock();
        let mut all = match self.read() {
            Ok(Some(all)) => all,
            Ok(None) => {
                fs::rename(file, file.with_extension("unreadable"))?;
                BTreeMap::new()
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        change(all.entry(key.to_owned()).or_default());
        replace(file, &serde_json::to_vec_pretty(&all)?)
    }

    /// All entries; `None` if the file cannot be parsed.
    fn read(&self) -> io::Result<Option<BTreeMap<String, T>>> {
        let mut text = Vec::new();
        fs::File::open(&self.file)?.take(MOST).read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text).ok())
    }
}

/// Writes a file whole, and its folder if there is none, as an [`Output`].
///
/// # Errors
///
/// If the file cannot be written.
pub fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    make_parent(file)?;
    let mut output = Output::create(file, true)?;
    output.write_all(content)?;
    output.finish()
}

fn make_parent(file: &Path) -> io::Result<()> {
    file.parent().map_or(Ok(()), fs::create_dir_all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writers at the same time lose no entry of each other, and leave no files behind.
    #[test]
    fn writers_take_turns() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::<usize>::at(folder.path().join("some.json"));
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let records = &records;
                scope.spawn(move || {
                    for i in 0..20 {
                        records.update(&format!("{writer}-{i}"), |entry| *entry = i).unwrap();
                        records.update("sum", |sum| *sum += i).unwrap();
                    }
                });
            }
        });
        for (writer, i) in (0..8).flat_map(|writer| (0..20).map(move |i| (writer, i))) {
            assert_eq!(records.get(&format!("{writer}-{i}")), Some(i), "{writer}-{i}");
        }
        assert_eq!(records.get("sum"), Some(8 * (0..20).sum::<usize>()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    /// Nothing is made up of files that cannot be parsed, and they are not overwritten.
    #[test]
    fn unreadable_files_are_kept() {
        let long = format!("{{\"x\": {}1}}", " ".repeat(MOST as usize));
        for text in
            ["", "{", "[1]", "{\"x\": [1]}", "{\"version\": 9}", "{\"x\": \"\u{0}\"}", &long]
        {
            let folder = tempfile::tempdir().unwrap();
            let records = Records::<[usize; 2]>::at(folder.path().join("some.json"));
            fs::write(records.file(), text).unwrap();
            assert_eq!(records.get("x"), None, "{text}");
            records.update("x", |entry| *entry = [512, 132]).unwrap();
            assert_eq!(records.get("x"), Some([512, 132]), "{text}");
            let kept = fs::read_to_string(folder.path().join("some.unreadable")).unwrap();
            assert_eq!(kept, text);
        }
    }

    #[test]
    fn entries_of_other_keys_stay() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::<u32>::at(folder.path().join("deeper").join("some.json"));
        assert_eq!(records.get("x"), None);
        for (key, value) in [("x", 1), ("y", 2), ("x", 3)] {
            records.update(key, |entry| *entry = value).unwrap();
        }
        assert_eq!(Records::at(records.file()), records);
        assert_eq!(
            [records.get("x"), records.get("y"), records.get("z")],
            [Some(3), Some(2), None]
        );
        assert_eq!(fs::read_to_string(records.file()).unwrap(), "{\n  \"x\": 3,\n  \"y\": 2\n}");
    }

    /// A write that fails says so and leaves nothing behind.
    #[test]
    fn files_that_cannot_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::<u32>::at(folder.path().join("some.json"));
        fs::create_dir_all(records.file().join("full")).unwrap();
        assert!(records.update("x", |entry| *entry = 1).is_err());
        assert!(replace(records.file(), b"1").is_err());
        let below = Records::<u32>::at(folder.path().join("some.lock").join("other.json"));
        assert!(below.update("x", |entry| *entry = 1).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
