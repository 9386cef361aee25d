//! The transfer of a file's missing pieces over several connections.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Range,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use super::{
    etag::Etag,
    job::Job,
    journal::Journal,
    meter::{Meter, Phase},
};
use crate::{
    cancel::Cancel,
    error::{Error, Result},
    failure::{self, Failure},
    http::{self, Client, Method},
};

/// Time between two reports.
const TICK: Duration = Duration::from_millis(100);
/// Bytes of a read.
const BUFFER: usize = 256 << 10;
/// Bytes after which an attempt counts as one that brought something.
const PROGRESS: u64 = 64 << 10;

/// The state that the connections of a file share.
struct Shared {
    client: Arc<Client>,
    url: String,
    partial: PathBuf,
    size: u64,
    /// The entity tag that responses repeat, if they do.
    tag: Option<String>,
    connections: usize,
    journal: Mutex<Journal>,
    /// Bytes of all files that are there.
    done: Arc<AtomicU64>,
}

/// Why a connection ended before its work.
enum Stop {
    /// The host answers requests of ranges with the whole file.
    WholeFilesOnly,
    Failed(Failure),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

type Outcome = std::result::Result<(), Stop>;

/// Fetches all missing pieces.
pub(super) fn run(
    client: &Arc<Client>,
    job: &Job,
    mut journal: Journal,
    meter: &mut Meter<'_>,
    cancel: &Cancel,
) -> Result<()> {
    let before = meter.done();
    meter.set_done(before + journal.pieces().complete_bytes());
    let shared = Arc::new(Shared {
        client: Arc::clone(client),
        url: job.url.clone(),
        partial: job.partial(),
        size: job.size,
        tag: job.repeats_tag.then(|| job.etag.as_str().to_owned()),
        connections: job.connections.max(1),
        journal: Mutex::new(journal),
        done: meter.counter(),
    });
    let mut outcome = on_threads(&shared, shared.connections, ranges, meter, cancel);
    if matches!(outcome, Err(Stop::WholeFilesOnly)) {
        meter.set_done(before);
        outcome = on_threads(&shared, 1, whole, meter, cancel);
    }
    match outcome {
        Ok(()) => Ok(()),
        Err(Stop::Failed(failure)) => Err(failure.error),
        Err(Stop::WholeFilesOnly) => {
            Err(Error::answer(&job.url, "it sends neither ranges nor whole files"))
        }
    }
}

/// Runs `work` on threads and reports until it ends. The threads that are left behind after a
/// failure see their flag and write nothing more.
fn on_threads(
    shared: &Arc<Shared>,
    threads: usize,
    work: fn(&Shared, &Cancel) -> Outcome,
    meter: &mut Meter<'_>,
    cancel: &Cancel,
) -> Outcome {
    let (sender, receiver) = mpsc::channel();
    let (stop, partial) = (Cancel::default(), &shared.partial);
    for _ in 0..threads {
        let (sender, shared, stop) = (sender.clone(), Arc::clone(shared), stop.clone());
        thread::Builder::new()
            .name("pelton-hub".to_owned())
            .spawn(move || {
                // after a failure elsewhere nobody receives
                let _ = sender.send(work(&shared, &stop));
            })
            .map_err(Error::io(partial.clone()))?;
    }
    drop(sender);
    let mut running = threads;
    let outcome = loop {
        if let Err(error) = cancel.check() {
            break Err(error.into());
        }
        meter.show(Phase::Downloading);
        match receiver.recv_timeout(TICK) {
            Ok(Ok(())) if running > 1 => running -= 1,
            Ok(outcome) => break outcome,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let error = io::Error::other("a thread of the download has ended");
                break Err(Error::io(&shared.partial)(error).into());
            }
        }
    };
    stop.cancel();
    meter.show(Phase::Downloading);
    outcome
}

impl Shared {
    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<File> {
        OpenOptions::new().write(true).open(&self.partial).map_err(Error::io(&self.partial))
    }
}

/// Fetches runs of missing pieces until none is left.
fn ranges(shared: &Shared, stop: &Cancel) -> Outcome {
    let mut file = shared.open()?;
    loop {
        let run = shared.journal().pieces().take(shared.connections);
        let Some(run) = run else { return Ok(()) };
        fetch(shared, &mut file, run, true, stop)?;
    }
}

/// Fetches the whole file by one request, from a host that knows no ranges.
fn whole(shared: &Shared, stop: &Cancel) -> Outcome {
    let mut file = shared.open()?;
    let run = {
        let mut journal = shared.journal();
        journal.pieces().reset();
        journal.pieces().take_all()
    };
    fetch(shared, &mut file, run, false, stop)
}

/// Fetches neighbouring pieces, in as many attempts as bring something.
fn fetch(
    shared: &Shared,
    file: &mut File,
    run: Range<usize>,
    by_ranges: bool,
    stop: &Cancel,
) -> Outcome {
    let position = |piece| Position { byte: shared.journal().pieces().bytes(piece).start, piece };
    let (mut at, end) = (position(run.start), position(run.end));
    let mut failures = 0;
    while at.byte < end.byte {
        let from = at.byte;
        let Err(failure) = stream(shared, file, &mut at, &end, by_ranges, stop) else { continue };
        let Stop::Failed(failure) = failure else { return Err(failure) };
        failures = if at.byte - from >= PROGRESS { 1 } else { failures + 1 };
        if !by_ranges {
            shared.done.fetch_sub(at.byte, Ordering::Relaxed);
            at = Position { byte: 0, piece: 0 };
        }
        shared.client.pause(failure, failures, stop)?;
    }
    Ok(())
}

/// The next byte to be written, and the piece that it is in.
struct Position {
    byte: u64,
    piece: usize,
}

/// One request: writes its body into the file from `at` on, which moves along, to `end`.
fn stream(
    shared: &Shared,
    file: &mut File,
    at: &mut Position,
    end: &Position,
    by_ranges: bool,
    stop: &Cancel,
) -> Outcome {
    stop.check()?;
    let wish = by_ranges.then(|| (at.byte, end.byte - 1));
    let response = shared.client.attempt(Method::Get, &shared.url, wish, &|_, _| true)?;
    check_head(shared, &response, at.byte, end.byte, by_ranges)?;
    let path = &shared.partial;
    file.seek(SeekFrom::Start(at.byte)).map_err(Error::io(path))?;
    let mut reader = response.into_body().into_with_config().limit(u64::MAX).reader();
    let (mut buffer, mut pace) = (vec![0; BUFFER], shared.client.pace());
    while at.byte < end.byte {
        let wanted = usize::try_from(end.byte - at.byte).unwrap_or(BUFFER).min(BUFFER);
        let read = reader.read(&mut buffer[..wanted]).map_err(|e| http::cut(&shared.url, &e))?;
        stop.check()?;
        if read == 0 {
            let short = io::Error::from(io::ErrorKind::UnexpectedEof);
            return Err(http::cut(&shared.url, &short).into());
        }
        file.write_all(&buffer[..read]).map_err(Error::io(path))?;
        at.byte += read as u64;
        shared.done.fetch_add(read as u64, Ordering::Relaxed);
        let trickle = pace.too_slow(read);
        let mut journal = shared.journal();
        while at.piece < end.piece && journal.pieces().bytes(at.piece).end <= at.byte {
            journal.complete(at.piece, file).map_err(Error::io(path))?;
            at.piece += 1;
        }
        drop(journal);
        if let Some(rate) = trickle.filter(|_| at.byte < end.byte) {
            return Err(http::trickle(&shared.url, rate).into());
        }
    }
    if end.byte == shared.size && reader.read(&mut [0]).is_ok_and(|more| more > 0) {
        let problem = format!("it is longer than the announced {} bytes", shared.size);
        return Err(Error::answer(&shared.url, problem).into());
    }
    Ok(())
}

/// Compares the status and the headers of a response with the request.
fn check_head(
    shared: &Shared,
    response: &ureq::http::Response<ureq::Body>,
    from: u64,
    end: u64,
    by_ranges: bool,
) -> Outcome {
    let (url, size, headers) = (&shared.url, shared.size, response.headers());
    let refuse = |problem: String| Err(Stop::from(Error::answer(url, problem)));
    let changed = |found: &str| {
        refuse(format!("the file has changed: found {found}, expected {size} bytes; try again"))
    };
    if let (Some(tag), Some(found)) = (&shared.tag, failure::text(headers, "etag"))
        && !Etag::of_server(url, Some(found)).is_ok_and(|found| found.as_str() == tag)
    {
        return changed(&format!("the ETag {found}"));
    }
    match response.status().as_u16() {
        206 if by_ranges => {
            let Some(found) = failure::text(headers, "content-range") else {
                return refuse("it sends a range without Content-Range".to_owned());
            };
            let range = format!("bytes {from}-{}/", end - 1);
            match found.trim().strip_prefix(&range) {
                Some(total) if total == "*" || total.parse() == Ok(size) => Ok(()),
                _ => changed(&format!("the range {found}")),
            }
        }
        200 if by_ranges && (from > 0 || end < size) => Err(Stop::WholeFilesOnly),
        200 => match failure::text(headers, "content-length").map(str::parse::<u64>) {
            Some(Ok(found)) if found != size => changed(&format!("{found} bytes")),
            _ => Ok(()),
        },
        status => refuse(format!("it has the status {status}, expected 200 or 206")),
    }
}
