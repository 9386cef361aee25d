//! Compilers, and the library as C programs find it.

#![allow(dead_code, reason = "each test uses some of it")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use pelton_testing::{Need, WhisperSpec, skip};
use tempfile::TempDir;

/// The sanitizers of tests.
pub(crate) const SANITIZE: [&str; 2] =
    ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
/// The warnings of tests.
pub(crate) const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-Wpedantic"];

/// A folder of this crate.
pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// A folder of the repository.
pub(crate) fn repository(name: &str) -> PathBuf {
    folder("../..").join(name)
}

/// The shared library, which cargo builds next to the tests.
pub(crate) fn library() -> PathBuf {
    let test = env::current_exe().unwrap();
    let path = test.parent().unwrap().join("libpelton_capi.so");
    assert!(path.is_file(), "{} is not built", path.display());
    path
}

/// A random model of Whisper that writes letters and knows the times of words.
pub(crate) fn letters() -> WhisperSpec {
    let alignment_heads = vec![[1, 0], [0, 1]];
    WhisperSpec { decoder_layers: 2, alignment_heads, ..WhisperSpec::of_letters(1) }
}

/// Whether there is a program; a test without it is skipped.
pub(crate) fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        skip(Need::Capability, format!("there is no {program}"));
    }
    found
}

/// A folder with the library, where programs are built.
pub(crate) struct Workshop(TempDir);

impl Workshop {
    /// `None` if there is no compiler.
    pub(crate) fn open() -> Option<Self> {
        if !cfg!(target_os = "linux") {
            skip(Need::Capability, "programs of C are built on Linux alone");
            return None;
        }
        if !has("gcc") || !has("g++") {
            return None;
        }
        let workshop = Self(tempfile::tempdir().unwrap());
        #[cfg(unix)]
        std::os::unix::fs::symlink(library(), workshop.path("libpelton.so")).unwrap();
        Some(workshop)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a source file.
    pub(crate) fn source(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Builds a program of C, or of C++ if its source ends so.
    pub(crate) fn build(&self, source: &Path, flags: &[&str]) -> PathBuf {
        self.build_with(source, &folder("include"), flags)
    }

    /// As [`build`](Self::build), with the header of another folder.
    pub(crate) fn build_with(&self, source: &Path, include: &Path, flags: &[&str]) -> PathBuf {
        let (compiler, standard) = match source.extension().unwrap().to_str().unwrap() {
            "cpp" => ("g++", "-std=c++17"),
            _ => ("gcc", "-std=c99"),
        };
        let name = source.file_name().unwrap().to_str().unwrap().replace('.', "_");
        let program = self.path(&name);
        let output = Command::new(compiler)
            .args([standard, "-g", "-D_GNU_SOURCE", "-pthread"])
            .args(STRICT)
            .args(flags)
            .arg("-I")
            .arg(include)
            .arg(source)
            .arg("-o")
            .arg(&program)
            .arg("-L")
            .arg(self.0.path())
            .args(["-lpelton", "-lm"])
            .arg(format!("-Wl,-rpath,{}", self.0.path().display()))
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}: {}",
            source.display(),
            String::from_utf8_lossy(&output.stderr)
        );
        program
    }
}

/// Runs a program, which must succeed, and returns its output.
pub(crate) fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{text}\n{errors}");
    text.into_owned()
}
