//! The lines of standard input as they come.

use std::{
    io::{self, stdin},
    sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel},
    thread,
    time::Duration,
};

use anyhow::{Context, Result};

use crate::interrupt::Flag;

/// Lines that are read before they are asked for.
const AHEAD: usize = 256;
/// How often a wait for a line looks for Ctrl-C.
const PATIENCE: Duration = Duration::from_millis(50);

/// The lines of standard input. A thread reads them, so that a line is answered while the
/// next one is awaited.
pub(super) struct StdinLines {
    received: Receiver<io::Result<String>>,
    stop: Flag,
}

impl StdinLines {
    pub(super) fn of_stdin(stop: Flag) -> Self {
        let (sender, received) = sync_channel(AHEAD);
        thread::spawn(move || {
            for line in stdin().lines() {
                let ends = line.is_err();
                if sender.send(line).is_err() || ends {
                    break;
                }
            }
        });
        Self { received, stop }
    }

    /// The next line; `None` after the last one and after Ctrl-C, or if none has come yet
    /// and `wait` is false.
    ///
    /// # Errors
    /// If standard input cannot be read, or is not text.
    pub(super) fn next(&self, wait: bool) -> Result<Option<String>> {
        loop {
            let line = match wait {
                true => self.received.recv_timeout(PATIENCE),
                false => self.received.try_recv().map_err(|error| match error {
                    TryRecvError::Empty => RecvTimeoutError::Timeout,
                    TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
                }),
            };
            match line {
                Ok(line) => {
                    return line.map(Some).context("standard input could not be read as text");
                }
                Err(RecvTimeoutError::Timeout) if wait && !self.stop.is_set() => {}
                Err(_) => return Ok(None),
            }
        }
    }
}
