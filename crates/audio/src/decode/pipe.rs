//! The audio of a pipe, kept in a file because it is read twice.

use super::cancel::Cancel;
use super::input::Input;
use super::prepare::prepare;
use crate::AudioError;
use std::fs::File;
use std::io::{self, Cursor, Read, Write};

/// Bytes in which a format is found, if there is one.
const HEAD: u64 = 2 << 20;
/// Greatest number of bytes: those of a wav file.
const MOST: u64 = 4 << 30;
/// Beginnings of tags, which may be longer than the head.
const TAGS: [&[u8]; 2] = [b"ID3", b"APETAGEX"];

/// The bytes of a pipe in a temporary file without a name, which ends with the process.
pub(super) fn spooled(mut pipe: impl Read, name: &str) -> Result<File, AudioError> {
    let failed = |source| AudioError::Io { name: name.to_owned(), source };
    let mut head = Vec::new();
    (&mut pipe).take(HEAD).read_to_end(&mut head).map_err(failed)?;
    let is_tagged = TAGS.iter().any(|tag| head.starts_with(tag));
    if head.len() as u64 == HEAD && !is_tagged {
        let reader = Box::new(Cursor::new(head.clone()));
        let input = Input::new(reader, &Cancel::new()).map_err(failed)?;
        // other faults may be those of a file that is cut off
        if let Err(error @ AudioError::Unknown { .. }) = prepare(&input, name) {
            return Err(error);
        }
    }
    let kept = |source: io::Error| {
        let folder = std::env::temp_dir();
        let text = format!("its audio could not be kept in {}: {source}", folder.display());
        failed(io::Error::new(source.kind(), text))
    };
    let mut file = tempfile::tempfile().map_err(kept)?;
    file.write_all(&head).map_err(kept)?;
    let rest = io::copy(&mut pipe.take(MOST + 1 - head.len() as u64), &mut file).map_err(kept)?;
    if head.len() as u64 + rest > MOST {
        let problem = "a pipe gives more than 4 GiB: save it to a file".to_owned();
        return Err(AudioError::Limit { name: name.to_owned(), problem });
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes without end, counted.
    struct Endless<'a> {
        head: &'a [u8],
        count: &'a mut u64,
    }

    impl Read for Endless<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let head = self.head.len().min(out.len());
            out[..head].copy_from_slice(&self.head[..head]);
            self.head = &self.head[head..];
            out[head..].fill(0);
            *self.count += out.len() as u64;
            Ok(out.len())
        }
    }

    #[test]
    fn a_pipe_without_audio_is_refused_at_once() {
        let mut count = 0;
        let error = spooled(Endless { head: &[], count: &mut count }, "zeros").unwrap_err();
        assert!(matches!(error, AudioError::Unknown { .. }), "{error}");
        assert!(count <= 2 * HEAD, "{count} bytes");
    }

    #[test]
    fn a_pipe_is_read_whole() {
        let mut bytes = include_bytes!("../../../../models/speech/samples/greek.wav").to_vec();
        // audio behind the head
        bytes.resize(3 * HEAD as usize, 128);
        let mut file = spooled(&bytes[..], "a pipe").unwrap();
        let mut found = Vec::new();
        io::Seek::rewind(&mut file).unwrap();
        file.read_to_end(&mut found).unwrap();
        assert!(found == bytes);
    }
}
