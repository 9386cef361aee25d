//! A soak: texts, transcripts and downloads of honest clients, first among themselves and then
//! beside hostile clients of every kind.
//!
//! An honest client gets what it gets alone, and the memory of the server stays level. The
//! report compares the pauses of texts with and without the hostile clients. `PELTON_SOAK` is
//! the time of the second part in seconds, 10 otherwise. `PELTON_SOAK_KINDS` names the kinds of
//! hostile clients, separated by commas, for the search of a fault. `PELTON_STORM_SEED` is the
//! seed of their choices.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;
use serde_json::{Value, json};

use crate::{
    attack::{ATTACKS, Attack, Target},
    bodies::Bodies,
    honest::{Honest, Times},
    hub::{self, Hub},
    number,
    server::Server,
    streams::{Gaps, Streams},
};

/// How much the memory may grow after the first tenth: caches that fill up later, and freed memory
/// between the values of large bodies.
const GROWTH: usize = 192 << 20;
/// How long the hostile clients should make a stream wait beyond a pass, in milliseconds.
const WAIT: f64 = 5.0;
/// The least time of the first tenth and of the part without hostile clients.
const LEAST: Duration = Duration::from_secs(3);

/// A folder that goes with the test.
struct Home(PathBuf);

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The answers of the honest clients within a part of the test.
struct Part {
    texts: Gaps,
    transcripts: Times,
    downloads: Times,
}

impl Part {
    fn report(&self) -> Value {
        json!({"texts": self.texts.report(), "transcripts": self.transcripts.report(),
               "downloads": self.downloads.report()})
    }

    fn check(&self) {
        self.texts.check();
        assert!(self.transcripts.wrong.is_empty(), "{:#?}", self.transcripts.wrong);
        assert!(self.downloads.wrong.is_empty(), "{:#?}", self.downloads.wrong);
    }
}

#[test]
fn honest_clients_beside_hostile_ones() {
    let time = Duration::from_secs(number("PELTON_SOAK", 10) as u64);
    let home = Home(env::temp_dir().join(format!("pelton-soak-{}", std::process::id())));
    fs::create_dir_all(&home.0).unwrap();
    let hub = Hub::start();
    let server = server(&hub, &home.0);
    let streams = Streams::alone(&server.address);
    let honest = Honest::alone(&server.address, &home.0);
    let target = Target {
        address: server.address.clone(),
        bodies: Bodies::new(&server.get("/openapi.json")),
    };

    let alone = part(&server, &streams, &honest, || thread::sleep((time / 10).max(LEAST)));
    let attacks = Attacks::default();
    let mut memory = Vec::new();
    let beside = part(&server, &streams, &honest, || {
        attacks.run(&target, || {
            for tenth in 0..10 {
                thread::sleep(if tenth == 0 { (time / 10).max(LEAST) } else { time / 10 });
                memory.push(server.memory());
            }
        });
    });
    // abandoned requests are freed when the server sees that their clients are gone
    thread::sleep(Duration::from_secs(2));
    memory.push(server.memory());
    // a pass is the median pause without hostile clients
    let bound = alone.texts.median() + WAIT;
    let within = [&alone, &beside].map(|part| part.texts.percent_within(bound));
    let report = json!({
        "seconds": time.as_secs(), "a_pass_and_5_ms": bound,
        "percent_within_it_without_and_beside": within, "without_hostile_clients": alone.report(),
        "beside_hostile_clients": beside.report(), "attacks": *attacks.counts.lock().unwrap(),
        "memory_mib_after_each_tenth": memory.iter().map(|bytes| bytes >> 20).collect::<Vec<_>>(),
        "peak_mib": server.peak() >> 20,
    });
    println!("{report:#}");
    alone.check();
    beside.check();
    let failures = attacks.failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{failures:#?}");
    let (settled, end) = (memory[0], memory[memory.len() - 1]);
    assert!(end < settled + GROWTH, "{settled} bytes after a tenth, then {end}");
    let names = server.get("/api/tags")["models"].to_string();
    for lie in hub::LIES {
        assert!(!names.contains(&format!("o/{lie}")), "{names}");
        assert!(!home.0.join(hub::place(lie)).exists(), "the file of {lie} is there");
    }
    assert_eq!(server.get("/health")["status"], "ok");
}

/// Both built-in models, with a home folder of its own and bounds that hostile audio meets soon.
fn server(hub: &Hub, home: &Path) -> Server {
    let options =
        ["built-in", "built-in-speech", "--request-timeout", "45", "--max-audio-seconds", "10"];
    let home = home.to_str().unwrap();
    let caches = format!("{home}/.cache");
    let hugging_face = format!("{caches}/huggingface");
    let files = format!("{hugging_face}/hub");
    let variables = [
        ("HOME", home),
        ("XDG_CACHE_HOME", &*caches),
        ("HF_HOME", &*hugging_face),
        ("HF_HUB_CACHE", &*files),
        ("HF_ENDPOINT", &*hub.address),
        ("NO_PROXY", "*"),
    ];
    Server::with(&options, &variables)
}

/// Runs the honest clients until `wait` ends.
fn part(server: &Server, streams: &Streams, honest: &Honest, wait: impl FnOnce()) -> Part {
    let stop = AtomicBool::new(false);
    let is_over = || stop.load(Ordering::Relaxed);
    thread::scope(|scope| {
        let texts = streams.start(scope, &server.address);
        let transcripts = scope.spawn(|| honest.listen(&is_over));
        let downloads = scope.spawn(|| honest.download(&is_over));
        wait();
        stop.store(true, Ordering::Relaxed);
        Part {
            texts: texts.stop(),
            transcripts: transcripts.join().unwrap(),
            downloads: downloads.join().unwrap(),
        }
    })
}

/// The hostile clients.
#[derive(Default)]
struct Attacks {
    counts: Mutex<BTreeMap<&'static str, usize>>,
    next: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

impl Attacks {
    /// Runs the clients until `wait` ends.
    fn run(&self, target: &Target, wait: impl FnOnce()) {
        let kinds = env::var("PELTON_SOAK_KINDS").unwrap_or_default();
        let is_chosen = |name: &str| kinds.is_empty() || kinds.split(',').any(|kind| kind == name);
        let stop = &AtomicBool::new(false);
        thread::scope(|scope| {
            for (name, clients, attack) in ATTACKS.into_iter().filter(|(name, ..)| is_chosen(name))
            {
                for _ in 0..clients {
                    scope.spawn(move || self.repeat(target, name, attack, stop));
                }
            }
            wait();
            stop.store(true, Ordering::Relaxed);
        });
    }

    fn repeat(&self, target: &Target, name: &'static str, attack: Attack, stop: &AtomicBool) {
        let first = number("PELTON_STORM_SEED", 1);
        while !stop.load(Ordering::Relaxed) && self.failures.lock().unwrap().is_empty() {
            let seed = first + self.next.fetch_add(1, Ordering::Relaxed);
            let begun = Instant::now();
            if let Err(error) = attack(target, &mut Rng::with_seed(seed as u64)) {
                let elapsed = begun.elapsed();
                self.failures
                    .lock()
                    .unwrap()
                    .push(format!("{name} of seed {seed} after {elapsed:?}: {error}"));
            }
            *self.counts.lock().unwrap().entry(name).or_default() += 1;
        }
    }
}
