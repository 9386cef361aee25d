//! LoRA adapters as PEFT saves them: `adapter_config.json` and `adapter_model.safetensors`.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use serde_json::Value;

use super::config::{Config, Stated};
use super::convert::Converter;
use super::families::family_of;
use super::json::{CONFIG_BYTES, Object, shown};
use super::safetensors;
use super::stored::Source;
use crate::map::map_file;
use crate::{Error, Problem};

/// The prefix that PEFT puts before the names of the model.
const PREFIX: &str = "base_model.model.";

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

/// A factor, decoded.
#[derive(Debug)]
pub(crate) struct Factor {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f32>,
}

/// Reads an adapter for the model of a directory.
pub(crate) fn open(folder: &Path, base: &Path) -> Result<Vec<Pair>, Error> {
    let settings = Object::read(&folder.join("adapter_config.json"), CONFIG_BYTES)?;
    let scale = Scale::read(&settings)?;
    check(&settings)?;
    let stated = Stated::read(&base.join("config.json"))?;
    let family = family_of(&stated)?;
    let config = Config::new(stated)?;
    let path = folder.join("adapter_model.safetensors");
    let rejected = |problem| Error::at(&path, problem);
    let bytes = map_file(&path).map_err(rejected)?;
    let name = path.display().to_string();
    let converter = Converter::new(family, &config, &name, HashMap::new());

    let mut modules: BTreeMap<String, [Option<Source>; 2]> = BTreeMap::new();
    for source in safetensors::parse(&bytes).map_err(rejected)? {
        let fault = |fault: &str| rejected(fault_of(&source, fault));
        let Some(rest) = source.name.strip_prefix(PREFIX) else {
            return Err(fault("is no part of an adapter, expected base_model.model. before it"));
        };
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
        let tensor = converter.unchanged(&module).map_err(rejected)?;
        let (a, b) = (factor(&a).map_err(rejected)?, factor(&b).map_err(rejected)?);
        let rank = a.shape[0];
        pairs.push(Pair { tensor, a, b, scale: scale.of(rank) });
    }
    Ok(pairs)
}

/// `alpha / rank`, or with rsLoRA (arXiv 2312.03732) `alpha / √rank`.
struct Scale {
    alpha: f64,
    root: bool,
}

impl Scale {
    fn read(settings: &Object) -> Result<Self, Error> {
        settings.required_size(&["r"])?;
        let alpha = settings.required_number(&["lora_alpha"])?;
        Ok(Self { alpha, root: settings.flag(&["use_rslora"])? == Some(true) })
    }

    fn of(&self, rank: usize) -> f64 {
        let rank = rank as f64;
        self.alpha / if self.root { rank.sqrt() } else { rank }
    }
}

/// Rejects adapters that are more than two factors for each matrix.
fn check(settings: &Object) -> Result<(), Error> {
    match settings.text(&["peft_type"])? {
        Some("LORA") => {}
        Some(other) => return Err(settings.invalid("peft_type", other, "LORA")),
        None => return Err(settings.missing("peft_type", "LORA")),
    }
    for key in ["use_dora", "fan_in_fan_out", "lora_bias"] {
        if settings.flag(&[key])? == Some(true) {
            return Err(settings.invalid(key, true, "false"));
        }
    }
    if let Some(bias) = settings.text(&["bias"])?.filter(|bias| *bias != "none") {
        return Err(settings.invalid("bias", bias, "none"));
    }
    for key in ["alpha_pattern", "modules_to_save", "trainable_token_indices"] {
        let empty = match settings.get(key) {
            None | Some(Value::Null) => true,
            Some(Value::Array(items)) => items.is_empty(),
            Some(Value::Object(map)) => map.is_empty(),
            Some(_) => false,
        };
        if !empty {
            let found = settings.get(key).map(shown).unwrap_or_default();
            return Err(settings.invalid(key, found, "nothing"));
        }
    }
    Ok(())
}

fn factor(source: &Source) -> Result<Factor, Problem> {
    let fault = |fault: &str| fault_of(source, fault);
    if source.shape.len() != 2 || source.shape.contains(&0) {
        return Err(fault(&format!("has shape {:?}, expected two dimensions", source.shape)));
    }
    let dtype = source.stored.dtype().ok_or_else(|| {
        fault(&format!("has type {:?}, expected F32, F16 or BF16", source.stored))
    })?;
    let mut values = vec![0.0; source.bytes.len() / dtype.block_bytes()];
    pelton_quant::decode(dtype, &source.bytes, &mut values)
        .map_err(|error| fault(&format!("cannot be decoded: {error}")))?;
    Ok(Factor { shape: source.shape.clone(), values })
}

fn fault_of(source: &Source, fault: &str) -> Problem {
    Problem::SafetensorsTensor { tensor: source.name.clone(), fault: fault.to_owned() }
}
