//! Checks of the machine: CPUs, sources of noise, limits.

use std::fs;
use std::path::Path;

use knee_host::counters::{Counter, CounterSet};
use knee_host::number::{plural, spread};
use knee_host::{Environment, Topology, filesystem};
use knee_results::Mode;
use knee_run::needs::{self, Context};
use knee_run::noise::{self, NoiseFloors};
use knee_run::record::Machine;
use knee_run::testcase::Need;

use super::check::{Finding, command, limited, missing, ok, statement};

/// Other work that takes more than this share of the usable CPUs shifts rates by more than
/// the spread of a quiet machine, about 1%.
const QUIET_LOAD_PER_CPU: f64 = 0.05;
/// Steal time above this share since boot means that the host is oversubscribed.
const QUIET_STEAL_PERCENT: f64 = 0.5;
/// poll2 polls 128 files per task. With pipes, sockets and knee's own files, a task stays below
/// this limit.
const FILES_PER_TASK: u64 = 300;
/// Space for the objects and programs of build1 with a few tasks.
const SHARED_MEMORY_BYTES: u64 = 64 << 20;

/// Which of the machine's CPUs this process may use.
pub(super) fn cpus(topology: &Topology) -> Finding {
    let usable = topology.usable();
    let present = usable.len() + topology.excluded().len();
    let detail = format!("{} of {present} usable: {usable}", usable.len());
    let excluded = topology.excluded_by_reason();
    if excluded.is_empty() {
        return ok(detail);
    }
    let reasons: Vec<String> =
        excluded.iter().map(|(why, cpus)| format!("{cpus} {why}: {}", why.remedy(cpus))).collect();
    limited(detail, statement(reasons.join("; ")))
}

/// Which events knee can count.
pub(super) fn counters() -> Finding {
    let set = match CounterSet::find(Counter::ALL) {
        Ok(set) => set,
        Err(error) => return missing("none", statement(error.to_string())),
    };
    match set.what_is_unavailable() {
        None => ok(set.to_string()),
        Some(what) => limited(set.to_string(), statement(format!("not counted: {what}"))),
    }
}

/// How much CPU time the control groups allow.
pub(super) fn cpu_quota(environment: &Environment) -> Finding {
    let cpus = environment.usable_cpus.len();
    match environment.cgroup_cpu_quota {
        Some(quota) if quota < cpus as f64 => limited(
            format!("{quota:.2} CPUs' worth of time on {cpus} CPUs"),
            statement(
                "raise the cgroup's CPU limit (docker --cpus, systemd CPUQuota=), or use -t auto, \
                 which stops at the limit",
            ),
        ),
        Some(quota) => ok(format!("{quota:.2} CPUs' worth of time, enough for {cpus} CPUs")),
        None => ok("none"),
    }
}

/// Whether other work runs beside the measurement.
pub(super) fn load(environment: &Environment) -> Finding {
    let Some([one, five, _]) = environment.load_average else {
        let remedy = statement("mount /proc, or make sure that nothing else is running");
        return limited("cannot read /proc/loadavg", remedy);
    };
    let cpus = environment.usable_cpus.len();
    let detail = format!("{one:.2} over 1 minute, {five:.2} over 5, on {cpus} CPUs");
    if one <= QUIET_LOAD_PER_CPU * cpus as f64 {
        return ok(detail);
    }
    let remedy = "stop the processes that `ps -eo pcpu,pid,user,args --sort=-pcpu | head` lists, \
                  or wait until they end";
    limited(detail, statement(remedy))
}

/// Whether the hypervisor gave this machine's CPU time to other guests.
pub(super) fn steal() -> Finding {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let Some(percent) = steal_percent(&stat) else {
        return limited("unknown", statement("/proc/stat does not report it"));
    };
    let detail = format!("{percent:.1}% since boot");
    if percent <= QUIET_STEAL_PERCENT {
        return ok(detail);
    }
    let remedy = statement(
        "the host runs other guests on these CPUs; use a dedicated host or pinned virtual CPUs. \
         knee marks the affected samples",
    );
    limited(detail, remedy)
}

/// The steal share in the first line of /proc/stat: user nice system idle iowait irq softirq steal.
fn steal_percent(stat: &str) -> Option<f64> {
    let times: Vec<f64> = stat
        .lines()
        .next()?
        .strip_prefix("cpu ")?
        .split_whitespace()
        .take(8)
        .filter_map(|time| time.parse().ok())
        .collect();
    let total: f64 = times.iter().sum();
    (total > 0.0).then_some(*times.get(7)? / total * 100.0)
}

/// Whether the CPU frequency stays at its maximum.
pub(super) fn governor(environment: &Environment) -> Finding {
    const SET: &str =
        "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";
    match environment.governor.as_deref() {
        Some("performance") => ok("performance"),
        Some(other) => limited(other, command(SET)),
        None => not_visible(
            environment,
            "only the host can see and set the frequency",
            "this kernel has no cpufreq driver for the machine; set the frequency in the firmware",
        ),
    }
}

/// Whether one busy core runs faster than many busy cores.
pub(super) fn turbo(environment: &Environment) -> Finding {
    let intel = Path::new("/sys/devices/system/cpu/intel_pstate/no_turbo");
    match environment.turbo {
        Some(false) => ok("off"),
        Some(true) if intel.exists() => {
            limited("on", command(format!("echo 1 | sudo tee {}", intel.display())))
        }
        Some(true) => {
            limited("on", command("echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"))
        }
        None => not_visible(
            environment,
            "only the host can see and set turbo",
            "this kernel cannot control turbo on this machine; see the firmware settings",
        ),
    }
}

/// A setting that the kernel does not show, with the advice for a guest or for a whole machine.
fn not_visible(environment: &Environment, in_guest: &str, on_machine: &str) -> Finding {
    let advice = if environment.hypervisor.is_some() { in_guest } else { on_machine };
    limited("not visible", statement(advice))
}

/// Whether the noise floor of this machine is known, and where it is saved.
pub(super) fn noise_floor(environment: &Environment) -> Finding {
    let measure = command("knee run --aa");
    let Some(file) = noise::file() else {
        let remedy = statement("set XDG_STATE_HOME to a writable directory");
        return limited("no place for it: neither XDG_STATE_HOME nor HOME is set", remedy);
    };
    match NoiseFloors::kept_on(&Machine::from(environment)) {
        Ok(Some(floors)) => ok(format!(
            "typically {}, of {} in {}",
            spread(floors.typical),
            plural(floors.points.len(), "point"),
            file.display()
        )),
        Ok(None) => {
            limited(format!("not measured; knee will save it in {}", file.display()), measure)
        }
        Err(error) => limited("cannot be read", statement(error.to_string())),
    }
}

/// Whether testcases can connect to this machine.
pub(super) fn loopback() -> Finding {
    let context = Context { dir: Path::new("/"), mode: Mode::Processes, tasks: 1 };
    match needs::check(Need::Loopback, &context) {
        Ok(()) => ok("up"),
        Err(failure) => limited(failure.reason, command(format!("sudo {}", failure.remedy))),
    }
}

/// Whether cores have several threads.
pub(super) fn smt(environment: &Environment) -> Finding {
    ok(match environment.smt_active {
        Some(true) => "on; --placement cores uses SMT siblings last",
        Some(false) => "off",
        None => "not reported",
    })
}

/// Whether CPUs are isolated from other tasks. Most machines have no isolated CPUs, and need none.
pub(super) fn isolated_cpus(environment: &Environment) -> Finding {
    ok(match &environment.isolated_cpus {
        Some(cpus) if !cpus.is_empty() => format!("{cpus}; use them with taskset -c {cpus} knee"),
        _ => "none; isolcpus= on the kernel's command line isolates CPUs".to_owned(),
    })
}

/// Whether reading the time is cheap.
pub(super) fn clock(environment: &Environment) -> Finding {
    match environment.clocksource.as_deref() {
        // The vDSO cannot read these, so each reading costs a system call and a slow device access.
        Some(slow @ ("hpet" | "acpi_pm" | "jiffies" | "refined-jiffies")) => limited(
            slow,
            statement(
                "`sudo dmesg | grep -i -e clocksource -e tsc` shows why the kernel does not use \
                 the TSC",
            ),
        ),
        Some(clock) => ok(clock),
        None => ok("not reported, so knee uses the clock without checking it"),
    }
}

/// Whether the kernel moves memory and tasks between nodes while knee measures; `None` with a
/// single node.
pub(super) fn numa_balancing(environment: &Environment) -> Option<Finding> {
    let nodes = environment.topology.as_ref()?.nodes;
    (nodes > 1).then(|| match environment.numa_balancing {
        Some(true) => limited("on", command("sudo sysctl kernel.numa_balancing=0")),
        _ => ok("off"),
    })
}

/// Whether one task per CPU can open all of its files.
pub(super) fn open_files(environment: &Environment) -> Finding {
    let needed = FILES_PER_TASK * environment.usable_cpus.len() as u64;
    let in_words = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |n| n.to_string());
    let (soft, hard) = (environment.open_files_soft_limit, environment.open_files_hard_limit);
    let detail = format!("{}, can be raised to {}", in_words(soft), in_words(hard));
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= needed);
    match () {
        () if enough(soft) => ok(detail),
        () if enough(hard) => limited(detail, command(format!("ulimit -n {needed}"))),
        () => limited(detail, command(format!("sudo prlimit --pid $$ --nofile={needed}"))),
    }
}

/// Transparent huge pages, and pages reserved for hugetlb.
pub(super) fn huge_pages(environment: &Environment) -> Finding {
    const ENABLE: &str = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled";
    const NOT_BUILT_IN: &str =
        "this kernel is built without transparent huge pages; boot a kernel that has them";
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let reserved = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("HugePages_Total:"))
        .map_or("0", str::trim);
    let setting = environment.transparent_huge_pages.as_deref();
    let shown = setting.unwrap_or("not built in");
    let detail = format!("transparent: {shown}; hugetlb pages reserved: {reserved}");
    match setting {
        Some("never") => missing(detail, command(ENABLE)),
        Some(_) => ok(detail),
        None => missing(detail, statement(NOT_BUILT_IN)),
    }
}

/// Whether a memory file system is available to build and write in.
pub(super) fn shared_memory() -> Finding {
    let path = Path::new("/dev/shm");
    let mount = command("sudo mount -t tmpfs -o mode=1777 tmpfs /dev/shm");
    let writable = rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    match (filesystem::kind(path), filesystem::bytes_free(path)) {
        (Some(kind), Some(free)) if kind == "tmpfs" => {
            let detail = format!("tmpfs, {} MiB free", free >> 20);
            match () {
                () if !writable => limited(detail, command("sudo chmod 1777 /dev/shm")),
                () if free < SHARED_MEMORY_BYTES => {
                    limited(detail, command("sudo mount -o remount,size=1g /dev/shm"))
                }
                () => ok(detail),
            }
        }
        (Some(kind), _) => limited(format!("{kind}, not tmpfs"), mount),
        (None, _) => limited("missing", mount),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Status;
    use super::*;

    fn environment() -> Environment {
        Environment {
            usable_cpus: "0-3".parse().unwrap(),
            load_average: Some([0.1, 0.1, 0.1]),
            cgroup_cpu_quota: None,
            ..Environment::capture(Path::new("/"))
        }
    }

    #[test]
    fn load_is_judged_by_the_cpu_count() {
        let mut environment = environment();
        assert_eq!(load(&environment).status, Status::Ok);
        environment.load_average = Some([1.0, 0.1, 0.1]);
        assert_eq!(load(&environment).status, Status::Limited);
    }

    #[test]
    fn a_quota_matters_only_below_the_cpu_count() {
        let mut environment = environment();
        environment.cgroup_cpu_quota = Some(4.0);
        assert_eq!(cpu_quota(&environment).status, Status::Ok);
        environment.cgroup_cpu_quota = Some(1.5);
        assert_eq!(cpu_quota(&environment).status, Status::Limited);
    }

    #[test]
    fn the_open_file_limit_grows_with_the_cpus() {
        let mut environment = environment();
        environment.open_files_soft_limit = Some(1024);
        environment.open_files_hard_limit = None;
        let check = open_files(&environment);
        assert_eq!(check.remedy, Some(command("ulimit -n 1200")));
        environment.open_files_soft_limit = Some(1200);
        assert_eq!(open_files(&environment).status, Status::Ok);
    }

    #[test]
    fn steal_is_the_eighth_time_in_the_first_line() {
        assert_eq!(steal_percent("cpu  50 0 0 40 0 0 0 10 99 99\ncpu0 1\n"), Some(10.0));
        assert_eq!(steal_percent("cpu  50 0\n"), None);
        assert_eq!(steal_percent(""), None);
    }
}
