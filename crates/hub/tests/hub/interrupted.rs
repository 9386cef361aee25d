//! Downloads that end by a signal at any moment, and go on.

use std::{
    env, fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use crate::{
    noise, pull,
    server::{Answer, Server, sha256},
    settings, tree,
};

const SIZE: usize = 24 << 20;

/// Runs in a process of its own, started by the tests below.
#[test]
fn downloads_in_child_process() {
    if let (Ok(endpoint), Some(home)) =
        (env::var("PELTON_HUB_CHILD"), env::var_os("PELTON_HUB_HOME"))
    {
        pull(&settings(Path::new(&home), &endpoint), "o/n").unwrap();
    }
}

fn child(server: &Server, home: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "interrupted::downloads_in_child_process"])
        .env("PELTON_HUB_CHILD", &server.endpoint)
        .env("PELTON_HUB_HOME", home)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// After a kill at a random moment there is no file that looks complete, and the next process goes
/// on.
#[test]
fn kills_at_random_moments() {
    let kills = if env::var_os("PELTON_FULL").is_some() { 100 } else { 8 };
    let bytes = noise(1, SIZE);
    let hash = sha256(&bytes);
    let server = Server::new(&[("m.gguf", bytes)]);
    server.lie(|_, answer| Answer { pause: Duration::from_millis(1), ..answer });
    let mut random = fastrand::Rng::with_seed(7);
    let (mut killed, mut complete) = (0, 0);
    let mut home = tempfile::tempdir().unwrap();
    while killed < kills {
        let mut process = child(&server, home.path());
        // before the first byte, after the last one, or between them
        let moment = server.sent() + random.usize(..SIZE / 2);
        let mut ended = None;
        while ended.is_none() && server.sent() < moment {
            thread::sleep(Duration::from_millis(1));
            ended = process.try_wait().unwrap();
        }
        thread::sleep(Duration::from_micros(random.u64(..3000)));
        let cache = settings(home.path(), &server.endpoint).cache;
        let ended = ended.or_else(|| process.try_wait().unwrap());
        if ended.is_none() {
            process.kill().unwrap();
            process.wait().unwrap();
            killed += 1;
        }
        let left = tree(&cache);
        let blob = cache.join("models--o--n/blobs").join(&hash);
        if blob.exists() {
            assert_eq!(sha256(&fs::read(&blob).unwrap()), hash);
        }
        if left.iter().any(|path| path.contains("/snapshots/")) {
            assert!(blob.exists(), "{left:?}");
        }
        if let Some(status) = ended {
            assert!(status.success(), "a download failed by itself");
            let [.., reference, snapshot] = &left[..] else { panic!("{left:?}") };
            assert!(reference.ends_with("refs/main") && snapshot.contains("m.gguf ->"), "{left:?}");
            assert_eq!(left.len(), 4, "nothing else is left: {left:?}");
            complete += 1;
            home = tempfile::tempdir().unwrap();
        }
    }
    let model = pull(&settings(home.path(), &server.endpoint), "o/n").unwrap();
    assert_eq!(sha256(&fs::read(model.path).unwrap()), hash);
    eprintln!("{killed} kills, {} complete downloads", complete + 1);
}

/// Two processes that want the same file share one download.
#[test]
fn two_processes_share_a_download() {
    let bytes = noise(1, SIZE);
    let server = Server::new(&[("m.gguf", bytes.clone())]);
    server.lie(|_, answer| Answer { pause: Duration::from_millis(3), ..answer });
    let home = tempfile::tempdir().unwrap();
    let mut processes = [child(&server, home.path()), child(&server, home.path())];
    assert!(processes.iter_mut().all(|process| process.wait().unwrap().success()));
    let fetched: usize = server
        .requests()
        .iter()
        .filter(|request| request.path.contains("signature="))
        .filter_map(|request| request.range())
        .map(|(first, last)| last + 1 - first)
        .sum();
    assert_eq!(fetched, SIZE);
    let model = pull(&settings(home.path(), &server.endpoint), "o/n").unwrap();
    assert_eq!(fs::read(model.path).unwrap(), bytes);
}
