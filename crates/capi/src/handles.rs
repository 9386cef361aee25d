//! Handles as C sees them: numbers in the form of pointers.
//!
//! A handle is never dereferenced. It is the key of an object in the registry of its kind, and no
//! key is given twice. So a handle that was closed, one of another kind and any other pointer are
//! errors, and there is no unsafe code here. A call holds a reference of its object, which
//! therefore lives as long as the longest call.

use std::{
    collections::BTreeMap,
    ops::Deref,
    ptr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use crate::{fault::Fault, status::pelton_status};

/// The key of the next handle; 0 is NULL.
static NEXT: AtomicUsize = AtomicUsize::new(1);
/// Handles that were not closed.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Handles of all kinds that were not closed.
pub(crate) fn live() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// A kind of handle: the opaque type that C sees.
pub(crate) trait Handle: Sized + 'static {
    /// The object behind it.
    type Object: Send + Sync + 'static;
    /// The name of the type.
    const NAME: &'static str;
    /// All live handles of the kind.
    fn registry() -> &'static Registry<Self::Object>;
}

/// Declares the object of an opaque type.
macro_rules! handle {
    ($kind:ty, $object:ty) => {
        impl $crate::handles::Handle for $kind {
            type Object = $object;
            const NAME: &'static str = stringify!($kind);
            fn registry() -> &'static $crate::handles::Registry<$object> {
                static REGISTRY: $crate::handles::Registry<$object> =
                    $crate::handles::Registry::new();
                &REGISTRY
            }
        }
    };
}
pub(crate) use handle;

/// An object with the mark of a panic.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    object: T,
    poisoned: AtomicBool,
}

impl<T> Deref for Slot<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

/// The live handles of one kind.
pub(crate) struct Registry<T>(RwLock<BTreeMap<usize, Arc<Slot<T>>>>);

impl<T> Registry<T> {
    pub(crate) const fn new() -> Self {
        Self(RwLock::new(BTreeMap::new()))
    }
}

/// An object for the duration of a call. It is poisoned if the call panics.
pub(crate) struct Live<T>(Arc<Slot<T>>);

impl<T> Live<T> {
    /// A reference that outlives the call.
    pub(crate) fn keep(&self) -> Arc<Slot<T>> {
        Arc::clone(&self.0)
    }
}

impl<T> Deref for Live<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.object
    }
}

impl<T> Drop for Live<T> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.poisoned.store(true, Ordering::Relaxed);
        }
    }
}

/// A handle of a new object.
pub(crate) fn open<H: Handle>(object: H::Object) -> *mut H {
    insert(Arc::new(Slot { object, poisoned: AtomicBool::new(false) }))
}

/// Another handle of an object.
pub(crate) fn share<H: Handle>(live: &Live<H::Object>) -> *mut H {
    insert(live.keep())
}

fn insert<H: Handle>(slot: Arc<Slot<H::Object>>) -> *mut H {
    let key = NEXT.fetch_add(1, Ordering::Relaxed);
    H::registry().0.write().unwrap_or_else(PoisonError::into_inner).insert(key, slot);
    LIVE.fetch_add(1, Ordering::Relaxed);
    ptr::without_provenance_mut(key)
}

/// The object of a handle.
///
/// # Errors
///
/// The handle is NULL, not live, or poisoned.
pub(crate) fn get<H: Handle>(handle: *const H) -> Result<Live<H::Object>, Fault> {
    if handle.is_null() {
        return Err(Fault::null(H::NAME));
    }
    let live = H::registry().0.read().unwrap_or_else(PoisonError::into_inner);
    let slot = live.get(&handle.addr()).cloned().ok_or_else(closed::<H>)?;
    drop(live);
    match slot.poisoned.load(Ordering::Relaxed) {
        false => Ok(Live(slot)),
        true => Err(Fault::new(
            pelton_status::PELTON_POISONED,
            format_args!("a call with the {} has panicked before: close it", H::NAME),
        )),
    }
}

/// The object of a handle that may be NULL.
///
/// # Errors
///
/// The handle is not live, or poisoned.
pub(crate) fn get_optional<H: Handle>(handle: *const H) -> Result<Option<Live<H::Object>>, Fault> {
    if handle.is_null() { Ok(None) } else { get(handle).map(Some) }
}

/// Closes a handle, and returns its object, which other handles and calls may still have.
///
/// # Errors
///
/// The handle is NULL or not live.
pub(crate) fn close<H: Handle>(handle: *mut H) -> Result<Arc<Slot<H::Object>>, Fault> {
    if handle.is_null() {
        return Err(Fault::null(H::NAME));
    }
    let mut live = H::registry().0.write().unwrap_or_else(PoisonError::into_inner);
    let slot = live.remove(&handle.addr()).ok_or_else(closed::<H>)?;
    LIVE.fetch_sub(1, Ordering::Relaxed);
    Ok(slot)
}

/// Closes a handle that alone has its object, and returns the object.
///
/// # Errors
///
/// The handle is NULL, not live or poisoned; or something else has the object, and the handle
/// stays.
pub(crate) fn take<H: Handle>(handle: *mut H) -> Result<H::Object, Fault> {
    drop(get(handle)?);
    let mut live = H::registry().0.write().unwrap_or_else(PoisonError::into_inner);
    let slot = live.remove(&handle.addr()).ok_or_else(closed::<H>)?;
    match Arc::try_unwrap(slot) {
        Ok(slot) => {
            LIVE.fetch_sub(1, Ordering::Relaxed);
            Ok(slot.object)
        }
        Err(slot) => {
            let others = Arc::strong_count(&slot) - 1;
            live.insert(handle.addr(), slot);
            Err(Fault::invalid(format_args!(
                "the {} has {others} other handles, streams or calls, expected none: close them first",
                H::NAME
            )))
        }
    }
}

/// The state of a handle that one call uses at a time.
///
/// # Errors
///
/// Another call uses it now.
pub(crate) fn alone<'a, H: Handle, S>(state: &'a Mutex<S>) -> Result<MutexGuard<'a, S>, Fault> {
    match state.try_lock() {
        Ok(state) => Ok(state),
        Err(TryLockError::WouldBlock) => Err(Fault::busy(H::NAME)),
        Err(TryLockError::Poisoned(state)) => Ok(state.into_inner()),
    }
}

fn closed<H: Handle>() -> Fault {
    Fault::new(
        pelton_status::PELTON_CLOSED,
        format_args!("the {} is not live: it was closed, or is another kind of handle", H::NAME),
    )
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    struct First;
    struct Second;
    handle!(First, String);
    handle!(Second, String);

    fn status<T>(outcome: Result<T, Fault>) -> pelton_status {
        outcome.err().map_or(pelton_status::PELTON_OK, |fault| fault.status)
    }

    #[test]
    fn handles_are_live_until_they_are_closed() {
        let handle: *mut First = open("one".to_owned());
        assert_eq!(*get(handle).unwrap(), "one");
        let second: *mut First = share(&get(handle).unwrap());
        assert_ne!(handle, second);
        drop(close(handle).unwrap());
        assert_eq!(status(get(handle)), pelton_status::PELTON_CLOSED);
        assert_eq!(status(close(handle)), pelton_status::PELTON_CLOSED);
        assert_eq!(*get(second).unwrap(), "one");
        drop(close(second).unwrap());
        assert_eq!(status(get(ptr::null::<First>())), pelton_status::PELTON_NULL);
        assert!(get_optional(ptr::null::<First>()).unwrap().is_none());
    }

    #[test]
    fn another_kind_and_any_pointer_are_refused() {
        let handle: *mut First = open(String::new());
        assert_eq!(status(get(handle.cast::<Second>())), pelton_status::PELTON_CLOSED);
        let word = 7_u64;
        assert_eq!(status(get(ptr::from_ref(&word).cast::<First>())), pelton_status::PELTON_CLOSED);
        drop(close(handle).unwrap());
    }

    #[test]
    fn a_panic_poisons_the_handles_of_the_call() {
        let (handle, other): (*mut First, *mut First) = (open(String::new()), open(String::new()));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _live = get(handle).unwrap();
            panic!("a test");
        }));
        assert!(panicked.is_err());
        assert_eq!(status(get(handle)), pelton_status::PELTON_POISONED);
        assert_eq!(status(take(handle)), pelton_status::PELTON_POISONED);
        assert_eq!(status(get(other)), pelton_status::PELTON_OK);
        assert_eq!(status(close(handle)), pelton_status::PELTON_OK);
        assert_eq!(status(close(other)), pelton_status::PELTON_OK);
    }

    #[test]
    fn an_object_is_taken_from_its_last_handle() {
        let handle: *mut First = open("taken".to_owned());
        let second: *mut First = share(&get(handle).unwrap());
        assert_eq!(status(take(handle)), pelton_status::PELTON_INVALID);
        assert_eq!(status(get(handle)), pelton_status::PELTON_OK);
        drop(close(second).unwrap());
        assert_eq!(take(handle).unwrap(), "taken");
        assert_eq!(status(get(handle)), pelton_status::PELTON_CLOSED);
    }

    #[test]
    fn threads_open_and_close_at_the_same_time() {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for i in 0..200 {
                        let handle: *mut Second = open(i.to_string());
                        assert_eq!(*get(handle).unwrap(), i.to_string());
                        drop(close(handle).unwrap());
                        assert_eq!(status(get(handle)), pelton_status::PELTON_CLOSED);
                    }
                });
            }
        });
    }
}
