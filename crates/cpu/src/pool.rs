//! The thread pool of a model: its threads meet hundreds of times per token.
//!
//! A general pool hands out tasks through queues and wakes threads through the kernel, which
//! costs more than many of the operations here take. This one has a single shape: *every*
//! thread runs the same closure, in step ([`Pool::run`]), takes its share of the work by its
//! index ([`split`]) and may meet the others on the way ([`Worker::barrier`]). Who waits, for the
//! others or for the next region, spins for a moment and then sleeps: an idle process uses no
//! processor, and a thread that another process has pushed aside finds one to go on.

mod cores;
mod shared;

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub use cores::default_threads;
pub use shared::SharedMut;

/// Waiting threads only pause the core for this long, then offer it to others as well: the one
/// waited for may be among them where threads outnumber processors.
const SPIN: Duration = Duration::from_micros(3);
/// A worker without work sleeps after this long: above the gap between two operations and
/// between most tokens, far below what a person or a battery notices.
const IDLE: Duration = Duration::from_micros(200);
/// A thread that waits for another sleeps after this long, for a processor without a thread to run
/// takes one that waits for another processor: beside a busy process decode was half as fast again.
/// But where a hypervisor holds processors back they wait often, and waking takes long: with a
/// third of this, decode there was a tenth slower.
const PATIENCE: Duration = Duration::from_millis(3);

/// What every thread of a region runs.
type Task = dyn Fn(Worker<'_>) + Sync;

/// A fixed set of threads that run closures together.
///
/// The thread that calls [`run`](Self::run) is worker 0; the others are spawned once, and kept to
/// one processor of each physical core where there are enough. The caller's thread is its own, and
/// stays where it is. Calls from several threads take turns.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Held for the length of a region.
    turn: Mutex<()>,
}

/// One thread's view of the region it runs in.
#[derive(Clone, Copy, Debug)]
pub struct Worker<'a> {
    index: usize,
    shared: &'a Shared,
}

/// Keeps what different threads write on different cache lines (pairs of lines, as some
/// processors fetch two at a time).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

#[derive(Debug)]
struct Shared {
    threads: usize,
    /// Number of regions begun; its change tells the workers that `task` is set.
    epoch: Apart<AtomicUsize>,
    task: UnsafeCell<Option<*const Task>>,
    /// Workers that have not finished the region yet.
    running: Apart<AtomicUsize>,
    arrived: Apart<AtomicUsize>,
    /// Number of barriers passed.
    generation: Apart<AtomicUsize>,
    /// A thread of this region panicked, so nobody may wait for it.
    poisoned: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Threads that sleep, or are about to.
    sleepers: Apart<AtomicUsize>,
    sleep: Mutex<()>,
    woken: Condvar,
    stop: AtomicBool,
}

// SAFETY: `task` is the only field without its own synchronization. Worker 0 writes it before
// it raises `epoch` (release) and after every worker has lowered `running` (acquire); workers
// read it only in between. The closure behind it is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above; nothing in it belongs to one thread.
unsafe impl Send for Shared {}

/// Unwinds a thread out of a region in which another thread has panicked.
struct Poisoned;

thread_local! {
    static IN_REGION: Cell<bool> = const { Cell::new(false) };
}

impl Pool {
    /// A pool of `threads` threads, the caller of [`run`](Self::run) among them; 0 counts as 1.
    ///
    /// # Errors
    /// If the system refuses to start a thread.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        let threads = threads.max(1);
        let shared = Arc::new(Shared {
            threads,
            epoch: Apart::default(),
            task: UnsafeCell::new(None),
            running: Apart::default(),
            arrived: Apart::default(),
            generation: Apart::default(),
            poisoned: AtomicBool::new(false),
            panic: Mutex::new(None),
            sleepers: Apart::default(),
            sleep: Mutex::default(),
            woken: Condvar::default(),
            stop: AtomicBool::new(false),
        });
        let mut pool = Self { shared, workers: Vec::with_capacity(threads), turn: Mutex::new(()) };
        for index in 1..threads {
            let shared = Arc::clone(&pool.shared);
            let builder = thread::Builder::new().name(format!("pelton-{index}"));
            pool.workers.push(builder.spawn(move || shared.work(index))?);
        }
        Ok(pool)
    }

    /// Number of threads, the caller included.
    pub fn threads(&self) -> usize {
        self.shared.threads
    }

    /// Runs `task` once on every thread and returns when all are done.
    ///
    /// A panic in any of them is carried on here, after all have finished; the pool stays usable.
    ///
    /// # Panics
    /// If called from within a region, of this or another pool: its thread is taken.
    pub fn run(&self, task: impl Fn(Worker<'_>) + Sync) {
        assert!(!IN_REGION.get(), "regions of a thread pool do not nest");
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = &*self.shared;
        let task: &(dyn Fn(Worker<'_>) + Sync) = &task;
        // SAFETY: only the lifetime changes. Workers call the closure between the rise of
        // `epoch` and their lowering of `running`; this function waits for the latter before
        // it returns or unwinds (its own call is caught), so the closure outlives every use.
        let erased: *const Task =
            unsafe { std::mem::transmute::<*const (dyn Fn(Worker<'_>) + Sync + '_), _>(task) };
        // SAFETY: no region is running (we hold `turn`), so no worker reads `task`.
        unsafe { *shared.task.get() = Some(erased) };
        shared.poisoned.store(false, Ordering::Relaxed);
        shared.arrived.0.store(0, Ordering::Relaxed);
        shared.running.0.store(self.workers.len(), Ordering::Relaxed);
        shared.announce();

        IN_REGION.set(true);
        shared.call(task, 0);
        IN_REGION.set(false);
        shared.wait(PATIENCE, || shared.running.0.load(Ordering::Acquire) == 0);

        let panic = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.announce();
        for worker in self.workers.drain(..) {
            // Its panics were caught and handed on by `run`.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// The life of a spawned worker.
    fn work(&self, index: usize) {
        cores::keep_to_physical_cores(self.threads);
        IN_REGION.set(true);
        let mut seen = 0;
        loop {
            self.wait(IDLE, || self.epoch.0.load(Ordering::Acquire) != seen);
            seen += 1;
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            // SAFETY: the epoch has risen, so worker 0 has set `task` and will not touch it, or
            // let go of the closure, until we lower `running`.
            if let Some(task) = unsafe { *self.task.get() } {
                // SAFETY: as above.
                self.call(unsafe { &*task }, index);
            }
            if self.running.0.fetch_sub(1, Ordering::Release) == 1 {
                self.rouse();
            }
        }
    }

    /// Tells the workers of a new region, or of the end of the pool.
    fn announce(&self) {
        self.epoch.0.fetch_add(1, Ordering::Release);
        self.rouse();
    }

    /// Runs the task and keeps a panic for `Pool::run`.
    fn call(&self, task: &(dyn Fn(Worker<'_>) + Sync), index: usize) {
        let worker = Worker { index, shared: self };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| task(worker))) {
            self.poisoned.store(true, Ordering::Relaxed);
            self.rouse();
            if !payload.is::<Poisoned>() {
                let mut panic = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
                panic.get_or_insert(payload);
            }
        }
    }

    /// Waits until `done`. Whoever makes it so calls [`rouse`](Self::rouse) then.
    fn wait(&self, patience: Duration, done: impl Fn() -> bool) {
        for _ in 0..64 {
            if done() {
                return;
            }
            std::hint::spin_loop();
        }
        let start = Instant::now();
        loop {
            for _ in 0..16 {
                if done() {
                    return;
                }
                std::hint::spin_loop();
            }
            let waited = start.elapsed();
            if waited > patience {
                break;
            }
            if waited > SPIN {
                thread::yield_now();
            }
        }
        // Of this fence and that of `rouse` one comes first: either `done` is seen here, or the
        // sleeper there, which then rings when this thread lies down.
        self.sleepers.0.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut asleep = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
        while !done() {
            asleep = self.woken.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
        drop(asleep);
        self.sleepers.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes who waits for what has just been done.
    fn rouse(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.0.load(Ordering::Relaxed) > 0 {
            drop(self.sleep.lock().unwrap_or_else(PoisonError::into_inner));
            self.woken.notify_all();
        }
    }
}

impl Worker<'_> {
    /// This thread's number: 0 is the caller of [`Pool::run`].
    pub fn index(&self) -> usize {
        self.index
    }

    /// Number of threads in the region.
    pub fn threads(&self) -> usize {
        self.shared.threads
    }

    /// This thread's share of `0..n`; see [`split`].
    pub fn split(&self, n: usize, align: usize) -> Range<usize> {
        split(n, align, self.index, self.shared.threads)
    }

    /// Waits until every thread of the region has come here: what any of them wrote before,
    /// all of them see after. All threads must pass the same number of barriers.
    ///
    /// If another thread panicked it will never come, and this one unwinds out of the region.
    pub fn barrier(&self) {
        let shared = self.shared;
        let generation = shared.generation.0.load(Ordering::Relaxed);
        if shared.arrived.0.fetch_add(1, Ordering::AcqRel) + 1 == shared.threads {
            shared.arrived.0.store(0, Ordering::Relaxed);
            shared.generation.0.store(generation.wrapping_add(1), Ordering::Release);
            shared.rouse();
            return;
        }
        let passed = || shared.generation.0.load(Ordering::Acquire) != generation;
        shared.wait(PATIENCE, || passed() || shared.poisoned.load(Ordering::Relaxed));
        if !passed() {
            resume_unwind(Box::new(Poisoned));
        }
    }
}

/// The share of `0..n` that falls to thread `worker` of `threads`: contiguous, and starting at a
/// multiple of `align`. The shares cover `0..n` and differ by at most `align` items.
///
/// ```
/// # use pelton_cpu::pool::split;
/// assert_eq!(split(100, 16, 0, 2), 0..48);
/// assert_eq!(split(100, 16, 1, 2), 48..100);
/// ```
pub fn split(n: usize, align: usize, worker: usize, threads: usize) -> Range<usize> {
    let units = n.div_ceil(align);
    let bound = |worker: usize| (units * worker / threads * align).min(n);
    bound(worker)..bound(worker + 1)
}

#[cfg(test)]
mod tests {
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
                    thread::sleep(4 * PATIENCE); // the workers fall asleep and must wake
                }
            }
        }
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
                        // between the two barriers, where nobody writes.
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
    fn who_waits_long_sleeps_and_wakes() {
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
                            resume_unwind(Box::new(culprit)); // a panic without the message
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

    #[test]
    fn idle_workers_use_no_processor() {
        if !cfg!(target_os = "linux") {
            eprintln!("skipped: it reads /proc/thread-self");
            return;
        }
        let pool = Pool::new(2).unwrap();
        let task = Mutex::new(std::path::PathBuf::new());
        pool.run(|worker| {
            if worker.index() == 1 {
                *task.lock().unwrap() = std::fs::read_link("/proc/thread-self").unwrap();
            }
        });
        let stat = std::path::Path::new("/proc").join(task.into_inner().unwrap()).join("schedstat");
        let nanoseconds = || -> u64 {
            let text = std::fs::read_to_string(&stat).unwrap();
            text.split(' ').next().unwrap().parse().unwrap()
        };
        thread::sleep(Duration::from_millis(50));
        let before = nanoseconds();
        thread::sleep(Duration::from_millis(100));
        assert_eq!(nanoseconds(), before);
    }

    #[test]
    fn shares_cover_the_whole() {
        for (n, align) in [(0, 1), (1, 16), (100, 16), (64, 1), (257, 8)] {
            for threads in 1..9 {
                let mut next = 0;
                for worker in 0..threads {
                    let share = split(n, align, worker, threads);
                    assert!(share.start == next && (share.is_empty() || next % align == 0));
                    assert!(share.len() <= n.div_ceil(align).div_ceil(threads) * align);
                    next = share.end;
                }
                assert_eq!(next, n);
            }
        }
    }
}
