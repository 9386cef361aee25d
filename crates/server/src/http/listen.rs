//! Connections: accepted, bounded, and closed at the end.

use std::{future::Future, io, pin::pin, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    peer::{Peer, Routes},
    places::{Place, Places},
    socket::{Listener, Stream},
    timed::Timed,
};
use crate::app::App;

/// Time for the head of a request in a place of the reserve.
const RESERVE_TIME: Duration = Duration::from_secs(5);
/// Time for the first request of a connection that is there when the server stops.
const FIRST_TIME: Duration = Duration::from_millis(200);

/// Serves connections until `stop` is ready. Then lets running requests end, for a limited time, in
/// which new connections are answered too: with 503, by the guard.
pub(crate) async fn serve(
    listener: Listener,
    router: Router,
    app: Arc<App>,
    stop: impl Future<Output = ()>,
) {
    let places = Places::new(app.config.limits.connections);
    let (stopping, stopped) = watch::channel(false);
    let door = Door { listener, router, app, places, stopped };
    let (mut connections, mut late) = (JoinSet::new(), JoinSet::new());
    tokio::select! {
        () = door.accept(&mut connections) => {}
        () = stop => {}
    }
    stopping.send_replace(true);
    let ended = async { while connections.join_next().await.is_some() {} };
    tokio::select! {
        () = door.accept(&mut late) => {}
        ended = timeout(door.app.config.limits.shutdown_time, ended) => if ended.is_ok() { return },
    }
    tracing::warn!(open = connections.len(), "connections are closed before their end");
    connections.shutdown().await;
}

/// The part that accepts connections.
struct Door {
    listener: Listener,
    router: Router,
    app: Arc<App>,
    places: Arc<Places>,
    stopped: watch::Receiver<bool>,
}

impl Door {
    /// Accepts connections without end.
    async fn accept(&self, connections: &mut JoinSet<()>) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let place = Arc::new(self.places.take(peer).await);
                    let (app, router) = (Arc::clone(&self.app), self.router.clone());
                    let stopped = self.stopped.clone();
                    connections.spawn(async move {
                        app.metrics.http.connections(1);
                        let routes = Routes {
                            service: TowerToHyperService::new(router),
                            peer: Peer(peer),
                            place: Arc::clone(&place),
                        };
                        connection(stream, routes, &app, &place, stopped).await;
                        app.metrics.http.connections(-1);
                    });
                }
                Err(error) => {
                    // no file descriptors, most often
                    if !is_of_client(&error) {
                        tracing::warn!(%error, "a connection could not be accepted");
                        self.places.make_room();
                        sleep(Duration::from_millis(100)).await;
                    }
                }
            }
            while connections.try_join_next().is_some() {}
        }
    }
}

fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionAborted | Kind::ConnectionReset | Kind::ConnectionRefused
    )
}

/// Serves a connection, after its handshake where there is TLS.
async fn connection(
    stream: Stream,
    routes: Routes,
    app: &App,
    place: &Place,
    mut stopped: watch::Receiver<bool>,
) {
    let limits = &app.config.limits;
    let header_time = match place.is_reserve {
        true => limits.header_time.min(RESERVE_TIME),
        false => limits.header_time,
    };
    // one that comes while the server stops has one request, which is refused
    let late = *stopped.borrow();
    match stream {
        Stream::Tcp { stream, tls } => {
            // tokens are small: they are not to wait for more
            let _ = stream.set_nodelay(true);
            let Some(tls) = tls else {
                let stream = Timed::new(stream, limits.write_time);
                return requests(stream, routes, header_time, place, late, stopped).await;
            };
            let secured = tokio::select! {
                secured = tls.accept(stream, header_time, limits.write_time) => secured,
                () = place.close.notified() => None,
                () = wait(&mut stopped), if !late => None,
            };
            if let Some(stream) = secured {
                requests(stream, routes, header_time, place, late, stopped).await;
            }
        }
        #[cfg(unix)]
        Stream::Unix(stream) => {
            let stream = Timed::new(stream, limits.write_time);
            requests(stream, routes, header_time, place, late, stopped).await;
        }
    }
}

/// Answers the requests of a connection.
async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    routes: Routes,
    header_time: Duration,
    place: &Place,
    late: bool,
    mut stopped: watch::Receiver<bool>,
) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(header_time)
        .max_buf_size(64 << 10)
        .keep_alive(!late && !place.is_reserve);
    let serving = builder.serve_connection(TokioIo::new(stream), routes);
    let mut serving = pin!(serving);
    let outcome = tokio::select! {
        outcome = &mut serving => outcome,
        () = place.close.notified() => {
            tracing::debug!("a connection that waits for its client makes room for another");
            return;
        }
        () = wait(&mut stopped), if !late => {
            // hyper closes one whose request it has not read yet
            let first = match place.has_asked() {
                true => None,
                false => timeout(FIRST_TIME, &mut serving).await.ok(),
            };
            match first {
                Some(outcome) => outcome,
                None => {
                    serving.as_mut().graceful_shutdown();
                    serving.await
                }
            }
        }
    };
    match outcome {
        // hyper has answered it
        Err(error) if error.is_parse() => tracing::info!(
            target: "pelton::access", status = if error.is_parse_too_large() { 431 } else { 400 },
            reason = %error, "what a client has sent is no request"
        ),
        Err(error) => tracing::debug!(%error, "a connection ends"),
        Ok(()) => {}
    }
}

/// Waits until the server stops.
async fn wait(stopped: &mut watch::Receiver<bool>) {
    // an error means that the server is gone already
    let _ = stopped.wait_for(|&stopped| stopped).await;
}
