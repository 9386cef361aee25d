//! A watched run is stopped for its memory and its time, and for nothing else.

use std::{panic::catch_unwind, time::Duration};

use pelton_watchdog::{Budget, Counting, within};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

fn message(budget: Budget, run: fn()) -> Option<String> {
    let caught = catch_unwind(|| within(budget, "this input", run)).err()?;
    caught.downcast_ref::<String>().cloned()
}

// One test: runs in parallel would count each other's memory.
#[test]
fn a_budget_is_kept() {
    let budget = Budget { bytes: 1 << 20, time: Duration::from_millis(50) };
    assert_eq!(message(budget, || drop(std::hint::black_box(vec![1_u8; 1 << 19]))), None);
    let memory = message(budget, || drop(std::hint::black_box(vec![1_u8; 2 << 20])));
    assert!(memory.is_some_and(|text| text.starts_with("this input: 2097152 bytes of memory")));
    let time = message(budget, || {
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_millis(400) {
            std::hint::black_box((0..1_000_u64).sum::<u64>());
        }
    });
    assert!(time.is_some_and(|text| text.contains("of CPU time, expected at most 50ms")));
    // waits cost no CPU time
    assert_eq!(message(budget, || std::thread::sleep(Duration::from_millis(120))), None);
}
