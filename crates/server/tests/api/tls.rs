//! TLS: certificates made here, clients that check them, and files that change or are wrong.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use pelton_server::{Config, Server, TlsFiles};
use pelton_testing::{Need, skip};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::{
    clients::{python, succeeds},
    harness::{TestServer, config, start},
};

/// An authority with a folder, in which the files of a server are.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "the tests of Pelton");
        params.key_usages.push(rcgen::KeyUsagePurpose::KeyCertSign);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(folder.join("authority.pem"), issuer.pem()).unwrap();
        Self { issuer, folder }
    }

    /// A certificate for `localhost` and its key, in PEM.
    fn pair(&self) -> (String, String) {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn files(&self) -> TlsFiles {
        TlsFiles { certificate: self.path("server.pem"), key: self.path("key.pem") }
    }

    /// Puts other files in the place of those that are served, as a renewal does: one after the
    /// other.
    fn replace(&self, certificate: &str, key: &str) {
        for (name, text) in [("server.pem", certificate), ("key.pem", key)] {
            fs::write(self.path("new"), text).unwrap();
            fs::rename(self.path("new"), self.path(name)).unwrap();
        }
    }

    fn server(&self, change: impl FnOnce(&mut Config)) -> TestServer {
        let (certificate, key) = self.pair();
        self.replace(&certificate, &key);
        start(|config| {
            config.tls = Some(self.files());
            change(config);
        })
    }
}

/// The words of curl about a path, or `None` where it is not installed.
fn curl(server: &TestServer, path: &str, words: &[&str]) -> Option<Output> {
    if !succeeds(Command::new("curl").arg("--version")) {
        skip(Need::Capability, "curl is not installed");
        return None;
    }
    let url = format!("https://localhost:{}{path}", server.address.port());
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "30", "--noproxy", "*"]);
    Some(command.args(words).arg(url).output().unwrap())
}

#[test]
fn curl_accepts_the_certificate_of_an_authority_that_it_knows() {
    let authority = Authority::new("curl");
    let server = authority.server(|_| {});
    let known = authority.path("authority.pem");
    let known = ["--cacert", known.to_str().unwrap()];
    for version in [&[][..], &["--tls-max", "1.2"], &["--tlsv1.3"]] {
        let words = [&known[..], version].concat();
        let Some(output) = curl(&server, "/health", &words) else { return };
        assert!(output.status.success(), "{version:?}: {output:?}");
        assert!(output.stdout.starts_with(b"{\"status\":\"ok\""), "{output:?}");
    }
    let body = r#"{"prompt": "Once", "max_tokens": 40, "stream": true}"#;
    let words = [&known[..], &["--json", body]].concat();
    let Some(output) = curl(&server, "/v1/completions", &words) else { return };
    assert!(output.stdout.ends_with(b"data: [DONE]\n\n"), "{output:?}");
    // 60: the certificate cannot be checked
    let stranger = Authority::new("stranger");
    let other = stranger.path("authority.pem");
    for words in [&[][..], &["--cacert", other.to_str().unwrap()]] {
        let Some(output) = curl(&server, "/health", words) else { return };
        assert_eq!(output.status.code(), Some(60), "{output:?}");
    }
}

/// The program gets the address of the server.
fn client(authority: &Authority, server: &TestServer, program: &str) -> Command {
    let mut command = Command::new(python());
    command.args(["-c", program, &server.address.port().to_string()]);
    command.env("SSL_CERT_FILE", authority.path("authority.pem"));
    command
}

#[test]
fn the_client_of_openai_accepts_it_too() {
    if !succeeds(Command::new(python()).args(["-c", "import openai"])) {
        skip(Need::Python, "the package openai is not installed");
        return;
    }
    let program = "
import os, sys, openai
def client():
    url = f'https://localhost:{sys.argv[1]}/v1'
    return openai.OpenAI(base_url=url, api_key='none', max_retries=0)
messages = [{'role': 'user', 'content': 'Hello'}]
stream = client().chat.completions.create(
    model='built-in', messages=messages, max_tokens=8, stream=True)
assert [chunk.choices[0].finish_reason for chunk in stream][-1] in ('stop', 'length')
del os.environ['SSL_CERT_FILE']
try:
    client().models.list()
except openai.APIConnectionError as error:
    assert 'CERTIFICATE_VERIFY_FAILED' in str(error.__cause__), error.__cause__
else:
    raise SystemExit('an unknown authority was accepted')
";
    let authority = Authority::new("openai");
    let server = authority.server(|_| {});
    let output = client(&authority, &server, program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Why a server with these files does not start.
fn refused(files: TlsFiles) -> String {
    let mut config = config();
    config.tls = Some(files);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(Server::bind(config)).unwrap_err().to_string()
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new("refused");
    let (certificate, key) = authority.pair();
    let (_, other) = authority.pair();
    let damaged = certificate.replacen("MII", "!!!", 1);
    let block =
        |what: &str, body: &str| format!("-----BEGIN {what}-----\n{body}\n-----END {what}-----\n");
    let encrypted = block("ENCRYPTED PRIVATE KEY", "MIGa");
    let nonsense = block("CERTIFICATE", "aGVsbG8gd29ybGQ=");
    let large = "x".repeat((1 << 20) + 1);
    for (certificate, key, name, part) in [
        ("", &*key, "server.pem", "has no certificate"),
        (&key, &key, "server.pem", "has no certificate"),
        (&damaged, &key, "server.pem", "is no valid PEM"),
        (&nonsense, &key, "server.pem", "cannot be used"),
        (&large, &key, "server.pem", "is larger than 1 MiB"),
        (&certificate, "", "key.pem", "has no private key"),
        (&certificate, &certificate, "key.pem", "has no private key"),
        (&certificate, &encrypted, "key.pem", "no passphrase"),
        (&certificate, &block("PRIVATE KEY", "aGVsbG8="), "key.pem", "cannot be used"),
        (&certificate, &other, "key.pem", "is not the key of the certificate in"),
    ] {
        authority.replace(certificate, key);
        let error = refused(authority.files());
        assert!(error.contains(part) && error.contains(name), "{part}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    authority.replace(&certificate, &key);
    let nowhere = PathBuf::from("/nowhere/x.pem");
    let files = TlsFiles { certificate: nowhere.clone(), ..authority.files() };
    let error = refused(files);
    assert!(error.starts_with("the certificate in /nowhere/x.pem could not be read"), "{error}");
    let error = refused(TlsFiles { key: nowhere, ..authority.files() });
    assert!(error.starts_with("the private key in /nowhere/x.pem could not be read"), "{error}");
}

/// Requests go on, on new connections and on an old one, while the files change: to a pair that
/// does not belong together, and then to a good one.
#[test]
fn a_reload_under_load() {
    if !succeeds(Command::new(python()).args(["-c", "import ssl"])) {
        skip(Need::Python, "Python is not installed");
        return;
    }
    let program = "
import http.client, os, ssl, sys, threading
port, known = int(sys.argv[1]), ssl.create_default_context()
def open():
    return http.client.HTTPSConnection('localhost', port, timeout=30, context=known)
def ask(connection):
    connection.request('GET', '/v1/models')
    answer = connection.getresponse()
    assert answer.status == 200 and answer.read().startswith(b'{'), answer.status
counts, ended, failed = [0, 0], threading.Event(), []
def loop(i, one):
    kept = open()
    try:
        while not ended.is_set():
            connection = kept if one else open()
            ask(connection)
            counts[i] += 1
            if not one:
                connection.close()
    except BaseException as error:
        failed.append(error)
threads = [threading.Thread(target=loop, args=arguments) for arguments in enumerate((True, False))]
for thread in threads:
    thread.start()
for line in sys.stdin:
    print(ssl.get_server_certificate(('localhost', port), ca_certs=os.environ['SSL_CERT_FILE']))
    print('END', flush=True)
ended.set()
for thread in threads:
    thread.join()
assert not failed, failed
assert min(counts) > 20, counts
";
    let authority = Authority::new("reload");
    let server = authority.server(|_| {});
    let mut child = client(&authority, &server, program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut ask, mut told) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    // the certificate that a client gets now
    let mut served = || {
        ask.write_all(b"which\n").unwrap();
        let (mut text, mut byte) = (Vec::new(), [0]);
        while !text.ends_with(b"END\n") {
            told.read_exact(&mut byte).unwrap();
            text.push(byte[0]);
        }
        let text = String::from_utf8(text).unwrap();
        text.lines().filter(|line| !line.contains('-') && *line != "END").collect::<String>()
    };
    let body = |pem: &str| pem.lines().filter(|line| !line.contains('-')).collect::<String>();
    let first = fs::read_to_string(authority.path("server.pem")).unwrap();
    assert_eq!(served(), body(&first));
    let ((certificate, key), (_, other)) = (authority.pair(), authority.pair());
    authority.replace(&certificate, &other);
    std::thread::sleep(Duration::from_millis(3500));
    assert_eq!(served(), body(&first), "a pair that does not belong together is served");
    authority.replace(&certificate, &key);
    let begun = Instant::now();
    while served() != body(&certificate) {
        assert!(begun.elapsed() < Duration::from_secs(20), "the new certificate is not served");
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(ask);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_request_without_tls_is_told_to_use_it() {
    let authority = Authority::new("plain");
    let server = authority.server(|_| {});
    // without a body, and then one that the server does not read to its end
    for len in [0, 20_000] {
        let answer = server.send("POST", "/v1/completions", &[], "x".repeat(len).as_bytes());
        assert_eq!(answer.status, 400);
        assert!(answer.body.contains("expected an address with https://"), "{}", answer.body);
    }
}

/// The time until the server closes a connection.
fn closes(mut stream: TcpStream) -> Duration {
    let begun = Instant::now();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // an alert may come before
    let end = stream.read_to_end(&mut Vec::new());
    let is_late = end.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    assert!(!is_late, "the connection is still open");
    begun.elapsed()
}

#[test]
fn a_handshake_has_a_limited_time() {
    let authority = Authority::new("slow");
    let server = authority.server(|config| config.limits.header_time = Duration::from_secs(1));
    // nothing; a record that does not come to its end; one that is nonsense
    for bytes in [&b""[..], b"\x16\x03\x01\x02\x00\x01\x00", b"\x16GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = server.connect();
        stream.write_all(bytes).unwrap();
        assert!(closes(stream) < Duration::from_secs(5), "{bytes:?}");
    }
}

#[test]
fn handshakes_count_as_connections() {
    let authority = Authority::new("many");
    let server = authority.server(|config| config.limits.connections = 8);
    let open = |_| {
        let mut stream = server.connect();
        stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00").unwrap();
        stream
    };
    let held: Vec<TcpStream> = (0..200).map(open).collect();
    let known = authority.path("authority.pem");
    let known = ["--cacert", known.to_str().unwrap()];
    let Some(output) = curl(&server, "/health", &known) else { return };
    assert!(output.status.success(), "{output:?}");
    // eight, and those of the reserve
    let open = held.iter().filter(|stream| {
        stream.set_nonblocking(true).unwrap();
        stream.peek(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    });
    assert!(open.count() <= 8 + 64);
}
