//! Files of saved logits, in the format of llama.cpp's `--kl-divergence-base`.
//!
//! All values are little-endian. A header: the bytes `_logits_`, then `i32` context, vocabulary and
//! windows, then the tokens `[windows, context]` as `i32`. Then for each scored row of each window
//! its log-probabilities `[vocabulary]` in 16 bits: an `f32` scale, an `f32` minimum, and codes
//! `u16` `[vocabulary]`, padded to an even number. A log-probability is `scale · code + minimum`.

use std::{
    fs::File,
    io::{BufReader, BufWriter, IntoInnerError, Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};

use super::{CONTEXT_MIN, score::LogProbs, scored};
use crate::new_file::NewFile;

const MAGIC: &[u8; 8] = b"_logits_";

/// Bytes of one row of log-probabilities.
const fn row_bytes(vocab: usize) -> usize {
    8 + 2 * vocab.next_multiple_of(2)
}

/// A file of saved logits that is read window by window.
pub(crate) struct BaseFile {
    path: PathBuf,
    reader: BufReader<File>,
    /// Tokens of a window.
    pub(crate) context: usize,
    /// Tokens of the vocabulary.
    pub(crate) vocab: usize,
    /// The tokens `[windows, context]`.
    pub(crate) tokens: Vec<u32>,
}

impl BaseFile {
    /// Opens a file, and reads its header and its tokens.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is of another format, or its length is not that of its header.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let name = path.display();
        let file = File::open(path).with_context(|| format!("{name} could not be opened"))?;
        let length = file.metadata().with_context(|| format!("{name} could not be read"))?.len();
        let mut reader = BufReader::new(file);
        let mut magic = [0; 8];
        let is_known = reader.read_exact(&mut magic).is_ok() && &magic == MAGIC;
        ensure!(is_known, "{name} is no file of saved logits, expected it to begin with _logits_");
        let mut count = |what: &str, least: usize| -> Result<usize> {
            let mut bytes = [0; 4];
            reader.read_exact(&mut bytes).with_context(|| format!("{name} ends in its header"))?;
            let found = i32::from_le_bytes(bytes);
            match usize::try_from(found) {
                Ok(count) if count >= least => Ok(count),
                _ => bail!("the {what} of {name} is {found}, expected at least {least}"),
            }
        };
        let context = count("context", CONTEXT_MIN)?;
        let vocab = count("vocabulary", 1)?;
        let windows = count("number of windows", 1)?;
        // three numbers of 31 bits, so that no product exceeds 128 bits
        let rows = windows as u128 * scored(context).len() as u128;
        let tokens = windows as u128 * context as u128;
        let expected = 20 + 4 * tokens + rows * row_bytes(vocab) as u128;
        ensure!(
            u128::from(length) == expected,
            "{name} has {length} bytes, expected {expected} for {windows} windows of {context} \
             tokens and a vocabulary of {vocab}"
        );
        let mut bytes = vec![0; 4 * windows * context];
        reader.read_exact(&mut bytes).with_context(|| format!("{name} could not be read"))?;
        let token = |(i, bytes): (usize, &[u8])| -> Result<u32> {
            let found = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            match u32::try_from(found) {
                Ok(token) if (token as usize) < vocab => Ok(token),
                _ => bail!("token {i} of {name} is {found}, expected one below {vocab}"),
            }
        };
        let tokens = bytes.chunks_exact(4).enumerate().map(token).collect::<Result<_>>()?;
        Ok(Self { path: path.to_owned(), reader, context, vocab, tokens })
    }

    /// The log-probabilities of the scored rows of the next window.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or a scale or a minimum is not that of log-probabilities.
    pub(crate) fn next_window(&mut self) -> Result<Vec<LogProbs>> {
        let name = self.path.display();
        let mut bytes = vec![0; row_bytes(self.vocab)];
        let mut rows = Vec::with_capacity(scored(self.context).len());
        for row in scored(self.context) {
            self.reader
                .read_exact(&mut bytes)
                .with_context(|| format!("{name} could not be read"))?;
            let float = |at: usize| {
                f32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
            };
            let (scale, least) = (float(0), float(4));
            // the least is the logarithm of a probability, the greatest too up to rounding
            let greatest = scale * f32::from(u16::MAX) + least;
            let is_sound =
                scale >= 0.0 && least.is_finite() && least <= 1e-3 && greatest.is_finite();
            ensure!(
                is_sound,
                "row {row} of a window of {name} has the scale {scale} and the minimum {least}, \
                 expected those of log-probabilities"
            );
            let code = |pair: &[u8]| u16::from_le_bytes([pair[0], pair[1]]);
            let codes = bytes[8..8 + 2 * self.vocab].chunks_exact(2).map(code).collect();
            rows.push(LogProbs { scale, least, codes });
        }
        Ok(rows)
    }
}

/// A file of saved logits that is written window by window.
pub(crate) struct BaseWriter {
    path: PathBuf,
    writer: BufWriter<NewFile>,
}

impl BaseWriter {
    /// Creates a file with a header and the tokens `[windows, context]`.
    ///
    /// # Errors
    ///
    /// If it cannot be written, or a number exceeds 31 bits.
    pub(crate) fn create(
        path: &Path,
        context: usize,
        vocab: usize,
        tokens: &[u32],
    ) -> Result<Self> {
        let file = NewFile::create(path, true)?;
        let mut created = Self { path: path.to_owned(), writer: BufWriter::new(file) };
        let mut header = MAGIC.to_vec();
        for (what, count) in [
            ("context", context),
            ("vocabulary", vocab),
            ("windows", tokens.len() / context.max(1)),
        ] {
            let Ok(count) = i32::try_from(count) else {
                bail!("{count} as the {what} of a file of logits, expected at most {}", i32::MAX);
            };
            header.extend(count.to_le_bytes());
        }
        header.extend(tokens.iter().flat_map(|token| token.to_le_bytes()));
        created.write(&header)?;
        Ok(created)
    }

    /// Writes the log-probabilities of the scored rows of the next window.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(crate) fn window(&mut self, rows: &[LogProbs]) -> Result<()> {
        let mut bytes = Vec::new();
        for LogProbs { scale, least, codes } in rows {
            bytes.clear();
            bytes.extend(scale.to_le_bytes());
            bytes.extend(least.to_le_bytes());
            bytes.extend(codes.iter().flat_map(|code| code.to_le_bytes()));
            bytes.resize(row_bytes(codes.len()), 0);
            self.write(&bytes)?;
        }
        Ok(())
    }

    /// Completes the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(crate) fn finish(self) -> Result<()> {
        let flushed = self.writer.into_inner().map_err(IntoInnerError::into_error);
        flushed.with_context(|| format!("{} could not be written", self.path.display()))?.finish()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.writer.write_all(bytes);
        written.with_context(|| format!("{} could not be written", self.path.display()))
    }
}
