//! The properties of a machine that are needed to judge a measurement on it.
//!
//! They are the usual causes of surprising curves: kernel build and command line, mitigations,
//! frequency control, SMT, virtualisation, clock source, huge pages, limits, other load, and the
//! file system that file testcases write to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cpulist::CpuList;
use super::process::running_programs;
use super::topology::{Topology, TopologyCounts};
use super::{cgroup, filesystem, read_line, utc, virtualisation};

/// The machine, the kernel and the circumstances of a run. Whatever could not be read, or
/// does not exist on the machine, is `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// When it was captured, RFC 3339 in UTC.
    pub started_at: String,
    /// Version of knee.
    pub knee_version: String,
    /// Whether knee, and therefore each of its testcases, was built without optimisation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub debug_build: bool,
    /// knee's command line, split into words.
    pub command_line: Vec<String>,
    /// Name of the machine.
    pub hostname: String,
    /// Kernel name and release, as `uname -sr` prints them.
    pub kernel: String,
    /// Kernel build, as `uname -v` prints it.
    pub kernel_version: String,
    /// Architecture, as `uname -m` prints it.
    pub architecture: String,
    /// Command line that the kernel was booted with.
    pub kernel_command_line: Option<String>,
    /// Model name of the first CPU.
    pub cpu_model: Option<String>,
    /// How many usable packages, NUMA nodes, L3 domains, cores and CPUs there are.
    pub topology: Option<TopologyCounts>,
    /// CPUs that knee may use.
    pub usable_cpus: CpuList,
    /// CPU time that cgroups allow, in CPUs.
    pub cgroup_cpu_quota: Option<f64>,
    /// Memory of the machine in bytes.
    pub memory_total_bytes: Option<u64>,
    /// The kernel's statement on each known CPU vulnerability and its mitigation.
    pub mitigations: BTreeMap<String, String>,
    /// Frequency governors of the usable CPUs, joined by commas if they differ.
    pub governor: Option<String>,
    /// Whether turbo (boost) frequencies are allowed.
    pub turbo: Option<bool>,
    /// Whether simultaneous multithreading is active.
    pub smt_active: Option<bool>,
    /// Hypervisor that the machine is a guest of; none on bare metal.
    pub hypervisor: Option<String>,
    /// Clock source of the kernel.
    pub clocksource: Option<String>,
    /// Transparent huge pages: always, madvise or never.
    pub transparent_huge_pages: Option<String>,
    /// Whether the kernel moves pages and tasks between NUMA nodes.
    pub numa_balancing: Option<bool>,
    /// CPUs isolated with `isolcpus=`.
    pub isolated_cpus: Option<CpuList>,
    /// C library and its version.
    pub libc: Option<String>,
    /// Load averages over 1, 5 and 15 minutes.
    pub load_average: Option<[f64; 3]>,
    /// Threads other than knee's that ran or waited for a CPU at that moment.
    pub others_running: Option<u32>,
    /// Programs with such threads, those with the most of them first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running_programs: Vec<String>,
    /// Soft limit of open files per process; none if unlimited.
    pub open_files_soft_limit: Option<u64>,
    /// Hard limit of open files per process; none if unlimited.
    pub open_files_hard_limit: Option<u64>,
    /// Directory that testcases put their files in.
    pub work_dir: String,
    /// File system of that directory.
    pub work_dir_file_system: Option<String>,
}

/// Name of this machine in the network, as `uname -n` prints it.
pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Name and release of the running kernel, as `uname -sr` prints them.
pub fn kernel() -> String {
    let uname = rustix::system::uname();
    format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy())
}

impl Environment {
    /// Captures the environment of this process; `work_dir` is where testcases put files.
    pub fn capture(work_dir: &Path) -> Environment {
        let uname = rustix::system::uname();
        let topology = Topology::read().ok();
        let usable_cpus = topology.as_ref().map(Topology::usable).unwrap_or_default();
        let open_files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let cpus = Path::new("/sys/devices/system/cpu");
        let others_running = read_line("/proc/loadavg").and_then(|line| others_running(&line));
        Environment {
            started_at: utc::now(),
            knee_version: env!("CARGO_PKG_VERSION").to_owned(),
            debug_build: cfg!(debug_assertions),
            command_line: std::env::args_os()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            hostname: hostname(),
            kernel: kernel(),
            kernel_version: uname.version().to_string_lossy().into_owned(),
            architecture: uname.machine().to_string_lossy().into_owned(),
            kernel_command_line: read_line("/proc/cmdline"),
            cpu_model: std::fs::read_to_string("/proc/cpuinfo")
                .ok()
                .and_then(|cpuinfo| cpu_model(&cpuinfo))
                .or_else(|| read_line("/proc/device-tree/model")),
            topology: topology.as_ref().map(Topology::counts),
            governor: governor(cpus, &usable_cpus),
            usable_cpus,
            cgroup_cpu_quota: cgroup::cpu_quota(),
            memory_total_bytes: cgroup::meminfo_bytes(Path::new("/proc/meminfo"), "MemTotal"),
            mitigations: mitigations(&cpus.join("vulnerabilities")),
            turbo: turbo(cpus),
            smt_active: read_switch(&cpus.join("smt/active")),
            hypervisor: virtualisation::hypervisor(),
            clocksource: read_line(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            ),
            transparent_huge_pages: read_line("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|line| chosen(&line)),
            numa_balancing: read_switch(Path::new("/proc/sys/kernel/numa_balancing")),
            isolated_cpus: std::fs::read_to_string(cpus.join("isolated"))
                .ok()
                .and_then(|list| list.parse().ok()),
            libc: libc_version(),
            load_average: read_line("/proc/loadavg").and_then(|line| load_average(&line)),
            // Reading every thread takes a while on a large machine.
            running_programs: match others_running {
                Some(1..) => running_programs(),
                _ => Vec::new(),
            },
            others_running,
            open_files_soft_limit: open_files.current,
            open_files_hard_limit: open_files.maximum,
            work_dir: work_dir.display().to_string(),
            work_dir_file_system: filesystem::kind(work_dir),
        }
    }

    /// The machine in one line: `Linux 6.1.0-18-amd64 · AMD EPYC 9654 · 8 CPUs (4 cores, 1 L3,
    /// 1 package) · KVM guest`.
    pub fn summary(&self) -> String {
        let mut parts = vec![self.kernel.clone()];
        parts.extend(self.cpu_model.as_deref().map(without_marketing));
        parts.extend(self.topology.as_ref().map(TopologyCounts::to_string));
        parts.extend(self.cgroup_cpu_quota.map(|quota| format!("quota {quota:.1} CPUs")));
        parts.extend(self.hypervisor.as_ref().map(|name| format!("{name} guest")));
        parts.extend(self.debug_build.then(|| "debug build of knee".to_owned()));
        parts.join(" · ")
    }
}

fn without_marketing(model: &str) -> String {
    let model = model.split(" @ ").next().unwrap_or(model);
    let model = model.replace("(R)", "").replace("(TM)", "").replace("(tm)", "");
    model.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The model name on x86; on Arm, which has none there, the numbers that stand for it.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let field = |wanted: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == wanted && !value.trim().is_empty()).then(|| value.trim().to_owned())
        })
    };
    field("model name").or_else(|| {
        let (implementer, part) = (field("CPU implementer")?, field("CPU part")?);
        Some(format!("Arm implementer {implementer} part {part}"))
    })
}

fn governor(cpus: &Path, usable: &CpuList) -> Option<String> {
    let governors: BTreeSet<String> = usable
        .iter()
        .filter_map(|cpu| read_line(cpus.join(format!("cpu{cpu}/cpufreq/scaling_governor"))))
        .collect();
    let governors: Vec<String> = governors.into_iter().collect();
    (!governors.is_empty()).then(|| governors.join(","))
}

fn turbo(cpus: &Path) -> Option<bool> {
    read_switch(&cpus.join("intel_pstate/no_turbo"))
        .map(|off| !off)
        .or_else(|| read_switch(&cpus.join("cpufreq/boost")))
}

fn mitigations(vulnerabilities: &Path) -> BTreeMap<String, String> {
    std::fs::read_dir(vulnerabilities)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            Some((name, read_line(entry.path())?))
        })
        .collect()
}

fn read_switch(path: &Path) -> Option<bool> {
    read_line(path)?.parse::<i64>().ok().map(|value| value != 0)
}

/// The word in brackets of a line such as `always [madvise] never`.
fn chosen(line: &str) -> Option<String> {
    let (_, rest) = line.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn load_average(line: &str) -> Option<[f64; 3]> {
    let mut words = line.split_whitespace().map(str::parse);
    Some([words.next()?.ok()?, words.next()?.ok()?, words.next()?.ok()?])
}

/// From the fourth word, running threads over all threads; one of them is reading it.
fn others_running(line: &str) -> Option<u32> {
    let (running, _) = line.split_whitespace().nth(3)?.split_once('/')?;
    running.parse::<u32>().ok()?.checked_sub(1)
}

#[cfg(target_env = "gnu")]
fn libc_version() -> Option<String> {
    // SAFETY: glibc returns a pointer to a constant string that ends in NUL and lives as long
    // as the process.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    Some(format!("glibc {}", version.to_str().ok()?))
}

#[cfg(not(target_env = "gnu"))]
fn libc_version() -> Option<String> {
    // Other C libraries do not report their version at run time.
    cfg!(target_env = "musl").then(|| "musl".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured() -> Environment {
        Environment::capture(Path::new("/"))
    }

    #[test]
    fn the_environment_of_this_machine_reads_back_from_json() {
        let environment = captured();
        assert!(!environment.usable_cpus.is_empty());
        assert!(environment.kernel.starts_with("Linux "));
        let json = serde_json::to_string(&environment).unwrap();
        assert_eq!(serde_json::from_str::<Environment>(&json).unwrap(), environment);
    }

    #[test]
    fn a_missing_work_dir_is_not_an_error() {
        let environment = Environment::capture(Path::new("/does/not/exist"));
        assert_eq!(environment.work_dir_file_system, None);
    }

    #[test]
    fn the_summary_is_one_line_for_a_person() {
        let environment = Environment {
            kernel: "Linux 6.1.0-18-amd64".to_owned(),
            cpu_model: Some("Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz".to_owned()),
            topology: Some(TopologyCounts {
                packages: 2,
                nodes: 4,
                l3s: Some(2),
                cores: 40,
                cpus: 80,
            }),
            cgroup_cpu_quota: Some(2.5),
            hypervisor: Some("KVM".to_owned()),
            debug_build: false,
            ..captured()
        };
        let debug = Environment { debug_build: true, ..environment.clone() };
        assert_eq!(debug.summary(), format!("{} · debug build of knee", environment.summary()));
        assert_eq!(
            environment.summary(),
            "Linux 6.1.0-18-amd64 · Intel Xeon Gold 6248 CPU · \
             80 CPUs (40 cores, 2 L3s, 4 NUMA nodes, 2 packages) · quota 2.5 CPUs · KVM guest"
        );
    }

    #[test]
    fn the_cpu_model_is_a_name_on_x86_and_two_numbers_on_arm() {
        let x86 = "processor\t: 0\nmodel name\t: AMD EPYC\n";
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(cpu_model(x86).as_deref(), Some("AMD EPYC"));
        assert_eq!(cpu_model(arm).as_deref(), Some("Arm implementer 0x41 part 0xd0c"));
        assert_eq!(cpu_model(""), None);
    }

    #[test]
    fn governors_that_differ_are_all_named_and_turbo_is_the_inverse_of_no_turbo() {
        let cpus = tempfile::tempdir().unwrap();
        let write = |path: &str, text| crate::fixture::write(&cpus.path().join(path), text);
        write("cpu0/cpufreq/scaling_governor", "powersave\n");
        write("cpu1/cpufreq/scaling_governor", "performance\n");
        write("intel_pstate/no_turbo", "1\n");
        let all = "0-2".parse().unwrap();
        assert_eq!(governor(cpus.path(), &all).as_deref(), Some("performance,powersave"));
        assert_eq!(turbo(cpus.path()), Some(false));
        assert_eq!(turbo(Path::new("/does/not/exist")), None);
    }

    #[test]
    fn small_kernel_formats_are_read() {
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(chosen("always"), None);
        assert_eq!(load_average("0.10 1.25 2.00 1/300 99"), Some([0.1, 1.25, 2.0]));
        assert_eq!(load_average(""), None);
        assert_eq!(others_running("0.10 1.25 2.00 3/300 99"), Some(2));
        assert_eq!(others_running("0.10"), None);
    }
}
