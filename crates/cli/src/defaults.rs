//! Flags of the options that a server gives to requests which do not set them.

use anyhow::{Context, Result, ensure};
use pelton::LogitBias;
use pelton_server::Defaults;
use serde_json::{Map, Value};

use crate::{constrain::ConstraintArgs, sampling::SamplingArgs};

/// Flags of defaults.
#[derive(clap::Args)]
#[command(next_help_heading = "Defaults of requests")]
pub(crate) struct DefaultArgs {
    /// Generate at most N tokens for a request that sets no limit
    #[arg(short = 'n', long, value_name = "N")]
    tokens: Option<usize>,
    /// End texts before this string where a request names none; may be given several times
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Go on after the token that ends a text
    #[arg(long)]
    ignore_eos: bool,
    /// Add X to the logit of a token, by its id; -inf for never; may be given several times
    #[arg(long, value_name = "ID=X", value_parser = bias, allow_hyphen_values = true)]
    logit_bias: Vec<(u32, f32)>,
    /// A JSON object of variables of the chat template, such as {"enable_thinking": false}; may
    /// be given several times
    #[arg(long, value_name = "JSON", value_parser = kwargs)]
    chat_template_kwargs: Vec<Map<String, Value>>,
    #[command(flatten)]
    constraint: ConstraintArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
}

impl DefaultArgs {
    /// The defaults of these flags.
    pub(crate) fn defaults(&self) -> Result<Defaults> {
        let mut defaults = Defaults::default();
        defaults.sampling.clone_from(self.sampling.sampling());
        defaults.given = self.sampling.given().to_vec();
        defaults.max_tokens = self.tokens;
        defaults.stop.clone_from(&self.stop);
        defaults.ignore_end = self.ignore_eos;
        let bias = |&(token, bias): &(u32, f32)| LogitBias::new(token, bias);
        defaults.logit_bias = self.logit_bias.iter().map(bias).collect();
        defaults.constraint = self.constraint.constraint()?;
        defaults.kwargs = self.chat_template_kwargs.iter().flat_map(|map| map.clone()).collect();
        Ok(defaults)
    }
}

/// Parses a token and the summand of its logit.
pub(crate) fn bias(text: &str) -> Result<(u32, f32)> {
    let (id, bias) = text.split_once('=').context("expected ID=X, as in 7=-1.5")?;
    let id = id.trim().parse().context("expected the id of a token before =")?;
    let bias: f32 = bias.trim().parse().context("expected a number after =")?;
    ensure!(!bias.is_nan(), "expected a number after =");
    Ok((id, bias))
}

/// Parses variables of a template.
pub(crate) fn kwargs(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("expected a JSON object: {error}"))
}
