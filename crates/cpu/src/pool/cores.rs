//! How many threads to use.

use std::collections::BTreeSet;
use std::{fs, thread};

/// The number of threads that computes fastest: one for each physical core that this process
/// may use, as the second thread of a core shares its arithmetic units and its caches.
pub fn default_threads() -> usize {
    let available = thread::available_parallelism().map_or(1, usize::from);
    match allowed_cores() {
        Some(cores) => cores.clamp(1, available),
        None => available,
    }
}

/// Physical cores among the processors that this process may run on, where the system says
/// (Linux: `proc_pid_status(5)`, and `cputopology` in the kernel's documentation).
fn allowed_cores() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut cores = BTreeSet::new();
    for processor in parse_list(allowed)? {
        let id = |name| {
            let path = format!("/sys/devices/system/cpu/cpu{processor}/topology/{name}");
            fs::read_to_string(path).ok()
        };
        cores.insert((id("physical_package_id")?, id("core_id")?));
    }
    Some(cores.len())
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

    #[test]
    fn processor_lists_are_read() {
        assert_eq!(parse_list("\t0-2,5,7-8\n"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(parse_list("x"), None);
        assert!((1..=thread::available_parallelism().unwrap().get()).contains(&default_threads()));
    }
}
