//! The types of llama.cpp's mixtures, as its tests record them for real models.
//!
//! `fixtures/mixtures/*.schema` are excerpts of `tests/snapshots` of llama.cpp (MIT license;
//! llama_cpp_python 0.3.36 on PyPI has them too): for each mixture the type of most matrices, and
//! the matrices that have another.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// A model of a snapshot.
struct Snapshot {
    text: &'static str,
    architecture: &'static str,
    /// Elements of the rows of matrices, where they are no multiple of 256.
    odd_row: Option<usize>,
}

const SNAPSHOTS: [Snapshot; 6] = [
    Snapshot {
        text: include_str!("../../../tests/fixtures/mixtures/qwen3-0.6b.schema"),
        architecture: "qwen3",
        odd_row: None,
    },
    Snapshot {
        text: include_str!("../../../tests/fixtures/mixtures/qwen3-14b.schema"),
        architecture: "qwen3",
        odd_row: None,
    },
    Snapshot {
        text: include_str!("../../../tests/fixtures/mixtures/gemma-3-4b-it.schema"),
        architecture: "gemma3",
        odd_row: None,
    },
    Snapshot {
        text: include_str!("../../../tests/fixtures/mixtures/meta-llama-3.1-70b-instruct.schema"),
        architecture: "llama",
        odd_row: None,
    },
    Snapshot {
        text: include_str!("../../../tests/fixtures/mixtures/qwen3-coder-next.schema"),
        architecture: "qwen3next",
        odd_row: None,
    },
    Snapshot {
        text: include_str!("../../../tests/fixtures/mixtures/gpt-oss-120b.schema"),
        architecture: "gpt-oss",
        odd_row: Some(2880),
    },
];

/// The types of the sections: the one of most matrices, and those of others by name.
type Sections = Vec<(Quantize, DType, BTreeMap<&'static str, DType>)>;

impl Snapshot {
    /// A number of the line `# n_embd=1024, n_ff=3072, …`.
    fn number(&self, key: &str) -> usize {
        let line = self.text.lines().nth(1).unwrap().trim_start_matches("# ");
        let pairs = line.split(", ").map(|pair| pair.split_once('=').unwrap());
        pairs.filter(|(name, _)| *name == key).map(|(_, n)| n.parse().unwrap()).next().unwrap_or(0)
    }

    fn facts(&self) -> Facts {
        Facts {
            architecture: self.architecture.to_owned(),
            layers: self.number("n_layer"),
            heads: self.number("n_head"),
            kv_heads: self.number("n_head_kv"),
            experts: self.number("n_expert"),
            importance: false,
        }
    }

    fn sections(&self) -> Sections {
        let dtype = |name: &str| {
            let upper = name.to_ascii_uppercase();
            DType::from_name(&upper).unwrap_or_else(|| panic!("type {name}"))
        };
        let mut all = Sections::new();
        for line in self.text.lines().skip(2).filter(|line| !line.is_empty()) {
            if let Some((mix, base)) = line.strip_prefix('[').and_then(|l| l.split_once("] ")) {
                all.push((Quantize::from_name(mix).unwrap(), dtype(base), BTreeMap::new()));
            } else {
                let (name, of) = line.split_once(' ').unwrap();
                all.last_mut().unwrap().2.insert(name, dtype(of));
            }
        }
        all
    }

    /// The names of the matrices of any section, and those of dense layers, which have the base
    /// type in some.
    fn names(&self, sections: &Sections) -> BTreeSet<String> {
        let in_sections = sections.iter().flat_map(|(.., types)| types.keys());
        let mut names: BTreeSet<String> = in_sections.map(|&name| name.to_owned()).collect();
        names.insert("token_embd.weight".to_owned());
        // matrices of one layer that has a name for them
        let kinds: BTreeSet<String> = names
            .iter()
            .filter_map(|name| name.strip_prefix("blk.")?.split_once('.').map(|(_, kind)| kind))
            .map(str::to_owned)
            .collect();
        if self.facts().experts == 0 {
            let dense = ["attn_q.weight", "attn_k.weight", "ffn_gate.weight", "ffn_up.weight"];
            let kinds = kinds.iter().map(String::as_str).chain(dense);
            let all = kinds.flat_map(|kind| {
                (0..self.facts().layers).map(move |layer| format!("blk.{layer}.{kind}"))
            });
            names.extend(all.collect::<Vec<_>>());
        }
        names
    }

    fn shape(&self, name: &str) -> [usize; 3] {
        let experts = if name.contains("_exps") { self.facts().experts } else { 1 };
        // the rows of attention's output are as long as all heads together
        let odd = self.odd_row.filter(|_| !name.contains("attn_output"));
        [odd.unwrap_or(4096), 64, experts]
    }
}

#[test]
fn types_of_llama_cpp() {
    for snapshot in SNAPSHOTS {
        let sections = snapshot.sections();
        // the snapshots are older than these two
        let is_newer = |mix: &Quantize| matches!(mix, Quantize::Q2_0 | Quantize::Q1_0);
        let count = Quantize::all().filter(|mix| !is_newer(mix)).count();
        assert_eq!(sections.len(), count, "{}", snapshot.architecture);
        let names = snapshot.names(&sections);
        let shapes: Vec<_> = names.iter().map(|name| snapshot.shape(name)).collect();
        let all = names.iter().zip(&shapes);
        let entries: Vec<_> = all.map(|(name, shape)| Entry { name, shape }).collect();
        for (mix, base, expected) in &sections {
            assert_eq!(mix.base(), *base);
            let found = types(*mix, &snapshot.facts(), &entries);
            for (name, found) in names.iter().zip(found) {
                let expected = expected.get(name.as_str()).unwrap_or(base);
                let what = format!("{} {mix:?} {name}", snapshot.architecture);
                assert_eq!(found, Some(*expected), "{what}");
            }
        }
    }
}

/// The layers with more bits of a model of 32 layers, by llama.cpp's log of Llama 3 8B.
#[test]
fn layers_with_more_bits() {
    let found: Vec<_> = (0..32).filter(|&index| Place { index, count: 32 }.has_more()).collect();
    assert_eq!(found, [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]);
}

#[test]
fn rows_that_blocks_do_not_divide() {
    assert_eq!(fitting(DType::Q4_K, 512), DType::Q4_K);
    assert_eq!(fitting(DType::Q4_K, 288), DType::Q5_0);
    assert_eq!(fitting(DType::Q6_K, 288), DType::Q8_0);
    assert_eq!(fitting(DType::Q6_K, 40), DType::F16);
    assert_eq!(fitting(DType::Q8_0, 40), DType::F16);
}
