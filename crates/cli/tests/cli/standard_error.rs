//! Standard error that takes nothing ends no process: what cannot be written there is lost.

use std::{
    fs::File,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use super::{pelton, stdout};

/// A full disk, and a pipe whose reader is gone.
fn sinks() -> [(&'static str, Stdio); 2] {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    [("a full disk", full.into()), ("a closed pipe", closed.into())]
}

#[test]
fn a_run_ends_as_without() {
    for (name, sink) in sinks() {
        let mut command = pelton();
        command.args(["run", "-n", "4", "--seed", "1", "Once"]).env("RUST_LOG", "trace");
        let output = command.stderr(sink).output().unwrap();
        assert!(!stdout(&output).is_empty(), "{name}");
    }
}

#[test]
fn an_error_is_its_exit_code() {
    for (name, sink) in sinks() {
        let mut command = pelton();
        let status = command.args(["inspect", "/nowhere.gguf"]).stderr(sink).status().unwrap();
        assert_eq!(status.code(), Some(1), "{name}");
    }
}

#[test]
fn a_server_serves() {
    for (name, sink) in sinks() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = pelton();
        command.args(["serve", "--port", &port.to_string()]).env("RUST_LOG", "pelton=trace");
        let mut child = command.stdout(Stdio::null()).stderr(sink).spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        let text = loop {
            assert_eq!(child.try_wait().unwrap(), None, "{name}");
            if let Ok(text) = get(port) {
                break text;
            }
            assert!(Instant::now() < end, "{name}: no response");
            sleep(Duration::from_millis(50));
        };
        assert!(text.starts_with("HTTP/1.1 200"), "{name}: {text}");
        assert!(get(port).unwrap().starts_with("HTTP/1.1 200"), "{name}");
        let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        assert!(child.wait().unwrap().success(), "{name}");
    }
}

/// The response for the list of models.
fn get(port: u16) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(stream, "GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}
