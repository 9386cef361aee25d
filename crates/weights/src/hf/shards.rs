//! The safetensors files of a folder.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

use super::json::{INDEX_BYTES, parse as parse_json};
use super::safetensors;
use super::stored::Source;
use crate::map::{OpenFiles, is_missing};
use crate::{Error, Problem};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Maximum number of files of a model.
const MAX_FILES: usize = 10_000;

/// The tensors of a folder by name, and the size of its files.
#[derive(Debug)]
pub(super) struct Tensors {
    pub(super) by_name: HashMap<String, Source>,
    pub(super) file_bytes: u64,
}

/// Opens `model.safetensors` or, if there is none, the files of the index.
pub(super) fn open(folder: &Path, files: &mut OpenFiles) -> Result<Tensors, Error> {
    let single = folder.join(SINGLE);
    if single.is_file() {
        let mut tensors = Tensors { by_name: HashMap::new(), file_bytes: 0 };
        tensors.add(&single, files)?;
        return Ok(tensors);
    }
    let path = folder.join(INDEX);
    if !path.is_file() {
        return Err(Error::at(folder, Problem::NoWeights));
    }
    let index: Index = parse_json(&path, INDEX_BYTES)?;
    let rejected = |fault: String| Error::at(&path, Problem::Index { fault });
    let mut shards: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (tensor, file) in &index.weight_map.0 {
        if Path::new(file).file_name() != Some(file.as_ref()) || file.contains(['/', '\\', ':']) {
            return Err(rejected(format!(
                "tensor {tensor:?} is in {file:?}, expected a file name"
            )));
        }
        shards.entry(file).or_default().push(tensor);
    }
    if shards.is_empty() || shards.len() > MAX_FILES {
        return Err(rejected(format!(
            "it names {} files, expected 1 to {MAX_FILES}",
            shards.len()
        )));
    }
    let mut missing = shards.keys().filter(|file| is_missing(&folder.join(file)));
    if let Some(first) = missing.next() {
        let (missing, count) = (1 + missing.count() as u64, shards.len() as u64);
        let first = (*first).to_owned();
        return Err(Error::at(folder, Problem::MissingShards { missing, count, first }));
    }
    let mut tensors = Tensors { by_name: HashMap::new(), file_bytes: 0 };
    for (file, names) in shards {
        let shard: PathBuf = folder.join(file);
        let own = tensors.add(&shard, files)?;
        for name in names {
            if !own.contains(name) {
                return Err(rejected(format!("tensor {name:?} is not in {file:?}")));
            }
        }
    }
    Ok(tensors)
}

impl Tensors {
    /// Adds the tensors of a file and returns their names.
    fn add(&mut self, path: &Path, files: &mut OpenFiles) -> Result<HashSet<String>, Error> {
        let rejected = |problem| Error::at(path, problem);
        let bytes = files.map(path).map_err(rejected)?;
        self.file_bytes += bytes.len() as u64;
        let mut names = HashSet::new();
        for source in safetensors::parse(&bytes).map_err(rejected)? {
            names.insert(source.name.clone());
            if let Some(twice) = self.by_name.insert(source.name.clone(), source) {
                return Err(rejected(Problem::DuplicateTensor { tensor: twice.name }));
            }
        }
        Ok(names)
    }
}

#[derive(serde::Deserialize)]
struct Index {
    weight_map: WeightMap,
}

/// Pairs of a tensor and its file.
struct WeightMap(Vec<(String, String)>);

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(WeightMapVisitor)
    }
}

struct WeightMapVisitor;

impl<'de> Visitor<'de> for WeightMapVisitor {
    type Value = WeightMap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of file names by tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WeightMap, A::Error> {
        let mut names = HashSet::new();
        let mut pairs = Vec::new();
        while let Some((tensor, file)) = map.next_entry::<String, String>()? {
            if !names.insert(tensor.clone()) {
                return Err(A::Error::custom(format_args!("tensor {tensor:?} occurs twice")));
            }
            pairs.push((tensor, file));
        }
        Ok(WeightMap(pairs))
    }
}
