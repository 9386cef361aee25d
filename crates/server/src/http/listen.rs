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

use super::timed::Timed;
use crate::app::App;

/// Serves connections until `stop` is ready; then lets running requests end, for a limited time.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    app: Arc<App>,
    stop: impl Future<Output = ()>,
) {
    let limits = &app.config.limits;
    let places = Arc::new(Semaphore::new(limits.connections));
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let place = tokio::select! {
            () = &mut stop => break,
            place = Arc::clone(&places).acquire_owned() => place,
        };
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let (app, router, stopped) = (Arc::clone(&app), router.clone(), stopped.clone());
                connections.spawn(async move {
                    app.metrics.http.connections(1);
                    connection(stream, router, &app, stopped).await;
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
    drop(listener);
    stopping.send_replace(true);
    let ended = async { while connections.join_next().await.is_some() {} };
    if timeout(limits.shutdown_time, ended).await.is_err() {
        tracing::warn!(open = connections.len(), "connections are closed before their end");
        connections.shutdown().await;
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
    router: Router,
    app: &App,
    mut stopped: watch::Receiver<bool>,
) {
    let limits = &app.config.limits;
    // tokens are small: they are not to wait for more
    let _ = stream.set_nodelay(true);
    let io = TokioIo::new(Timed::new(stream, limits.write_time));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_buf_size(64 << 10)
        .keep_alive(true);
    let serving = builder.serve_connection(io, TowerToHyperService::new(router));
    let mut serving = pin!(serving);
    let outcome = tokio::select! {
        outcome = &mut serving => outcome,
        () = wait(&mut stopped) => {
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
