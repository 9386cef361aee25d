//! How many threads to use, and on which processors.

use std::collections::BTreeMap;
use std::{fs, thread};

/// The number of threads that computes fastest: one for each physical core that this process
/// may use, as the second thread of a core shares its arithmetic units and its caches.
pub fn default_threads() -> usize {
    let available = thread::available_parallelism().map_or(1, usize::from);
    match one_of_each_core() {
        Some(processors) => processors.len().clamp(1, available),
        None => available,
    }
}

/// Keeps the calling thread on the first processor of each physical core, if that leaves one for
/// each of `threads`: then no two of them share a core.
///
/// A thread may move among them. Bound to one processor each, a busy process beside them made
/// decode six times as slow as it is where the system may move threads out of its way, and on a
/// quiet machine they were no faster.
pub(super) fn keep_to_physical_cores(threads: usize) {
    if let Some(processors) = one_of_each_core()
        && threads <= processors.len()
    {
        restrict(&processors);
    }
}

#[cfg(target_os = "linux")]
fn restrict(processors: &[usize]) {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let mut set = CpuSet::new();
    for &processor in processors.iter().filter(|&&processor| processor < CpuSet::MAX_CPU) {
        set.set(processor);
    }
    // a system that refuses runs the thread anywhere, which is right too
    let _ = sched_setaffinity(None, &set);
}

#[cfg(not(target_os = "linux"))]
fn restrict(_processors: &[usize]) {}

/// The first processor of each physical core that this process may run on, where the system says
/// (Linux: `proc_pid_status(5)`, and `cputopology` in the kernel's documentation).
fn one_of_each_core() -> Option<Vec<usize>> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let core = |processor| {
        let id = |name| {
            let path = format!("/sys/devices/system/cpu/cpu{processor}/topology/{name}");
            fs::read_to_string(path).ok()
        };
        Some((id("physical_package_id")?, id("core_id")?))
    };
    first_of_each(parse_list(allowed)?, core)
}

/// The first of the processors on each core.
fn first_of_each<C: Ord>(
    processors: Vec<usize>,
    core: impl Fn(usize) -> Option<C>,
) -> Option<Vec<usize>> {
    let mut first = BTreeMap::new();
    for processor in processors {
        first.entry(core(processor)?).or_insert(processor);
    }
    Some(first.into_values().collect())
}

/// Numbers of a list such as `0-3,8`.
fn parse_list(list: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        numbers.extend(first.parse().ok()?..=last.parse::<usize>().ok()?);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker keeps to processors that its process may use; the caller's thread is left alone.
    #[test]
    #[cfg(target_os = "linux")]
    fn workers_keep_to_physical_cores() {
        use crate::pool::Pool;
        use rustix::thread::{CpuSet, sched_getaffinity};
        let allowed = || {
            let set = sched_getaffinity(None).unwrap();
            (0..CpuSet::MAX_CPU).filter(|&p| set.is_set(p)).collect::<Vec<_>>()
        };
        let before = allowed();
        let Some(cores) = one_of_each_core() else { return };
        assert!(cores.iter().all(|core| before.contains(core)));
        for threads in [cores.len(), cores.len() + 1] {
            let expected = if threads == cores.len() { &cores } else { &before };
            Pool::new(threads).unwrap().run(|worker| match worker.index() {
                0 => assert_eq!(allowed(), before),
                _ => assert_eq!(&allowed(), expected),
            });
        }
        assert_eq!(allowed(), before);
    }

    #[test]
    fn processors_and_their_cores() {
        assert_eq!(parse_list("\t0-2,5,7-8\n"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(parse_list("x"), None);
        // two threads a core, one processor not allowed, and a system that does not say
        assert_eq!(first_of_each(vec![0, 1, 2, 4, 5], |p| Some(p % 4)), Some(vec![0, 1, 2]));
        assert_eq!(first_of_each(vec![0, 1], |p| (p == 0).then_some(p)), None);
        assert!((1..=thread::available_parallelism().unwrap().get()).contains(&default_threads()));
    }
}
