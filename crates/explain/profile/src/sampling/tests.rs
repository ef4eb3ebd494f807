use std::collections::HashMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use knee_host::skip::skip;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::*;
use crate::capture::{Kind, Unit};

/// Builds `tests/programs/known.c`, or returns the reason why that is impossible here.
pub(crate) fn known(dir: &Path, rounds: u32) -> Result<PathBuf, String> {
    let program = dir.join("known");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/known.c");
    let mut gcc = Command::new("gcc");
    gcc.args([
        "-O1",
        "-g",
        "-fno-omit-frame-pointer",
        "-mno-omit-leaf-frame-pointer",
        "-pthread",
        "-o",
    ]);
    gcc.arg(&program).arg(source).arg(format!("-DROUNDS={rounds}"));
    match gcc.status() {
        Ok(status) => {
            assert!(status.success());
            Ok(program)
        }
        Err(error) => Err(format!("gcc: {error}")),
    }
}

/// A shell with pipes for input and output.
pub(super) fn shell(script: &str) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// A process that executes the program once it is released.
fn held(program: &Path) -> (Child, impl FnOnce()) {
    let (mut release, wait) = std::io::pipe().map(|(read, write)| (write, read)).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "read line; exec \"$0\""]).arg(program);
    command.stdin(Stdio::from(wait)).process_group(0);
    let child = command.spawn().unwrap();
    (child, move || std::io::Write::write_all(&mut release, b"go\n").unwrap())
}

/// Total and self share of each function.
fn shares(capture: &Capture) -> HashMap<&str, (f64, f64)> {
    let mut shares: HashMap<&str, (u64, u64)> = HashMap::new();
    for count in &capture.counts {
        let names: Vec<&str> = capture
            .functions_of(count.stack)
            .map(|function| capture.functions[function as usize].name.as_str())
            .collect();
        if let Some(innermost) = names.first() {
            shares.entry(innermost).or_default().1 += count.samples;
        }
        let mut seen = names.clone();
        seen.sort_unstable();
        seen.dedup();
        for name in seen {
            shares.entry(name).or_default().0 += count.samples;
        }
    }
    let all = capture.samples() as f64;
    let share = |(total, own): (u64, u64)| (total as f64 / all, own as f64 / all);
    shares.into_iter().map(|(name, counts)| (name, share(counts))).collect()
}

/// Samples with events of threads, even if events of CPUs are permitted.
fn by_threads(target: &Target, options: &Options) -> Result<Sampler, SampleError> {
    let Options { every, frequency, .. } = *options;
    let mut chosen = event::choose(target, What::Clock { every, frequency }, Ring::BYTES)?;
    chosen.of_cpus = false;
    Sampler::with(target, options, chosen)
}

#[test]
fn a_process_that_renames_itself_all_the_time_loses_no_samples() {
    let mut child = shell("while :; do echo name > /proc/$$/comm; done");
    let target = Target::Process(child.id() as i32);
    let what = What::Clock { every: Every::CpuClock, frequency: 1 };
    let options = Options { every: Every::CpuClock, frequency: 1, ..Options::default() };
    let losses = || {
        // The smallest buffer, which is scanned five times a second.
        let chosen = event::choose(&target, what, 1)?;
        let counts_lost = chosen.counts_lost;
        let mut sampler = Sampler::with(&target, &options, chosen)?;
        sampler.enable()?;
        std::thread::sleep(Duration::from_secs(1));
        Ok::<_, SampleError>((counts_lost, sampler.finish("", "", None)?.losses))
    };
    let losses = losses();
    child.kill().and_then(|()| child.wait()).unwrap();
    match losses {
        Ok((true, losses)) => {
            assert!(losses.untracked > 100 && losses.lost < 20, "{losses:?}");
        }
        Ok((false, _)) => skip("sampling", "Linux before 6.0 does not count lost records"),
        Err(error) => skip("sampling", error),
    }
}

#[test]
fn a_known_program_has_its_known_shares() {
    known_shares_are_found(Sampler::open);
}

#[test]
fn a_known_program_has_its_known_shares_with_events_of_threads() {
    known_shares_are_found(by_threads);
}

fn known_shares_are_found(open: fn(&Target, &Options) -> Result<Sampler, SampleError>) {
    let dir = tempfile::tempdir().unwrap();
    let program = match known(dir.path(), 2500) {
        Ok(program) => program,
        Err(reason) => return skip("cc", reason),
    };
    let (mut child, go) = held(&program);
    let sampler = match open(&Target::Exec(child.id() as i32), &Options::default()) {
        Ok(sampler) => sampler,
        Err(error) => {
            child.kill().and_then(|()| child.wait()).unwrap();
            return skip("sampling", error);
        }
    };
    let stolen = stolen();
    go();
    // A process that was waited for has no clock any more.
    let exited = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(&child)), exited).unwrap();
    let capture = sampler.finish("known", "", None).unwrap();
    assert!(child.wait().unwrap().success());

    let samples = capture.samples() as f64;
    assert!(samples > 200.0, "{samples} samples are too few");
    // The shell may become the program before its first sample. The kernel gives a thread that has left the table of
    // threads the TID -1 (`perf_event_pid_type` in kernel/events/core.c), so its last sample has no program.
    let of = |name: &str| {
        let counts = capture.counts.iter();
        counts
            .filter(|count| capture.programs[count.program as usize] == name)
            .map(|count| count.samples)
            .sum()
    };
    let [known, shell, unknown]: [u64; 3] = ["known", "sh", "[unknown]"].map(of);
    assert_eq!(known + shell + unknown, capture.samples(), "{:?}", capture.programs);
    assert!(unknown <= 2, "{unknown} samples have no program: {:?}", capture.losses);
    let shares = shares(&capture);
    let all = shares["work"].0;
    // Six standard deviations of a binomial count: once in 500 million.
    let error = |share: f64| 6.0 * (share * (1.0 - share) / samples).sqrt();
    for (name, share) in
        [("one_of_ten", 0.1), ("three_of_ten", 0.3), ("two_of_ten", 0.2), ("down", 0.4)]
    {
        let found = shares[name].0 / all;
        assert!(
            (found - share).abs() < error(share),
            "{name}: {found:.3}, not {share}; {samples} samples"
        );
    }
    // Interrupts in both count as the kernel's. Under other load, they can have a tenth of the samples.
    let itself = |name| shares[name].1;
    let unit = itself("unit") / (itself("unit") + itself("folded_in"));
    assert!((unit - 0.8).abs() < error(0.8), "unit itself: {unit:.3}");
    let inlined = capture.functions.iter().find(|function| function.name == "folded_in").unwrap();
    assert!(inlined.inlined && inlined.kind == Kind::User);
    assert_eq!(inlined.module.as_deref(), program.to_str());

    let deepest = capture
        .counts
        .iter()
        .map(|count| {
            let names = capture.functions_of(count.stack);
            names.filter(|name| capture.functions[*name as usize].name == "down").count()
        })
        .max();
    assert_eq!(deepest, Some(41), "each level of a recursion is recorded");
    all_time_is_sampled(&capture, self::stolen() - stolen);
}

/// Seconds of steal time, if the host reports it.
fn stolen() -> f64 {
    let all = std::fs::read_to_string("/proc/stat").unwrap();
    let ticks = all.lines().next().and_then(|line| line.split_whitespace().nth(8));
    ticks.map_or(0.0, |ticks| ticks.parse::<f64>().unwrap() / 100.0)
}

/// Checks that samples cover the CPU time exactly: no thread is missing or counted twice. Steal time takes
/// samples away.
fn all_time_is_sampled(capture: &Capture, stolen: f64) {
    if capture.clock.unit != Unit::Nanoseconds {
        return println!("skipped: cycles do not measure seconds");
    }
    if capture.clock.user_only {
        return println!("skipped: time in the kernel is not sampled here");
    }
    if capture.losses.lost > 0 || stolen > 0.1 {
        let lost = capture.losses.lost;
        return println!("skipped: {lost} samples were lost, and {stolen} s were stolen");
    }
    let (cpu, of_samples) = (capture.cpu_seconds.unwrap(), capture.weight() as f64 / 1e9);
    let ratio = of_samples / cpu;
    assert!(ratio > 0.6 && ratio < 1.5, "{of_samples} s sampled, {cpu} s used");
}

#[test]
fn a_running_process_is_sampled() {
    running_is_sampled(Sampler::open);
}

#[test]
fn a_running_process_is_sampled_with_events_of_threads() {
    running_is_sampled(by_threads);
}

fn running_is_sampled(open: fn(&Target, &Options) -> Result<Sampler, SampleError>) {
    let mut child = shell("while :; do :; done");
    let result = sampled(&mut child, open);
    child.kill().and_then(|()| child.wait()).unwrap();
    let capture = match result {
        Ok(capture) => capture,
        Err(error) => return skip("sampling", error),
    };
    assert_eq!(capture.programs, ["sh"]);
    assert!(capture.samples() >= 30);
    assert!(capture.seconds.unwrap() > 0.0);
    let has_used_some = capture.cpu_seconds.is_some_and(|seconds| seconds > 0.0);
    assert_eq!(has_used_some, !capture.clock.user_only, "counted if the kernel is sampled");
    let is_named = |function: &&crate::capture::Function| !function.name.starts_with('[');
    assert!(capture.functions.iter().any(|function| is_named(&function)));
}

/// Samples a process until there are some samples.
fn sampled(
    child: &mut Child,
    open: fn(&Target, &Options) -> Result<Sampler, SampleError>,
) -> Result<Capture, SampleError> {
    let mut sampler = open(&Target::Process(child.id() as i32), &Options::default())?;
    sampler.enable()?;
    while sampler.seen() < 30 && child.try_wait().is_ok_and(|ended| ended.is_none()) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    sampler.finish("sh", "2026-11-22T10:00:00Z", None)
}

#[test]
fn earlier_children_are_neither_sampled_nor_counted() {
    let dir = tempfile::tempdir().unwrap();
    let elder = dir.path().join("elder");
    std::os::unix::fs::symlink("/bin/sh", &elder).unwrap();
    // The child spins all the time, and its parent until there are enough samples.
    let spin = "while :; do :; done";
    let script = format!("{} -c '{spin}' & echo $!; read line; {spin}", elder.display());
    let mut child = shell(&script);
    let mut line = String::new();
    let mut told = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut told, &mut line).unwrap();
    let elder = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
    drop(child.stdin.take());
    let result = sampled(&mut child, Sampler::open);
    let own = cpu_time::clock(child.id() as i32);
    child.kill().and_then(|()| child.wait()).unwrap();
    rustix::process::kill_process(elder, rustix::process::Signal::KILL).unwrap();
    let capture = match result {
        Ok(capture) => capture,
        Err(error) => return skip("sampling", error),
    };
    assert_eq!(capture.programs, ["sh"]);
    // The child uses at least as much CPU time meanwhile.
    let own = own.unwrap().as_secs_f64();
    assert_eq!(capture.cpu_seconds.is_some(), !capture.clock.user_only);
    if let Some(cpu) = capture.cpu_seconds {
        assert!(cpu <= own, "{cpu} s used, of which {own} s are the parent's");
    }
}

#[test]
fn a_tree_is_sampled_with_old_and_new_descendants() {
    tree_is_sampled(Sampler::open);
}

#[test]
fn a_tree_is_sampled_with_old_and_new_descendants_with_events_of_threads() {
    tree_is_sampled(by_threads);
}

fn tree_is_sampled(open: fn(&Target, &Options) -> Result<Sampler, SampleError>) {
    let dir = tempfile::tempdir().unwrap();
    // `old` is a grandchild that spins already, and `new` a child that starts later.
    let script = "./parent -c './old -c \"$SPIN\" & echo $!; wait' & read -r line
        ./new -c \"$SPIN\" & echo $!; read -r line";
    let mut command = Command::new("sh");
    command.args(["-c", script]).env("SPIN", "while :; do :; done").current_dir(dir.path());
    for name in ["parent", "old", "new"] {
        std::os::unix::fs::symlink("/bin/sh", dir.path().join(name)).unwrap();
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut next_pid = || {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        line.trim().parse::<i32>().unwrap()
    };
    // A sample is due every millisecond.
    let has_run = |pid: i32| {
        let used = cpu_time::clock(pid).unwrap();
        while cpu_time::clock(pid).unwrap() < used + std::time::Duration::from_millis(50) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    let old = next_pid();
    let sampler = open(&Target::Trees(vec![child.id() as i32]), &Options::default());
    let taken = sampler.and_then(|mut sampler| {
        sampler.enable()?;
        has_run(old);
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"go\n").unwrap();
        let new = next_pid();
        has_run(new);
        let running = sampler.running();
        sampler.disable()?;
        Ok((new, running, sampler.finish("tree", "", None)?))
    });
    let new = taken.as_ref().ok().map(|(new, ..)| *new);
    for pid in [Some(old), new].into_iter().flatten() {
        let pid = Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    drop(child.stdin.take());
    child.wait().unwrap();
    let (_, running, capture) = match taken {
        Ok(taken) => taken,
        Err(error) => return skip("sampling", error),
    };
    assert_eq!(running, 3, "the shell, the parent and the old one");
    for name in ["old", "new"] {
        let program = capture.programs.iter().position(|program| program == name);
        let program = program.unwrap_or_else(|| panic!("{name}: {:?}", capture.programs));
        let counts = capture.counts.iter().filter(|count| count.program as usize == program);
        let samples: u64 = counts.map(|count| count.samples).sum();
        assert!(samples >= 20, "{samples} samples of {name}");
    }
    if let Some(cpu) = capture.cpu_seconds {
        assert!(cpu >= 0.1, "both ran for 50 ms, but the tree used {cpu} s");
    }
}

#[test]
fn a_missing_process_is_reported() {
    // PIDs are below 4 million.
    let error = Sampler::open(&Target::Process(5_000_000), &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "process 5000000 does not exist; `ps` lists processes");
}
