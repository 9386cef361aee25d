//! Changes of the cached prefixes, published for routers in the form of vLLM's events: ZeroMQ's PUB
//! socket, msgpack, sequence numbers, and a second socket that sends past messages again.
//!
//! `zmtp` is the protocol of ZeroMQ as far as servers need it, `message` the format, `sockets` the
//! two sockets. The messages have the tokens of prompts, and the protocol has no keys.
//!
//! The protocol is our own code, in 300 lines: the crate `zeromq` 0.7 reserves as many bytes as a
//! peer's frame claims to have. A frame that claimed 2⁴⁶ bytes ended a process with its PUB socket.

mod history;
mod message;
mod sockets;
mod zmtp;

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use pelton::CacheEvent;
use tokio::{
    net::TcpListener,
    sync::{broadcast, mpsc},
};

use history::{History, Message};
pub(crate) use message::Names;
use message::payload;

/// Messages that a subscriber may be behind before it misses some.
const BEHIND_MAX: usize = 16_384;
/// The two addresses that events are published on.
pub(crate) struct Listeners {
    publish: TcpListener,
    replay: Option<TcpListener>,
}

impl Listeners {
    /// Listens on an address, and on that of the second socket.
    ///
    /// # Errors
    ///
    /// The address that cannot be listened on, with the reason.
    pub(crate) async fn bind(
        publish: &str,
        replay: Option<&str>,
    ) -> Result<Self, (String, io::Error)> {
        let bind = async |address: &str| {
            let listener = TcpListener::bind(address).await;
            listener.map_err(|source| (address.to_owned(), source))
        };
        let publish = bind(publish).await?;
        let replay = match replay {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        Ok(Self { publish, replay })
    }

    /// The address that events are published on.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.publish.local_addr()
    }
}

/// Events of one model, or of one of its replicas.
struct Batch {
    model: String,
    /// The number of the replica; `None` for a model without others.
    rank: Option<usize>,
    events: Vec<CacheEvent>,
}

/// Publishes the events of models.
#[derive(Clone, Debug)]
pub(crate) struct Publisher {
    batches: mpsc::UnboundedSender<Batch>,
}

impl Publisher {
    /// Begins to publish, under topics `kv@POD@MODEL`.
    pub(crate) fn start(listeners: Listeners, pod: String, names: Names) -> Self {
        let (batches, received) = mpsc::unbounded_channel();
        let (published, _) = broadcast::channel(BEHIND_MAX);
        let history = Arc::new(Mutex::new(History::default()));
        if let Some(replay) = listeners.replay {
            tokio::spawn(sockets::replay(replay, Arc::clone(&history)));
        }
        tokio::spawn(sockets::publish(listeners.publish, published.clone()));
        tokio::spawn(number(received, pod, names, history, published));
        Self { batches }
    }

    /// A function that publishes the events of a model, or of the replica with this rank.
    pub(crate) fn of(
        &self,
        model: &str,
        rank: Option<usize>,
    ) -> impl Fn(Vec<CacheEvent>) + Send + Sync + 'static {
        let (batches, model) = (self.batches.clone(), model.to_owned());
        move |events| {
            // after the end of the server nobody hears
            let _ = batches.send(Batch { model: model.clone(), rank, events });
        }
    }
}

/// Gives events their numbers, keeps them and passes them on.
async fn number(
    mut received: mpsc::UnboundedReceiver<Batch>,
    pod: String,
    names: Names,
    history: Arc<Mutex<History>>,
    published: broadcast::Sender<Arc<Message>>,
) {
    let mut sequence = 0;
    while let Some(Batch { model, rank, events }) = received.recv().await {
        let topic = format!("kv@{pod}@{model}").into_bytes();
        let payload = payload(&events, &names, rank);
        let message = Arc::new(Message { topic, sequence, payload });
        sequence += 1;
        history.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&message));
        // without subscribers it is only kept
        let _ = published.send(message);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        history::{HISTORY_BYTES_MAX, HISTORY_MAX},
        *,
    };

    #[test]
    fn the_newest_messages_are_kept() {
        let mut history = History::default();
        let of = |sequence, bytes| {
            Arc::new(Message { topic: Vec::new(), sequence, payload: vec![0; bytes] })
        };
        for sequence in 0..HISTORY_MAX as u64 + 5 {
            history.push(of(sequence, 10));
        }
        assert_eq!((history.messages.len(), history.bytes), (HISTORY_MAX, 10 * HISTORY_MAX));
        assert_eq!(history.since(0)[0].sequence, 5);
        assert_eq!(history.since(10_003).len(), 2);
        history.push(of(20_000, HISTORY_BYTES_MAX - 25));
        assert_eq!((history.messages.len(), history.bytes), (3, HISTORY_BYTES_MAX - 5));
    }
}
