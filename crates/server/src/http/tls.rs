//! TLS: the certificate of the server, read again when its files change, and handshakes with a time
//! limit.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use rustls::{
    ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{interval, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::timed::Timed;
use crate::{
    config::TlsFiles,
    error::{ApiError, Shape},
};

/// The time between two looks at the files. A change is read when two looks have found the same.
const LOOK: Duration = Duration::from_secs(1);
/// The most time for a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// The most bytes of a file with certificates or a key.
const FILE_BYTES: u64 = 1 << 20;
/// The first byte of a record that begins a handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;
/// The most bytes that are read of a request without TLS, so that its client can read the answer.
const PLAIN_BYTES: u64 = 64 << 10;

/// TLS of a server.
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    pair: Arc<Pair>,
}

/// A certificate with its key, and the files they come from.
#[derive(Debug)]
struct Pair {
    files: TlsFiles,
    provider: Arc<CryptoProvider>,
    served: RwLock<Arc<CertifiedKey>>,
    /// The files when they were read for the first time.
    first: Stamps,
}

impl ResolvesServerCert for Pair {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.served.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// The marks of a change of a file: its time, its size and its number.
type Stamp = (SystemTime, u64, u64);
type Stamps = [Option<Stamp>; 2];

/// The stamp of a regular file. Pipes and missing files have none.
fn stamp(path: &Path) -> Option<Stamp> {
    let file = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino(&file);
    #[cfg(not(unix))]
    let number = 0;
    Some((file.modified().ok()?, file.len(), number))
}

fn stamps(files: &TlsFiles) -> Stamps {
    [stamp(&files.certificate), stamp(&files.key)]
}

/// The bytes of a file, or a sentence.
fn read(path: &Path, what: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("the {what} in {} could not be read: {error}", path.display()))?;
    if bytes.len() as u64 > FILE_BYTES {
        return Err(format!("{} is larger than 1 MiB, expected the {what} in PEM", path.display()));
    }
    Ok(bytes)
}

/// The certificate and the key of two files, or a sentence that names the file at fault.
fn load(files: &TlsFiles, provider: &CryptoProvider) -> Result<CertifiedKey, String> {
    let (chain, key) = (files.certificate.display(), files.key.display());
    let text = read(&files.certificate, "certificate")?;
    let certificates: Result<Vec<CertificateDer<'static>>, pem::Error> =
        CertificateDer::pem_slice_iter(&text).collect();
    let certificates = certificates
        .map_err(|error| format!("the certificate in {chain} is no valid PEM: {error}"))?;
    if certificates.is_empty() {
        return Err(format!("{chain} has no certificate, expected PEM with BEGIN CERTIFICATE"));
    }
    let secret = PrivateKeyDer::from_pem_slice(&read(&files.key, "private key")?);
    let secret = secret.map_err(|error| match error {
        pem::Error::NoItemsFound => {
            format!(
                "{key} has no private key, expected PEM with BEGIN PRIVATE KEY and no passphrase"
            )
        }
        error => format!("the private key in {key} is no valid PEM: {error}"),
    })?;
    CertifiedKey::from_der(certificates, secret, provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            format!("the private key in {key} is not the key of the certificate in {chain}")
        }
        rustls::Error::InvalidCertificate(_) => {
            format!("the certificate in {chain} cannot be used: {error}")
        }
        error => format!("the private key in {key} cannot be used: {error}"),
    })
}

impl Tls {
    /// Reads the certificate and its key.
    pub(crate) fn open(files: &TlsFiles) -> Result<Arc<Self>, String> {
        let provider = Arc::new(ring::default_provider());
        let first = stamps(files);
        let served = RwLock::new(Arc::new(load(files, &provider)?));
        let files = files.clone();
        let pair = Arc::new(Pair { files, provider: Arc::clone(&provider), served, first });
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&pair) as _);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(Self { acceptor: Arc::new(config).into(), pair }))
    }

    /// Reads the files again whenever they have changed, without end. Connections that are open
    /// stay.
    pub(crate) async fn watch(&self) {
        let (mut tried, mut last) = (self.pair.first, self.pair.first);
        let mut ticks = interval(LOOK);
        loop {
            ticks.tick().await;
            let pair = Arc::clone(&self.pair);
            let look = tokio::task::spawn_blocking(move || {
                let now = stamps(&pair.files);
                // one that still changes is left alone
                if now != tried && now == last {
                    pair.reload();
                    tried = now;
                }
                (tried, now)
            });
            // the runtime ends
            let Ok(found) = look.await else { return };
            (tried, last) = found;
        }
    }

    /// The outcome of a handshake within a time. A client that speaks no TLS is told so.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
        time: Duration,
        write_time: Duration,
    ) -> Option<TlsStream<Timed<TcpStream>>> {
        let shake = async {
            let mut first = [0];
            match stream.peek(&mut first).await? {
                0 => Ok(None),
                _ if first[0] != HANDSHAKE => {
                    refuse_plain(stream).await?;
                    Ok(None)
                }
                _ => self.acceptor.accept(Timed::new(stream, write_time)).await.map(Some),
            }
        };
        match timeout(time.min(HANDSHAKE_TIME), shake).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                let error: io::Error = error;
                tracing::debug!(%error, "a TLS handshake fails");
                None
            }
            Err(_) => {
                tracing::debug!("a TLS handshake takes too long");
                None
            }
        }
    }
}

impl Pair {
    fn reload(&self) {
        let file = self.files.certificate.display();
        match load(&self.files, &self.provider) {
            Ok(pair) => {
                *self.served.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
                tracing::info!(%file, "the new certificate is served");
            }
            Err(error) => {
                tracing::error!(%error, "the certificate before the change is still served");
            }
        }
    }
}

/// Answers a request that came without TLS, and closes its connection.
async fn refuse_plain(mut stream: TcpStream) -> io::Result<()> {
    let error = "the server speaks HTTPS here, expected an address with https://";
    tracing::info!(status = 400, error, "a request without TLS is refused");
    let body = ApiError::invalid(error).body(Shape::OpenAi).to_string();
    let head = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await?;
    stream.shutdown().await?;
    // a connection with unread bytes would be reset, and the answer lost
    tokio::io::copy(&mut stream.take(PLAIN_BYTES), &mut tokio::io::sink()).await?;
    Ok(())
}
