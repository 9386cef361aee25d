//! A loaded model without requests uses no CPU time. Alone in its file, since the time of
//! the whole process is measured.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests fail by panic")]

#[path = "engine/request.rs"]
mod request;

use std::{fs, thread, time::Duration};

use pelton::{Engine, LoadOptions, ModelSource};
use pelton_cpu::Cpu;

use request::{Request, Run};

/// Nanoseconds that the threads of this process have run (`schedstat` in the kernel's
/// documentation).
fn used() -> u64 {
    fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|task| {
            let stat = fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap();
            stat.split(' ').next().unwrap().parse::<u64>().unwrap()
        })
        .sum()
}

#[test]
fn an_idle_model_uses_no_cpu_time() {
    let model = Engine::with_backend(Cpu::new(4))
        .load(ModelSource::BuiltIn, &LoadOptions::default())
        .unwrap();
    let request = Request::new("Once upon a time").max_tokens(20);
    assert!(!model.run(request).unwrap().text().unwrap().is_empty());
    thread::sleep(Duration::from_millis(50)); // for the workers to fall asleep
    let before = used();
    thread::sleep(Duration::from_secs(1));
    let share = (used() - before) as f64 / 1e9;
    assert!(share < 0.01, "{share} of a core");
}
