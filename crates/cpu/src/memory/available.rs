//! The memory that the system has left.

use super::groups::{self, Group};

/// The memory of this machine as this process sees it, in bytes; `None` where the
/// system does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SystemMemory {
    /// The memory of the machine.
    pub total: Option<u64>,
    /// Bytes that can be allocated without swapping, within the limit.
    pub available: Option<u64>,
    /// The limit that control groups set (containers, systemd units).
    pub limit: Option<u64>,
}

impl SystemMemory {
    /// Asks the system, which on others than Linux does not say.
    pub fn read() -> Self {
        #[cfg(target_os = "linux")]
        return Self::of(|path| std::fs::read_to_string(path).ok());
        #[cfg(not(target_os = "linux"))]
        Self::default()
    }

    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "tests run it everywhere"))]
    fn of(read: impl Fn(&str) -> Option<String>) -> Self {
        let text = read("/proc/meminfo");
        let system = text.as_deref().and_then(of_meminfo);
        let groups = groups::all(&read);
        let left = groups.iter().filter_map(Group::left);
        Self {
            total: text.as_deref().and_then(|text| field(text, "MemTotal:")),
            available: system.into_iter().chain(left).min(),
            limit: groups.iter().filter_map(|group| group.limit).min(),
        }
    }
}

/// Bytes that the system can allocate without swapping, where it says so.
pub(crate) fn available() -> Option<u64> {
    SystemMemory::read().available
}

/// `MemAvailable` of `/proc/meminfo` (`proc_meminfo(5)`), in bytes.
fn of_meminfo(text: &str) -> Option<u64> {
    field(text, "MemAvailable:")
}

/// A field of `/proc/meminfo`, in bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_in_bytes() {
        let text = "MemTotal:       24606764 kB\nMemAvailable:       1024 kB\nBuffers: 3 kB\n";
        assert_eq!(of_meminfo(text), Some(1 << 20));
        assert_eq!(of_meminfo("MemTotal: 24606764 kB\n"), None);
        assert_eq!(of_meminfo("MemAvailable: many kB\n"), None);
    }

    /// `meminfo` and a container: the least counts.
    #[test]
    fn a_limit_is_within_the_memory() {
        let read = |limit: &'static str| {
            move |path: &str| {
                let text = match path {
                    "/proc/meminfo" => "MemTotal: 8 kB\nMemAvailable: 4 kB\n",
                    "/proc/self/cgroup" => "0::/\n",
                    "/sys/fs/cgroup/memory.max" => limit,
                    "/sys/fs/cgroup/memory.current" => "100\n",
                    _ => return None,
                };
                Some(text.to_owned())
            }
        };
        let of = |limit| {
            let found = SystemMemory::of(read(limit));
            (found.total, found.available, found.limit)
        };
        assert_eq!(of("1000\n"), (Some(8192), Some(900), Some(1000)));
        assert_eq!(of("max\n"), (Some(8192), Some(4096), None));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn some_memory_is_available() {
        assert!(available().unwrap() > 0);
    }
}
