//! A process that reads and writes JSON messages, one a line.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The most bytes of a line: a result with a picture.
const LINE_MAX: u64 = 28 << 20;
/// Lines that are not JSON, such as those of a log, that are passed over.
const NOISE_MAX: usize = 64;
/// The most messages in either direction that wait.
const QUEUE: usize = 8;
/// Bytes of the end of standard error that are kept.
const ERRORS_MAX: usize = 2000;
/// The time that a process has to end after its input was closed.
const GRACE: Duration = Duration::from_millis(500);

/// The output of a process.
enum Incoming {
    Message(Value),
    /// Nothing more comes, for this reason.
    End(String),
}

/// A process with threads that read and write.
#[derive(Debug)]
pub(super) struct Pipe {
    child: Child,
    outgoing: Option<SyncSender<String>>,
    incoming: Receiver<Incoming>,
    errors: Arc<Mutex<Vec<u8>>>,
}

impl Pipe {
    /// Starts a program.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn start(words: &[String]) -> Result<Self> {
        let (program, arguments) = words.split_first().context("expected a command")?;
        let mut command = Command::new(program);
        command.args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C stops an answer and not the server
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child =
            command.spawn().with_context(|| format!("{program} could not be started"))?;
        let (sender, incoming) = sync_channel(QUEUE);
        let (outgoing, messages) = sync_channel(QUEUE);
        let errors = Arc::new(Mutex::new(Vec::new()));
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        if let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) {
            thread::spawn(move || read(stdout, &sender));
            thread::spawn(move || write(stdin, &messages));
            let kept = Arc::clone(&errors);
            thread::spawn(move || keep(stderr, &kept));
        }
        Ok(Self { child, outgoing: Some(outgoing), incoming, errors })
    }

    /// Sends a message. A process that does not read holds a few of them up, then none is sent.
    ///
    /// # Errors
    /// If the process does not read.
    pub(super) fn send(&self, message: &Value) -> Result<()> {
        let sent = self.outgoing.as_ref().map(|out| out.try_send(format!("{message}\n")));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => bail!("does not read its input{}", self.last_error()),
        }
    }

    /// Waits for the next message; `None` if none came in time.
    ///
    /// # Errors
    /// If the process has ended, or wrote something else.
    pub(super) fn receive(&self, time: Duration) -> Result<Option<Value>> {
        match self.incoming.recv_timeout(time) {
            Ok(Incoming::Message(message)) => Ok(Some(message)),
            Ok(Incoming::End(reason)) => {
                // its last words may come a moment later
                thread::sleep(Duration::from_millis(20));
                bail!("{reason}{}", self.last_error())
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("has ended{}", self.last_error()),
        }
    }

    /// The last line of standard error, for an error.
    fn last_error(&self) -> String {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&errors);
        match text.lines().rev().find(|line| !line.trim().is_empty()) {
            Some(line) => format!(": {}", line.trim().chars().take(300).collect::<String>()),
            None => String::new(),
        }
    }
}

impl Drop for Pipe {
    /// Closes the input of the process, which ends it, or else kills it.
    fn drop(&mut self) {
        self.outgoing = None;
        let start = Instant::now();
        while start.elapsed() < GRACE {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        // it may have ended just now
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(stdout: ChildStdout, sender: &SyncSender<Incoming>) {
    let mut stdout = BufReader::new(stdout);
    let mut noise = 0;
    let mut line = Vec::new();
    let end = loop {
        line.clear();
        match stdout.by_ref().take(LINE_MAX + 1).read_until(b'\n', &mut line) {
            Ok(0) => break "has ended".to_owned(),
            Ok(_) if line.len() as u64 > LINE_MAX => {
                break format!("wrote a line of more than {LINE_MAX} bytes");
            }
            Ok(_) => {}
            Err(error) => break format!("cannot be read: {error}"),
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice(&line) {
            Ok(message) => {
                if sender.send(Incoming::Message(message)).is_err() {
                    return;
                }
            }
            Err(_) if noise < NOISE_MAX => noise += 1,
            Err(error) => break format!("wrote lines that are not JSON: {error}"),
        }
    };
    // nobody waits for it, if the chat has ended
    let _ = sender.send(Incoming::End(end));
}

fn write(mut stdin: ChildStdin, messages: &Receiver<String>) {
    while let Ok(message) = messages.recv() {
        if stdin.write_all(message.as_bytes()).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

/// Keeps the end of what is written to standard error.
fn keep(mut stderr: ChildStderr, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 1024];
    while let Ok(n @ 1..) = stderr.read(&mut buffer) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&buffer[..n]);
        let excess = kept.len().saturating_sub(ERRORS_MAX);
        kept.drain(..excess);
    }
}
