//! `pelton completions`: scripts that complete commands and options in shells.

use std::io::Write;

use anyhow::Result;
use clap::Command;
use clap_complete::{Shell, generate};

use crate::output;

#[derive(clap::Args)]
#[command(after_help = "Shells read the script from a file:\n  \
                  bash        pelton completions bash > ~/.local/share/bash-completion/completions/pelton\n  \
                  zsh         pelton completions zsh > DIR/_pelton, where DIR is one of $fpath\n  \
                  fish        pelton completions fish > ~/.config/fish/completions/pelton.fish\n  \
                  powershell  pelton completions powershell >> $PROFILE\n  \
                  elvish      pelton completions elvish >> ~/.config/elvish/rc.elv")]
pub(crate) struct Args {
    /// The shell that reads the script
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes the script that completes `command`.
pub(crate) fn run(args: &Args, command: &mut Command) -> Result<()> {
    output::stdout().write_all(&script(args.shell, command))?;
    Ok(())
}

/// The script for a shell.
fn script(shell: Shell, command: &mut Command) -> Vec<u8> {
    let mut script = Vec::new();
    generate(shell, command, "pelton", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use std::process;

    use clap::{CommandFactory, ValueEnum};

    use super::*;
    use crate::{Cli, help};

    fn script(shell: Shell) -> Vec<u8> {
        super::script(shell, &mut help::complete(Cli::command()))
    }

    /// The long options that users see, of the commands below one.
    fn options(command: &Command, found: &mut Vec<String>) {
        let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
        found.extend(shown.filter_map(|argument| Some(format!("--{}", argument.get_long()?))));
        for below in command.get_subcommands() {
            options(below, found);
        }
    }

    #[test]
    fn every_script_has_every_option() {
        let mut all = Vec::new();
        options(&help::complete(Cli::command()), &mut all);
        assert!(all.len() > 200, "{}", all.len());
        for shell in Shell::value_variants() {
            let text = String::from_utf8(script(*shell)).unwrap();
            for option in &all {
                let bare = option.trim_start_matches('-');
                let named = match shell {
                    Shell::Fish => format!("-l {bare}"),
                    _ => option.clone(),
                };
                assert!(text.contains(&named), "{shell}: {option}");
            }
        }
    }

    /// Runs a shell on a script and a line after it; `None` where the machine lacks the shell.
    fn completed(shell: Shell, program: &str, args: &[&str], line: &str) -> Option<String> {
        let folder = std::env::temp_dir().join(format!("pelton-{shell}-{}", process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("_pelton");
        std::fs::write(&file, script(shell)).unwrap();
        let line = line.replace("FILE", file.to_str().unwrap());
        let output = process::Command::new(program).args(args).args(["-c", &line]).output();
        std::fs::remove_dir_all(&folder).unwrap();
        let Ok(output) = output else {
            pelton_testing::skip(pelton_testing::Need::Capability, format!("no {program}"));
            return None;
        };
        assert!(output.status.success() && output.stderr.is_empty(), "{program}: {output:?}");
        Some(String::from_utf8(output.stdout).unwrap())
    }

    /// Bash itself fills COMPREPLY.
    #[test]
    fn bash_completes_commands_and_options() {
        let asked = "bash -n FILE && source FILE && \
                     COMP_WORDS=(pelton run --temp) COMP_CWORD=2 && _pelton pelton --temp run && \
                     echo \"${COMPREPLY[@]}\" && \
                     COMP_WORDS=(pelton pu) COMP_CWORD=1 && _pelton pelton pu pelton && \
                     echo \"${COMPREPLY[@]}\"";
        let Some(found) = completed(Shell::Bash, "bash", &["--norc"], asked) else { return };
        assert_eq!(found, "--temperature\npull\n");
    }

    #[test]
    fn fish_completes_options() {
        let asked = "source FILE; complete --do-complete 'pelton run --temp'";
        let Some(found) = completed(Shell::Fish, "fish", &["--no-config"], asked) else { return };
        assert!(found.starts_with("--temperature\t"), "{found}");
    }

    #[test]
    fn zsh_reads_the_script() {
        let asked = "zsh -n FILE && autoload -U compinit && compinit -D -u && source FILE && \
                     whence -w _pelton";
        let Some(found) = completed(Shell::Zsh, "zsh", &["-f"], asked) else { return };
        assert_eq!(found, "_pelton: function\n");
    }
}
