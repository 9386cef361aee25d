//! `adapter_config.json`.

use std::path::Path;

use serde_json::Value;

use super::pattern::Pattern;
use crate::Error;
use crate::hf::json::{CONFIG_BYTES, Object, shown};

/// The file's name.
pub(crate) const SETTINGS: &str = "adapter_config.json";

/// The most patterns with a scale of their own; published files have one a module at most.
const MAX_PATTERNS: usize = 10_000;
/// The most of them that are regular expressions.
const MAX_COMPILED: usize = 64;

/// Keys that say how the factors were made or where they apply, which the file of the factors
/// shows.
const KNOWN: &[&str] = &[
    "auto_mapping",
    "base_model_name_or_path",
    "corda_config",
    "eva_config",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "layers_pattern",
    "layers_to_transform",
    "lora_dropout",
    "lora_ga_config",
    "loftq_config",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "rank_pattern",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
];

/// Beginnings of the factors that leave the base model as it is, in `init_lora_weights`.
const BEGINNINGS: &[&str] = &["gaussian", "eva", "orthogonal"];

/// The settings of an adapter.
#[derive(Debug)]
pub(super) struct Settings {
    file: Object,
    alpha: f64,
    /// Whether the scale is `alpha / √rank` (rsLoRA, arXiv 2312.03732).
    root: bool,
    /// Alphas of some modules.
    alphas: Vec<(String, Pattern, f64)>,
}

impl Settings {
    /// Reads the settings of an adapter that is two factors for each matrix and nothing else.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let file = Object::read(path, CONFIG_BYTES)?;
        match file.text(&["peft_type"])? {
            Some("LORA") => {}
            Some(other) => return Err(file.invalid("peft_type", other, "LORA")),
            None => return Err(file.missing("peft_type", "LORA")),
        }
        file.required_size(&["r"])?;
        let alpha = file.required_number(&["lora_alpha"])?;
        let root = file.flag(&["use_rslora"])? == Some(true);
        if let Some(bias) = file.text(&["bias"])?.filter(|bias| *bias != "none") {
            return Err(file.invalid("bias", bias, "none"));
        }
        if let Some(Value::String(begin)) = file.get("init_lora_weights")
            && !BEGINNINGS.contains(&begin.as_str())
        {
            let expected = "a beginning that leaves the base model as it is: save the adapter with \
                            path_initial_model_for_weight_conversion";
            return Err(file.invalid("init_lora_weights", begin, expected));
        }
        let alphas = alphas(&file)?;
        let is_empty = |value: &Value| match value {
            Value::Null | Value::Bool(false) => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        file.disregard(KNOWN);
        for (key, value) in file.unread(&[]) {
            if !is_empty(&value) {
                return Err(file.invalid(&key, shown(&value), "nothing"));
            }
        }
        Ok(Self { file, alpha, root, alphas })
    }

    /// The scale of a module's product.
    pub(super) fn scale_of(&self, module: &str, rank: usize) -> Result<f64, Error> {
        let mut own = self.alphas.iter().filter(|(_, pattern, _)| pattern.matches(module));
        let alpha = match (own.next(), own.next()) {
            // the order of the file, which decides between them, is not kept
            (Some((one, _, alpha)), Some((other, _, second))) if alpha != second => {
                let found = format!("{one:?} and {other:?} for {module:?}");
                return Err(self.file.invalid("alpha_pattern", found, "one pattern for a module"));
            }
            (Some((_, _, alpha)), _) => *alpha,
            (None, _) => self.alpha,
        };
        let rank = rank as f64;
        Ok(alpha / if self.root { rank.sqrt() } else { rank })
    }
}

/// `alpha_pattern`: alphas by patterns of module names.
fn alphas(file: &Object) -> Result<Vec<(String, Pattern, f64)>, Error> {
    let Some(patterns) = file.object("alpha_pattern")? else { return Ok(Vec::new()) };
    let key = "alpha_pattern";
    let mut all = Vec::new();
    for (text, value) in patterns.entries() {
        if all.len() == MAX_PATTERNS {
            return Err(file.invalid(key, "more", &format!("at most {MAX_PATTERNS} patterns")));
        }
        let pattern = Pattern::new(text)
            .map_err(|fault| file.invalid(key, format!("{text:?} ({fault})"), "a pattern"))?;
        match value.as_f64() {
            Some(alpha) if (alpha as f32).is_finite() => all.push((text.clone(), pattern, alpha)),
            _ => return Err(file.invalid(key, shown(value), "a number in the range of f32")),
        }
    }
    if all.iter().filter(|(_, pattern, _)| pattern.is_compiled()).count() > MAX_COMPILED {
        let expected = format!("at most {MAX_COMPILED} patterns that are more than a name");
        return Err(file.invalid(key, "more", &expected));
    }
    Ok(all)
}
