//! The limits of control groups for this process: CPU time, CPUs, memory.
//!
//! A limit holds for a group and all below it, so each answer is the tightest one between the
//! process's own group and the root that is visible from here. Version 2 has all controllers
//! in one tree, version 1 a tree for each; hybrid machines mix them controller by controller.
//! Source: Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ in the kernel tree,
//! cgroups(7), proc_pid_mountinfo(5).

use std::path::{Path, PathBuf};

use super::cpulist::CpuList;
use super::read_line;

/// The directories that govern a process.
#[derive(Debug, Clone, Default)]
pub struct ControlGroups {
    cpu: Chain,
    cpuset: Chain,
    memory: Chain,
}

/// The directories of one controller, the process's own group first, the root last.
#[derive(Debug, Clone, Default)]
struct Chain {
    version_2: bool,
    dirs: Vec<PathBuf>,
}

/// How many CPUs' worth of time the control groups allow this process; `None` if no limit is
/// set.
pub fn cpu_quota() -> Option<f64> {
    ControlGroups::of_this_process().cpu_quota()
}

/// Bytes of memory that this process can still get: what the machine has available, or what
/// its control groups leave, whichever is less. `None` where neither can be read.
///
/// A group's page cache counts as used, although the kernel would drop it under pressure: a
/// measurement that depends on that pressure is not worth starting.
pub fn memory_available() -> Option<u64> {
    let group = ControlGroups::of_this_process().memory_left();
    let machine = meminfo_bytes(Path::new("/proc/meminfo"), "MemAvailable");
    machine.into_iter().chain(group).min()
}

/// A value of /proc/meminfo in bytes.
pub(super) fn meminfo_bytes(meminfo: &Path, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(meminfo).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

impl ControlGroups {
    /// The groups of this process, from /proc/self.
    pub fn of_this_process() -> ControlGroups {
        ControlGroups::read_from(Path::new("/proc/self"))
    }

    /// The groups that the files `cgroup` and `mountinfo` of `proc_self` lead to. Without
    /// these files there are no groups and no limits.
    pub fn read_from(proc_self: &Path) -> ControlGroups {
        let memberships = std::fs::read_to_string(proc_self.join("cgroup")).unwrap_or_default();
        let mounts = std::fs::read_to_string(proc_self.join("mountinfo")).unwrap_or_default();
        let chain = |controller| chain(controller, &memberships, &mounts).unwrap_or_default();
        ControlGroups { cpu: chain("cpu"), cpuset: chain("cpuset"), memory: chain("memory") }
    }

    /// CPUs' worth of time per wall-clock time, the minimum over the ancestors.
    pub fn cpu_quota(&self) -> Option<f64> {
        let quota_of = |dir: &PathBuf| -> Option<f64> {
            let (quota, period) = if self.cpu.version_2 {
                let line = read_line(dir.join("cpu.max"))?;
                let (quota, period) = line.split_once(' ')?;
                (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?)
            } else {
                (
                    read_line(dir.join("cpu.cfs_quota_us"))?.parse().ok()?,
                    read_line(dir.join("cpu.cfs_period_us"))?.parse().ok()?,
                )
            };
            // Version 1 writes "no limit" as -1.
            (quota > 0.0 && period > 0.0).then(|| quota / period)
        };
        self.cpu.dirs.iter().filter_map(quota_of).min_by(f64::total_cmp)
    }

    /// The CPUs of the process's cpuset. Ancestors are already part of it.
    pub fn cpuset(&self) -> Option<CpuList> {
        let names: &[&str] = if self.cpuset.version_2 {
            &["cpuset.cpus.effective"]
        } else {
            &["cpuset.effective_cpus", "cpuset.cpus"]
        };
        // A version 2 group has the file only where its parent passes the controller on; the
        // nearest ancestor that has it decides.
        self.cpuset.dirs.iter().find_map(|dir| {
            let line = names.iter().find_map(|name| read_line(dir.join(name)))?;
            line.parse().ok()
        })
    }

    /// Bytes below the limit, the minimum over the ancestors that have one.
    pub fn memory_left(&self) -> Option<u64> {
        let (limit, usage) = if self.memory.version_2 {
            ("memory.max", "memory.current")
        } else {
            ("memory.limit_in_bytes", "memory.usage_in_bytes")
        };
        let number = |dir: &PathBuf, name| read_line(dir.join(name))?.parse::<u64>().ok();
        self.memory
            .dirs
            .iter()
            .filter_map(|dir| Some(number(dir, limit)?.saturating_sub(number(dir, usage)?)))
            .min()
    }
}

/// Finds the directories of `controller`: its own version 1 tree if one is mounted, else the
/// version 2 tree.
fn chain(controller: &str, memberships: &str, mounts: &str) -> Option<Chain> {
    let has = |list: &str| list.split(',').any(|item| item == controller);
    let group_where = |wanted: &dyn Fn(&str, &str) -> bool| {
        memberships.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            wanted(id, controllers).then_some(path)
        })
    };
    let mounts: Vec<Mount<'_>> = mounts.lines().filter_map(Mount::parse).collect();

    let version_1 = mounts
        .iter()
        .find(|mount| mount.kind == "cgroup" && has(mount.options))
        .zip(group_where(&|_, controllers| has(controllers)));
    let (mount, group, version_2) = match version_1 {
        Some((mount, group)) => (mount, group, false),
        None => (
            mounts.iter().find(|mount| mount.kind == "cgroup2")?,
            group_where(&|id, _| id == "0")?,
            true,
        ),
    };
    Some(Chain { version_2, dirs: mount.dirs_up_from(group) })
}

/// A mounted file system, from a line of mountinfo.
struct Mount<'a> {
    /// The directory of the file system that is mounted.
    root: &'a str,
    /// Where it is mounted.
    point: &'a Path,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Mount<'a>> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let mut file_system = file_system.split(' ');
        Some(Mount {
            root: mount.next()?,
            point: Path::new(mount.next()?),
            kind: file_system.next()?,
            options: file_system.nth(1)?,
        })
    }

    /// The directory of `group` and its ancestors up to the mount point.
    fn dirs_up_from(&self, group: &str) -> Vec<PathBuf> {
        // A container sees its own group as the root of the mount, and one without a cgroup
        // namespace still reads the host's path in /proc/self/cgroup.
        let below = Path::new(group).strip_prefix(self.root).unwrap_or(Path::new(""));
        let own = self.point.join(below);
        // After a move outside of its namespace a process reads a path of `..`.
        let own = if group.contains("..") { self.point.to_owned() } else { own };
        own.ancestors().take_while(|dir| dir.starts_with(self.point)).map(Path::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::write;
    use tempfile::TempDir;

    /// A /proc/self and a cgroup tree below one temporary directory.
    struct Host(TempDir);

    impl Host {
        /// `@` in `mountinfo` stands for the directory of the trees.
        fn new(cgroup: &str, mountinfo: &str) -> Host {
            let host = Host(tempfile::tempdir().unwrap());
            let root = host.0.path().to_str().unwrap();
            write(&host.0.path().join("self/cgroup"), cgroup);
            write(&host.0.path().join("self/mountinfo"), &mountinfo.replace('@', root));
            host
        }

        fn version_2() -> Host {
            Host::new("0::/a/b\n", "31 23 0:28 / @/cg rw,relatime - cgroup2 cgroup2 rw\n")
        }

        fn version_1() -> Host {
            Host::new(
                "4:memory:/m\n1:cpu,cpuacct:/a/b\n0::/\n",
                "32 31 0:29 / @/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
                 35 31 0:32 / @/memory rw - cgroup cgroup rw,memory\n\
                 41 31 0:38 / @/unified rw - cgroup2 cgroup2 rw\n",
            )
        }

        fn with(self, path: &str, text: &str) -> Host {
            write(&self.0.path().join(path), text);
            self
        }

        fn groups(&self) -> ControlGroups {
            ControlGroups::read_from(&self.0.path().join("self"))
        }
    }

    #[test]
    fn the_tightest_quota_of_the_ancestors_counts() {
        let host = Host::version_2()
            .with("cg/a/b/cpu.max", "400000 100000\n")
            .with("cg/a/cpu.max", "150000 100000\n");
        assert_eq!(host.groups().cpu_quota(), Some(1.5));
    }

    #[test]
    fn the_word_max_and_missing_files_mean_no_limit() {
        let host = Host::version_2().with("cg/a/b/cpu.max", "max 100000\n");
        assert_eq!(host.groups().cpu_quota(), None);
        let nothing = tempfile::tempdir().unwrap();
        let groups = ControlGroups::read_from(nothing.path());
        assert_eq!((groups.cpu_quota(), groups.memory_left()), (None, None));
    }

    #[test]
    fn version_1_quotas_are_read_and_minus_one_means_no_limit() {
        let host = Host::version_1()
            .with("cpu/a/b/cpu.cfs_quota_us", "50000\n")
            .with("cpu/a/b/cpu.cfs_period_us", "100000\n")
            .with("cpu/cpu.cfs_quota_us", "-1\n")
            .with("cpu/cpu.cfs_period_us", "100000\n");
        assert_eq!(host.groups().cpu_quota(), Some(0.5));
    }

    #[test]
    fn a_container_without_a_cgroup_namespace_finds_its_own_group_at_the_mount_point() {
        let host = Host::new(
            "1:cpu:/docker/123\n",
            "32 31 0:29 /docker/123 @/cpu rw - cgroup cgroup rw,cpu\n",
        )
        .with("cpu/cpu.cfs_quota_us", "200000\n")
        .with("cpu/cpu.cfs_period_us", "100000\n");
        assert_eq!(host.groups().cpu_quota(), Some(2.0));
    }

    #[test]
    fn a_path_outside_of_the_namespace_falls_back_to_the_mount_point() {
        let host = Host::new("0::/../other\n", "31 23 0:28 / @/cg rw - cgroup2 cgroup2 rw\n")
            .with("cg/cpu.max", "100000 100000\n");
        assert_eq!(host.groups().cpu_quota(), Some(1.0));
    }

    #[test]
    fn memory_left_is_the_limit_minus_the_usage() {
        let host = Host::version_2()
            .with("cg/a/b/memory.max", "max\n")
            .with("cg/a/b/memory.current", "10\n")
            .with("cg/a/memory.max", "1000\n")
            .with("cg/a/memory.current", "400\n");
        assert_eq!(host.groups().memory_left(), Some(600));
        let host = Host::version_1()
            .with("memory/m/memory.limit_in_bytes", "1000\n")
            .with("memory/m/memory.usage_in_bytes", "2000\n");
        assert_eq!(host.groups().memory_left(), Some(0));
    }

    #[test]
    fn the_cpuset_comes_from_the_nearest_group_that_has_one() {
        let host = Host::version_2().with("cg/a/cpuset.cpus.effective", "2-3\n");
        assert_eq!(host.groups().cpuset(), Some("2-3".parse().unwrap()));
    }

    #[test]
    fn the_available_memory_of_this_machine_can_be_read() {
        assert!(memory_available().unwrap() > 0);
    }
}
