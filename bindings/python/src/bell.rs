//! Wakes of Python's event loops.
//!
//! The thread that runs a model must not wait for the GIL. It notes the stream and writes to a
//! file that the event loop watches like any socket: an eventfd on Linux, a pair of sockets
//! elsewhere. A write to a socket or a pipe would draw the loop's thread to the CPU of the model's
//! on Linux. One bell serves all streams of a loop, and it is written to only if no other noted
//! stream waits to be taken.

use std::{
    io::{self, Read, Write},
    mem,
    sync::{Arc, Mutex, PoisonError},
};

#[cfg(unix)]
use std::os::fd::AsRawFd;
#[cfg(all(unix, not(target_os = "linux")))]
use std::os::unix::net::UnixStream as End;
#[cfg(target_os = "linux")]
use std::{
    fs::File as End,
    os::fd::{FromRawFd, OwnedFd},
};
#[cfg(windows)]
use std::{
    net::{Ipv4Addr, TcpListener, TcpStream as End},
    os::windows::io::AsRawSocket,
};

use pyo3::prelude::*;

struct Shared {
    reader: End,
    writer: End,
    /// The keys of streams that have news.
    rung: Mutex<Vec<u64>>,
}

/// A file that an event loop watches for all of its streams, which have keys.
#[pyclass(frozen, module = "pelton")]
pub(crate) struct Bell(Arc<Shared>);

/// Rings a bell for one stream.
#[derive(Clone)]
pub(crate) struct Wake {
    bell: Arc<Shared>,
    key: u64,
}

/// Two ends that never wait.
#[cfg(target_os = "linux")]
fn pair() -> io::Result<(End, End)> {
    // SAFETY: the call takes no pointers.
    let file = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the file is new, so nothing else owns it.
    let file = End::from(unsafe { OwnedFd::from_raw_fd(file) });
    Ok((file.try_clone()?, file))
}

#[cfg(all(unix, not(target_os = "linux")))]
fn pair() -> io::Result<(End, End)> {
    let (reader, writer) = End::pair()?;
    reader.set_nonblocking(true)?;
    writer.set_nonblocking(true)?;
    Ok((reader, writer))
}

#[cfg(windows)]
fn pair() -> io::Result<(End, End)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let writer = End::connect(listener.local_addr()?)?;
    loop {
        let (reader, peer) = listener.accept()?;
        // another process may have been faster
        if peer == writer.local_addr()? {
            writer.set_nodelay(true)?;
            reader.set_nonblocking(true)?;
            writer.set_nonblocking(true)?;
            return Ok((reader, writer));
        }
    }
}

impl Wake {
    /// Wakes the event loop. It never waits: there is room for what is written.
    pub(crate) fn ring(&self) {
        let is_first = {
            let mut rung = self.bell.rung.lock().unwrap_or_else(PoisonError::into_inner);
            rung.push(self.key);
            rung.len() == 1
        };
        if is_first {
            // it fails after the end of the loop alone, when nobody waits
            let _ = (&self.bell.writer).write(&1_u64.to_ne_bytes());
        }
    }
}

#[pymethods]
impl Bell {
    #[new]
    fn new() -> PyResult<Self> {
        let (reader, writer) = pair()?;
        Ok(Self(Arc::new(Shared { reader, writer, rung: Mutex::default() })))
    }

    /// The file that can be read when a stream has news. It belongs to the bell.
    #[cfg(unix)]
    fn fileno(&self) -> i32 {
        self.0.reader.as_raw_fd()
    }

    /// The file that can be read when a stream has news. It belongs to the bell.
    #[cfg(windows)]
    fn fileno(&self) -> u64 {
        self.0.reader.as_raw_socket()
    }

    /// The keys of streams that have news.
    fn take(&self) -> Vec<u64> {
        // before the keys: a key that comes in between writes again, or is taken here
        let _ = (&self.0.reader).read(&mut [0; 8]);
        mem::take(&mut *self.0.rung.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Bell {
    /// The function that rings it for a stream.
    pub(crate) fn wake(&self, key: u64) -> Wake {
        Wake { bell: Arc::clone(&self.0), key }
    }
}
