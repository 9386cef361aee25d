//! The memory that the system has left.

/// Bytes that the system can allocate without swapping, where it says so.
#[cfg(target_os = "linux")]
pub(crate) fn available() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let system = read("/proc/meminfo").as_deref().and_then(of_meminfo);
    let group = read("/proc/self/cgroup")
        .and_then(|text| Some(text.lines().find_map(|line| line.strip_prefix("0::"))?.to_owned()))
        .and_then(|group| of_cgroups(&group, read));
    system.into_iter().chain(group).min()
}

/// Bytes that the system can allocate without swapping, where it says so.
#[cfg(not(target_os = "linux"))]
pub(crate) fn available() -> Option<u64> {
    None
}

/// `MemAvailable` of `/proc/meminfo` (`proc_meminfo(5)`), in bytes.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "tests run it everywhere"))]
fn of_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The least that a control group of version 2 and its ancestors leave: `memory.max` less
/// `memory.current`, in which pages of files do not count, as the kernel drops those first
/// (`Documentation/admin-guide/cgroup-v2.rst`).
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "tests run it everywhere"))]
fn of_cgroups(group: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let mut least: Option<u64> = None;
    let mut group = group.trim_end_matches('/');
    loop {
        let file = |name: &str| read(&format!("/sys/fs/cgroup{group}/{name}"));
        let bytes = |name: &str| file(name)?.trim().parse::<u64>().ok();
        if let (Some(max), Some(current)) = (bytes("memory.max"), bytes("memory.current")) {
            let stat = file("memory.stat").unwrap_or_default();
            let pages_of_files: u64 = ["active_file ", "inactive_file "]
                .iter()
                .filter_map(|name| stat.lines().find_map(|line| line.strip_prefix(name)))
                .filter_map(|value| value.trim().parse::<u64>().ok())
                .sum();
            let left = max.saturating_sub(current.saturating_sub(pages_of_files));
            least = Some(least.map_or(left, |least| least.min(left)));
        }
        let Some(parent) = group.rfind('/') else { return least };
        group = &group[..parent];
    }
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

    #[test]
    fn the_tightest_control_group_counts() {
        let read = |path: &str| {
            let text = match path {
                "/sys/fs/cgroup/a/b/memory.max" => "max\n",
                "/sys/fs/cgroup/a/memory.max" => "1000\n",
                "/sys/fs/cgroup/a/memory.current" => "700\n",
                "/sys/fs/cgroup/a/memory.stat" => "anon 600\nactive_file 30\ninactive_file 20\n",
                "/sys/fs/cgroup/memory.max" => "5000\n",
                "/sys/fs/cgroup/memory.current" => "900\n",
                _ => return None,
            };
            Some(text.to_owned())
        };
        assert_eq!(of_cgroups("/a/b", read), Some(350));
        assert_eq!(of_cgroups("/", read), Some(4100));
        assert_eq!(of_cgroups("/a/b", |_| None), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn some_memory_is_available() {
        assert!(available().unwrap() > 0);
    }
}
