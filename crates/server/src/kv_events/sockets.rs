//! The two sockets: one publishes messages to those who have subscribed to their topics, the other
//! sends past messages again.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Mutex as AsyncMutex, Semaphore, broadcast},
    time::timeout,
};

use super::{
    history::{History, Message},
    zmtp::{self, Frame},
};

/// The most peers of a socket.
const PEERS_MAX: usize = 64;
/// The most topics of a peer, and parts of a request.
const TOPICS_MAX: usize = 64;
const PARTS_MAX: usize = 4;
/// The time in which a peer introduces itself.
const HELLO: Duration = Duration::from_secs(10);
/// The time in which a peer must read something that waits for it.
const READS: Duration = Duration::from_secs(60);
/// The number after the last message that is sent again.
const END: u64 = u64::MAX;

/// Accepts peers, each of which `serve` serves until it goes.
async fn accept<F>(listener: TcpListener, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(PEERS_MAX));
    loop {
        let Ok((stream, address)) = listener.accept().await else {
            // no file descriptor is left: others end
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::warn!(%address, "a subscriber is refused, there are {PEERS_MAX}");
            continue;
        };
        let served = serve(stream);
        tokio::spawn(async move {
            if let Err(error) = served.await
                && error.kind() == io::ErrorKind::InvalidData
            {
                tracing::warn!(%address, %error, "a subscriber is refused");
            }
            drop(place);
        });
    }
}

async fn hello(stream: &mut TcpStream, own: &str, peers: &[&str]) -> io::Result<()> {
    stream.set_nodelay(true)?;
    timeout(HELLO, zmtp::handshake(stream, own, peers)).await?
}

async fn write(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    timeout(READS, stream.write_all(bytes)).await?
}

/// Publishes messages.
pub(super) async fn publish(listener: TcpListener, published: broadcast::Sender<Arc<Message>>) {
    accept(listener, |stream| subscriber(stream, published.subscribe())).await;
}

async fn subscriber(
    mut stream: TcpStream,
    mut published: broadcast::Receiver<Arc<Message>>,
) -> io::Result<()> {
    hello(&mut stream, "PUB", &["SUB", "XSUB"]).await?;
    let (mut read, write_half) = stream.into_split();
    let writer = AsyncMutex::new(write_half);
    let topics: Mutex<Vec<Vec<u8>>> = Mutex::default();
    let subscriptions = async {
        loop {
            let frame = zmtp::read(&mut read).await?;
            if let Some(pong) = pong(&frame) {
                write(&mut *writer.lock().await, &pong).await?;
            }
            subscribe(&mut topics.lock().unwrap_or_else(PoisonError::into_inner), frame)?;
        }
    };
    let messages = async {
        loop {
            let message = match published.recv().await {
                Ok(message) => message,
                // the sequence numbers show it
                Err(broadcast::error::RecvError::Lagged(_)) => continue,
                Err(broadcast::error::RecvError::Closed) => return Ok(()),
            };
            let wanted = {
                let topics = topics.lock().unwrap_or_else(PoisonError::into_inner);
                topics.iter().any(|topic| message.topic.starts_with(topic))
            };
            if wanted {
                let sequence = message.sequence.to_be_bytes();
                let bytes = zmtp::message(&[&message.topic, &sequence, &message.payload]);
                write(&mut *writer.lock().await, &bytes).await?;
            }
        }
    };
    tokio::select! {
        ended = subscriptions => ended,
        ended = messages => ended,
    }
}

/// The answer to a peer that wants to know whether the connection is alive.
fn pong(frame: &Frame) -> Option<Vec<u8>> {
    match frame {
        // after two bytes of a time, its own text comes back
        Frame::Command(name, data) if name == b"PING" => {
            Some(zmtp::command("PONG", data.get(2..).unwrap_or_default()))
        }
        _ => None,
    }
}

/// Adds a topic to those of a peer, or takes it out.
fn subscribe(topics: &mut Vec<Vec<u8>>, frame: Frame) -> io::Result<()> {
    let (adds, topic) = match frame {
        Frame::Command(name, topic) if name == b"SUBSCRIBE" => (true, topic),
        Frame::Command(name, topic) if name == b"CANCEL" => (false, topic),
        Frame::Command(..) => return Ok(()),
        Frame::Part(body, _) => match body.split_first() {
            Some((1, topic)) => (true, topic.to_vec()),
            Some((0, topic)) => (false, topic.to_vec()),
            _ => return Ok(()),
        },
    };
    if !adds {
        if let Some(at) = topics.iter().position(|known| *known == topic) {
            topics.swap_remove(at);
        }
    } else if topics.len() < TOPICS_MAX {
        topics.push(topic);
    } else {
        let what = format!("a subscriber has more than {TOPICS_MAX} topics");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(())
}

/// Sends past messages to those who ask for them.
pub(super) async fn replay(listener: TcpListener, history: Arc<Mutex<History>>) {
    accept(listener, |stream| asker(stream, Arc::clone(&history))).await;
}

async fn asker(mut stream: TcpStream, history: Arc<Mutex<History>>) -> io::Result<()> {
    hello(&mut stream, "ROUTER", &["REQ", "DEALER", "ROUTER"]).await?;
    loop {
        let Some(mut parts) = request(&mut stream).await? else { continue };
        let number = parts.pop().and_then(|last| last.try_into().ok()).map(u64::from_be_bytes);
        let Some(first) = number else {
            let what = "a request for past messages is no number of 8 bytes";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        };
        let messages = history.lock().unwrap_or_else(PoisonError::into_inner).since(first);
        let of_request: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let one = |sequence: u64, payload: &[u8]| {
            zmtp::message(&[&of_request[..], &[&sequence.to_be_bytes(), payload]].concat())
        };
        for message in messages {
            write(&mut stream, &one(message.sequence, &message.payload)).await?;
        }
        write(&mut stream, &one(END, b"")).await?;
    }
}

/// The parts of a message, the first of which return to the peer; `None` for a command.
async fn request(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> io::Result<Option<Vec<Vec<u8>>>> {
    let mut parts = Vec::new();
    loop {
        let frame = zmtp::read(stream).await?;
        if let Some(pong) = pong(&frame) {
            write(stream, &pong).await?;
        }
        match frame {
            Frame::Command(..) => return Ok(None),
            Frame::Part(part, more) => {
                parts.push(part);
                if !more {
                    return Ok(Some(parts));
                }
            }
        }
        if parts.len() >= PARTS_MAX {
            let what = format!("a request for past messages has more than {PARTS_MAX} parts");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
    }
}
