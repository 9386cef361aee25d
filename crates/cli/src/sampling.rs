//! Flags of samplers, for commands that generate text.

use clap::{Arg, ArgAction, ArgMatches, Command};
use pelton::{Model, OptionKind, Sampling, SamplingOption};

use crate::output::note;

/// The heading of the flags.
const HEADING: &str = "Sampling (defaults are those of the model file, or those in parentheses)";

/// Flags of samplers, one for each option of [`Sampling::OPTIONS`]. Where one is absent the model
/// file's value counts, or else the default.
#[derive(Clone, Debug, Default)]
pub(crate) struct SamplingArgs {
    sampling: Sampling,
    /// The names of the options that have been given.
    given: Vec<&'static str>,
}

impl SamplingArgs {
    /// Sets the options that are not given to the values of the model file, or else to their
    /// defaults. Values that the file sets are said on standard error.
    pub(crate) fn fill(&mut self, model: &Model) {
        let defaults = model.sampling_defaults();
        if !defaults.from_file.is_empty() {
            note!("sampling by the model file: {}", defaults.from_file.join(", "));
        }
        for sentence in &defaults.ignored {
            note!("ignored in the model file: {sentence}");
        }
        for option in Sampling::OPTIONS {
            if !self.given.contains(&option.name) {
                option.copy(&defaults.sampling, &mut self.sampling);
            }
        }
    }

    /// The sampling of a request.
    pub(crate) fn sampling(&self) -> &Sampling {
        &self.sampling
    }

    /// The names of the options that were given.
    pub(crate) fn given(&self) -> &[&'static str] {
        &self.given
    }

    /// The values of all options by their flags, without those that have none.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&'static str, String)> {
        Sampling::OPTIONS.iter().flat_map(|option| {
            let values = option.show(&self.sampling).into_iter();
            values.map(|value| (option.flag, value))
        })
    }

    /// Sets an option to the values that were given for it.
    ///
    /// # Errors
    ///
    /// A sentence if one is not valid.
    pub(crate) fn set<T: AsRef<str>>(
        &mut self,
        option: &'static SamplingOption,
        values: &[T],
    ) -> Result<(), String> {
        option.parse(&mut self.sampling, values)?;
        self.given.push(option.name);
        Ok(())
    }
}

/// The flag of an option.
fn flag(option: &'static SamplingOption) -> Arg {
    let default = option.show(&Sampling::default()).join(", ");
    let help = match option.kind {
        OptionKind::Seed(_) => option.help.to_owned(),
        OptionKind::Samplers(_) => format!("{} ({})", option.help, default.replace(',', ", ")),
        _ => format!("{} ({default})", option.help),
    };
    let action = match option.kind {
        OptionKind::Texts(..) | OptionKind::Samplers(_) => ArgAction::Append,
        _ => ArgAction::Set,
    };
    let parser = move |text: &str| -> Result<String, String> {
        option.parse(&mut Sampling::default(), &[text]).map(|()| text.to_owned())
    };
    Arg::new(option.name)
        .long(option.flag)
        .value_name(option.value_name)
        .allow_negative_numbers(true)
        .action(action)
        .value_parser(parser)
        .help(help)
}

impl clap::Args for SamplingArgs {
    fn augment_args(command: Command) -> Command {
        let flags = Sampling::OPTIONS.iter().map(flag);
        command.next_help_heading(HEADING).args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for SamplingArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for option in Sampling::OPTIONS {
            let Some(values) = matches.get_many::<String>(option.name) else { continue };
            let values: Vec<&String> = values.collect();
            self.set(option, &values).map_err(|sentence| {
                clap::Error::raw(clap::error::ErrorKind::ValueValidation, sentence + "\n")
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    fn parsed(argument: &str) -> Result<SamplingArgs, clap::Error> {
        let command = Command::new("test").no_binary_name(true);
        let matches = SamplingArgs::augment_args(command).try_get_matches_from([argument])?;
        SamplingArgs::from_arg_matches(&matches)
    }

    #[test]
    fn a_flag_for_each_option_of_the_table() {
        for case in pelton_testing::sampling::cases() {
            let flag = case.option.flag;
            let args = parsed(&format!("--{flag}={}", case.good)).unwrap();
            assert_eq!(*args.sampling(), case.expected(), "{flag}");
            assert_eq!(args.given, [case.option.name]);
            let error = parsed(&format!("--{flag}={}", case.bad)).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains(&case.sentence), "{error}");
        }
        // a negative number is no flag
        let words = ["--presence-penalty", "-1.5"];
        let command = SamplingArgs::augment_args(Command::new("test").no_binary_name(true));
        let args = SamplingArgs::from_arg_matches(&command.try_get_matches_from(words).unwrap());
        assert_eq!(args.unwrap().sampling().presence_penalty, -1.5);
    }
}
