//! The number of threads, and the hardware threads that they run on.

use std::collections::BTreeMap;
use std::{fs, thread};

/// The fastest number of threads: one for each physical core that this process may use, as the
/// second hardware thread of a core shares its arithmetic units and its caches.
pub fn default_threads() -> usize {
    let available = thread::available_parallelism().map_or(1, usize::from);
    match one_of_each_core() {
        Some(cpus) => cpus.len().clamp(1, available),
        None => available,
    }
}

/// Restricts the calling thread to the first hardware thread of each physical core, if there is one
/// for each of `threads`: then no two of them share a core.
///
/// A thread may migrate among them. Pinned to one each, a busy process next to them made decode six
/// times slower than where the system may migrate threads, and on a quiet machine they were no
/// faster.
pub(super) fn keep_to_physical_cores(threads: usize) {
    if let Some(cpus) = one_of_each_core()
        && threads <= cpus.len()
    {
        restrict(&cpus);
    }
}

#[cfg(target_os = "linux")]
fn restrict(cpus: &[usize]) {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    // if the system refuses, the thread runs on any core
    let _ = sched_setaffinity(None, &set);
}

#[cfg(not(target_os = "linux"))]
fn restrict(_cpus: &[usize]) {}

/// The first hardware thread of each physical core that this process may run on, where the system
/// exposes the topology (Linux: `proc_pid_status(5)`, and `cputopology` in the kernel's
/// documentation).
fn one_of_each_core() -> Option<Vec<usize>> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let core = |cpu| {
        let id = |name| {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/{name}");
            fs::read_to_string(path).ok()
        };
        Some((id("physical_package_id")?, id("core_id")?))
    };
    first_of_each(parse_list(allowed)?, core)
}

/// The first hardware thread of each core.
fn first_of_each<C: Ord>(
    cpus: Vec<usize>,
    core: impl Fn(usize) -> Option<C>,
) -> Option<Vec<usize>> {
    let mut first = BTreeMap::new();
    for cpu in cpus {
        first.entry(core(cpu)?).or_insert(cpu);
    }
    Some(first.into_values().collect())
}

/// The elements of a list such as `0-3,8`.
fn parse_list(list: &str) -> Option<Vec<usize>> {
    let mut elements = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        elements.extend(first.parse().ok()?..=last.parse::<usize>().ok()?);
    }
    Some(elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Workers keep to hardware threads that the process may use; the caller's
    /// affinity is unchanged.
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
    fn hardware_threads_and_their_cores() {
        assert_eq!(parse_list("\t0-2,5,7-8\n"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(parse_list("x"), None);
        // two threads a core, one hardware thread not allowed, and an unknown topology
        assert_eq!(first_of_each(vec![0, 1, 2, 4, 5], |p| Some(p % 4)), Some(vec![0, 1, 2]));
        assert_eq!(first_of_each(vec![0, 1], |p| (p == 0).then_some(p)), None);
        assert!((1..=thread::available_parallelism().unwrap().get()).contains(&default_threads()));
    }
}
