//! Connections: accepted, bounded, and closed at the end.

use std::{future::Future, io, pin::pin, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    peer::{Peer, Routes},
    timed::Timed,
};
use crate::app::App;

/// Serves connections until `stop` is ready. Then lets running requests end, for a limited time, in
/// which new connections are answered too: with 503, by the guard.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    app: Arc<App>,
    stop: impl Future<Output = ()>,
) {
    let places = Arc::new(Semaphore::new(app.config.limits.connections));
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
    listener: TcpListener,
    router: Router,
    app: Arc<App>,
    places: Arc<Semaphore>,
    stopped: watch::Receiver<bool>,
}

impl Door {
    /// Accepts connections without end.
    async fn accept(&self, connections: &mut JoinSet<()>) {
        loop {
            // the semaphore is never closed
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else { return };
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let (app, router) = (Arc::clone(&self.app), self.router.clone());
                    let stopped = self.stopped.clone();
                    connections.spawn(async move {
                        app.metrics.http.connections(1);
                        let routes = Routes {
                            service: TowerToHyperService::new(router),
                            peer: Peer(peer.ip()),
                        };
                        connection(stream, routes, &app, stopped).await;
                        app.metrics.http.connections(-1);
                        drop(place);
                    });
                }
                Err(error) => {
                    // no file descriptors, most often: others end and free theirs
                    if !is_of_client(&error) {
                        tracing::warn!(%error, "a connection could not be accepted");
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

async fn connection(
    stream: TcpStream,
    routes: Routes,
    app: &App,
    mut stopped: watch::Receiver<bool>,
) {
    let limits = &app.config.limits;
    // one that comes while the server stops has one request, which is refused
    let late = *stopped.borrow();
    // tokens are small: they are not to wait for more
    let _ = stream.set_nodelay(true);
    let io = TokioIo::new(Timed::new(stream, limits.write_time));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_buf_size(64 << 10)
        .keep_alive(!late);
    let serving = builder.serve_connection(io, routes);
    let mut serving = pin!(serving);
    let outcome = tokio::select! {
        outcome = &mut serving => outcome,
        () = wait(&mut stopped), if !late => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "a connection ends");
    }
}

/// Waits until the server stops.
async fn wait(stopped: &mut watch::Receiver<bool>) {
    // an error means that the server is gone already
    let _ = stopped.wait_for(|&stopped| stopped).await;
}
