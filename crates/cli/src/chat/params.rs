//! Options that can be changed during a chat.

use anyhow::{Context, Result, anyhow};
use pelton::{Sampling, SamplingOption};

use crate::sampling::SamplingArgs;

/// The length of answers and the options of sampling.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Params {
    /// Generate at most N tokens for an answer; by default as many as the context has room for
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) tokens: Option<usize>,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
}

impl Params {
    /// All options by their names, without those that have no value.
    fn values(&self) -> Vec<(&'static str, String)> {
        let tokens = self.tokens.map(|tokens| ("tokens", tokens.to_string()));
        tokens.into_iter().chain(self.sampling.values()).collect()
    }

    /// The options, one a line.
    pub(crate) fn show(&self) -> String {
        let lines = self.values().into_iter().map(|(name, value)| format!("  {name:<20} {value}"));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The options after a change such as `temperature 0.5 top-k=20`. Several values of a list
    /// replace it together.
    ///
    /// # Errors
    ///
    /// If there is no such option, or the value is not valid.
    pub(crate) fn changed(&self, text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split([' ', '=']).filter(|word| !word.is_empty()).collect();
        if !words.len().is_multiple_of(2) {
            return Err(anyhow!("expected pairs of a name and a value, such as temperature 0.5"));
        }
        let mut params = self.clone();
        let mut changes: Vec<(&'static SamplingOption, Vec<&str>)> = Vec::new();
        for pair in words.chunks_exact(2) {
            let (name, value) = (pair[0].trim_start_matches('-'), pair[1]);
            if matches!(name, "n" | "tokens") {
                let tokens = value.parse().ok();
                let refused = || format!("tokens is {value:?}, expected an integer from 0");
                params.tokens = Some(tokens.with_context(refused)?);
                continue;
            }
            let option = SamplingOption::find(name).with_context(|| unknown(name))?;
            match changes.iter_mut().find(|(other, _)| other.name == option.name) {
                Some((_, values)) => values.push(value),
                None => changes.push((option, vec![value])),
            }
        }
        for (option, values) in changes {
            params.sampling.set(option, &values).map_err(anyhow::Error::msg)?;
        }
        Ok(params)
    }
}

/// The sentence about a name that no option has.
fn unknown(name: &str) -> String {
    let flags: Vec<&str> = Sampling::OPTIONS.iter().map(|option| option.flag).collect();
    format!("'{name}' is no option, expected one of tokens, {}", flags.join(", "))
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    #[test]
    fn options_change_by_name() {
        let command = clap::Command::new("params").no_binary_name(true);
        let command = Params::augment_args(command);
        let arguments = command.clone();
        let matches = command.try_get_matches_from(["--seed=5", "--tokens=9"]).unwrap();
        let params = Params::from_arg_matches(&matches).unwrap();
        for argument in arguments.get_arguments() {
            let name = argument.get_long().unwrap();
            assert!(params.show().contains(&format!("  {name} ")), "{name} is not shown");
        }
        let changed = params.changed("temperature 0.5 top_k=7").unwrap();
        let values = |params: &Params| params.values();
        let expected = values(&params).into_iter().map(|(name, value)| match name {
            "temperature" => (name, "0.5".to_owned()),
            "top-k" => (name, "7".to_owned()),
            _ => (name, value),
        });
        assert_eq!(values(&changed), expected.collect::<Vec<_>>());
        for (bad, words) in [
            ("temperature", "pairs"),
            ("warmth 1", "warmth"),
            ("top-k many", "many"),
            ("temperature -1", "temperature"),
        ] {
            let said = params.changed(bad).unwrap_err().to_string();
            assert!(said.contains(words) && !said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn every_option_of_the_table_changes() {
        let params = Params { tokens: None, sampling: SamplingArgs::default() };
        for case in pelton_testing::sampling::cases() {
            for name in case.option.keys().chain([case.option.flag]) {
                let changed = params.changed(&format!("{name} {}", case.good)).unwrap();
                assert_eq!(*changed.sampling.sampling(), case.expected(), "{name}");
                let said = params.changed(&format!("{name}={}", case.bad)).unwrap_err();
                assert_eq!(said.to_string(), case.sentence);
            }
        }
        let two = params.changed("dry-breaker a dry-breaker b").unwrap();
        assert_eq!(two.sampling.sampling().dry_breakers, ["a", "b"]);
    }
}
