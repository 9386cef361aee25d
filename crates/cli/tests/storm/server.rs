//! A server in a process of its own.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::client::Connection;

pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
}

impl Server {
    /// The built-in model on the CPU, with a slot for each stream and some for requests.
    pub(crate) fn start() -> Self {
        Self::with(&["--offline"], &[])
    }

    /// Such a server with more options and variables.
    pub(crate) fn with(options: &[&str], variables: &[(&str, &str)]) -> Self {
        let program = env::var_os("PELTON_PROGRAM");
        let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_pelton").into());
        let mut child = Command::new(program)
            .args(["serve", "--port", "0", "--device", "cpu", "--threads", "1"])
            .args(["--context", "512", "--parallel", "16"])
            .args(options)
            .env("RUST_LOG", "warn,pelton=error,pelton_server=error")
            .envs(variables.iter().copied())
            .env_remove("PELTON_API_KEY")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = errors
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once("listening on http://")?.1.trim().to_owned()))
            .unwrap_or_else(|| panic!("the server does not start"));
        // a pipe that is full would stop the server; its last words are those of this test
        thread::spawn(move || errors.map_while(Result::ok).for_each(|line| eprintln!("{line}")));
        Self { child, address }
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let mut connection = Connection::open(&self.address).unwrap();
        let (status, body) = connection.request("GET", path, b"").unwrap();
        assert_eq!(status, 200, "{path}");
        serde_json::from_slice(&body).unwrap()
    }

    /// Bytes of memory that the process has.
    pub(crate) fn memory(&self) -> usize {
        self.status("VmRSS:")
    }

    /// The most bytes of memory that the process had since `forget_peak`.
    pub(crate) fn peak(&self) -> usize {
        self.status("VmHWM:")
    }

    /// Begins another measurement of the peak.
    pub(crate) fn forget_peak(&self) {
        // 5 resets the peak, see proc_pid_clear_refs(5)
        fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").unwrap();
    }

    /// The time of all cores that the process has used.
    pub(crate) fn cpu_time(&self) -> Duration {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // fields 14 and 15 in ticks of 10 ms, see proc_pid_stat(5); the second field may have
        // spaces
        let (_, rest) = text.rsplit_once(')').unwrap();
        let ticks = rest.split_whitespace().skip(11).take(2);
        Duration::from_millis(10 * ticks.map(|field| field.parse::<u64>().unwrap()).sum::<u64>())
    }

    /// A number of bytes in the kernel's description of the process.
    fn status(&self, name: &str) -> usize {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let text = text.unwrap_or_else(|error| panic!("the server is dead: {error}"));
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.unwrap_or_else(|| panic!("the server is dead: {text}"));
        kib.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
