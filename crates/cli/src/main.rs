//! The command line of Pelton: `pelton run`, `chat`, `pull`, `list`, `show`, `rm`, `convert`,
//! `quantize`, `imatrix`, `embed`, `rerank`, `transcribe`, `inspect`, `tokenize`, `template`,
//! `logits`, `perplexity`, `compare`, `effort`, `serve`, `bench`, `plan`, `profile`, `devices`,
//! `doctor`, `completions` and `man`.
//!
//! Results go to standard output; progress, statistics, log lines and errors to standard error. The
//! exit code is 0, 1 for an error, 2 for wrong usage, and 130 after Ctrl-C.

mod chat;
mod commands;
mod constrain;
mod defaults;
mod effort;
mod fit;
mod foreign_flags;
mod help;
mod hints;
mod hub;
mod interrupt;
mod load_flags;
mod loader;
mod logging;
mod model;
mod model_budget;
mod names;
mod new_file;
mod npy;
mod output;
mod pictures;
mod progress;
mod sampling;
mod scores;
mod speculate;
mod templates;
mod thinking;
mod tower;

use std::{env, ffi::OsString, process::ExitCode};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

#[cfg(feature = "gpu")]
use crate::commands::devices;
use crate::commands::{
    bench, chat as chat_command, compare, completions, convert, doctor, effort as effort_command,
    embed, imatrix, inspect, list, logits, man, perplexity, plan, profile, pull, quantize, rerank,
    rm, run, serve, show, template, tokenize, transcribe,
};

/// Language models on your own machine.
#[derive(Parser)]
#[command(
    name = "pelton",
    version,
    arg_required_else_help = true,
    after_help = "MODEL is a file, a folder or a name. A name is found on this machine, or downloaded:\n  \
                  pelton run model.gguf \"Hello\"\n  \
                  pelton chat qwen3:0.6b\n  \
                  pelton serve Qwen/Qwen3-0.6B-GGUF:Q8_0\n\n\
                  The environment variable RUST_LOG turns on log lines on standard error: \
                  RUST_LOG=pelton=debug\nfor those of Pelton, or a list of TARGET=LEVEL with the \
                  levels error, warn, info, debug and trace."
)]
struct Cli {
    #[command(flatten)]
    hub: hub::HubArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Answer or continue a prompt
    Run(run::Args),
    /// Talk to a model
    Chat(chat_command::Args),
    /// Download models by their names
    Pull(pull::Args),
    /// List the models of this machine
    #[command(alias = "ls")]
    List(list::Args),
    /// Show where a model is and what it is
    Show(show::Args),
    /// Remove downloaded models
    Rm(rm::Args),
    /// Embed texts
    Embed(embed::Args),
    /// Sort documents by their relevance for a query
    Rerank(rerank::Args),
    /// Show the contents of a model file
    Inspect(inspect::Args),
    /// Show the tokens of a text
    Tokenize(tokenize::Args),
    /// Show a model's chat template, or the prompt that it makes of a chat
    Template(template::Args),
    /// Write the text of speech in audio files
    Transcribe(Box<transcribe::Args>),
    /// Serve models over HTTP: the APIs of OpenAI, Anthropic and Ollama, and a page to chat in
    Serve(Box<serve::Args>),
    /// Write a model's logits for given tokens to a .npy file
    Logits(logits::Args),
    /// Measure how well a model predicts a text, and how far it is from saved logits
    Perplexity(perplexity::Args),
    /// Compare two models on a text: divergence, perplexity, speed and size
    Compare(compare::Args),
    /// Write a GGUF file of a directory of Hugging Face, or of a file of whisper.cpp
    Convert(convert::Args),
    /// Write a GGUF file with smaller types
    Quantize(quantize::Args),
    /// Write the importance of columns on a text, for smaller errors of quantized files
    Imatrix(imatrix::Args),
    /// Prepare a model for the effort dial
    Effort(effort_command::Args),
    /// Measure prefill and decode speed, of one sequence or of several at once
    Bench(bench::Args),
    /// Show the memory and the speed of a model with many streams, without serving it
    Plan(plan::Args),
    /// Show the time of each step of a pass
    Profile(profile::Args),
    /// List the GPUs of this machine
    #[cfg(feature = "gpu")]
    Devices(devices::Args),
    /// Show what Pelton finds on this machine, and whether it answers
    Doctor(doctor::Args),
    /// Write a script that completes commands and options in a shell
    Completions(completions::Args),
    /// Write manual pages
    Man(man::Args),
}

fn main() -> ExitCode {
    #[cfg(feature = "gpu")]
    quiet_vulkan();
    #[cfg(unix)]
    survive_limits();
    let command = match parse() {
        Ok(cli) => {
            hub::configure(&cli.hub);
            cli.command
        }
        Err(code) => return code,
    };
    match &command {
        // it starts the log once its configuration is read
        Command::Serve(_) => {
            #[cfg(all(target_os = "linux", target_env = "gnu"))]
            level_memory();
        }
        Command::Embed(_) => logging::start(Some(embed::LOG)),
        _ => logging::start(None),
    }
    let outcome = match command {
        Command::Run(args) => run::run(args),
        Command::Chat(args) => chat_command::run(args),
        Command::Pull(args) => pull::run(&args).map(|()| ExitCode::SUCCESS),
        Command::List(args) => list::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Show(args) => show::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Rm(args) => rm::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Embed(args) => embed::run(args),
        Command::Rerank(args) => rerank::run(args),
        Command::Transcribe(args) => transcribe::run(&args),
        Command::Inspect(args) => inspect::run(args).map(|()| ExitCode::SUCCESS),
        Command::Tokenize(args) => tokenize::run(args).map(|()| ExitCode::SUCCESS),
        Command::Template(args) => template::run(args).map(|()| ExitCode::SUCCESS),
        Command::Logits(args) => logits::run(args).map(|()| ExitCode::SUCCESS),
        Command::Perplexity(args) => perplexity::run(args).map(|()| ExitCode::SUCCESS),
        Command::Compare(args) => compare::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Quantize(args) => quantize::run(args),
        Command::Imatrix(args) => imatrix::run(args),
        Command::Serve(args) => serve::run(*args, &Cli::command()).map(|()| ExitCode::SUCCESS),
        Command::Effort(args) => effort_command::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Bench(args) => bench::run(args).map(|()| ExitCode::SUCCESS),
        Command::Plan(args) => plan::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Profile(args) => profile::run(args).map(|()| ExitCode::SUCCESS),
        #[cfg(feature = "gpu")]
        Command::Devices(args) => devices::run(args).map(|()| ExitCode::SUCCESS),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions(args) => {
            completions::run(&args, &mut help::complete(Cli::command())).map(|()| ExitCode::SUCCESS)
        }
        Command::Man(args) => {
            man::run(&args, help::complete(Cli::command())).map(|()| ExitCode::SUCCESS)
        }
    };
    match outcome {
        Ok(code) => code,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::print_error(&error);
            ExitCode::FAILURE
        }
    }
}

/// The command line, or the exit code if there is nothing to run.
fn parse() -> Result<Cli, ExitCode> {
    let mut command = Cli::command();
    let mut words: Vec<OsString> = env::args_os().collect();
    if let [_, word] = &mut words[..]
        && (word == "-v" || word == "version")
    {
        *word = "--version".into();
    }
    let mut line = foreign_flags::rewritten(words, &command, &|name| env::var_os(name));
    let (words, level) = help::level(std::mem::take(&mut line.words));
    if let Some(level) = level {
        command = help::with_level(command, level);
    } else {
        line.check()?;
    }
    let cli = command.try_get_matches_from(words);
    let cli = cli.and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = cli.map_err(|error| foreign_flags::refuse(&error, &line))?;
    line.say();
    Ok(cli)
}

/// Disables Mesa's layer that sorts GPUs. It prints a warning where there is no `XDG_RUNTIME_DIR`,
/// as in containers, and Pelton sorts the GPUs itself.
#[cfg(feature = "gpu")]
fn quiet_vulkan() {
    // SAFETY: this is the first statement of `main`, so there is no second thread
    unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
}

/// Makes a write past the limit of a file's size (`ulimit -f`) an error, which names the file. The
/// signal would end the process. A handler that does nothing is not inherited by other programs, as
/// an ignored signal is.
#[cfg(unix)]
fn survive_limits() {
    extern "C" fn nothing(_: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = nothing;
    // SAFETY: the handler touches nothing, so it may run at any time
    unsafe { libc::signal(libc::SIGXFSZ, handler as libc::sighandler_t) };
}

/// Keeps the memory of a server level. glibc gives each thread an arena of its own, up to eight per
/// core, and each keeps what it once needed. It also raises the size from which a buffer is
/// mapped, and returned when it is freed, to that of the largest buffer so far.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn level_memory() {
    const MAPPED: libc::c_int = 256 << 10;
    // SAFETY: mallopt(3) has no preconditions for these parameters; no other thread runs yet
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 2);
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED);
        libc::mallopt(libc::M_TRIM_THRESHOLD, MAPPED);
    }
}
