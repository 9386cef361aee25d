//! A program in a pseudo-terminal, whose screen the test reads.

#![allow(clippy::expect_used, reason = "tests fail by panic")]

use std::{
    fs::File,
    io::{Read, Write},
    num::NonZero,
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{Mode, OFlags},
    process::{ioctl_tiocsctty, setsid},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    stdio::stdin,
    termios::{Winsize, tcsetwinsize},
};

/// The longest wait for a text.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const COLUMNS: u16 = 80;
const ROWS: u16 = 200;

/// A program with a terminal of 200 rows of 80 columns.
pub(crate) struct Terminal {
    child: Child,
    master: File,
    screen: Arc<Mutex<vt100::Parser>>,
    /// All bytes of the program's output.
    raw: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    pub(crate) fn start(mut command: Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY;
        let slave = rustix::fs::open(&name, flags, Mode::empty()).unwrap();
        let master = File::from(master);
        set_size(&master, COLUMNS);
        let stdio = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
        command.stdin(stdio(&slave)).stdout(stdio(&slave)).stderr(stdio(&slave));
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
        let control = || {
            setsid()?;
            ioctl_tiocsctty(stdin())?;
            Ok(())
        };
        // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
        let child = unsafe { command.pre_exec(control) }.spawn().unwrap();
        drop(slave);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(size(ROWS), size(COLUMNS), 0)));
        let raw = Arc::new(Mutex::new(Vec::new()));
        let (mut output, parser, bytes) =
            (master.try_clone().unwrap(), Arc::clone(&screen), Arc::clone(&raw));
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // reading fails when the program has ended
            while let Ok(n @ 1..) = output.read(&mut buffer) {
                parser.lock().unwrap().process(&buffer[..n]);
                bytes.lock().unwrap().extend_from_slice(&buffer[..n]);
            }
        });
        Self { child, master, screen, raw }
    }

    pub(crate) fn send(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// The text of the screen; lines that the terminal wrapped are whole.
    pub(crate) fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    /// The rows of the screen that are not empty.
    pub(crate) fn rows(&self) -> Vec<String> {
        let screen = self.screen.lock().unwrap();
        let (_, columns) = screen.screen().size();
        let rows = screen.screen().rows(0, columns.get());
        rows.filter(|row| !row.trim().is_empty()).collect()
    }

    /// All bytes of the output so far, as text.
    pub(crate) fn raw(&self) -> String {
        String::from_utf8_lossy(&self.raw.lock().unwrap()).into_owned()
    }

    /// Waits until the screen has as many occurrences of a text.
    pub(crate) fn wait(&self, text: &str, count: usize) {
        self.wait_until(&format!("{count} of {text:?}"), |screen| {
            screen.matches(text).count() >= count
        });
    }

    pub(crate) fn wait_until(&self, what: &str, test: impl Fn(&str) -> bool) {
        let start = Instant::now();
        while !test(&self.text()) {
            assert!(start.elapsed() < PATIENCE, "no {what} on the screen:\n{}", self.text());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Changes the number of columns, of which the program is notified by a signal.
    pub(crate) fn resize(&mut self, columns: u16) {
        self.screen.lock().unwrap().screen_mut().set_size(size(ROWS), size(columns));
        set_size(&self.master, columns);
    }

    /// Waits for the end of the program.
    pub(crate) fn end(mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the program does not end:\n{}", self.text());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // it has ended, unless the test failed
        let _ = self.child.kill();
    }
}

fn size(cells: u16) -> NonZero<u16> {
    NonZero::new(cells).unwrap()
}

fn set_size(master: &File, columns: u16) {
    let size = Winsize { ws_row: ROWS, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(master, size).unwrap();
}
