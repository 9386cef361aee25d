//! A Unix socket that listens. Its file is removed when the server ends, and one that a killed
//! server left is replaced.

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

use tokio::net::{UnixListener, UnixStream};

pub(super) type Connection = UnixStream;

/// A listening socket, and its file.
pub(crate) struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    /// The device and the number of the file, by which it is known again.
    identity: (u64, u64),
}

/// The device and the number of a file, if it is a socket.
fn identity(path: &Path) -> io::Result<Option<(u64, u64)>> {
    let file = fs::symlink_metadata(path)?;
    Ok(file.file_type().is_socket().then(|| (file.dev(), file.ino())))
}

impl UnixSocket {
    /// Opens a socket. One that a dead server has left is replaced; nothing else is.
    pub(super) async fn bind(path: &Path) -> io::Result<Self> {
        match identity(path) {
            Ok(Some(_)) => match UnixStream::connect(path).await {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    fs::remove_file(path)?;
                }
                Err(error) => return Err(error),
                Ok(_) => {
                    let message = "another server answers there, expected a free path";
                    return Err(io::Error::new(ErrorKind::AddrInUse, message));
                }
            },
            Ok(None) => {
                let message = "the path is no socket, expected a free path";
                return Err(io::Error::new(ErrorKind::AlreadyExists, message));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let listener = UnixListener::bind(path)?;
        let identity = identity(path)?.ok_or(ErrorKind::NotFound)?;
        // the file is removed by its path at the end, wherever the process is then
        let path = std::path::absolute(path)?;
        Ok(Self { listener, path, identity })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) async fn accept(&self) -> io::Result<Connection> {
        Ok(self.listener.accept().await?.0)
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // not that of a server which has replaced it
        if identity(&self.path).is_ok_and(|found| found == Some(self.identity)) {
            // nobody is left to be told
            let _ = fs::remove_file(&self.path);
        }
    }
}
