//! Events of cached prefixes, read by an independent subscriber, and what its socket refuses.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::atomic::{AtomicU16, Ordering::Relaxed},
    time::Duration,
};

use pelton::KvMemory;
use pelton_server::{Config, KvEvents, Server};
use pelton_testing::{Need, skip};

use crate::{
    clients::{full, python, succeeds, tests},
    harness::{TestServer, config, start},
    replicas::busy,
};

/// A free port below those that systems give to connections, so that no other test's connection
/// takes it meanwhile.
fn free_address() -> String {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 10_000).unwrap();
    let free = std::iter::repeat_with(|| 20_000 + (first + NEXT.fetch_add(7, Relaxed)) % 10_000);
    let mut addresses = free.map(|port| format!("127.0.0.1:{port}"));
    addresses.find(|address| TcpListener::bind(address).is_ok()).unwrap()
}

/// A server that publishes on two addresses, with room for a few prefixes.
fn publishing() -> (TestServer, [String; 2]) {
    let addresses = [free_address(), free_address()];
    let server = start(|config| {
        let pod = Some("pod-7".to_owned());
        config.kv_events = Some(KvEvents::new(&addresses[0], Some(&addresses[1]), pod));
        config.load = config.load.clone().kv_memory(KvMemory::Bytes(16 << 20));
    });
    (server, addresses)
}

#[test]
fn a_subscriber_knows_what_each_prompt_hits() {
    let python = python();
    if !succeeds(Command::new(&python).args(["-c", "import msgpack, zmq"])) {
        skip(Need::Python, format_args!("{} has no msgpack and pyzmq", python.display()));
        return;
    }
    let (server, [events, replay]) = publishing();
    let output = Command::new(&python)
        .arg(tests().join("clients/kv_events_client.py"))
        .arg(format!("http://{}", server.address))
        .args([events, replay])
        .arg(if full() { "1000" } else { "150" })
        .env("NO_PROXY", "*")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    println!("{text}");
    assert!(output.status.success() && text.contains("all checks passed"), "{text}");
}

/// The first bytes of a peer of version 3.
fn greeting() -> Vec<u8> {
    let mut bytes = vec![0; 64];
    (bytes[0], bytes[9], bytes[10]) = (0xff, 0x7f, 3);
    bytes[12..16].copy_from_slice(b"NULL");
    bytes
}

/// The command READY of a socket's type.
fn ready(kind: &str) -> Vec<u8> {
    let mut body = b"\x05READY\x0bSocket-Type".to_vec();
    body.extend((kind.len() as u32).to_be_bytes());
    body.extend(kind.as_bytes());
    [&[4, body.len() as u8][..], &body].concat()
}

/// The parts of the next message.
fn parts(stream: &mut TcpStream) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    loop {
        let mut head = [0; 2];
        stream.read_exact(&mut head).unwrap();
        let [flags, short] = head;
        let len = match flags & 2 {
            0 => u64::from(short),
            _ => {
                let mut rest = [0; 8];
                rest[0] = short;
                stream.read_exact(&mut rest[1..]).unwrap();
                u64::from_be_bytes(rest)
            }
        };
        let mut part = vec![0; usize::try_from(len).unwrap()];
        stream.read_exact(&mut part).unwrap();
        parts.push(part);
        if flags & 1 == 0 {
            return parts;
        }
    }
}

/// Replicas store the same pages, so the last value of a message says whose they are.
#[test]
fn messages_have_the_ranks_of_replicas() {
    let address = free_address();
    let server = start(|config| {
        config.replicas = 2;
        config.kv_events = Some(KvEvents::new(&address, None, None));
        config.load = config.load.clone().context(1024);
    });
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(&[&greeting()[..], &ready("SUB"), &[0, 1, 1]].concat()).unwrap();
    stream.read_exact(&mut vec![0; 64 + ready("PUB").len()]).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let prompt: Vec<u32> = (300..400).collect();
    // the rank of the message with the first page of a prompt
    let mut rank_of = |salt: &str| {
        loop {
            let payload = parts(&mut stream).pop().unwrap();
            if payload.windows(salt.len()).any(|window| window == salt.as_bytes()) {
                return payload.last().copied();
            }
        }
    };
    for (rank, salt) in [(0, "the first salt"), (1, "the second salt")] {
        // a long text at the first replica
        let busy = (rank == 1).then(|| busy(&server, 900));
        let body = serde_json::json!({"prompt": prompt, "max_tokens": 1, "cache_salt": salt});
        server.post("/v1/completions", &body).ok();
        assert_eq!(rank_of(salt), Some(rank));
        drop(busy);
    }
}

#[test]
fn strangers_are_refused_and_others_go_on() {
    let (server, addresses) = publishing();
    let huge = [&[2][..], &u64::MAX.to_be_bytes()].concat();
    let after = |kind: &str, bytes: &[u8]| [&greeting()[..], &ready(kind), bytes].concat();
    let [topics, parts] = [[0, 2, 1, b'x'].repeat(100), [1, 2, 1, b'x'].repeat(100)];
    let cases = [
        b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec(),
        vec![0; 64],
        [&greeting()[..12], b"CURVE", &[0; 47]].concat(),
        after("PUSH", b""),
        after("SUB", &huge),
        after("DEALER", &huge),
        after("SUB", &topics),
        after("DEALER", &parts),
        [&greeting()[..], &huge].concat(),
    ];
    for address in &addresses {
        for bytes in &cases {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let _ = stream.write_all(bytes);
            // the server ends the connection
            let mut rest = Vec::new();
            if let Err(error) = stream.read_to_end(&mut rest) {
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{bytes:?}");
            }
        }
    }
    // a subscriber after them is served
    let mut stream = TcpStream::connect(&addresses[0]).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(&after("SUB", &[0, 1, 1])).unwrap();
    let mut start = vec![0; 64 + ready("PUB").len()];
    stream.read_exact(&mut start).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let prompt: Vec<u32> = (300..400).collect();
    server.post("/v1/completions", &serde_json::json!({"prompt": prompt, "max_tokens": 1})).ok();
    let mut message = [0; 20];
    stream.read_exact(&mut message).unwrap();
    assert_eq!(&message[..2], [1, 17]);
    assert_eq!(&message[2..19], b"kv@pod-7@built-in");
}

#[test]
fn a_public_address_needs_a_permission() {
    let refusal = |change: &dyn Fn(&mut Config)| {
        let mut config = config();
        change(&mut config);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { Server::bind(config).await.map(drop) }).unwrap_err().to_string()
    };
    let to = |address: &'static str| {
        move |config: &mut Config| config.kv_events = Some(KvEvents::new(address, None, None))
    };
    assert!(refusal(&to("tcp://*:0")).contains("--allow-public"));
    assert!(refusal(&to("10.0.0.1:5557")).contains("--allow-public"));
    assert!(refusal(&to("127.0.0.1")).contains("expected HOST:PORT"));
    assert!(refusal(&to("127.0.0.1:http")).contains("expected HOST:PORT"));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let busy = |config: &mut Config| {
        config.kv_events = Some(KvEvents::new("127.0.0.1:0", Some(&address), None));
    };
    assert!(refusal(&busy).contains(&address));
}
