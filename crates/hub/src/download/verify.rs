//! The comparison of a downloaded file with its announced hashes.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path,
    time::{Duration, Instant},
};

use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::{
    hash::Hash,
    job::Job,
    meter::{Meter, Phase},
};
use crate::{
    cancel::Cancel,
    error::{Error, Result},
};

/// Bytes that are hashed at a time.
const BUFFER: usize = 1 << 20;
/// Time between two reports.
const TICK: Duration = Duration::from_millis(200);

/// Makes the bytes of a partial file durable and compares them with each of the job's hashes.
pub(super) fn check(path: &Path, job: &Job, meter: &mut Meter<'_>, cancel: &Cancel) -> Result<()> {
    let file = File::options().read(true).write(true).open(path).map_err(Error::io(path))?;
    file.sync_all().map_err(Error::io(path))?;
    for expected in &job.hashes {
        let mut file = &file;
        file.seek(SeekFrom::Start(0)).map_err(Error::io(path))?;
        let found = match expected {
            Hash::Sha256(_) => digits(Sha256::new(), file, path, meter, cancel)?,
            Hash::GitSha1(_) => {
                let header = format!("blob {}\0", job.size);
                let start = Sha1::new_with_prefix(header.as_bytes());
                digits(start, file, path, meter, cancel)?
            }
        };
        if found != expected.digits() {
            let (file, kind, expected) =
                (job.name.clone(), expected.kind(), expected.digits().to_owned());
            return Err(Error::Hash { file, kind, found, expected });
        }
    }
    Ok(())
}

/// The hash of a file, after what was hashed before, in hexadecimal digits.
fn digits<D: Digest>(
    mut digest: D,
    mut file: &File,
    path: &Path,
    meter: &mut Meter<'_>,
    cancel: &Cancel,
) -> Result<String> {
    let mut buffer = vec![0; BUFFER];
    let mut shown = Instant::now();
    loop {
        cancel.check()?;
        let read = file.read(&mut buffer).map_err(Error::io(path))?;
        if read == 0 {
            break;
        }
        digest.update(&buffer[..read]);
        if shown.elapsed() > TICK {
            shown = Instant::now();
            meter.show(Phase::Verifying);
        }
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
