//! The files of results.

use std::{
    ffi::{OsStr, OsString},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use pelton::speech::{Format, Segment, WriteOptions, write};

use super::args::{Args, STDIN};
use crate::{
    interrupt::Flag,
    new_file::NewFile,
    output::{self, note},
};

/// The files of the results of an audio file, one for each format; none for standard output.
pub(super) type Results = Vec<(Format, PathBuf)>;

/// The results of each file. One that exists, and two of the same name, are refused before the
/// work.
pub(super) fn results(args: &Args, files: &[OsString]) -> Result<Vec<Results>> {
    let mut all: Vec<Results> = Vec::with_capacity(files.len());
    for (i, file) in files.iter().enumerate() {
        let begin = match (args.output_file.get(i), &args.output) {
            (Some(path), _) => path.clone(),
            (None, Some(folder)) => {
                let path = Path::new(if file == STDIN { OsStr::new("stdin") } else { file });
                folder.join(path.file_stem().unwrap_or(path.as_os_str()))
            }
            (None, None) => {
                all.push(Vec::new());
                continue;
            }
        };
        let mut own = Vec::new();
        for &format in &args.format {
            let mut name = begin.clone().into_os_string();
            name.push(".");
            name.push(format.name());
            let result = PathBuf::from(name);
            let has = |results: &Results| results.iter().any(|(_, other)| *other == result);
            if let Some(at) = all.iter().position(has) {
                let (one, other, result) = (files[at].display(), file.display(), result.display());
                bail!("{one} and {other} would both become {result}");
            }
            if result.exists() && !args.force {
                bail!("{} exists already, expected another place or --force", result.display());
            }
            own.push((format, result));
        }
        all.push(own);
    }
    Ok(all)
}

/// Writes the results of an audio file.
pub(super) fn write_all(
    results: &Results,
    args: &Args,
    segments: &[Segment],
    options: &WriteOptions,
    stop: &Flag,
) -> Result<()> {
    for (format, path) in results {
        // it may have come into being meanwhile
        let mut file = NewFile::create(path, args.force)?;
        let mut out = BufWriter::new(file.writer(stop.clone()));
        let written = write(*format, segments, options, &mut out);
        written
            .and_then(|()| out.flush())
            .with_context(|| format!("{} could not be written", path.display()))?;
        drop(out);
        file.finish()?;
        note!("{} is written", path.display());
    }
    Ok(())
}

/// Writes the result of an audio file to standard output.
pub(super) fn print(format: Format, segments: &[Segment], options: &WriteOptions) -> Result<()> {
    let mut out = BufWriter::new(output::stdout());
    write(format, segments, options, &mut out)?;
    Ok(out.flush()?)
}
