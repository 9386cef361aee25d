//! The factors of an adapter.

use std::collections::BTreeMap;
use std::path::Path;

use super::base::{Base, Names};
use super::factors::{Factor, fault_of, placed};
use super::settings::{SETTINGS, Settings};
use crate::hf::safetensors;
use crate::hf::stored::Source;
use crate::map::{OpenFiles, is_missing};
use crate::{Error, Problem};

/// The prefix that PEFT puts before the names of the model.
const PREFIX: &str = "base_model.model.";

/// The file of the factors, and that of old versions.
const FACTORS: &str = "adapter_model.safetensors";
const PICKLED: &str = "adapter_model.bin";

/// The two factors of one matrix.
#[derive(Debug)]
pub(crate) struct Pair {
    /// The matrix's name in GGUF.
    pub(crate) tensor: String,
    /// `[rank, inputs]`, outermost dimension first.
    pub(crate) a: Factor,
    /// `[outputs, rank]`, outermost dimension first.
    pub(crate) b: Factor,
    pub(crate) scale: f64,
}

/// Reads an adapter for a model.
pub(crate) fn open(
    folder: &Path,
    base: &Base<'_>,
    files: &mut OpenFiles,
) -> Result<Vec<Pair>, Error> {
    let settings = Settings::read(&folder.join(SETTINGS))?;
    let path = folder.join(FACTORS);
    let rejected = |problem| Error::at(&path, problem);
    if is_missing(&path) && folder.join(PICKLED).exists() {
        let fault = format!("is {PICKLED}, expected {FACTORS}: save it with safe_serialization");
        return Err(Error::at(folder, Problem::Adapter { fault }));
    }
    let bytes = files.map(&path).map_err(rejected)?;
    let names = Names::of(base, &path.display().to_string())?;

    let mut modules: BTreeMap<String, [Option<Source>; 2]> = BTreeMap::new();
    for source in safetensors::parse(&bytes).map_err(rejected)? {
        let fault = |fault: &str| rejected(fault_of(&source, fault));
        let Some(rest) = source.name.strip_prefix(PREFIX) else {
            return Err(fault("is no part of an adapter, expected base_model.model. before it"));
        };
        if rest.contains(".lora_embedding_") {
            return Err(fault("is a factor of an embedding, expected matrices of linear layers"));
        }
        let ends = [".lora_A.weight", ".lora_B.weight"];
        let Some((i, module)) =
            ends.iter().enumerate().find_map(|(i, end)| Some((i, rest.strip_suffix(end)?)))
        else {
            return Err(fault("is no factor of LoRA, expected lora_A.weight or lora_B.weight"));
        };
        let module = module.to_owned();
        modules.entry(module).or_default()[i] = Some(source);
    }
    let mut pairs = Vec::with_capacity(modules.len());
    for (module, factors) in modules {
        let [Some(a), Some(b)] = factors else {
            let missing = if factors[0].is_none() { "lora_A" } else { "lora_B" };
            let fault = format!("{module:?} has no {missing}.weight");
            return Err(rejected(Problem::Adapter { fault }));
        };
        let factors = [Factor::of(&a).map_err(rejected)?, Factor::of(&b).map_err(rejected)?];
        let scale = settings.scale_of(&module, factors[0].shape[0])?;
        let place = names.place_of(&module).map_err(rejected)?;
        let parts = placed(&place, factors).map_err(|fault| rejected(fault_of(&a, &fault)))?;
        pairs.extend(parts.into_iter().map(|(tensor, a, b)| Pair { tensor, a, b, scale }));
    }
    Ok(pairs)
}
