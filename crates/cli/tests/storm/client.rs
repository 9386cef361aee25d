//! One HTTP request on a connection of its own.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

use crate::PATIENCE;

const JSON: &str = "application/json";

pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    host: String,
}

impl Connection {
    pub(crate) fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), host: address.to_owned() })
    }

    /// Waits for so long for the next bytes.
    pub(crate) fn wait_for(&self, patience: Duration) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(Some(patience))
    }

    pub(crate) fn tcp(&mut self) -> &mut TcpStream {
        self.stream.get_mut()
    }

    /// The head of a request.
    pub(crate) fn head(&self, method: &str, path: &str, kind: &str, len: usize) -> String {
        let host = &self.host;
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
             content-type: {kind}\r\ncontent-length: {len}\r\n\r\n"
        )
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<()> {
        self.send_as(method, path, JSON, body)
    }

    /// Sends a body of a media type.
    pub(crate) fn send_as(
        &mut self,
        method: &str,
        path: &str,
        kind: &str,
        body: &[u8],
    ) -> io::Result<()> {
        let mut bytes = self.head(method, path, kind, body.len()).into_bytes();
        bytes.extend_from_slice(body);
        match self.stream.get_mut().write_all(&bytes) {
            // the server may answer before it has read everything
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            sent => sent,
        }
    }

    /// Sends a request and reads the status and the whole body.
    pub(crate) fn request(
        &mut self,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> io::Result<(u16, Vec<u8>)> {
        self.send(method, path, body)?;
        self.response()
    }

    /// Reads the status and the whole body.
    pub(crate) fn response(&mut self) -> io::Result<(u16, Vec<u8>)> {
        let status = self.line()?;
        let status = status.get(9..12).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| io::Error::other("no status line"))?;
        let mut is_chunked = false;
        loop {
            let line = self.line()?.to_ascii_lowercase();
            is_chunked |= line == "transfer-encoding: chunked";
            if line.is_empty() {
                break;
            }
        }
        let mut body = Vec::new();
        if is_chunked {
            while let Some(chunk) = self.chunk()? {
                body.extend(chunk);
            }
        } else {
            self.stream.read_to_end(&mut body)?;
        }
        Ok((status, body))
    }

    /// The next chunk of a body; `None` after the last.
    fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = self.line()?;
        let len = usize::from_str_radix(&line, 16).map_err(io::Error::other)?;
        let mut chunk = vec![0; len];
        self.stream.read_exact(&mut chunk)?;
        self.line()?;
        Ok((len > 0).then_some(chunk))
    }

    /// The next line without its end.
    pub(crate) fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}
