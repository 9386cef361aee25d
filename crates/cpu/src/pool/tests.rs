use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::*;

const COUNTS: [usize; 4] = [1, 2, 3, 8];

#[test]
fn every_thread_runs_each_region_once() {
    for threads in COUNTS {
        let pool = Pool::new(threads).unwrap();
        let runs: Vec<_> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
        for region in 0..500 {
            pool.run(|worker| {
                assert_eq!(worker.threads(), threads);
                runs[worker.index()].fetch_add(1, Ordering::Relaxed);
            });
            assert!(runs.iter().all(|n| n.load(Ordering::Relaxed) == region + 1));
            if region % 100 == 0 {
                thread::sleep(4 * PATIENCE); // the workers block and must be woken
            }
        }
    }
}

/// Each part is computed once, and the others compute what a slow thread has not begun.
#[test]
fn parts_are_shared() {
    for threads in COUNTS {
        let pool = Pool::new(threads).unwrap();
        for parts in [0, 1, threads - 1, 7, 8 * threads, 8 * threads + 3] {
            let runs: Vec<_> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
            let all = || runs.iter().map(|runs| runs.load(Ordering::Relaxed)).sum::<usize>();
            for region in 0..50 {
                pool.run(|worker| {
                    // it waits until all other parts are computed
                    let is_slow =
                        threads > 1 && parts > threads && worker.index() == region % threads;
                    worker.share(parts, |of| {
                        while is_slow && all() < (region + 1) * parts - of.len() {
                            thread::yield_now();
                        }
                        for part in of {
                            runs[part].fetch_add(1, Ordering::Relaxed);
                        }
                    });
                });
                assert!(runs.iter().all(|runs| runs.load(Ordering::Relaxed) == region + 1));
            }
        }
    }
}

#[test]
fn a_thread_shares_once_in_a_region() {
    let pool = Pool::new(2).unwrap();
    let twice = || {
        pool.run(|worker| {
            worker.share(4, |_| {});
            worker.share(4, |_| {});
        });
    };
    catch_unwind(AssertUnwindSafe(twice)).unwrap_err();
    // and what the threads took before the panic is no part of the next region
    let parts = AtomicUsize::new(0);
    pool.run(|worker| {
        worker.share(4, |of| {
            parts.fetch_add(of.len(), Ordering::Relaxed);
        });
    });
    assert_eq!(parts.into_inner(), 4);
}

#[test]
fn a_barrier_orders_the_phases() {
    for threads in COUNTS {
        let pool = Pool::new(threads).unwrap();
        let mut cells = vec![0_usize; threads];
        for _ in 0..100 {
            let shared = SharedMut::new(&mut cells);
            pool.run(|worker| {
                for phase in 1..6 {
                    // SAFETY: each thread writes its own cell, and reads all of them only
                    // between the two barriers, where no thread writes.
                    unsafe { shared.slice_mut(worker.index()..worker.index() + 1)[0] = phase };
                    worker.barrier();
                    // SAFETY: as above.
                    assert!(unsafe { shared.slice(0..threads) }.iter().all(|&c| c == phase));
                    worker.barrier();
                }
            });
        }
    }
}

#[test]
fn a_long_wait_blocks_and_is_woken() {
    let pool = Pool::new(3).unwrap();
    let late = AtomicUsize::new(0);
    for region in 0..4 {
        pool.run(|worker| {
            for culprit in 0..3 {
                if worker.index() == culprit {
                    thread::sleep(4 * PATIENCE);
                    late.fetch_add(1, Ordering::Relaxed);
                }
                worker.barrier();
                assert!(late.load(Ordering::Relaxed) > 3 * region + culprit);
            }
            // the others have finished long before
            if worker.index() == region % 3 {
                thread::sleep(4 * PATIENCE);
            }
        });
    }
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_survives() {
    for threads in [1, 2, 4] {
        let pool = Pool::new(threads).unwrap();
        for culprit in 0..threads {
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run(|worker| {
                    worker.barrier();
                    if worker.index() == culprit {
                        resume_unwind(Box::new(culprit)); // a panic without its message
                    }
                    worker.barrier(); // the culprit never comes
                });
            }));
            assert_eq!(result.unwrap_err().downcast_ref(), Some(&culprit));
            let sum = AtomicUsize::new(0);
            pool.run(|worker| {
                worker.barrier();
                sum.fetch_add(worker.index(), Ordering::Relaxed);
            });
            assert_eq!(sum.into_inner(), threads * (threads - 1) / 2);
        }
    }
}

/// The CPU time of threads is read from `/proc`.
#[cfg(target_os = "linux")]
#[test]
fn a_blocked_thread_uses_no_core() {
    let pool = Pool::new(2).unwrap();
    let task = Mutex::new(std::path::PathBuf::new());
    pool.run(|worker| {
        if worker.index() == 1 {
            *task.lock().unwrap() = std::fs::read_link("/proc/thread-self").unwrap();
        }
    });
    let stat = std::path::Path::new("/proc").join(task.into_inner().unwrap()).join("schedstat");
    let nothing_used = || {
        let nanoseconds = || -> u64 {
            let text = std::fs::read_to_string(&stat).unwrap();
            text.split(' ').next().unwrap().parse().unwrap()
        };
        thread::sleep(Duration::from_millis(50));
        let before = nanoseconds();
        thread::sleep(Duration::from_millis(100));
        assert_eq!(nanoseconds(), before);
    };
    // for work, and for the other thread
    nothing_used();
    pool.run(|worker| {
        if worker.index() == 0 {
            nothing_used();
        }
        worker.barrier();
    });
}

#[test]
fn partitions_cover_everything() {
    for (n, align) in [(0, 1), (1, 16), (100, 16), (64, 1), (257, 8)] {
        for threads in 1..9 {
            let mut next = 0;
            for worker in 0..threads {
                let part = split(n, align, worker, threads);
                assert!(part.start == next && (part.is_empty() || next % align == 0));
                assert!(part.len() <= n.div_ceil(align).div_ceil(threads) * align);
                next = part.end;
            }
            assert_eq!(next, n);
        }
    }
}
