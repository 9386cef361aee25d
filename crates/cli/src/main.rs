//! The command line of Pelton: `pelton run`, `inspect`, `tokenize`, `logits`, `bench`,
//! `profile` and `devices`.
//!
//! What a program may read goes to standard output; everything else to standard error. The exit
//! code is 0, 1 for an error and 2 for wrong usage.

mod commands;
mod model;
mod output;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[cfg(feature = "gpu")]
use crate::commands::devices;
use crate::commands::{bench, inspect, logits, profile, run, tokenize};

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
    /// Show where the time of a token goes, on a GPU
    Profile(profile::Args),
    /// List the GPUs of this machine
    #[cfg(feature = "gpu")]
    Devices(devices::Args),
}

fn main() -> ExitCode {
    #[cfg(feature = "gpu")]
    quiet_vulkan();
    let outcome = match Cli::parse().command {
        Command::Run(args) => run::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Tokenize(args) => tokenize::run(args),
        Command::Logits(args) => logits::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Profile(args) => profile::run(args),
        #[cfg(feature = "gpu")]
        Command::Devices(args) => devices::run(args),
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

/// Leaves out the layer of Mesa that sorts devices. It complains on standard error where there is
/// no `XDG_RUNTIME_DIR`, as in containers, and Pelton sorts them itself.
#[cfg(feature = "gpu")]
fn quiet_vulkan() {
    // SAFETY: the first thing that the program does, before there is a second thread
    unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
}
