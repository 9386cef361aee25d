//! The flag of effort.

use std::{path::PathBuf, str::FromStr};

use clap::ValueEnum;
use etcetera::BaseStrategy;
use pelton::{EffortLevel, EffortMode, EffortOptions, EffortTables, LoadOptions, Model};

use crate::output::note;

/// The flag of commands that load a model.
#[derive(clap::Args)]
pub(crate) struct EffortArgs {
    /// Multiply only this fraction of the inputs of each matrix for a generated token: less is faster and
    /// less exact
    ///
    /// E is above 0 and at most 1 (docs/effort.md). Keys may follow, separated by commas. mode is channel, nested
    /// or bucket. table is auto, uniform or a file of `pelton effort calibrate`. The mode bucket has ranks
    /// and buckets, a file of `pelton effort pack`. The first load of a model measures thresholds,
    /// which takes up to a minute. On a GPU a load measures whether E is faster, and else runs the whole model; the
    /// word always runs E.
    #[arg(long, value_name = "E[,KEY=VALUE...]")]
    effort: Option<EffortValue>,
}

/// The keys of the flag.
const KEYS: &str = "always, mode, table, ranks or buckets";

/// The value of `--effort`.
#[derive(Clone, Debug, PartialEq)]
struct EffortValue {
    level: EffortLevel,
    kept: KeptWeights,
    table: String,
    always: bool,
}

/// The order in which weights are kept, and the part of them.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub(crate) struct KeptWeights {
    /// The parts that are left out
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// In the mode bucket, keep the greatest R of every 16 weights alone, 1 to 16
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u8).range(1..=16))]
    ranks: Option<u8>,
    /// In the mode bucket, a file of `pelton effort pack`; without it weights are sorted at load
    #[arg(long, value_name = "FILE")]
    buckets: Option<PathBuf>,
}

/// [`EffortMode`], for the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
enum Mode {
    /// Whole inputs
    #[default]
    Channel,
    /// Inputs, or the lower halves of their codes alone, of weights in Q8_0
    Nested,
    /// Single weights by their rank among 16 outputs (bucketMul), of weights in F16, BF16 and F32
    Bucket,
}

impl Mode {
    /// The least recommended effort: below it the measured models answer otherwise (docs/effort.md).
    const fn knee(self) -> f64 {
        match self {
            Self::Channel => 0.7,
            Self::Nested => 0.5,
            Self::Bucket => 0.6,
        }
    }
}

impl FromStr for EffortValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut level = None;
        let mut kept = KeptWeights::default();
        let (mut table, mut always) = ("auto".to_owned(), false);
        for part in text.split(',') {
            match part.split_once('=') {
                None if part == "always" => always = true,
                None => {
                    let new = part.parse()?;
                    if let Some(old) = level.replace(new) {
                        return Err(format!("has the efforts {old} and {new}, expected one"));
                    }
                }
                Some(("mode", value)) => kept.mode = named("mode", value)?,
                Some(("ranks", value)) => {
                    let ranks = value.parse().ok().filter(|ranks| (1..=16).contains(ranks));
                    let wrong = || format!("ranks is '{value}', expected 1 to 16");
                    kept.ranks = Some(ranks.ok_or_else(wrong)?);
                }
                Some(("buckets", "")) => return Err("buckets is empty, expected a file".into()),
                Some(("buckets", file)) => kept.buckets = Some(file.into()),
                Some(("table", "")) => {
                    return Err("table is empty, expected auto, uniform or a file".into());
                }
                Some(("table", value)) => value.clone_into(&mut table),
                Some((key, _)) => {
                    return Err(format!("has no key '{key}', expected {KEYS}"));
                }
            }
        }
        let level = level.ok_or("names no effort, expected E, such as 0.7")?;
        Ok(Self { level, kept, table, always })
    }
}

/// The value of a key that has a list of them.
fn named<T: ValueEnum>(key: &str, value: &str) -> Result<T, String> {
    T::from_str(value, false).map_err(|_| {
        let known = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        let known: Vec<String> = known.map(|known| known.get_name().to_owned()).collect();
        format!("{key} is '{value}', expected {}", known.join(", "))
    })
}

impl KeptWeights {
    /// The options of a load.
    pub(crate) fn options(&self) -> EffortOptions {
        let mut options = EffortOptions::default().mode(match self.mode {
            Mode::Channel => EffortMode::Channel,
            Mode::Nested => EffortMode::Nested,
            Mode::Bucket => EffortMode::Bucket,
        });
        options.ranks = self.ranks.map(usize::from);
        options.buckets.clone_from(&self.buckets);
        options
    }
}

impl EffortArgs {
    /// The effort, if one is given.
    pub(crate) fn level(&self) -> Option<EffortLevel> {
        self.effort.as_ref().map(|value| value.level)
    }

    /// The options of a load with the flag, which goes before those of the command.
    pub(crate) fn apply(&self, mut options: LoadOptions) -> LoadOptions {
        let calibrated = || folder().map_or(EffortTables::Uniform, EffortTables::Folder);
        match &self.effort {
            Some(EffortValue { level, kept, table, always }) => {
                let mut effort = kept.options().tables(match table.as_str() {
                    "auto" => calibrated(),
                    "uniform" => EffortTables::Uniform,
                    file => EffortTables::File(file.into()),
                });
                effort.level = *level;
                effort.always = *always;
                options.effort(effort)
            }
            None => {
                if let Some(effort) = &mut options.effort
                    && matches!(effort.tables, EffortTables::Uniform)
                {
                    effort.tables = calibrated();
                }
                options
            }
        }
    }

    /// Says on standard error where the fractions of a loaded model are from, or that they gain
    /// nothing or cost much.
    pub(crate) fn say(&self, model: &Model, is_gpu: bool) {
        let Some(EffortValue { level, kept, .. }) = &self.effort else { return };
        let effort = level.fraction();
        if !model.effort_fits() {
            note!(
                "the whole model runs, as the weights for less effort do not fit in the memory of the GPU \
                 next to those of the file"
            );
            return;
        }
        let dense = dense_on_gpus(model, kept.mode);
        if is_gpu && !dense.is_empty() {
            note!(
                "a GPU multiplies matrices in {} whole at any effort, expected F32, F16, BF16 or Q8_0 \
                 (docs/effort.md)",
                dense.join(", ")
            );
        }
        if let Some([whole, less]) = model.effort_times()
            && less >= whole
        {
            let [whole, less] = [whole, less].map(|time| 1e3 * time.as_secs_f64());
            note!(
                "the whole model runs, as a token takes {whole:.2} ms and with less effort {less:.2}: \
                 --effort {effort},always runs the effort"
            );
        }
        let knee = kept.mode.knee();
        if effort < knee {
            note!(
                "effort {effort} is below {knee}: the models that were measured answer otherwise there \
                 (docs/effort.md)"
            );
        }
        match model.effort_table() {
            Some(file) if model.measured_effort() => note!(
                "measured the thresholds of effort on a standard text, and saved them as {}; `pelton effort \
                 calibrate` measures them on yours",
                file.display()
            ),
            Some(file) => note!("effort by the table {}", file.display()),
            None if effort >= 1.0 => {}
            None if matches!(kept.mode, Mode::Channel) && is_q8_0(model) => note!(
                "effort uniform for all matrices; of weights in Q8_0 the mode nested diverges less: \
                 --effort {effort},mode=nested (docs/effort.md)"
            ),
            None => {
                note!("effort uniform for all matrices; `pelton effort calibrate` makes a table")
            }
        }
    }
}

/// Whether all matrices that effort applies to have weights in Q8_0.
fn is_q8_0(model: &Model) -> bool {
    let mut marked = model.plan().weights.iter().filter(|weight| weight.effort);
    marked.all(|weight| weight.dtype.name() == "Q8_0")
}

/// The formats of a model's matrices whose rows of an effort below 1 run densely on a GPU.
fn dense_on_gpus(model: &Model, mode: Mode) -> Vec<&'static str> {
    let marked = model.plan().weights.iter().filter(|weight| weight.effort);
    let mut formats: Vec<&str> = marked.map(|weight| weight.dtype.name()).collect();
    formats.retain(|name| mode != Mode::Bucket && !["F32", "F16", "BF16", "Q8_0"].contains(name));
    formats.sort_unstable();
    formats.dedup();
    formats
}

/// The folder of tables that `pelton effort calibrate` saved.
pub(crate) fn folder() -> Option<PathBuf> {
    let directories = etcetera::choose_base_strategy().ok()?;
    Some(directories.cache_dir().join("pelton"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<EffortOptions, String> {
        let args = EffortArgs { effort: Some(text.parse()?) };
        Ok(args.apply(LoadOptions::default()).effort.unwrap())
    }

    #[test]
    fn every_key_has_its_option() {
        let uniform = parsed("0.5,table=uniform").unwrap();
        assert_eq!(uniform, EffortOptions::new(0.5));
        let all = "0.5,always,mode=bucket,ranks=3,buckets=b.gguf,table=t.json";
        let expected = EffortOptions::new(0.5)
            .mode(EffortMode::Bucket)
            .ranks(3)
            .buckets("b.gguf")
            .always(true)
            .tables(EffortTables::File("t.json".into()));
        assert_eq!(parsed(all).unwrap(), expected);
    }

    #[test]
    fn wrong_values_name_the_key_and_what_is_expected() {
        for (text, sentence) in [
            ("mode=nested", "names no effort, expected E"),
            ("0.5,mod=nested", "has no key 'mod', expected always, mode, table, ranks"),
            ("0.5,mode=nest", "mode is 'nest', expected channel, nested, bucket"),
            ("0.5,format=q8", "has no key 'format'"),
            ("0.5,ranks=17", "ranks is '17', expected 1 to 16"),
            ("0.5,buckets=", "expected a file"),
            ("0.5,table=", "expected auto, uniform or a file"),
            ("0.5,energy=0.9", "has no key 'energy', expected always, mode"),
            ("0.5,0.9", "has the efforts 0.5 and 0.9, expected one"),
            ("2", "expected a number above 0 and at most 1"),
            ("", "expected a number above 0 and at most 1"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(sentence), "{text}: {error}");
        }
    }
}
