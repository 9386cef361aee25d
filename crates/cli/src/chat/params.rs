//! Options that can be changed during a chat.

use anyhow::{Result, anyhow};
use clap::{Args as _, FromArgMatches as _};

use crate::sampling::SamplingArgs;

/// The length of answers and the options of sampling.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Params {
    /// Tokens of an answer, at most; by default as many as the context has room for
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) tokens: Option<usize>,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
}

impl Params {
    /// All options by their names, without those that have no value.
    fn values(&self) -> Vec<(String, String)> {
        let tokens = self.tokens.map(|tokens| ("tokens".to_owned(), tokens.to_string()));
        tokens.into_iter().chain(self.sampling.values()).collect()
    }

    /// The options, one a line.
    pub(crate) fn show(&self) -> String {
        let lines = self.values().into_iter().map(|(name, value)| format!("  {name:<20} {value}"));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The options after a change such as `temperature 0.5 top-k=20`.
    ///
    /// # Errors
    /// If there is no such option, or the value is not valid.
    pub(crate) fn changed(&self, text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split([' ', '=']).filter(|word| !word.is_empty()).collect();
        if !words.len().is_multiple_of(2) {
            return Err(anyhow!("expected pairs of a name and a value, such as temperature 0.5"));
        }
        let new = words.chunks_exact(2).map(|pair| {
            format!("--{}={}", pair[0].trim_start_matches('-').replace('_', "-"), pair[1])
        });
        let old = self.values().into_iter().map(|(name, value)| format!("--{name}={value}"));
        let command = clap::Command::new("params").no_binary_name(true).disable_help_flag(true);
        let command = Self::augment_args(command).args_override_self(true);
        let matches = command.try_get_matches_from(old.chain(new)).map_err(|error| {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            anyhow!("{}", line.trim_start_matches("error: ").replace("--", ""))
        })?;
        let params = Self::from_arg_matches(&matches)?;
        params.sampling.sampling().check().map_err(anyhow::Error::msg)?;
        Ok(params)
    }
}

#[cfg(test)]
mod tests {
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
        let expected = values(&params).into_iter().map(|(name, value)| match &*name {
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
}
