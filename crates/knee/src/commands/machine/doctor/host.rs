//! Checks of the machine: CPUs, sources of noise, limits.

use std::fs;
use std::path::Path;

use knee_host::{Environment, Topology, filesystem};
use knee_profile::sampling::{Options, Sampler, Target, Watch};

use super::check::{Check, command, statement};

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
pub(super) fn cpus(topology: &Topology) -> Check {
    let usable = topology.usable();
    let present = usable.len() + topology.excluded().len();
    let detail = format!("{} of {present} usable: {usable}", usable.len());
    let check = Check::ok("CPUs", "knee run: the highest task count", detail);
    let excluded = topology.excluded_by_reason();
    if excluded.is_empty() {
        return check;
    }
    let reasons: Vec<String> =
        excluded.iter().map(|(why, cpus)| format!("{cpus} {why}: {}", why.remedy(cpus))).collect();
    check.limited(statement(reasons.join("; ")))
}

/// How much CPU time the control groups allow.
pub(super) fn cpu_quota(environment: &Environment) -> Check {
    let check =
        |detail: String| Check::ok("CPU quota", "knee run: throttling looks like a knee", detail);
    match environment.cgroup_cpu_quota {
        Some(quota) if quota < environment.usable_cpus.len() as f64 => {
            check(format!("{quota:.2} CPUs of time on {} CPUs", environment.usable_cpus.len()))
                .limited(statement(
                    "raise the cgroup's cpu.max (docker --cpus, systemd CPUQuota=), or use -t \
                     auto, which stops at the quota",
                ))
        }
        Some(quota) => check(format!("{quota:.2} CPUs of time, no limit in effect")),
        None => check("none".to_owned()),
    }
}

/// Whether other work runs beside the measurement.
pub(super) fn load(environment: &Environment) -> Check {
    let check = |detail| Check::ok("load", "knee run: quiet CPUs", detail);
    let Some([one, five, _]) = environment.load_average else {
        return check("cannot read /proc/loadavg".to_owned())
            .limited(statement("mount /proc, or make sure that nothing else is running"));
    };
    let cpus = environment.usable_cpus.len();
    let check = check(format!("{one:.2} over 1 minute, {five:.2} over 5, on {cpus} CPUs"));
    if one > QUIET_LOAD_PER_CPU * cpus as f64 {
        return check.limited(statement(
            "stop what `ps -eo pcpu,pid,user,args --sort=-pcpu | head` shows, or wait for it",
        ));
    }
    check
}

/// Whether the hypervisor gave this machine's CPU time to other guests.
pub(super) fn steal() -> Check {
    let check = |detail| Check::ok("stolen time", "knee run: CPUs that are really there", detail);
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    match steal_percent(&stat) {
        None => check("unknown".to_owned()).limited(statement("/proc/stat does not report it")),
        Some(percent) if percent > QUIET_STEAL_PERCENT => {
            check(format!("{percent:.1}% since boot")).limited(statement(
                "the host runs other guests on these CPUs; only a dedicated host or pinned \
                 virtual CPUs prevent that. knee marks the affected samples",
            ))
        }
        Some(percent) => check(format!("{percent:.1}% since boot")),
    }
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
pub(super) fn governor(environment: &Environment) -> Check {
    let check = |detail: &str| Check::ok("governor", "knee run: a steady frequency", detail);
    match environment.governor.as_deref() {
        Some("performance") => check("performance"),
        Some(other) => check(other).limited(command(
            "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        )),
        None => check("not visible").limited(statement(match environment.hypervisor {
            Some(_) => "only the host can see and set the frequency",
            None => "this kernel has no cpufreq driver for the machine; set it in the firmware",
        })),
    }
}

/// Whether one busy core runs faster than many busy cores.
pub(super) fn turbo(environment: &Environment) -> Check {
    let check = |detail: &str| {
        Check::ok(
            "turbo",
            "knee run: turbo speeds up a single task, so scaling looks worse",
            detail,
        )
    };
    let intel = Path::new("/sys/devices/system/cpu/intel_pstate/no_turbo");
    match environment.turbo {
        Some(false) => check("off"),
        Some(true) if intel.exists() => {
            check("on").limited(command(format!("echo 1 | sudo tee {}", intel.display())))
        }
        Some(true) => {
            check("on").limited(command("echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"))
        }
        None => check("not visible").limited(statement(match environment.hypervisor {
            Some(_) => "only the host can see and set turbo",
            None => "the kernel cannot switch it on this machine; look in the firmware settings",
        })),
    }
}

/// What knee can sample in this process.
pub(super) fn sampling() -> Check {
    let check = |detail: String| Check::ok("sampling", "knee profile: where the cycles go", detail);
    let ours = Target::Process(std::process::id().cast_signed());
    match Sampler::open(&ours, &Options::default()) {
        Err(error) => {
            let error = anyhow::Error::from(error);
            check("not permitted".to_owned()).missing(statement(format!("{error:#}")))
        }
        Ok(sampler) => {
            let event = &sampler.clock().event;
            let check = match event.as_str() {
                "cycles" => check("by cycles".to_owned()),
                _ => {
                    check(format!("by {event}, a timer, because this machine cannot count cycles"))
                }
            };
            match (sampler.sees_kernel(), sampler.knows_kernel_names()) {
                (true, true) => check,
                (false, _) => Check { detail: "without the kernel".to_owned(), ..check }
                    .limited(command("sudo sysctl kernel.perf_event_paranoid=1")),
                (true, false) => Check {
                    detail: "the kernel hides the names of its functions".to_owned(),
                    ..check
                }
                .limited(command(
                    "sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1",
                )),
            }
        }
    }
}

/// Whether cores have several threads.
pub(super) fn smt(environment: &Environment) -> Check {
    let detail = match environment.smt_active {
        Some(true) => "on; --placement cores takes siblings last",
        Some(false) => "off",
        None => "not reported",
    };
    Check::ok("SMT", "knee run: how tasks are placed on cores", detail)
}

/// Whether CPUs are isolated from other tasks. Most machines have no isolated CPUs, and need none.
pub(super) fn isolated_cpus(environment: &Environment) -> Check {
    let detail = match &environment.isolated_cpus {
        Some(cpus) if !cpus.is_empty() => format!("{cpus}; use them with taskset -c {cpus} knee"),
        _ => "none; isolcpus= on the kernel's command line isolates CPUs".to_owned(),
    };
    Check::ok("isolated CPUs", "knee run: the least noise", detail)
}

/// Whether reading the time is cheap.
pub(super) fn clock(environment: &Environment) -> Check {
    let check = |detail: &str| Check::ok("clock source", "knee run: measured intervals", detail);
    match environment.clocksource.as_deref() {
        // Those that the vDSO cannot read cost a system call and a slow device access.
        Some(slow @ ("hpet" | "acpi_pm" | "jiffies" | "refined-jiffies")) => {
            check(slow).limited(statement(
                "`sudo dmesg | grep -i -e clocksource -e tsc` shows why the kernel does not use \
                 the TSC",
            ))
        }
        Some(clock) => check(clock),
        None => check("not reported; knee uses the clock as it is"),
    }
}

/// Whether the kernel moves memory and tasks between nodes while knee measures; `None` with a
/// single node.
pub(super) fn numa_balancing(environment: &Environment) -> Option<Check> {
    let nodes = environment.topology.as_ref()?.nodes;
    let check = |detail: &str| {
        Check::ok("NUMA balancing", "knee run: memory and tasks that stay on their node", detail)
    };
    match environment.numa_balancing {
        Some(true) if nodes > 1 => {
            Some(check("on").limited(command("sudo sysctl kernel.numa_balancing=0")))
        }
        _ if nodes > 1 => Some(check("off")),
        _ => None,
    }
}

/// Whether one task per CPU can open all of its files.
pub(super) fn open_files(environment: &Environment) -> Check {
    let needed = FILES_PER_TASK * environment.usable_cpus.len() as u64;
    let in_words = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |n| n.to_string());
    let (soft, hard) = (environment.open_files_soft_limit, environment.open_files_hard_limit);
    let detail = format!("{}, can be raised to {}", in_words(soft), in_words(hard));
    let check = Check::ok("open files", "knee run: poll and select testcases", detail);
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= needed);
    match () {
        () if enough(soft) => check,
        () if enough(hard) => check.limited(command(format!("ulimit -n {needed}"))),
        () => check.limited(command(format!("sudo prlimit --pid $$ --nofile={needed}"))),
    }
}

/// Transparent huge pages, and pages reserved for hugetlb.
pub(super) fn huge_pages(environment: &Environment) -> Check {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let reserved = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("HugePages_Total:"))
        .map_or("0", str::trim);
    let check = |setting: &str| {
        let detail = format!("transparent: {setting}; hugetlb pages reserved: {reserved}");
        Check::ok("huge pages", "knee run: zero_fill2, and what page_fault1 counts", detail)
    };
    match environment.transparent_huge_pages.as_deref() {
        Some("never") => check("never").missing(command(
            "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
        )),
        Some(setting) => check(setting),
        None => check("not built in").missing(statement(
            "this kernel is built without transparent huge pages; boot another one",
        )),
    }
}

/// Whether a memory file system is available to build and write in.
pub(super) fn shared_memory() -> Check {
    let path = Path::new("/dev/shm");
    let check = |detail: String| {
        Check::ok("/dev/shm", "knee run: file testcases and build1 without a disk", detail)
    };
    let mount = command("sudo mount -t tmpfs -o mode=1777 tmpfs /dev/shm");
    let writable = rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    match (filesystem::kind(path), filesystem::bytes_free(path)) {
        (Some(kind), Some(free)) if kind == "tmpfs" => {
            let check = check(format!("tmpfs, {} MiB free", free >> 20));
            match () {
                () if !writable => check.limited(command("sudo chmod 1777 /dev/shm")),
                () if free < SHARED_MEMORY_BYTES => {
                    check.limited(command("sudo mount -o remount,size=1g /dev/shm"))
                }
                () => check,
            }
        }
        (Some(kind), _) => check(format!("{kind}, not tmpfs")).limited(mount),
        (None, _) => check("not there".to_owned()).limited(mount),
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
    fn load_is_judged_by_the_number_of_cpus() {
        let mut environment = environment();
        assert_eq!(load(&environment).status, Status::Ok);
        environment.load_average = Some([1.0, 0.1, 0.1]);
        assert_eq!(load(&environment).status, Status::Limited);
    }

    #[test]
    fn a_quota_matters_only_below_the_number_of_cpus() {
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
    fn steal_is_the_eighth_time_of_the_first_line() {
        assert_eq!(steal_percent("cpu  50 0 0 40 0 0 0 10 99 99\ncpu0 1\n"), Some(10.0));
        assert_eq!(steal_percent("cpu  50 0\n"), None);
        assert_eq!(steal_percent(""), None);
    }
}
