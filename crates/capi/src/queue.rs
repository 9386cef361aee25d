//! A queue from a thread of the library to the caller's.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use crate::callback::Wake;

/// The outcome of a wait.
#[derive(Debug, PartialEq)]
pub(crate) enum Popped<T> {
    Item(T),
    /// No more items come.
    Closed,
    TimedOut,
}

struct State<T> {
    items: VecDeque<T>,
    closed: bool,
}

/// A queue that can be waited for, or that calls a function at each change.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    /// Locked while the function runs, so that it does not run after it was unset.
    wake: Mutex<Option<Wake>>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        let state = State { items: VecDeque::new(), closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), wake: Mutex::new(None) }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, item: T) {
        self.lock().items.push_back(item);
        self.notify();
    }

    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.notify();
    }

    fn notify(&self) {
        self.changed.notify_all();
        if let Some(wake) = *self.wake.lock().unwrap_or_else(PoisonError::into_inner) {
            wake.wake();
        }
    }

    /// Sets the function. It is called at once if there is something to read.
    pub(crate) fn on_ready(&self, wake: Option<Wake>) {
        let mut current = self.wake.lock().unwrap_or_else(PoisonError::into_inner);
        *current = wake;
        let state = self.lock();
        let is_ready = state.closed || !state.items.is_empty();
        drop(state);
        if let Some(wake) = wake.filter(|_| is_ready) {
            wake.wake();
        }
    }

    /// Waits for an item until `end`, without one for ever.
    pub(crate) fn pop(&self, end: Option<Instant>) -> Popped<T> {
        let mut state = self.lock();
        loop {
            if let Some(item) = state.items.pop_front() {
                return Popped::Item(item);
            }
            if state.closed {
                return Popped::Closed;
            }
            state = match end.map(|end| end.saturating_duration_since(Instant::now())) {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => return Popped::TimedOut,
                Some(left) => {
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        ffi::c_void,
        ptr,
        sync::atomic::{AtomicUsize, Ordering},
        thread,
        time::Duration,
    };

    use super::*;
    use crate::callback::is_inside;

    unsafe extern "C" fn count(data: *mut c_void) {
        assert!(is_inside());
        // SAFETY: the tests pass a counter that outlives the queue.
        unsafe { &*data.cast::<AtomicUsize>() }.fetch_add(1, Ordering::Relaxed);
    }

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_secs(30))
    }

    #[test]
    fn items_come_in_order_and_then_the_end() {
        let queue = Queue::new();
        assert_eq!(queue.pop(Some(Instant::now())), Popped::<u32>::TimedOut);
        thread::scope(|scope| {
            scope.spawn(|| {
                (0..100).for_each(|i| queue.push(i));
                queue.close();
            });
            for i in 0..100 {
                assert_eq!(queue.pop(soon()), Popped::Item(i));
            }
            assert_eq!(queue.pop(None), Popped::Closed);
            assert_eq!(queue.pop(soon()), Popped::Closed);
        });
    }

    #[test]
    fn the_function_is_called_until_it_is_unset() {
        let (queue, calls) = (Queue::new(), AtomicUsize::new(0));
        // SAFETY: the counter outlives the queue's use of it.
        let wake = || unsafe { Wake::new(Some(count), ptr::from_ref(&calls).cast_mut().cast()) };
        queue.on_ready(wake());
        assert_eq!(calls.load(Ordering::Relaxed), 0);
        queue.push(1);
        queue.push(2);
        assert_eq!(calls.load(Ordering::Relaxed), 2);
        queue.on_ready(None);
        queue.push(3);
        assert_eq!(calls.load(Ordering::Relaxed), 2);
        // items that are there already are announced
        queue.on_ready(wake());
        queue.close();
        assert_eq!(calls.load(Ordering::Relaxed), 4);
        assert!(!is_inside());
    }
}
