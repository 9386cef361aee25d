//! `pelton man`: manual pages.

use std::{fs, io::Write, path::PathBuf};

use anyhow::{Context, Result, bail};
use clap::Command;
use clap_mangen::Man;

use crate::{
    new_file,
    output::{self, note},
};

#[derive(clap::Args)]
#[command(
    after_help = "`pelton man run | man -l -` shows the page of a command. --dir ~/.local/share/man/man1 writes \
                  all pages\nto where `man pelton-run` finds them."
)]
pub(crate) struct Args {
    /// The command whose page is written; without it that of pelton
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    command: Vec<String>,
    /// Write one page a command to this folder, which is created
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Writes pages of `complete` and of the commands below it.
pub(crate) fn run(args: &Args, complete: Command) -> Result<()> {
    let Some(folder) = &args.dir else {
        output::stdout().write_all(&page(named(complete, &args.command)?)?)?;
        return Ok(());
    };
    let failed = || format!("{} could not be written", folder.display());
    fs::create_dir_all(folder).with_context(failed)?;
    let mut all = Vec::new();
    commands(complete, &mut all);
    let count = all.len();
    for command in all {
        let file = folder.join(Man::new(command.clone()).get_filename());
        new_file::replace(&file, &page(command)?)?;
    }
    note!("{count} pages are in {}", folder.display());
    Ok(())
}

/// The command of these words.
fn named(mut command: Command, words: &[String]) -> Result<Command> {
    for word in words {
        let Some(found) = command.find_subcommand(word) else {
            let all: Vec<_> = command.get_subcommands().map(Command::get_name).collect();
            bail!("there is no command {word}, expected one of {}", all.join(", "));
        };
        command = found.clone();
    }
    Ok(command)
}

/// A command and all below it.
fn commands(command: Command, found: &mut Vec<Command>) {
    for below in command.get_subcommands() {
        commands(below.clone(), found);
    }
    found.push(command);
}

/// The page of a command. It has no date, so that a version has the same pages
/// whenever they are written.
fn page(command: Command) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    let version = concat!("pelton ", env!("CARGO_PKG_VERSION"));
    Man::new(command).source(version).manual("Pelton").render(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use std::process::{Command as Process, Stdio};

    use clap::CommandFactory;

    use super::*;
    use crate::{Cli, help};

    fn pages() -> Vec<(Command, String)> {
        let mut all = Vec::new();
        commands(help::complete(Cli::command()), &mut all);
        let text = |command: Command| {
            let page = String::from_utf8(page(command.clone()).unwrap()).unwrap();
            (command, page)
        };
        all.into_iter().map(text).collect()
    }

    #[test]
    fn every_option_is_on_its_page() {
        let mut count = 0;
        for (command, page) in pages() {
            let bare = page.replace("\\-", "-");
            let name = command.get_display_name().unwrap_or("pelton").to_owned();
            assert!(bare.contains(&format!(".TH {name} 1 ")), "{name}: {bare}");
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let Some(long) = argument.get_long() else { continue };
                assert!(bare.contains(&format!("--{long}")), "{name}: --{long}\n{bare}");
                count += 1;
            }
        }
        assert!(count > 200, "{count}");
    }

    /// Runs a formatter on a page; whether the machine has it.
    fn formatted(program: &str, args: &[&str], page: &str) -> bool {
        let started = Process::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut child) = started else {
            pelton_testing::skip(pelton_testing::Need::Capability, format!("no {program}"));
            return false;
        };
        child.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let found = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.is_empty(), "{program}: {said}{found}\n{page}");
        true
    }

    #[test]
    fn groff_warns_of_no_page() {
        for (_, page) in pages() {
            if !formatted("groff", &["-man", "-Tutf8", "-ww", "-z", "-Kutf8"], &page) {
                return;
            }
        }
    }

    /// The style of dates is left out: the pages have none.
    #[test]
    fn mandoc_finds_no_error() {
        for (_, page) in pages() {
            if !formatted("mandoc", &["-Tlint", "-Werror"], &page) {
                return;
            }
        }
    }
}
