//! Which files of a repository make a model.

use std::collections::{BTreeMap, HashMap};

use crate::{
    download::Hash,
    error::{Error, Result},
    name::{FileName, Part, Tag},
    settings::Towers,
};

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: FileName,
    /// Bytes.
    pub(crate) size: u64,
    /// The hash of its bytes, if the hub's list has one.
    pub(crate) hash: Option<Hash>,
}

/// Bytes of files. Sizes come from a host, so their sum may be more than there is.
pub(crate) fn total<'a>(files: impl IntoIterator<Item = &'a Entry>) -> u64 {
    files.into_iter().fold(0, |sum, file| sum.saturating_add(file.size))
}

/// The files of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// In the order in which they are downloaded: the file by which a directory is known comes
    /// last.
    pub(crate) files: Vec<Entry>,
    /// The file to open; `None` for a directory.
    pub(crate) main: Option<FileName>,
    /// The quantization in the file's name, if it is a known one.
    pub(crate) tag: Option<Tag>,
    /// Why these files, if nobody named them.
    pub(crate) reason: Option<String>,
}

impl Choice {
    pub(crate) fn bytes(&self) -> u64 {
        total(&self.files)
    }

    /// The same with the vision tower that fits a GGUF model.
    pub(crate) fn with_tower(mut self, entries: &[Entry]) -> Self {
        let tower = self.main.as_ref().and_then(|main| tower_of(entries, main));
        self.files.extend(tower.cloned());
        self
    }
}

/// Quantizations from the most exact to the smallest one. Without a wish the first one that fits is
/// taken.
const BY_QUALITY: [&str; 22] = [
    "Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q5_1", "Q5_0", "Q4_K_M", "MXFP4", "Q4_K_S", "IQ4_NL",
    "Q4_1", "IQ4_XS", "Q4_0", "Q3_K_L", "Q3_K_M", "IQ3_S", "Q3_K_S", "IQ3_XXS", "Q2_K", "IQ2_S",
    "IQ2_XS", "IQ2_XXS",
];
/// Those that are taken first where the memory is not known: llama.cpp's order.
const USUAL: [&str; 2] = ["Q4_K_M", "Q8_0"];
/// Further quantizations in file names.
const OTHERS: [&str; 12] = [
    "F32", "F16", "BF16", "Q6_K_L", "Q5_K_L", "Q4_K_L", "Q3_K_XL", "Q4_K_XL", "Q5_K_XL", "Q6_K_XL",
    "Q8_K_XL", "Q2_K_L",
];
/// The word in the names of files of vision towers.
const TOWER: &str = "mmproj";
/// Types of such files from the first that is taken to the last.
const TOWER_TYPES: [&str; 4] = ["F16", "Q8_0", "BF16", "F32"];
/// Words in the names of GGUF files that are no models on their own.
const COMPANIONS: [&str; 2] = [TOWER, "imatrix"];
/// Beginnings of such names.
const COMPANION_STARTS: [&str; 3] = ["mtp-", "draft-", "draft_"];

/// A GGUF model: one file, or all of its splits.
#[derive(Clone, Debug)]
pub(crate) struct Gguf {
    pub(crate) files: Vec<Entry>,
    pub(crate) tag: Option<Tag>,
}

impl Gguf {
    pub(crate) fn bytes(&self) -> u64 {
        total(&self.files)
    }

    /// The file to open.
    pub(crate) fn main(&self) -> Option<&FileName> {
        self.files.first().map(|file| &file.name)
    }

    fn choice(self, reason: Option<String>) -> Choice {
        Choice { main: self.main().cloned(), tag: self.tag, files: self.files, reason }
    }
}

/// Chooses the files of `name` that `part` wants. `budget` is the memory for them in bytes, if it
/// is known.
///
/// # Errors
/// If there are none; the sentence says what there is. Also if two of them are one file on a system
/// that ignores case.
pub(crate) fn choose(
    name: &str,
    entries: &[Entry],
    part: &Part,
    budget: Option<u64>,
    towers: &Towers,
) -> Result<Choice> {
    let mut choice = chosen(name, entries, part, budget)?;
    match towers {
        Towers::Auto => choice = choice.with_tower(entries),
        Towers::Off => {}
        Towers::Named(file) => match entries.iter().find(|entry| entry.name == *file) {
            Some(tower) if choice.files.contains(tower) => {}
            Some(tower) => choice.files.push(tower.clone()),
            None => {
                let all = entries.iter().map(|entry| &entry.name).filter(|name| is_tower(name));
                let all: Vec<_> = all.map(FileName::as_str).collect();
                let there =
                    if all.is_empty() { "no mmproj file".to_owned() } else { all.join(", ") };
                let problem = format!("there is no file {file}; there is {there}");
                return Err(Error::Files { name: name.to_owned(), problem });
            }
        },
    }
    let mut seen = HashMap::new();
    for file in &choice.files {
        let file = file.name.as_str();
        if let Some(other) = seen.insert(file.to_lowercase(), file) {
            let problem =
                format!("it has {other} and {file}, expected names that differ in more than case");
            return Err(Error::Files { name: name.to_owned(), problem });
        }
    }
    Ok(choice)
}

fn chosen(name: &str, entries: &[Entry], part: &Part, budget: Option<u64>) -> Result<Choice> {
    let refuse = |problem: String| Error::Files { name: name.to_owned(), problem };
    let models = ggufs(entries);
    match part {
        Part::File(file) => {
            let model =
                models.into_iter().find(|model| model.files.iter().any(|f| f.name == *file));
            match (model, entries.iter().find(|entry| entry.name == *file)) {
                (Some(model), _) => Ok(model.choice(None)),
                (None, Some(entry)) => Ok(Choice {
                    files: vec![entry.clone()],
                    main: Some(file.clone()),
                    tag: None,
                    reason: None,
                }),
                (None, None) => Err(refuse(format!("there is no file {file}"))),
            }
        }
        Part::Quantization(tag) => {
            let found = models.iter().find(|model| {
                model.main().is_some_and(|file| has_word(file.as_str(), tag.as_str()))
            });
            match found {
                Some(model) => Ok(model.clone().choice(None)),
                None if models.is_empty() => {
                    let ggml = ggmls(entries).into_iter().find(|one| one.tag.as_ref() == Some(tag));
                    ggml.map(|one| one.choice(None)).ok_or_else(|| {
                        refuse(format!("there is no {tag}: {}", instead(entries, tag)))
                    })
                }
                None => Err(refuse(format!("there is no {tag}; there are {}", tags(&models)))),
            }
        }
        Part::Any if models.is_empty() => {
            let other = directory(entries).or_else(|| adapter(entries));
            other.or_else(|| only_ggml(entries)).ok_or_else(|| {
                let ggmls = ggmls(entries);
                refuse(match ggmls.is_empty() {
                    true => "there is neither a GGUF file nor config.json with .safetensors files nor a ggml \
                             file of whisper.cpp, which are the models that Pelton reads"
                        .to_owned(),
                    false => format!("it has several models, expected :NAME; there are {}", tags(&ggmls)),
                })
            })
        }
        Part::Any => {
            let (model, reason) = by_memory(&models, budget);
            model.map(|model| model.choice(reason)).ok_or_else(|| refuse("it is empty".to_owned()))
        }
    }
}

/// Whether a file is a vision tower, by its name.
pub(crate) fn is_tower(name: &FileName) -> bool {
    name.ends_with(".gguf") && name.base().to_ascii_lowercase().contains(TOWER)
}

/// The file of the vision tower of a GGUF model: in its folder, or else in the next one above it.
/// Among several types one is taken, and of one type the first by its name.
fn tower_of<'a>(entries: &'a [Entry], main: &FileName) -> Option<&'a Entry> {
    if !main.ends_with(".gguf") || is_tower(main) {
        return None;
    }
    let folder = |name: &str| name.rsplit_once('/').map_or(String::new(), |(of, _)| of.to_owned());
    let mut of = folder(main.as_str());
    loop {
        let here = entries.iter().filter(|entry| is_tower(&entry.name));
        let here = here.filter(|entry| folder(entry.name.as_str()) == of);
        let rank = |entry: &&Entry| {
            let rank = TOWER_TYPES.iter().position(|tag| has_word(entry.name.as_str(), tag));
            (rank.unwrap_or(TOWER_TYPES.len()), entry.name.clone())
        };
        match here.min_by_key(rank) {
            Some(found) => return Some(found),
            None if of.is_empty() => return None,
            None => of = folder(&of),
        }
    }
}

/// The sentence about a tag that no file has.
fn instead(entries: &[Entry], tag: &Tag) -> String {
    match ggmls(entries) {
        none if none.is_empty() => format!("there is no GGUF file, so leave out :{tag}"),
        some => format!("there are {}", tags(&some)),
    }
}

/// The ggml file of whisper.cpp, if there is one alone.
fn only_ggml(entries: &[Entry]) -> Option<Choice> {
    let mut all = ggmls(entries);
    if all.len() == 1 { all.pop().map(|one| one.choice(None)) } else { None }
}

/// The tags of models, for a sentence.
fn tags(models: &[Gguf]) -> String {
    let mut names: Vec<String> = Vec::new();
    for model in models {
        let name = match (&model.tag, model.main()) {
            (Some(tag), _) => tag.to_string(),
            (None, Some(file)) => file.to_string(),
            (None, None) => continue,
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

/// The model for a memory, with the reason.
fn by_memory(models: &[Gguf], budget: Option<u64>) -> (Option<Gguf>, Option<String>) {
    if let [only] = models {
        return (Some(only.clone()), None);
    }
    let of = |tag: &str| {
        models.iter().find(|model| model.tag.as_ref().is_some_and(|found| found.as_str() == tag))
    };
    let others = models.len() - 1;
    let Some(budget) = budget else {
        let usual = USUAL.iter().find_map(|tag| of(tag)).or_else(|| models.first());
        let reason = format!("the usual choice; {others} others: {}", tags(models));
        return (usual.cloned(), Some(reason));
    };
    let known: Vec<&Gguf> = BY_QUALITY.iter().filter_map(|tag| of(tag)).collect();
    let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
    if let Some(fits) = known.iter().find(|model| model.bytes() <= budget) {
        let reason = format!(
            "the most exact one that fits {} of memory; there are {}",
            gib(budget),
            tags(models)
        );
        return (Some((*fits).clone()), Some(reason));
    }
    let smallest = known.into_iter().min_by_key(|model| model.bytes());
    let smallest = smallest.or_else(|| models.iter().min_by_key(|model| model.bytes()));
    let reason = smallest.map(|model| {
        let found = gib(model.bytes());
        match model.bytes() <= budget {
            true => format!("the smallest one; there are {}", tags(models)),
            false => {
                format!("the smallest one, though {found} are more than the {} free", gib(budget))
            }
        }
    });
    (smallest.cloned(), reason)
}

/// The complete GGUF models among files, in the order of their paths; those of the first folder
/// come first.
pub(crate) fn ggufs(entries: &[Entry]) -> Vec<Gguf> {
    let mut groups: BTreeMap<(usize, String), Vec<(Split, Entry)>> = BTreeMap::new();
    for entry in entries {
        let base = entry.name.base().to_ascii_lowercase();
        let is_companion = COMPANIONS.iter().any(|word| base.contains(word))
            || COMPANION_STARTS.iter().any(|start| base.starts_with(start));
        if !entry.name.ends_with(".gguf") || is_companion {
            continue;
        }
        let split = split(&entry.name).unwrap_or_else(|| Split::whole(&entry.name));
        let depth = entry.name.names().count();
        groups.entry((depth, split.stem.clone())).or_default().push((split, entry.clone()));
    }
    let complete = groups.into_values().filter_map(|mut group| {
        group.sort_by_key(|(split, _)| split.index);
        let count = group.first()?.0.count;
        let is_complete = group.len() == count
            && group
                .iter()
                .enumerate()
                .all(|(at, (split, _))| split.index == at + 1 && split.count == count);
        let files: Vec<Entry> = group.into_iter().map(|(_, entry)| entry).collect();
        let tag = tag_of(&files.first()?.name);
        is_complete.then_some(Gguf { files, tag })
    });
    complete.collect()
}

/// The ggml files of whisper.cpp among files of a folder, `ggml-NAME.bin`. Their tags are these
/// names, and what hears voices alone is none of them.
pub(crate) fn ggmls(entries: &[Entry]) -> Vec<Gguf> {
    let model = |entry: &Entry| {
        let name = entry.name.as_str().to_ascii_lowercase();
        let name = name.strip_prefix("ggml-")?.strip_suffix(".bin")?;
        let is_model = !name.starts_with("silero") && !name.contains('/');
        let tag = name.parse().ok().filter(|_| is_model)?;
        Some(Gguf { files: vec![entry.clone()], tag: Some(tag) })
    };
    entries.iter().filter_map(model).collect()
}

/// A directory of safetensors with what a load reads beside them.
fn directory(entries: &[Entry]) -> Option<Choice> {
    /// Files beside the weights, at the root.
    const ENDINGS: [&str; 4] = [".json", ".jinja", ".model", ".txt"];
    /// Files that `sentence-transformers` writes into folders.
    const FOLDERS: [&str; 1] = ["1_pooling/config.json"];
    let at_root = |entry: &&Entry| !entry.name.as_str().contains('/');
    let config = entries.iter().find(|entry| entry.name.as_str() == "config.json")?;
    let weights: Vec<&Entry> =
        entries.iter().filter(at_root).filter(|e| e.name.ends_with(".safetensors")).collect();
    // one form of the weights: others, such as consolidated.safetensors, repeat them
    let named = |start: &str| {
        let found: Vec<Entry> = weights
            .iter()
            .filter(|entry| entry.name.as_str().starts_with(start))
            .map(|entry| (*entry).clone())
            .collect();
        (!found.is_empty() && are_complete(&found)).then_some(found)
    };
    let mut files = named("model").or_else(|| {
        named("").filter(|found| found.len() == 1 || split(&found[0].name).is_some())
    })?;
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let is_beside = |entry: &&Entry| {
        let name = entry.name.as_str();
        let is_kept = ENDINGS.iter().any(|ending| entry.name.ends_with(ending))
            && !name.contains('/')
            && !name.eq_ignore_ascii_case("LICENSE.txt");
        name != "config.json"
            && (is_kept || FOLDERS.iter().any(|folder| name.eq_ignore_ascii_case(folder)))
    };
    files.extend(entries.iter().filter(is_beside).cloned());
    files.push(config.clone());
    Some(Choice { files, main: None, tag: None, reason: None })
}

/// The files of a LoRA adapter as PEFT saves it.
fn adapter(entries: &[Entry]) -> Option<Choice> {
    let named = |name: &str| entries.iter().find(|entry| entry.name.as_str() == name).cloned();
    let files = vec![named("adapter_model.safetensors")?, named("adapter_config.json")?];
    Some(Choice { files, main: None, tag: None, reason: None })
}

/// Whether each split file among these has all its others.
fn are_complete(files: &[Entry]) -> bool {
    files.iter().all(|file| match split(&file.name) {
        None => true,
        Some(of) => (1..=of.count).all(|index| {
            files.iter().any(|other| {
                split(&other.name).is_some_and(|s| s.stem == of.stem && s.index == index)
            })
        }),
    })
}

/// The place of a file in a model of several: `…-00001-of-00003.gguf`.
#[derive(Debug)]
struct Split {
    /// The path without the number.
    stem: String,
    /// From 1.
    index: usize,
    count: usize,
}

impl Split {
    fn whole(name: &FileName) -> Self {
        Self { stem: name.as_str().to_owned(), index: 1, count: 1 }
    }
}

/// The largest number of splits of a model.
const SPLITS: usize = 10_000;

fn split(name: &FileName) -> Option<Split> {
    let (stem, ending) = name.as_str().rsplit_once('.')?;
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (rest, index) = rest.rsplit_once('-')?;
    let number = |text: &str| {
        let is_number = text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<usize>().ok()).flatten()
    };
    let (index, count) = (number(index)?, number(count)?);
    let stem = format!("{rest}.{ending}");
    (1..=SPLITS).contains(&count).then_some(Split { stem, index, count })
}

/// The quantization in a file's name.
pub(crate) fn tag_of(name: &FileName) -> Option<Tag> {
    let all = || BY_QUALITY.iter().chain(&OTHERS);
    let found = all().filter(|tag| has_word(name.as_str(), tag)).max_by_key(|tag| tag.len())?;
    found.parse().ok()
}

/// Whether a path has a word without case, between its ends, `-`, `.`, `_` and `/`, where the end
/// is one of `-`, `.` and `/`.
fn has_word(path: &str, word: &str) -> bool {
    let (path, word) = (path.to_ascii_uppercase(), word.to_ascii_uppercase());
    let mut from = 0;
    while let Some(at) = path[from..].find(&word) {
        let (start, end) = (from + at, from + at + word.len());
        let before = path[..start].chars().next_back();
        let after = path[end..].chars().next();
        if before.is_none_or(|c| "-._/".contains(c)) && after.is_none_or(|c| "-./".contains(c)) {
            return true;
        }
        from = start + word.chars().next().map_or(1, char::len_utf8);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(files: &[(&str, u64)]) -> Vec<Entry> {
        let of = |(name, size): &(&str, u64)| Entry {
            name: name.parse().unwrap(),
            size: *size,
            hash: None,
        };
        files.iter().map(of).collect()
    }

    fn chosen(files: &[(&str, u64)], part: &str, budget: Option<u64>) -> Result<Vec<String>> {
        let part = match part {
            "" => Part::Any,
            file if file.contains(".gguf") => Part::File(file.parse().unwrap()),
            tag => Part::Quantization(tag.parse().unwrap()),
        };
        let choice = choose("o/n", &entries(files), &part, budget, &Towers::Off)?;
        Ok(choice.files.iter().map(|file| file.name.to_string()).collect())
    }

    const QWEN: [(&str, u64); 6] = [
        ("README.md", 1),
        ("Qwen3-4B-Q4_K_M.gguf", 2_500),
        ("Qwen3-4B-Q6_K.gguf", 3_300),
        ("Qwen3-4B-Q8_0.gguf", 4_280),
        ("mmproj-Qwen3-4B-Q8_0.gguf", 10),
        ("Qwen3-4B-BF16.gguf", 8_000),
    ];

    #[test]
    fn by_quantization_and_by_memory() {
        assert_eq!(chosen(&QWEN, "q4_k_m", None).unwrap(), ["Qwen3-4B-Q4_K_M.gguf"]);
        assert_eq!(chosen(&QWEN, "Q8_0", None).unwrap(), ["Qwen3-4B-Q8_0.gguf"]);
        assert_eq!(chosen(&QWEN, "", Some(1 << 20)).unwrap(), ["Qwen3-4B-Q8_0.gguf"]);
        assert_eq!(chosen(&QWEN, "", Some(4_000)).unwrap(), ["Qwen3-4B-Q6_K.gguf"]);
        assert_eq!(chosen(&QWEN, "", Some(10)).unwrap(), ["Qwen3-4B-Q4_K_M.gguf"]);
        assert_eq!(chosen(&QWEN, "", None).unwrap(), ["Qwen3-4B-Q4_K_M.gguf"]);
        // F16 is a word of its own, not the end of BF16
        let error = chosen(&QWEN, "F16", None).unwrap_err().to_string();
        assert!(error.contains("there is no F16; there are BF16, Q4_K_M"), "{error}");
        assert!(chosen(&QWEN[..1], "Q8_0", None).is_err());
    }

    #[test]
    fn a_model_comes_with_one_tower() {
        let files = [
            ("m-Q4_K_M.gguf", 9),
            ("mmproj-BF16.gguf", 1),
            ("mmproj-model-f16.gguf", 2),
            ("mmproj-F32.gguf", 3),
            ("Q8_0/m-Q8_0-00001-of-00002.gguf", 5),
            ("Q8_0/m-Q8_0-00002-of-00002.gguf", 5),
            ("Q8_0/mmproj-m-Q8_0.gguf", 4),
        ];
        let of = |files: &[(&str, u64)], part: &str, towers: Towers| -> Result<Vec<String>> {
            let part = Part::Quantization(part.parse().unwrap());
            let choice = choose("o/n", &entries(files), &part, None, &towers)?;
            Ok(choice.files.iter().map(|file| file.name.to_string()).collect())
        };
        let found = |part, towers| -> Vec<String> { of(&files, part, towers).unwrap() };
        assert_eq!(found("Q4_K_M", Towers::Auto), ["m-Q4_K_M.gguf", "mmproj-model-f16.gguf"]);
        assert_eq!(found("Q8_0", Towers::Auto)[2..], ["Q8_0/mmproj-m-Q8_0.gguf"]);
        assert_eq!(found("Q4_K_M", Towers::Off), ["m-Q4_K_M.gguf"]);
        let named = |name: &str| Towers::Named(name.parse().unwrap());
        assert_eq!(found("Q4_K_M", named("mmproj-F32.gguf"))[1..], ["mmproj-F32.gguf"]);
        // folders below the model's own are those of other models
        let files = [("a-Q4_K_M.gguf", 9), ("b/mmproj-F16.gguf", 1)];
        assert_eq!(of(&files, "Q4_K_M", Towers::Auto).unwrap(), ["a-Q4_K_M.gguf"]);
        let error = of(&files, "Q4_K_M", named("mmproj-x.gguf")).unwrap_err().to_string();
        assert!(error.contains("no file mmproj-x.gguf; there is b/mmproj-F16.gguf"), "{error}");
    }

    /// llama.cpp's names of splits, with which `gguf-split` writes them.
    #[test]
    fn splits_come_together_or_not_at_all() {
        let files = [
            ("Q4_K_M/m-Q4_K_M-00002-of-00002.gguf", 5),
            ("Q4_K_M/m-Q4_K_M-00001-of-00002.gguf", 7),
            ("Q8_0/m-Q8_0-00001-of-00002.gguf", 9),
        ];
        let both = ["Q4_K_M/m-Q4_K_M-00001-of-00002.gguf", "Q4_K_M/m-Q4_K_M-00002-of-00002.gguf"];
        assert_eq!(chosen(&files, "Q4_K_M", None).unwrap(), both);
        assert_eq!(chosen(&files, both[1], None).unwrap(), both);
        assert!(chosen(&files, "Q8_0", None).is_err());
    }

    /// The files that PEFT's `save_pretrained` documents.
    #[test]
    fn adapters_are_their_two_files() {
        let files =
            [("README.md", 1), ("adapter_config.json", 2), ("adapter_model.safetensors", 30)];
        let expected = ["adapter_model.safetensors", "adapter_config.json"];
        assert_eq!(chosen(&files, "", None).unwrap(), expected);
        assert!(chosen(&files[..2], "", None).is_err(), "the weights are missing");
    }

    /// The names of the repositories `ggerganov/whisper.cpp` and `distil-whisper/distil-small.en`.
    #[test]
    fn ggml_files_are_named() {
        let files = [
            ("ggml-base.bin", 148),
            ("ggml-base.en-q5_1.bin", 60),
            ("ggml-base-encoder.mlmodelc.zip", 38),
            ("ggml-silero-v5.1.2.bin", 1),
            ("pytorch_model.bin", 90),
        ];
        assert_eq!(chosen(&files, "base", None).unwrap(), ["ggml-base.bin"]);
        assert_eq!(chosen(&files, "BASE.en-q5_1", None).unwrap(), ["ggml-base.en-q5_1.bin"]);
        let error = chosen(&files, "tiny", None).unwrap_err().to_string();
        assert!(error.contains("there is no TINY: there are BASE, BASE.EN-Q5_1"), "{error}");
        let error = chosen(&files, "", None).unwrap_err().to_string();
        assert!(error.contains("expected :NAME; there are BASE, BASE.EN-Q5_1"), "{error}");
        assert_eq!(chosen(&files[1..], "", None).unwrap(), ["ggml-base.en-q5_1.bin"]);
        let both = [("config.json", 1), ("model.safetensors", 9), ("ggml-distil-small.en.bin", 9)];
        assert_eq!(chosen(&both, "", None).unwrap(), ["model.safetensors", "config.json"]);
        assert_eq!(chosen(&both, "distil-small.en", None).unwrap(), ["ggml-distil-small.en.bin"]);
    }

    #[test]
    fn directories_end_with_their_configuration() {
        let files = [
            ("config.json", 1),
            ("consolidated.safetensors", 90),
            ("model-00002-of-00002.safetensors", 40),
            ("model-00001-of-00002.safetensors", 50),
            ("model.safetensors.index.json", 2),
            ("tokenizer.json", 3),
            ("pytorch_model.bin", 90),
            ("onnx/model.onnx", 90),
            ("README.md", 1),
        ];
        let expected = [
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "model.safetensors.index.json",
            "tokenizer.json",
            "config.json",
        ];
        assert_eq!(chosen(&files, "", Some(10)).unwrap(), expected);
        let twice = [&files[..], &[("Tokenizer.json", 3)]].concat();
        let error = chosen(&twice, "", None).unwrap_err().to_string();
        assert!(error.contains("tokenizer.json and Tokenizer.json"), "{error}");
        assert!(chosen(&files[..3], "", None).is_err(), "a shard is missing");
        assert!(chosen(&files[1..], "", None).is_err(), "the configuration is missing");
    }
}
