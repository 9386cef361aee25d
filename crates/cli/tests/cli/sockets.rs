//! `pelton serve` on a Unix socket, and with TLS: curl as the client, signals and leftovers.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::{fs::FileTypeExt, net::UnixListener},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Output, Stdio},
};

use pelton_testing::{Need, skip};
use serde_json::{Value, json};

use super::{pelton, temporary};

/// A server that has written that it listens.
struct Server {
    child: Child,
    errors: BufReader<ChildStderr>,
    /// The words after `listening on`.
    address: String,
}

fn command(args: &[&str]) -> Command {
    let mut command = pelton();
    command.args(["serve", "--device", "cpu", "--threads", "1", "--port", "0"]).args(args);
    command.env_remove("PELTON_API_KEY").stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

impl Server {
    fn start(args: &[&str]) -> Self {
        let mut child = command(args).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on ") {
            line.clear();
            assert!(errors.read_line(&mut line).unwrap() > 0, "{args:?}");
        }
        let address = line.trim().rsplit_once("listening on ").unwrap().1.to_owned();
        Self { child, errors, address }
    }

    /// Ends the server with SIGTERM; the rest of its log.
    fn stop(mut self) -> String {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        let mut log = String::new();
        self.errors.read_to_string(&mut log).unwrap();
        log
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // it may have ended
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The output of curl; `None` where it is not installed.
fn curl(words: &[&str]) -> Option<Output> {
    if !Command::new("curl").arg("--version").output().is_ok_and(|output| output.status.success()) {
        skip(Need::Capability, "curl is not installed");
        return None;
    }
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "60", "--noproxy", "*"]);
    Some(command.args(words).output().unwrap())
}

/// A folder of a test: the path of a socket has about 100 bytes at most.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(format!("/tmp/pelton-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
}

/// Standard error of a server that does not start.
fn refused(args: &[&str]) -> String {
    let output = command(args).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_unix_socket() {
    let folder = folder("unix");
    let path = folder.join("p.sock");
    let (text, host) = (path.to_str().unwrap(), format!("unix:{}", path.display()));
    let server = Server::start(&["--host", &host]);
    assert_eq!(server.address, host);
    let body = json!({"prompt": "Once", "max_tokens": 3}).to_string();
    let words = ["--unix-socket", text, "http://localhost/v1/completions", "--json", &body];
    if let Some(output) = curl(&words) {
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["usage"]["completion_tokens"], 3, "{answer}");
    }
    // a second server leaves the first one alone
    let error = refused(&["--host", &host]);
    assert!(error.contains("another server answers there"), "{error}");
    assert!(error.contains("hint: --host unix:PATH names another path"), "{error}");
    assert!(is_socket(&path));
    server.stop();
    assert!(!path.exists(), "the socket is left");
    fs::remove_dir(&folder).unwrap();
}

#[test]
fn leftovers_of_dead_servers_are_replaced_and_nothing_else_is() {
    let folder = folder("stale");
    let path = folder.join("p.sock");
    let host = format!("unix:{}", path.display());
    // the listener is gone, and its file is not
    drop(UnixListener::bind(&path).unwrap());
    assert!(is_socket(&path));
    let mut server = Server::start(&["--host", &host]);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    assert!(is_socket(&path));
    Server::start(&["--host", &host]).stop();
    assert!(!path.exists());

    fs::write(&path, "precious").unwrap();
    let error = refused(&["--host", &host]);
    assert!(error.contains("the path is no socket"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    for (host, part) in [
        ("unix:", "expected unix:PATH"),
        ("unix:/nowhere/at/all.sock", "unix:/nowhere/at/all.sock could not be listened on"),
        (&*format!("unix:/tmp/{}", "x".repeat(200)), "could not be listened on"),
    ] {
        let error = refused(&["--host", host]);
        assert!(error.contains(part), "{error}");
    }
    fs::remove_dir_all(&folder).unwrap();
}

/// By each of the options' names.
#[test]
fn tls() {
    let [certificate, key] = ["tls.pem", "tls-key.pem"].map(temporary);
    let (file, secret) = (certificate.to_str().unwrap(), key.to_str().unwrap());
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(&certificate, pair.cert.pem()).unwrap();
    fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
    for (of_certificate, of_key) in [
        ("--tls-cert", "--tls-key"),
        ("--ssl-cert-file", "--ssl-key-file"),
        ("--ssl-certfile", "--ssl-keyfile"),
    ] {
        let server = Server::start(&[of_certificate, file, of_key, secret, "--lazy"]);
        let port = server.address.strip_prefix("https://127.0.0.1:").unwrap().to_owned();
        let url = format!("https://localhost:{port}/live");
        if let Some(output) = curl(&["--cacert", file, &url]) {
            assert!(output.status.success(), "{output:?}");
        }
        server.stop();
    }
    let error = refused(&["--tls-cert", "/nowhere/x.pem", "--tls-key", secret]);
    assert!(error.contains("the certificate in /nowhere/x.pem could not be read"), "{error}");
    let error = refused(&["--host", "unix:/tmp/x", "--tls-cert", file, "--tls-key", secret]);
    assert!(error.contains("has no TLS"), "{error}");
    let output = command(&["--tls-cert", file]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--tls-key"), "{output:?}");
}
