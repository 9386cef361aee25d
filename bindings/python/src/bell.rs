//! Wakes of Python's event loops.
//!
//! The thread that runs a model must not wait for the GIL. It notes the stream and writes a byte to a socket,
//! which the event loop watches like any other. One bell serves all streams of a loop, and a byte is in the
//! socket only while a noted stream was not taken.

use std::{
    io::{self, Read, Write},
    mem,
    sync::{Arc, Mutex, PoisonError},
};

#[cfg(unix)]
use std::os::{fd::AsRawFd, unix::net::UnixStream as Socket};
#[cfg(windows)]
use std::{
    net::{Ipv4Addr, TcpListener, TcpStream as Socket},
    os::windows::io::AsRawSocket,
};

use pyo3::prelude::*;

struct Shared {
    reader: Socket,
    writer: Socket,
    /// The keys of streams that have news.
    rung: Mutex<Vec<u64>>,
}

/// A socket that an event loop watches. The bells of a loop's streams have keys.
#[pyclass(frozen, module = "pelton")]
pub(crate) struct Bell(Arc<Shared>);

/// Rings a bell for one stream.
#[derive(Clone)]
pub(crate) struct Wake {
    bell: Arc<Shared>,
    key: u64,
}

#[cfg(unix)]
fn pair() -> io::Result<(Socket, Socket)> {
    Socket::pair()
}

#[cfg(windows)]
fn pair() -> io::Result<(Socket, Socket)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let writer = Socket::connect(listener.local_addr()?)?;
    loop {
        let (reader, peer) = listener.accept()?;
        // another process may have been faster
        if peer == writer.local_addr()? {
            writer.set_nodelay(true)?;
            return Ok((reader, writer));
        }
    }
}

impl Wake {
    /// Wakes the event loop. It never waits: the socket has room for one byte.
    pub(crate) fn ring(&self) {
        let is_first = {
            let mut rung = self.bell.rung.lock().unwrap_or_else(PoisonError::into_inner);
            rung.push(self.key);
            rung.len() == 1
        };
        if is_first {
            // it fails after the end of the loop alone, when nobody waits
            let _ = (&self.bell.writer).write(&[0]);
        }
    }
}

#[pymethods]
impl Bell {
    #[new]
    fn new() -> PyResult<Self> {
        let (reader, writer) = pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        Ok(Self(Arc::new(Shared { reader, writer, rung: Mutex::default() })))
    }

    /// The socket that can be read when a stream has news. It belongs to the bell.
    #[cfg(unix)]
    fn fileno(&self) -> i32 {
        self.0.reader.as_raw_fd()
    }

    /// The socket that can be read when a stream has news. It belongs to the bell.
    #[cfg(windows)]
    fn fileno(&self) -> u64 {
        self.0.reader.as_raw_socket()
    }

    /// The keys of streams that have news.
    fn take(&self) -> Vec<u64> {
        // before the keys: a key that comes in between leaves a byte, or is taken here
        let _ = (&self.0.reader).read(&mut [0; 8]);
        mem::take(&mut *self.0.rung.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Bell {
    /// What rings it for a stream.
    pub(crate) fn wake(&self, key: u64) -> Wake {
        Wake { bell: Arc::clone(&self.0), key }
    }
}
