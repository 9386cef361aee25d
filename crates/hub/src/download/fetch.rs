//! The download of one file, from the lock to the rename.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    path::Path,
    sync::Arc,
    time::Duration,
};

use super::{
    job::{Job, remove},
    journal::{self, Journal},
    kind,
    meter::{Meter, Phase},
    transfer, verify,
};
use crate::{
    cache::create_parent,
    cancel::Cancel,
    error::{Error, Result},
    http::Client,
};

/// Time between two attempts to get a lock.
const LOCK_TICK: Duration = Duration::from_millis(100);

/// Bytes of a file that are not on the disk yet.
pub(crate) fn missing_bytes(job: &Job) -> u64 {
    let partial = fs::metadata(job.partial());
    let earlier = match partial {
        _ if job.is_complete() => job.size,
        Ok(found) if found.len() == job.size => {
            journal::complete_bytes(&job.journal(), &job.etag, job.size)
        }
        _ => 0,
    };
    job.size - earlier
}

/// Downloads a file, unless it is there.
pub(crate) fn fetch(
    client: &Arc<Client>,
    job: &Job,
    meter: &mut Meter<'_>,
    cancel: &Cancel,
) -> Result<()> {
    create_parent(&job.to)?;
    let _locked = lock(&job.lock, meter, cancel)?;
    let before = meter.done();
    if job.is_complete() {
        meter.set_done(before + job.size);
        return Ok(());
    }
    let mut is_resumed = true;
    while is_resumed {
        let (path, partial, is_durable) = (job.journal(), job.partial(), job.hashes.is_empty());
        let journal = Journal::open(&path, &partial, &job.etag, job.size, is_durable)?;
        is_resumed = journal.is_resumed();
        transfer::run(client, job, journal, meter, cancel)?;
        let verified = verify::check(&job.partial(), job, meter, cancel);
        match verified {
            Ok(()) => {
                check_kind(job)?;
                return finish(job);
            }
            Err(error @ Error::Hash { .. }) => {
                discard(job)?;
                meter.set_done(before);
                // bytes of an earlier process may be wrong, as after a loss of power: these are not
                if !is_resumed {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Refuses a file that is none of the model that its name promises. It is discarded, as another
/// attempt would bring the same bytes.
fn check_kind(job: &Job) -> Result<()> {
    let partial = job.partial();
    let fault = kind::fault(&partial, &job.name, job.size).map_err(Error::io(&partial))?;
    let Some(fault) = fault else { return Ok(()) };
    discard(job)?;
    Err(Error::Model { file: job.name.clone(), problem: fault })
}

/// Gives a verified file its name.
fn finish(job: &Job) -> Result<()> {
    let partial = job.partial();
    fs::rename(&partial, &job.to).map_err(Error::io(&job.to))?;
    sync_folder(&job.to);
    remove(&job.journal())
}

/// Removes what has come of a file.
fn discard(job: &Job) -> Result<()> {
    remove(&job.partial())?;
    remove(&job.journal())
}

/// Makes a rename durable, where the system can.
fn sync_folder(path: &Path) {
    if let Some(Ok(folder)) = path.parent().map(File::open) {
        // on systems that cannot synchronize folders the rename is durable on its own, or never
        let _ = folder.sync_all();
    }
}

/// Locks a file against other processes; waits while another one has it.
fn lock(path: &Path, meter: &mut Meter<'_>, cancel: &Cancel) -> Result<File> {
    create_parent(path)?;
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(Error::io(path))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {
                meter.show(Phase::Waiting);
                cancel.wait(LOCK_TICK)?;
            }
            // file systems without locks: the name of a file is still given by one rename
            Err(TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Unsupported => {
                return Ok(file);
            }
            Err(TryLockError::Error(error)) => return Err(Error::io(path)(error)),
        }
    }
}
