//! A thread that ends the process if an input never returns.

use std::{
    sync::{Mutex, Once, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How often the thread looks.
const PERIOD: Duration = Duration::from_millis(50);
/// The least time of waiting: a busy machine delays threads.
const LEAST: Duration = Duration::from_secs(10);

/// The input that runs, and when the process ends because of it.
static RUNNING: Mutex<Option<(Instant, String)>> = Mutex::new(None);

/// The deadline of a run. Its end lifts it.
pub(crate) struct Deadline;

/// Sets the deadline of a run.
pub(crate) fn set(time: Duration, input: &str) -> Deadline {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| drop(thread::spawn(watch)));
    let end = Instant::now() + time.max(LEAST);
    *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = Some((end, input.to_owned()));
    Deadline
}

impl Drop for Deadline {
    fn drop(&mut self) {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn watch() {
    loop {
        thread::sleep(PERIOD);
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((end, input)) = &*running
            && Instant::now() > *end
        {
            eprintln!("{input}: it does not return");
            std::process::abort();
        }
    }
}
