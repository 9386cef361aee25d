//! The control groups of this process and their limits of memory: version 2
//! (`Documentation/admin-guide/cgroup-v2.rst`) and version 1
//! (`Documentation/admin-guide/cgroup-v1/memory.rst`).

/// The memory of a control group, in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Group {
    /// `None` for no limit.
    pub(super) limit: Option<u64>,
    /// Bytes in use without the pages of files, which the kernel drops first.
    used: Option<u64>,
}

impl Group {
    /// Bytes that the limit leaves.
    pub(super) fn left(&self) -> Option<u64> {
        Some(self.limit?.saturating_sub(self.used?))
    }
}

/// The files of one version of control groups.
struct Files {
    /// The place of the hierarchy.
    root: &'static str,
    limit: &'static str,
    used: &'static str,
    /// Pages of files, in `memory.stat`.
    pages: [&'static str; 2],
}

const VERSION_1: Files = Files {
    root: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    pages: ["total_active_file ", "total_inactive_file "],
};

const VERSION_2: Files = Files {
    root: "/sys/fs/cgroup",
    limit: "memory.max",
    used: "memory.current",
    pages: ["active_file ", "inactive_file "],
};

/// Version 1 writes no limit as the greatest multiple of a page in 63 bits.
const NO_LIMIT: u64 = 1 << 62;

/// The groups of this process and their ancestors, as `read` reads files of the system.
pub(super) fn all(read: &impl Fn(&str) -> Option<String>) -> Vec<Group> {
    let mut found = Vec::new();
    for line in read("/proc/self/cgroup").unwrap_or_default().lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        match controllers {
            "" => add(&VERSION_2, path, read, &mut found),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                add(&VERSION_1, path, read, &mut found);
            }
            _ => {}
        }
    }
    found
}

/// Adds a group and its ancestors. In a container the path can be that of the host: then
/// the root is its group.
fn add(files: &Files, path: &str, read: &impl Fn(&str) -> Option<String>, found: &mut Vec<Group>) {
    let mut path = path.trim_end_matches('/');
    loop {
        let file = |name: &str| read(&format!("{}{path}/{name}", files.root));
        let bytes = |name: &str| file(name)?.trim().parse::<u64>().ok();
        let limit = bytes(files.limit).filter(|&limit| limit < NO_LIMIT);
        let used = bytes(files.used).map(|used| {
            let stat = file("memory.stat").unwrap_or_default();
            let values = files.pages.iter().filter_map(|name| {
                stat.lines().find_map(|line| line.strip_prefix(name))?.trim().parse::<u64>().ok()
            });
            used.saturating_sub(values.sum())
        });
        found.push(Group { limit, used });
        let Some(parent) = path.rfind('/') else { return };
        path = &path[..parent];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least that a group of version 2 and its ancestors leave.
    fn of_cgroups(group: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
        let read = |path: &str| match path {
            "/proc/self/cgroup" => Some(format!("0::{group}\n")),
            path => read(path),
        };
        all(&read).iter().filter_map(Group::left).min()
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

    /// A container of version 1: the path is the host's, and the root has the container's limit.
    #[test]
    fn groups_of_version_1() {
        let read = |path: &str| {
            let text = match path {
                "/proc/self/cgroup" => {
                    "5:cpu,cpuacct:/docker/x\n4:hugetlb,memory:/docker/x\n0::/\n"
                }
                "/sys/fs/cgroup/memory/memory.limit_in_bytes" => "2000\n",
                "/sys/fs/cgroup/memory/memory.usage_in_bytes" => "1500\n",
                "/sys/fs/cgroup/memory/memory.stat" => {
                    "cache 9\nactive_file 1\ntotal_active_file 100\ntotal_inactive_file 200\n"
                }
                _ => return None,
            };
            Some(text.to_owned())
        };
        let groups = all(&read);
        assert_eq!(groups.iter().filter_map(|group| group.limit).min(), Some(2000));
        assert_eq!(groups.iter().filter_map(Group::left).min(), Some(800));
        let unlimited = |path: &str| match path {
            "/sys/fs/cgroup/memory/memory.limit_in_bytes" => Some("9223372036854771712\n".into()),
            path => read(path),
        };
        assert!(all(&unlimited).iter().all(|group| group.limit.is_none()));
    }
}
