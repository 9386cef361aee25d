//! ZeroMQ's protocol (ZMTP 3.0, RFC 23) as a server speaks it: the greeting, the handshake without
//! security, frames. Nothing is allocated by a length that a peer names and that is not small.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The most bytes of a frame of a peer: topics and numbers.
const FRAME_MAX: u64 = 1024;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// A frame of a peer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A command, with its name.
    Command(Vec<u8>, Vec<u8>),
    /// A part of a message, and whether more parts follow.
    Part(Vec<u8>, bool),
}

fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Exchanges greetings and types of sockets with a peer.
///
/// # Errors
///
/// If the peer speaks another protocol, or its socket has none of the types.
pub(super) async fn handshake(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    own: &str,
    peers: &[&str],
) -> io::Result<()> {
    let mut greeting = [0; 64];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12..16].copy_from_slice(b"NULL");
    stream.write_all(&greeting).await?;
    // a peer of an older version sends no more than this
    let mut start = [0; 11];
    stream.read_exact(&mut start).await?;
    if start[0] != 0xff || start[9] & 1 != 1 || start[10] < 3 {
        return Err(refused("the peer does not speak version 3 of ZeroMQ's protocol"));
    }
    let mut rest = [0; 53];
    stream.read_exact(&mut rest).await?;
    if &rest[1..6] != b"NULL\0" {
        return Err(refused("the peer wants another security mechanism than NULL"));
    }
    let mut ready = property("Socket-Type", own.as_bytes());
    if own == "ROUTER" {
        ready.extend(property("Identity", b""));
    }
    stream.write_all(&command("READY", &ready)).await?;
    match read(stream).await? {
        Frame::Command(name, properties) if name == b"READY" => {
            let kind = socket_type(&properties).ok_or_else(|| refused("the peer has no type"))?;
            match peers.iter().any(|peer| peer.as_bytes() == kind) {
                true => Ok(()),
                false => Err(refused("the peer's socket is of a type that does not fit")),
            }
        }
        _ => Err(refused("the peer sent something else than READY")),
    }
}

fn property(name: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![name.len() as u8];
    bytes.extend(name.as_bytes());
    bytes.extend((value.len() as u32).to_be_bytes());
    bytes.extend(value);
    bytes
}

/// The value of the property `Socket-Type`.
fn socket_type(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        let (&length, rest) = bytes.split_first()?;
        let (name, rest) = rest.split_at_checked(length.into())?;
        let (length, rest) = rest.split_first_chunk()?;
        let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            return Some(value);
        }
        bytes = rest;
    }
}

/// Reads a frame.
///
/// # Errors
///
/// If it is longer than any that a peer has to send, or malformed, or the connection ends.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Frame> {
    let flags = stream.read_u8().await?;
    let length = match flags & LONG {
        0 => stream.read_u8().await?.into(),
        _ => stream.read_u64().await?,
    };
    if length > FRAME_MAX || flags & !(MORE | LONG | COMMAND) != 0 {
        return Err(refused("the peer sent a frame that is malformed or too long"));
    }
    let mut body = vec![0; length as usize];
    stream.read_exact(&mut body).await?;
    if flags & COMMAND == 0 {
        return Ok(Frame::Part(body, flags & MORE != 0));
    }
    let (&length, rest) = body.split_first().ok_or_else(|| refused("a command has no name"))?;
    let (name, data) =
        rest.split_at_checked(length.into()).ok_or_else(|| refused("a command has no name"))?;
    Ok(Frame::Command(name.to_vec(), data.to_vec()))
}

fn frame(out: &mut Vec<u8>, flags: u8, body: &[u8]) {
    match u8::try_from(body.len()) {
        Ok(length) => out.extend([flags, length]),
        Err(_) => {
            out.push(flags | LONG);
            out.extend((body.len() as u64).to_be_bytes());
        }
    }
    out.extend(body);
}

/// The bytes of a command.
pub(super) fn command(name: &str, data: &[u8]) -> Vec<u8> {
    let (mut body, mut out) = (vec![name.len() as u8], Vec::new());
    body.extend(name.as_bytes());
    body.extend(data);
    frame(&mut out, COMMAND, &body);
    out
}

/// The bytes of a message of several parts.
pub(super) fn message(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for (i, part) in parts.iter().enumerate() {
        frame(&mut out, if i + 1 < parts.len() { MORE } else { 0 }, part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(bytes: &[u8]) -> io::Result<Frame> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(read(&mut &bytes[..]))
    }

    #[test]
    fn frames() {
        assert_eq!(reads(&[1, 2, 5, 6]).unwrap(), Frame::Part(vec![5, 6], true));
        assert_eq!(reads(&message(&[b"ab"])).unwrap(), Frame::Part(b"ab".to_vec(), false));
        let long = vec![7; 300];
        assert_eq!(reads(&message(&[&long])).unwrap(), Frame::Part(long, false));
        let ping = Frame::Command(b"PING".to_vec(), vec![0, 1]);
        assert_eq!(reads(&command("PING", &[0, 1])).unwrap(), ping);
        let two = message(&[b"a", b"b"]);
        assert_eq!(two, [1, 1, b'a', 0, 1, b'b']);
    }

    #[test]
    fn what_a_peer_must_not_send() {
        let huge = [&[2][..], &u64::MAX.to_be_bytes(), b"x"].concat();
        for bytes in [&huge[..], &[2, 0, 0, 0, 0, 0, 0, 4, 1], &[8, 0], &[4, 0], &[4, 2, 9, 1], &[]]
        {
            assert!(reads(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn types_of_sockets() {
        let mut properties = property("Identity", b"");
        properties.extend(property("socket-type", b"SUB"));
        assert_eq!(socket_type(&properties), Some(&b"SUB"[..]));
        for cut in 0..properties.len() {
            assert_eq!(socket_type(&properties[..cut]), None);
        }
        assert_eq!(socket_type(&[1, b'a', 255, 255, 255, 255]), None);
    }
}
