//! Wakes of Python's event loops.
//!
//! The thread that runs a model must not wait for the GIL, so it leaves the call to a thread that does
//! nothing else. That thread takes the GIL once for all wakes that have gathered.

use std::{
    process,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, Sender},
    },
    thread,
};

use pyo3::prelude::*;

/// A function of Python that wakes an event loop, as a partial of `loop.call_soon_threadsafe`.
pub(crate) type Wake = Arc<Py<PyAny>>;

/// The way to the thread that wakes, with the process in which it runs.
static WAKER: Mutex<Option<(u32, Sender<Wake>)>> = Mutex::new(None);

/// Calls a function of Python soon, on another thread.
pub(crate) fn send(wake: Wake) {
    let mut waker = WAKER.lock().unwrap_or_else(PoisonError::into_inner);
    let here = process::id();
    let sender = match &*waker {
        Some((process, sender)) if *process == here => sender.clone(),
        _ => {
            let (sender, receiver) = mpsc::channel();
            let spawned =
                thread::Builder::new().name("pelton-wake".to_owned()).spawn(move || run(&receiver));
            if let Err(error) = spawned {
                return eprintln!("pelton: no thread wakes event loops: {error}");
            }
            *waker = Some((here, sender.clone()));
            sender
        }
    };
    drop(waker);
    // it ends with the process
    let _ = sender.send(wake);
}

fn run(receiver: &Receiver<Wake>) {
    while let Ok(first) = receiver.recv() {
        let wakes: Vec<Wake> = std::iter::once(first).chain(receiver.try_iter()).collect();
        let called = Python::try_attach(|py| {
            for wake in wakes {
                // a loop that was closed refuses: nobody waits then
                let _ = wake.call0(py);
            }
        });
        if called.is_none() {
            // the interpreter ends
            return;
        }
    }
}
