//! The comparison of a downloaded file with its announced hash.

use std::{
    fs::File,
    io::Read,
    path::Path,
    time::{Duration, Instant},
};

use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::{
    etag::Kind,
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

/// Makes the bytes of a partial file durable and compares them with the job's entity tag.
pub(super) fn check(path: &Path, job: &Job, meter: &mut Meter<'_>, cancel: &Cancel) -> Result<()> {
    let file = File::options().read(true).write(true).open(path).map_err(Error::io(path))?;
    file.sync_all().map_err(Error::io(path))?;
    let (kind, found) = match job.etag.kind() {
        Kind::Sha256 => ("SHA-256", hash(Sha256::new(), file, path, meter, cancel)?),
        Kind::GitSha1 => {
            let header = format!("blob {}\0", job.size);
            let start = Sha1::new_with_prefix(header.as_bytes());
            ("Git SHA-1", hash(start, file, path, meter, cancel)?)
        }
        Kind::Opaque => return Ok(()),
    };
    let expected = job.etag.as_str();
    if found == expected {
        return Ok(());
    }
    let file = job.url.rsplit('/').next().unwrap_or(&job.url).to_owned();
    Err(Error::Hash { file, kind, found, expected: expected.to_owned() })
}

/// The hash of a file, after what was hashed before, in hexadecimal digits.
fn hash<D: Digest>(
    mut digest: D,
    mut file: File,
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
