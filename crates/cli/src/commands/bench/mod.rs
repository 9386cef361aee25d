//! `pelton bench`: the speed of prompts, of decoding and of pictures.

mod args;
mod constrained;
mod picture_size;
mod pictures;
mod single;
mod speculation;
mod spread;
mod streams;
mod subject;
mod tokens;

use anyhow::Result;

pub(crate) use args::Args;
use args::one_length;

pub(crate) fn run(args: Args) -> Result<()> {
    if let Some(sizes) = &args.picture_sizes {
        return pictures::run(&args, sizes);
    }
    match &args.streams {
        None if args.constraint.is_some() => constrained::run(&args),
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
