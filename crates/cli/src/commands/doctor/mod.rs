//! `pelton doctor`: the things that Pelton finds on this machine, and whether it answers.

mod answer;
#[cfg(feature = "gpu")]
mod gpus;
#[cfg(feature = "gpu")]
mod loader;
mod places;
mod report;
mod system;

use std::{io::Write, process::ExitCode};

use anyhow::Result;
use pelton::Device;

use crate::output::{self, note};
use report::Report;

#[derive(clap::Args)]
#[command(
    after_help = "The exit code is 0 if the built-in model answers on the device. A report of a fault should have \
                  this\noutput; it contains paths of your home folder, and no token."
)]
pub(crate) struct Args {
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    /// Try the built-in model on auto (a GPU if there is one), cpu, gpu, or gpu:N of
    /// `pelton devices`
    #[arg(long, value_name = "DEVICE", default_value_t)]
    device: Device,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut report = Report::default();
    report.add("pelton", system::program());
    report.add("CPU", system::cpu());
    note!("measuring the memory bandwidth for about a second");
    report.add("memory", system::memory());
    #[cfg(feature = "gpu")]
    gpus::add(&mut report);
    #[cfg(not(feature = "gpu"))]
    report.line("GPUs", "gpu", "this build has no GPU support (feature gpu)");
    places::add(&mut report);
    let answer = answer::of(args.device);
    let mut out = output::stdout();
    match args.json {
        true => writeln!(out, "{:#}", report.json(answer.json()))?,
        false => writeln!(out, "{}\n{}", report.text(), answer.sentence())?,
    }
    Ok(if answer.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
