//! Encryption with certificates of one's own, and proxies.
//!
//! `tls/make.sh` has made the certificates: one for `hub.test` and `localhost`, and the one that
//! signs it.

use std::{
    cell::RefCell,
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
};

use pelton_hub::{Error, Settings};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use super::{noise, pull, server::Server};

/// An encrypted connection, read and written by one thread.
struct Encrypted(RefCell<StreamOwned<ServerConnection, TcpStream>>);

impl Read for &Encrypted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.borrow_mut().read(buffer)
    }
}

impl Write for &Encrypted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/hub/tls").join(name)
}

/// The encrypted front of a hub.
fn encrypted(server: &Server) -> SocketAddr {
    let chain = vec![CertificateDer::from_pem_file(file("hub.pem")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(file("hub.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let state = Arc::clone(&server.state);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (state, config) = (Arc::clone(&state), Arc::clone(&config));
            thread::spawn(move || {
                let connection = ServerConnection::new(config).unwrap();
                let stream = Encrypted(RefCell::new(StreamOwned::new(connection, stream)));
                crate::server::serve(&state, &stream, false);
            });
        }
    });
    address
}

/// A proxy that leads all connections to one address; where it listens, and the hosts that were
/// wanted.
fn proxy(to: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, wanted) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&wanted);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let mut lines = BufReader::new(&client).lines().map_while(Result::ok);
            let line = lines.next().unwrap_or_default();
            seen.lock().unwrap().push(line.split(' ').take(2).collect::<Vec<_>>().join(" "));
            lines.find(String::is_empty);
            (&client).write_all(b"HTTP/1.1 200 Connected\r\n\r\n").unwrap();
            let hub = TcpStream::connect(to).unwrap();
            let copies = [(client.try_clone().unwrap(), hub.try_clone().unwrap()), (hub, client)];
            for (mut from, mut to) in copies {
                thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    (address, wanted)
}

struct Case {
    home: tempfile::TempDir,
    port: u16,
    bytes: Vec<u8>,
    proxy: SocketAddr,
    wanted: Arc<Mutex<Vec<String>>>,
}

impl Case {
    fn new() -> Self {
        let bytes = noise(3, 5000);
        let address = encrypted(&Server::new(&[("m-Q8_0.gguf", bytes.clone())]));
        let (proxy, wanted) = proxy(address);
        let home = tempfile::tempdir().unwrap();
        Self { home, port: address.port(), bytes, proxy, wanted }
    }

    /// Pulls the model with these variables; its bytes.
    fn pull(&self, variables: &[(&str, &str)]) -> Result<Vec<u8>, Error> {
        let of = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let home = self.home.path().join("home");
        let _ = fs::remove_dir_all(&home);
        let mut settings = Settings::of(&of, Some(home))?;
        settings.attempts = 1;
        let model = pull(&settings, "o/n")?;
        Ok(fs::read(model.path).unwrap())
    }
}

#[test]
fn certificates_of_a_file_or_a_folder_are_trusted() {
    let case = Case::new();
    let hub = format!("https://localhost:{}", case.port);
    let endpoint = ("HF_ENDPOINT", &*hub);
    let refused = case.pull(&[endpoint]).unwrap_err().to_string();
    assert!(refused.to_lowercase().contains("certificate"), "{refused}");
    let certificate = file("ca.pem");
    let of_file = ("SSL_CERT_FILE", certificate.to_str().unwrap());
    assert_eq!(case.pull(&[endpoint, of_file]).unwrap(), case.bytes);

    let folder = case.home.path().join("certs");
    fs::create_dir_all(&folder).unwrap();
    let list = format!("/nothing/here:{}", folder.display());
    let error = case.pull(&[endpoint, ("SSL_CERT_DIR", folder.to_str().unwrap())]).unwrap_err();
    assert!(error.to_string().contains("SSL_CERT_DIR"), "{error}");
    fs::copy(&certificate, folder.join("0a1b2c3d.0")).unwrap();
    fs::write(folder.join("README"), "no certificate").unwrap();
    let of_folder = ("SSL_CERT_DIR", folder.to_str().unwrap());
    assert_eq!(case.pull(&[endpoint, of_folder]).unwrap(), case.bytes);
    assert_eq!(case.pull(&[endpoint, ("SSL_CERT_DIR", &list)]).unwrap(), case.bytes);

    let empty = folder.join("README");
    let error = case.pull(&[endpoint, ("SSL_CERT_FILE", empty.to_str().unwrap())]).unwrap_err();
    assert!(error.to_string().contains("SSL_CERT_FILE"), "{error}");
    let absent = case.pull(&[endpoint, ("SSL_CERT_FILE", "/nothing/here.pem")]);
    assert!(matches!(absent, Err(Error::Io { .. })), "{absent:?}");
}

/// The name of the hub exists behind the proxy alone.
#[test]
fn proxies_are_asked_unless_the_host_is_excepted() {
    let case = Case::new();
    let (certificate, proxy) = (file("ca.pem"), format!("http://{}", case.proxy));
    let own = [
        ("HF_ENDPOINT", "https://hub.test"),
        ("SSL_CERT_FILE", certificate.to_str().unwrap()),
        ("HTTPS_PROXY", &*proxy),
    ];
    let with = |more: &[(&'static str, &'static str)]| {
        let variables: Vec<_> = own.iter().chain(more).copied().collect();
        let found = case.pull(&variables);
        (found, std::mem::take(&mut *case.wanted.lock().unwrap()))
    };
    let (found, wanted) = with(&[]);
    assert_eq!(found.unwrap(), case.bytes);
    assert_eq!(wanted[0], "CONNECT hub.test:443");
    let (found, wanted) = with(&[("NO_PROXY", "other.example,.test")]);
    assert!(matches!(found, Err(Error::Network { .. })), "{found:?}");
    assert_eq!(wanted, Vec::<String>::new());
    let (found, wanted) = with(&[("NO_PROXY", "other.example")]);
    assert_eq!((found.unwrap(), wanted.is_empty()), (case.bytes.clone(), false));
}
