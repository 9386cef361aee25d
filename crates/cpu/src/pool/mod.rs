//! The thread pool of a backend: its threads synchronize hundreds of times per token.
//!
//! A general pool distributes tasks through queues and wakes threads through the kernel, which
//! costs more than many of the operations here take. This one has a single shape. *Every*
//! thread runs the same closure ([`Pool::run`]) and computes its partition of the work by its
//! index ([`split`]). Large products are shared, as threads may be unequally fast
//! ([`Worker::share`]). Threads synchronize in between ([`Worker::barrier`]). A waiting thread
//! spins, then blocks: an idle process uses no core, and a thread that another process has
//! descheduled gets a core to continue on.
//!
//! A waiting thread spins for 500 µs when idle and for 3 ms at a barrier before it blocks. Workers
//! are restricted to one hardware thread of each physical core; the affinity of the calling thread
//! stays as it is. Pinning each worker to a core of its own gained nothing on a quiet machine. Next
//! to other work pinned workers were up to six times slower. All models that were loaded on one
//! `Cpu` share its pool, and their passes run one after the other.

mod affinity;
mod barrier;
#[cfg(all(test, loom))]
mod loom_tests;
mod shared_mut;
mod signal;
mod sync;
#[cfg(all(test, not(loom)))]
mod tests;

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use barrier::{Barrier, Poisoned};
use signal::Signal;
use sync::{AtomicBool, AtomicUsize, Ordering, Padded};

pub use affinity::default_threads;
pub use shared_mut::SharedMut;

/// A worker without work blocks after this long: above the gap between two operations and between
/// most tokens, far below what a person or a battery notices.
const IDLE: Duration = Duration::from_micros(500);
/// A thread that waits for another of its region blocks after this long, so that a descheduled
/// thread can get its core. Next to a busy process decode was half as fast again. On a host whose
/// hypervisor deschedules cores often, and where waking takes long, decode was a tenth slower with
/// a third of this.
const PATIENCE: Duration = Duration::from_millis(3);

/// Parts for each thread of work that threads [share](Worker::share), where parts are large: the
/// cores of a machine read its memory at rates that differ by a third.
const PARTS: usize = 16;
/// Bytes of weights of a part at least, where each thread has more than one: their reads take far
/// longer than the begin of a part.
const PART_BYTES: usize = 64 << 10;

/// The bit of a thread's taken parts that is set while it shares.
const SHARES: usize = 1 << (usize::BITS - 1);

/// The closure that every thread of a region runs.
type Task = dyn Fn(Worker<'_>) + Sync;

/// A fixed set of threads that run closures together.
///
/// The thread that calls [`run`](Self::run) is worker 0. The others are spawned once, and
/// restricted to one hardware thread of each physical core where there are enough cores. The
/// affinity of the caller's thread is not changed. Concurrent calls run one after the other.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Locked during a region.
    region: Mutex<()>,
    /// Locked during a pass, which is many regions.
    pass: Mutex<()>,
}

/// One thread's view of the region it runs in.
#[derive(Clone, Copy, Debug)]
pub struct Worker<'a> {
    index: usize,
    shared: &'a Shared,
}

#[derive(Debug)]
struct Shared {
    threads: usize,
    /// Number of regions begun; a change notifies the workers that `task` is set.
    epoch: Padded<AtomicUsize>,
    task: UnsafeCell<Option<*const Task>>,
    /// Workers that have not finished the region yet.
    running: Padded<AtomicUsize>,
    /// Parts of each thread that were taken, after [`SHARES`] if the thread shares.
    taken: Box<[Padded<AtomicUsize>]>,
    /// Whether some thread has shared since those were 0.
    has_shared: Padded<AtomicBool>,
    barrier: Barrier,
    signal: Signal,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    stop: AtomicBool,
}

// SAFETY: `task` is the only field without its own synchronization. Worker 0 writes it before
// it raises `epoch` (release) and after every worker has lowered `running` (acquire); workers
// read it only in between. The closure behind it is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above; no field is bound to one thread.
unsafe impl Send for Shared {}

thread_local! {
    static IN_REGION: Cell<bool> = const { Cell::new(false) };
}

impl Pool {
    /// Starts a pool of `threads` threads, the caller of [`run`](Self::run) among them; 0 counts as
    /// 1.
    ///
    /// # Errors
    /// If the system refuses to start a thread.
    pub fn new(threads: usize) -> std::io::Result<Self> {
        let threads = threads.max(1);
        let shared = Arc::new(Shared {
            threads,
            epoch: Padded(AtomicUsize::new(0)),
            task: UnsafeCell::new(None),
            running: Padded(AtomicUsize::new(0)),
            taken: (0..threads).map(|_| Padded(AtomicUsize::new(0))).collect(),
            has_shared: Padded(AtomicBool::new(false)),
            barrier: Barrier::new(threads),
            signal: Signal::new(),
            panic: Mutex::new(None),
            stop: AtomicBool::new(false),
        });
        let workers = Vec::with_capacity(threads);
        let mut pool = Self { shared, workers, region: Mutex::new(()), pass: Mutex::new(()) };
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

    /// Waits until no other pass runs on the pool, and keeps others out until the guard is dropped.
    ///
    /// Two passes at once would evict each other's weights from the caches, and the workers would
    /// block and wake between the regions of both.
    pub fn begin_pass(&self) -> MutexGuard<'_, ()> {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `task` once on every thread and returns when all are done.
    ///
    /// A panic in any of them is resumed here, after all have finished; the pool stays usable.
    ///
    /// # Panics
    /// If called from within a region, of this or another pool.
    pub fn run(&self, task: impl Fn(Worker<'_>) + Sync) {
        assert!(!IN_REGION.get(), "regions of a thread pool do not nest");
        let _region = self.region.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = &*self.shared;
        let task: &(dyn Fn(Worker<'_>) + Sync) = &task;
        // SAFETY: only the lifetime changes. Workers call the closure between the rise of `epoch`
        // and their lowering of `running`. This function waits for the latter before it returns or
        // unwinds (its own call is caught), so the closure outlives every use.
        let erased: *const Task =
            unsafe { std::mem::transmute::<*const (dyn Fn(Worker<'_>) + Sync + '_), _>(task) };
        // SAFETY: no region is running (we hold `region`), so no worker reads `task`.
        unsafe { *shared.task.get() = Some(erased) };
        shared.barrier.reset();
        shared.running.0.store(self.workers.len(), Ordering::Relaxed);
        // other threads keep their lines where no region shares
        if shared.has_shared.0.load(Ordering::Relaxed) {
            shared.has_shared.0.store(false, Ordering::Relaxed);
            shared.taken.iter().for_each(|taken| taken.0.store(0, Ordering::Relaxed));
        }
        shared.announce();

        IN_REGION.set(true);
        shared.call(task, 0);
        IN_REGION.set(false);
        shared.signal.wait(PATIENCE, || shared.running.0.load(Ordering::Acquire) == 0);

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
            // its panics were caught, and resumed by `run`
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// The main loop of a spawned worker.
    fn work(&self, index: usize) {
        affinity::keep_to_physical_cores(self.threads);
        IN_REGION.set(true);
        let mut seen = 0;
        loop {
            self.signal.wait(IDLE, || self.epoch.0.load(Ordering::Acquire) != seen);
            seen += 1;
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            // SAFETY: the epoch has risen, so worker 0 has set `task` and will neither write it
            // nor drop the closure until we lower `running`.
            if let Some(task) = unsafe { *self.task.get() } {
                // SAFETY: as above.
                self.call(unsafe { &*task }, index);
            }
            if self.running.0.fetch_sub(1, Ordering::Release) == 1 {
                self.signal.notify();
            }
        }
    }

    /// Notifies the workers of a new region, or of the end of the pool.
    fn announce(&self) {
        self.epoch.0.fetch_add(1, Ordering::Release);
        self.signal.notify();
    }

    /// Runs the task and keeps the payload of a panic for `Pool::run`.
    fn call(&self, task: &(dyn Fn(Worker<'_>) + Sync), index: usize) {
        let worker = Worker { index, shared: self };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| task(worker))) {
            self.barrier.poison(&self.signal);
            if !payload.is::<Poisoned>() {
                let mut panic = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
                panic.get_or_insert(payload);
            }
        }
    }
}

impl Worker<'_> {
    /// The index of this thread: 0 is the caller of [`Pool::run`].
    pub fn index(&self) -> usize {
        self.index
    }

    /// Number of threads of the region.
    pub fn threads(&self) -> usize {
        self.shared.threads
    }

    /// The number of parts in which threads [share](Self::share) `units` of work that
    /// reads so many bytes.
    pub fn parts(&self, units: usize, bytes: usize) -> usize {
        let threads = self.shared.threads;
        // as many for each thread
        (threads * (bytes / PART_BYTES / threads).clamp(1, PARTS)).min(units)
    }

    /// This thread's partition of `0..n`; see [`split`].
    pub fn split(&self, n: usize, align: usize) -> Range<usize> {
        split(n, align, self.index, self.shared.threads)
    }

    /// Calls `run` for neighbouring parts of `0..parts`; one thread of the region takes each part.
    /// A thread takes three quarters of what is left of its [`split`] at a time. Then it takes
    /// single parts of others. All threads must call it, with as many parts.
    ///
    /// # Panics
    /// If a thread shares more parts than there are threads twice in a region.
    pub fn share(&self, parts: usize, mut run: impl FnMut(Range<usize>)) {
        let Shared { threads, taken, has_shared, .. } = self.shared;
        if parts <= *threads {
            let own = self.split(parts, 1);
            if !own.is_empty() {
                run(own);
            }
            return;
        }
        if !has_shared.0.load(Ordering::Relaxed) {
            has_shared.0.store(true, Ordering::Relaxed);
        }
        let before = taken[self.index].0.fetch_or(SHARES, Ordering::Relaxed);
        assert!(before & SHARES == 0, "a thread of a pool shares once in a region");
        for other in 0..*threads {
            let owner = (self.index + other) % threads;
            let all = split(parts, 1, owner, *threads);
            let left = |taken: usize| all.len().saturating_sub(taken & !SHARES);
            loop {
                // a look first: it leaves the line to the owner
                let count = match (other, left(taken[owner].0.load(Ordering::Relaxed))) {
                    (_, 0) => break,
                    (0, left) => (3 * left / 4).max(1),
                    (_, _) => 1,
                };
                let before = taken[owner].0.fetch_add(count, Ordering::Relaxed);
                let count = count.min(left(before));
                if count == 0 {
                    break;
                }
                let first = all.end - left(before);
                run(first..first + count);
            }
        }
    }

    /// Waits until every thread of the region has arrived: writes of any of them before are visible
    /// to all of them after. All threads must pass the same number of barriers.
    ///
    /// If another thread panicked, this one unwinds out of the region.
    pub fn barrier(&self) {
        if let Err(poisoned) = self.shared.barrier.wait(PATIENCE, &self.shared.signal) {
            resume_unwind(Box::new(poisoned));
        }
    }
}

/// The partition of `0..n` of thread `worker` of `threads`: contiguous, and starting at a multiple
/// of `align`. The partitions cover `0..n` and differ by at most `align` items.
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

/// The items of neighbouring parts, where `0..n` is [split](split()) in so many.
pub fn span(n: usize, align: usize, of: &Range<usize>, parts: usize) -> Range<usize> {
    split(n, align, of.start, parts).start..split(n, align, of.end - 1, parts).end
}
