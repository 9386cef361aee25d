//! `pelton bench`: prefill and decode speed.

mod args;
mod single;
mod speculation;
mod spread;
mod streams;
mod subject;
mod tokens;

use anyhow::{Result, bail};

pub(crate) use args::Args;

pub(crate) fn run(args: Args) -> Result<()> {
    match &args.streams {
        None if args.speculation => speculation::run(&args),
        None => single::run(&args),
        Some(streams) => {
            let workload = streams::Workload {
                prompt: one_length("-p", args.prompt.as_deref(), 128)?,
                tokens: one_length("-n", args.tokens.as_deref(), 64)?,
                shared_prefix: args.shared_prefix,
            };
            streams::run(&args, streams, workload)
        }
    }
}

/// The single length of an option, with a default.
fn one_length(option: &str, lengths: Option<&[usize]>, default: usize) -> Result<usize> {
    match lengths {
        None => Ok(default),
        Some(&[length]) => Ok(length),
        Some(lengths) => {
            bail!(
                "{option} has {} values, expected one with --streams or --speculation",
                lengths.len()
            )
        }
    }
}
