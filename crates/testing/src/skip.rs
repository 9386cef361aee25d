//! Skipping of tests whose requirements the machine lacks.
//!
//! `PELTON_REQUIRE` lists the requirements that must be met, separated by commas: `gpu`, `data`,
//! `python`, `node`. A test that lacks one of them fails instead of being skipped. `PELTON_SKIPPED`
//! names a file to which a line is appended for each skipped test, because `cargo test` does not
//! print the output of tests that pass.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// A requirement of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A Vulkan, Metal or DX12 adapter, possibly in software: `gpu`.
    Gpu,
    /// Test data that is not part of the repository: `data`.
    Data,
    /// Python with the packages of `tests/oracles.txt`: `python`.
    Python,
    /// Node, without packages: `node`.
    Node,
    /// An optional capability of a GPU, which `PELTON_REQUIRE` cannot list.
    Capability,
}

impl Need {
    fn from_word(word: &str) -> Option<Self> {
        match word {
            "gpu" => Some(Self::Gpu),
            "data" => Some(Self::Data),
            "python" => Some(Self::Python),
            "node" => Some(Self::Node),
            _ => None,
        }
    }
}

/// Reports that the calling test is skipped because a requirement is not met; the caller returns.
///
/// Prints `SKIPPED: <reason>` to standard error and appends the name of the test's thread and the
/// reason to the file named by `PELTON_SKIPPED`.
///
/// # Panics
/// If `PELTON_REQUIRE` lists the requirement or contains an unknown word, or if the file cannot be
/// written.
pub fn skip(need: Need, reason: impl Display) {
    let required = std::env::var("PELTON_REQUIRE").unwrap_or_default();
    assert!(!is_required(need, &required), "required by PELTON_REQUIRE={required}: {reason}");
    eprintln!("SKIPPED: {reason}");
    if let Some(path) = std::env::var_os("PELTON_SKIPPED") {
        let thread = std::thread::current();
        append(path.as_ref(), thread.name().unwrap_or("unnamed thread"), &reason.to_string());
    }
}

fn is_required(need: Need, list: &str) -> bool {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    // All words are parsed, so that an unknown one is found wherever it is.
    let needs: Vec<_> = words
        .map(|word| {
            Need::from_word(word).unwrap_or_else(|| {
                panic!("PELTON_REQUIRE contains {word:?}, expected gpu, data, python or node")
            })
        })
        .collect();
    needs.contains(&need)
}

/// Appends a line in one write, so that tests in parallel do not interleave their lines.
fn append(path: &Path, test: &str, reason: &str) {
    let line = format!("{test}\t{}\n", reason.replace(['\n', '\t'], " "));
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("PELTON_SKIPPED={}: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Output};

    use super::*;

    #[test]
    fn lists_of_requirements() {
        for need in [Need::Gpu, Need::Data, Need::Python, Need::Node, Need::Capability] {
            assert!(!is_required(need, ""));
            assert_eq!(is_required(need, "gpu"), need == Need::Gpu);
            assert_eq!(
                is_required(need, " data, python,"),
                need == Need::Data || need == Need::Python
            );
            assert_eq!(is_required(need, "gpu,data,python,node"), need != Need::Capability);
        }
    }

    #[test]
    #[should_panic(expected = "PELTON_REQUIRE contains \"capability\"")]
    fn unknown_requirement() {
        is_required(Need::Gpu, "gpu,capability");
    }

    /// Runs in a process of its own, started by the tests below.
    #[test]
    fn skips_in_child_process() {
        if std::env::var_os("PELTON_SKIP_CHILD").is_some() {
            skip(Need::Data, "no data\nat all");
        }
    }

    fn child(variables: &[(&str, &str)]) -> Output {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "skip::tests::skips_in_child_process", "--nocapture"])
            .env_remove("PELTON_REQUIRE")
            .env_remove("PELTON_SKIPPED")
            .env("PELTON_SKIP_CHILD", "1")
            .envs(variables.iter().copied())
            .output()
            .unwrap()
    }

    #[test]
    fn skipped_tests_are_printed_and_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("skipped");
        let variables = [("PELTON_SKIPPED", file.to_str().unwrap()), ("PELTON_REQUIRE", "gpu")];
        for _ in 0..2 {
            let output = child(&variables);
            assert!(output.status.success(), "{output:?}");
            let printed = String::from_utf8(output.stderr).unwrap();
            assert!(printed.contains("SKIPPED: no data\nat all\n"), "{printed}");
        }
        let line = "skip::tests::skips_in_child_process\tno data at all\n";
        assert_eq!(std::fs::read_to_string(file).unwrap(), line.repeat(2));
    }

    #[test]
    fn required_tests_fail() {
        for (list, message) in [
            ("python,data", "required by PELTON_REQUIRE=python,data: no data"),
            ("gpus", "PELTON_REQUIRE contains \"gpus\", expected gpu, data, python or node"),
        ] {
            let output = child(&[("PELTON_REQUIRE", list)]);
            assert!(!output.status.success(), "{output:?}");
            let printed =
                String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
            assert!(printed.contains(message), "{printed}");
        }
    }
}
