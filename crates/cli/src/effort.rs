//! The flag of effort.

use std::{path::PathBuf, str::FromStr};

use etcetera::BaseStrategy;
use pelton::{EffortLevel, EffortOptions, EffortTables, EffortUse, LoadOptions, Model};

use crate::output::note;

/// The flag of commands that load a model.
#[derive(clap::Args)]
pub(crate) struct EffortArgs {
    /// Read only this fraction of the weights for a generated token: less is faster and less exact
    ///
    /// E is above 0 and at most 1. The format of the weights decides what is left out, and some
    /// formats are read whole (docs/effort.md). The first load of a model in Q8_0 measures
    /// thresholds, which takes up to a minute. On a GPU a load measures whether E is faster, and
    /// else runs the whole model. Keys may follow, separated by commas: the word always runs E
    /// anyway. For weights in F16, BF16 and F32 on a CPU, ranks=R keeps the greatest R of every 16
    /// weights alone, and buckets=FILE is a file of `pelton effort pack`.
    #[arg(long, value_name = "E[,KEY=VALUE...]")]
    effort: Option<EffortValue>,
}

/// The keys of the flag.
const KEYS: &str = "always, ranks or buckets";
/// The least recommended effort: below it the measured models answer otherwise (docs/effort.md).
const LEAST: f64 = 0.5;

/// The value of `--effort`.
#[derive(Clone, Debug, PartialEq)]
struct EffortValue(EffortOptions);

impl FromStr for EffortValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut level = None;
        let mut options = EffortOptions::default();
        for part in text.split(',') {
            match part.split_once('=') {
                None if part == "always" => options.always = true,
                None => {
                    let new = part.parse()?;
                    if let Some(old) = level.replace(new) {
                        return Err(format!("has the efforts {old} and {new}, expected one"));
                    }
                }
                Some(("ranks", value)) => {
                    let ranks = value.parse().ok().filter(|ranks| (1..=16).contains(ranks));
                    let wrong = || format!("ranks is '{value}', expected 1 to 16");
                    options.ranks = Some(ranks.ok_or_else(wrong)?);
                }
                Some(("buckets", "")) => return Err("buckets is empty, expected a file".into()),
                Some(("buckets", file)) => options.buckets = Some(file.into()),
                Some((key, _)) => {
                    return Err(format!(
                        "has no key '{key}', expected {KEYS}: the rest follows from the weights"
                    ));
                }
            }
        }
        options.level = level.ok_or("names no effort, expected E, such as 0.7")?;
        Ok(Self(options))
    }
}

impl EffortArgs {
    /// The effort, if one is given.
    pub(crate) fn level(&self) -> Option<EffortLevel> {
        self.effort.as_ref().map(|value| value.0.level)
    }

    /// The options of a load with the flag, which goes before those of the command.
    pub(crate) fn apply(&self, mut options: LoadOptions) -> LoadOptions {
        if let Some(EffortValue(effort)) = &self.effort {
            options.effort = Some(effort.clone());
        }
        if let (Some(effort), Some(folder)) = (&mut options.effort, folder()) {
            effort.tables = EffortTables::Folder(folder);
        }
        options
    }

    /// Says on standard error how a loaded model runs the effort, where that is not plain.
    pub(crate) fn say(&self, model: &Model) {
        let (Some(level), Some(found)) = (self.level(), model.effort_use()) else { return };
        match found {
            EffortUse::Slower { .. } => {
                note!("{found}: --effort {},always runs the effort", level.fraction());
            }
            EffortUse::Runs { measured: false, .. } | EffortUse::Runs { thresholds: None, .. } => {}
            found => note!("{found}"),
        }
        if matches!(found, EffortUse::Runs { .. }) && level.fraction() < LEAST {
            note!(
                "effort {} is below {LEAST}: the models that were measured answer otherwise there \
                 (docs/effort.md)",
                level.fraction()
            );
        }
    }
}

/// The folder of measured thresholds.
fn folder() -> Option<PathBuf> {
    let directories = etcetera::choose_base_strategy().ok()?;
    Some(directories.cache_dir().join("pelton"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<EffortOptions, String> {
        text.parse().map(|EffortValue(options)| options)
    }

    #[test]
    fn every_key_has_its_option() {
        assert_eq!(parsed("0.5").unwrap(), EffortOptions::new(0.5));
        let expected = EffortOptions::new(0.5).ranks(3).buckets("b.gguf").always(true);
        assert_eq!(parsed("0.5,always,ranks=3,buckets=b.gguf").unwrap(), expected);
    }

    #[test]
    fn wrong_values_name_the_key_and_what_is_expected() {
        for (text, sentence) in [
            ("ranks=4", "names no effort, expected E"),
            ("0.5,mode=nested", "has no key 'mode', expected always, ranks or buckets: the rest"),
            ("0.5,table=t.json", "has no key 'table', expected always, ranks"),
            ("0.5,ranks=17", "ranks is '17', expected 1 to 16"),
            ("0.5,buckets=", "expected a file"),
            ("0.5,0.9", "has the efforts 0.5 and 0.9, expected one"),
            ("2", "expected a number above 0 and at most 1"),
            ("", "expected a number above 0 and at most 1"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(sentence), "{text}: {error}");
        }
    }
}
