//! The command line of Pelton: `pelton run`, `inspect`, `tokenize`, `logits` and `bench`.
//!
//! What a program may read goes to standard output; everything else to standard error. The exit
//! code is 0, 1 for an error and 2 for wrong usage.

mod commands;
mod model;
mod output;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::{bench, inspect, logits, run, tokenize};

/// Language models on your own machine.
#[derive(Parser)]
#[command(name = "pelton", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Continue a prompt
    Run(run::Args),
    /// Show what is in a model file
    Inspect(inspect::Args),
    /// Show the tokens of a text
    Tokenize(tokenize::Args),
    /// Write a model's logits for given tokens to a .npy file
    Logits(logits::Args),
    /// Measure prefill and decode speed
    Bench(bench::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(args) => run::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Tokenize(args) => tokenize::run(args),
        Command::Logits(args) => logits::run(args),
        Command::Bench(args) => bench::run(args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::print_error(&error);
            ExitCode::FAILURE
        }
    }
}
