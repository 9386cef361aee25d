//! Pages of mapped files that cannot be read: the system sends SIGBUS for them, as after the
//! truncation of a file.
//!
//! A handler of that signal is installed with the first map. It gives the mapping zeros from the
//! page on, notes that, and returns. The code that read the page goes on with zeros;
//! [`Watch::is_struck`] says so afterwards. A signal for any other address goes to the handler that
//! was installed before.
//!
//! The handler calls `mmap` and reads atomics, nothing else. The table of mappings is a list of
//! entries that are never freed, so that it can be walked at any moment without a lock.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

use libc::{c_int, siginfo_t};

/// An entry of the table. Unused ones have an end of 0.
#[derive(Debug)]
struct Slot {
    start: AtomicUsize,
    /// The first address behind the mapping's last page.
    end: AtomicUsize,
    struck: AtomicBool,
    /// The entry that was made before this one.
    next: *const Slot,
}

// SAFETY: `next` is set before the entry is shared, never changed, and points to an entry that is
// never freed.
unsafe impl Sync for Slot {}
// SAFETY: as above.
unsafe impl Send for Slot {}

/// The newest entry.
static TABLE: AtomicPtr<Slot> = AtomicPtr::new(ptr::null_mut());
/// Entries without a mapping.
static FREE: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());
/// Mappings that were struck since the start of the process.
static STRUCK: AtomicUsize = AtomicUsize::new(0);
/// Bytes of a page.
static PAGE: AtomicUsize = AtomicUsize::new(4096);
/// The handler that was installed before.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// The entry of a mapping. It is dropped before the mapping ends.
#[derive(Debug)]
pub(super) struct Watch(&'static Slot);

impl Watch {
    /// Enters the mapping of a file.
    pub(super) fn new(map: &[u8]) -> Self {
        install();
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = free.pop().unwrap_or_else(|| {
            // under the lock, so no other entry is made meanwhile
            let slot: &'static Slot = Box::leak(Box::new(Slot {
                start: AtomicUsize::new(0),
                end: AtomicUsize::new(0),
                struck: AtomicBool::new(false),
                next: TABLE.load(Ordering::Acquire),
            }));
            TABLE.store(ptr::from_ref(slot).cast_mut(), Ordering::Release);
            slot
        });
        let page = PAGE.load(Ordering::Relaxed);
        let (start, end) = (map.as_ptr() as usize, map.as_ptr() as usize + map.len());
        slot.struck.store(false, Ordering::Relaxed);
        slot.start.store(start, Ordering::Relaxed);
        // an empty file has no page
        let end = if map.is_empty() { 0 } else { end.next_multiple_of(page) };
        slot.end.store(end, Ordering::Release);
        Self(slot)
    }

    /// Whether a page of the mapping could not be read, and is zeros since.
    pub(super) fn is_struck(&self) -> bool {
        STRUCK.load(Ordering::Acquire) > 0 && self.0.struck.load(Ordering::Acquire)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.end.store(0, Ordering::Release);
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.0);
    }
}

/// The entry of the mapping that has an address, and the end of its last page.
fn find(address: usize) -> Option<(&'static Slot, usize)> {
    let mut at = TABLE.load(Ordering::Acquire).cast_const();
    // SAFETY: the pointer is null or that of an entry, and entries are never freed.
    while let Some(slot) = unsafe { at.as_ref() } {
        let end = slot.end.load(Ordering::Acquire);
        let start = slot.start.load(Ordering::Acquire);
        // The entry of the address itself cannot change, as its mapping is in use. One that is
        // changed meanwhile has another end: the two values are of one mapping if the end is the
        // same before and after.
        if (start..end).contains(&address) && slot.end.load(Ordering::Acquire) == end {
            return Some((slot, end));
        }
        at = slot.next;
    }
    None
}

/// Maps zeros from the page of an address to the end of its mapping.
fn fill_with_zeros(address: usize, end: usize) -> bool {
    let first = address & !(PAGE.load(Ordering::Relaxed) - 1);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the pages are of one mapping of a file, which this crate made and reads only. The
    // thread whose read failed holds it, so it is not unmapped meanwhile, and nothing else lies at
    // these addresses. `mmap` is no function that POSIX lists for handlers; on Linux and macOS it
    // is a plain system call that takes no lock of the process.
    let filled =
        unsafe { libc::mmap(first as *mut c_void, end - first, libc::PROT_READ, flags, -1, 0) };
    filled != libc::MAP_FAILED
}

/// Handles SIGBUS.
extern "C" fn on_bus_error(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes a valid pointer to a handler with SA_SIGINFO, and an address with a
    // signal of its own, whose code is positive.
    let (address, code) = unsafe { ((*info).si_addr() as usize, (*info).si_code) };
    if code > 0
        && let Some((slot, end)) = find(address)
        && fill_with_zeros(address, end)
    {
        slot.struck.store(true, Ordering::Release);
        STRUCK.fetch_add(1, Ordering::Release);
        return;
    }
    hand_on(signal, info, context, code > 0);
}

/// Does what would have been done without this handler.
fn hand_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void, of_system: bool) {
    let default = PREVIOUS.get().is_none_or(|previous| previous.sa_sigaction == libc::SIG_DFL);
    match PREVIOUS.get() {
        Some(previous) if previous.sa_sigaction == libc::SIG_IGN && !of_system => {}
        Some(previous) if !default && previous.sa_sigaction != libc::SIG_IGN => {
            if previous.sa_flags & libc::SA_SIGINFO != 0 {
                // SAFETY: a handler with this flag has this type, and it is called with what the
                // system gave.
                unsafe {
                    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                        std::mem::transmute(previous.sa_sigaction);
                    handler(signal, info, context);
                }
            } else {
                // SAFETY: a handler without this flag has this type.
                unsafe {
                    let handler: extern "C" fn(c_int) = std::mem::transmute(previous.sa_sigaction);
                    handler(signal);
                }
            }
        }
        _ => {
            // SAFETY: both calls are allowed in handlers. The default action ends the process: at
            // once for a signal that was sent, which is blocked until the return, else when the
            // instruction runs again.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                if !of_system {
                    libc::raise(signal);
                }
            }
        }
    }
}

/// Installs the handler, once in a process.
fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: `sysconf` reads a constant of the system.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        if let Some(page) = usize::try_from(page).ok().filter(|page| page.is_power_of_two()) {
            PAGE.store(page, Ordering::Relaxed);
        }
        let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the call writes the present action and changes nothing; on success it is
        // initialized.
        let known = unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), previous.as_mut_ptr()) };
        if known != 0 {
            return;
        }
        // SAFETY: zeros are a valid action, and the call has succeeded.
        let _ = PREVIOUS.set(unsafe { previous.assume_init() });
        // SAFETY: all zeros are an action without flags and an empty set of signals.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = on_bus_error as extern "C" fn(_, _, _) as usize;
        // the stack of signals is for the handler before, which may report that a stack is full
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler has the type of SA_SIGINFO and calls what may be called in a handler.
        unsafe {
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(libc::SIGBUS, &action, ptr::null_mut());
        }
    });
}
