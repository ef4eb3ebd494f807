//! Reading the counters: rates over measured time, and reasons to distrust them.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use knee_host::CpuList;
use knee_host::clock::seconds;
use knee_host::number::{percent, time};
use knee_results::{CpuShares, Latency, Mark};
use knee_stats::Histogram;
use rustix::process::{Pid, getpid, getppid};
use rustix::time::ClockId;

use super::loaded::Loaded;
use super::run_delays::RunDelays;
use super::spawn::Tasks;
use crate::account::{Balance, CountedEvents, CpuTimes, CpuUse, Ledger, TaskClocks};
use crate::area::{Area, Slot};
use crate::job::{Failure, FailureKind, Job, Phase, Sample};
use crate::task::seats;
use crate::timer::{Timer, TimerReader};

/// A task that waited for its CPU for more than this share of an interval was preempted.
const STARVED_SHARE: f64 = 0.10;
/// If tasks lost more than this share of the CPU time of an interval, other work ran on their CPUs.
const LOST_SHARE: f64 = 0.05;
/// If the unmarked part of a round lost more than this share of its CPU time, the whole round is
/// marked. A smaller loss changes the rate by less than what a comparison claims by default.
const LOST_SHARE_OF_ROUND: f64 = 0.02;
/// Replaces both shares if kernel threads are invisible, as in a container. The time of kernel threads
/// that work for the tasks then counts as lost.
const LOST_SHARE_IF_BLIND: f64 = 0.10;
/// Longest timer tick of common kernels (CONFIG_HZ=250): how late the clock of a running task may be.
const TIMER_TICK: f64 = 0.004;
/// The steal share of an interval that causes a mark.
const STOLEN_SHARE: f64 = 0.05;
/// /proc/stat counts in steps of 10 ms, so a single tick is not significant.
const STOLEN_SECONDS: f64 = 0.02;
/// An interval that exceeds its requested length by this factor was taken late.
const LATE_FACTOR: f64 = 1.5;
/// Clocks with different discipline drift apart by parts per million; more is a jump.
const CLOCK_TOLERANCE: f64 = 0.01;
/// How long a task that shares its CPU may count nothing before its sample is marked, for each task
/// on the CPU. A task with its own CPU is marked whenever it counts nothing: the kernel accounts
/// for a wait only when the task runs again, so nothing else shows a wait of a whole interval.
const STALLED_SECONDS: f64 = 0.1;

/// No task counts more than this per second, even if it counts bytes.
const MOST_PER_SECOND: f64 = 1e13;
/// In a shorter time, in seconds, it may add many at once.
const SHORT: f64 = 0.01;

/// If reading the clock costs more than this share of a typical iteration, the times would describe the
/// clock: it varies from reading to reading, and parts of it run beside the iteration.
const MOST_CLOCK: f64 = 0.2;

/// If a progress check is this much later than planned, the machine itself was stopped, such as a
/// guest by a busy host, because the sampler has the highest priority if that is permitted.
const STOOD_STILL_SECONDS: f64 = 0.25;

/// Takes the samples of one round.
pub(super) struct Sampler<'a> {
    area: &'a Area,
    tasks: usize,
    stalled_after: f64,
    /// `None` if tasks wait for their CPU by design.
    delays: Option<RunDelays>,
    /// The CPUs of the tasks and of their helpers.
    cpus: Vec<u32>,
    times: CpuTimes,
    /// `None` if the CPU time of the tasks is not enough to tell what other work got.
    task_clocks: Option<TaskClocks>,
    /// The account of the whole round; `None` if other work may use CPUs that tasks leave idle.
    ledger: Option<Ledger>,
    /// The part of that account in marked intervals.
    marked: Balance,
    /// Reads the times of single iterations; `None` if they are not measured.
    timers: Option<TimerReader>,
    /// The times of the iterations of the last interval.
    iterations: Histogram,
    /// `None` if events are not counted.
    counted: Option<CountedEvents>,
    reference: f64,
    memory: Option<f64>,
    next: Instant,
    clocks: Clocks,
    /// The first reading of each task.
    first: Vec<Reading>,
    /// The last reading of each task.
    last: Vec<Reading>,
    /// When each task last made progress, without the time in which the sampler could not check.
    moved: Vec<f64>,
    /// The time of the last progress check.
    looked: f64,
    /// Tasks that completed no iteration in the last interval.
    idle: Vec<usize>,
    /// What is wrong with a counter in the last interval.
    wrong: Option<String>,
    warm: bool,
}

#[derive(Clone, Copy)]
struct Reading {
    count: u64,
    at: f64,
}

impl Reading {
    /// The iterations since `before`; 0 if the counter was set back, which [`Sampler::check_counts`] reports.
    fn since(&self, before: &Self) -> u64 {
        self.count.saturating_sub(before.count)
    }
}

/// The three clocks at one moment, in seconds.
#[derive(Clone, Copy)]
struct Clocks {
    raw: f64,
    monotonic: f64,
    boot: f64,
}

impl Clocks {
    fn read() -> Self {
        Self {
            raw: seconds(ClockId::MonotonicRaw),
            monotonic: seconds(ClockId::Monotonic),
            boot: seconds(ClockId::Boottime),
        }
    }

    /// Whether the clocks disagree about the time since `before`: the machine was suspended, or its
    /// clock was stepped or stopped.
    fn disagree_since(&self, before: &Self) -> bool {
        let raw = self.raw - before.raw;
        let off = |other: f64| (other - raw).abs() > CLOCK_TOLERANCE * raw + 1e-4;
        off(self.monotonic - before.monotonic) || off(self.boot - before.boot)
    }
}

impl<'a> Sampler<'a> {
    /// Must be called when all tasks are ready, and before the gate opens.
    pub(super) fn new(job: &Job, loaded: &Loaded, area: &'a Area, tasks: &mut Tasks) -> Self {
        let n = job.tasks as usize;
        let settings = loaded.settings();
        let mut used: Vec<u32> = (0..n)
            .filter_map(|nr| seats(job.seats(), settings, nr))
            .flat_map(|s| [s.task, s.helper])
            .collect();
        if used.is_empty() {
            used.clone_from(&job.cpus);
        }
        used.sort_unstable();
        used.dedup();
        // Tasks that the busiest CPU has to serve.
        let crowd = n.div_ceil(job.cpus.len().max(1));
        let steps = loaded.built_in().map_or(0.0, |selected| selected.testcase.min_interval);
        let watch_delays = crowd == 1 && !loaded.has_helpers();
        // Without pinning, other work may run on a CPU that no task wants.
        let fills_its_cpus = job.pin || n >= used.len();
        // The runner and knee, if they have no CPU of their own.
        let measuring: Vec<Pid> = match job.sampler_cpu {
            None => [Some(getpid()), getppid()].into_iter().flatten().collect(),
            Some(_) => Vec::new(),
        };
        // Without a timer tick, the clock of a running task advances about once per second.
        let tickless = tickless_cpus();
        let has_ticks = !used.iter().any(|&cpu| tickless.contains(cpu));
        let memory: Vec<f64> = area.slots().filter_map(Slot::bandwidth).collect();
        Self {
            area,
            tasks: n,
            stalled_after: if crowd > 1 { STALLED_SECONDS * crowd as f64 } else { steps },
            delays: watch_delays.then(|| {
                let slots = area.slots().enumerate();
                RunDelays::watch(slots.map(|(nr, s)| (tasks.pid(nr).as_raw_pid(), s.thread())))
            }),
            times: CpuTimes::watch(&used),
            task_clocks: (fills_its_cpus && has_ticks)
                .then(|| TaskClocks::watch(tasks.pids()))
                .flatten(),
            ledger: fills_its_cpus.then(|| Ledger::open(&used, tasks.pids(), &measuring)).flatten(),
            marked: Balance::default(),
            timers: job.latency.map(|_| TimerReader::new(n)),
            iterations: Histogram::default(),
            counted: tasks.take_counted(),
            memory: (!memory.is_empty()).then(|| memory.iter().sum::<f64>() / memory.len() as f64),
            reference: area.slots().map(Slot::speed).sum::<f64>() / n as f64,
            cpus: used,
            next: Instant::now(),
            clocks: Clocks::read(),
            first: Vec::new(),
            last: Vec::with_capacity(n),
            moved: Vec::with_capacity(n),
            looked: 0.0,
            idle: Vec::new(),
            wrong: None,
            warm: job.warmup <= 0.0,
        }
    }

    /// Starts the first interval.
    pub(super) fn begin(&mut self) {
        self.next = Instant::now();
        self.clocks = Clocks::read();
        self.last = self.read();
        self.first = self.last.clone();
        if let Some(counted) = &mut self.counted {
            counted.since_last();
        }
        self.moved = self.last.iter().map(|reading| reading.at).collect();
        self.looked = seconds(ClockId::MonotonicRaw);
        if let Some(delays) = &mut self.delays {
            delays.longest();
        }
        self.times.since_last();
        if let Some(clocks) = &mut self.task_clocks {
            clocks.since_last();
        }
    }

    /// The end of an interval that starts at the end of the last one and lasts `seconds`.
    pub(super) fn deadline(&mut self, seconds: f64) -> Instant {
        self.next += Duration::from_secs_f64(seconds);
        self.next
    }

    /// Ends the interval whose requested length is `asked` seconds.
    pub(super) fn sample(&mut self, asked: f64) -> Sample {
        let now = self.read();
        let counters = self.counted.as_mut().map(CountedEvents::since_last);
        if let Some(timers) = &mut self.timers {
            self.iterations = timers.since_last(self.area.timers());
        }
        let clocks = Clocks::read();
        let lengths = || now.iter().zip(&self.last).map(|(now, last)| now.at - last.at);
        self.wrong = now.iter().zip(&self.last).enumerate().find_map(|(nr, (now, last))| {
            let (before, after, seconds) = (last.count, now.count, now.at - last.at);
            let what = match after.checked_sub(before) {
                None => "counted backwards",
                Some(count) if count as f64 > MOST_PER_SECOND * seconds.max(SHORT) => {
                    "counted more than a CPU can do"
                }
                Some(_) => return None,
            };
            Some(format!("task {nr} {what}: from {before} to {after} in {seconds:.2e} s"))
        });
        let counts: Vec<u64> =
            now.iter().zip(&self.last).map(|(now, last)| now.since(last)).collect();
        let rates = counts.iter().zip(lengths()).map(|(&n, s)| n as f64 / s).collect();
        let seconds = lengths().sum::<f64>() / self.tasks as f64;

        let mut marks = Vec::new();
        let delay = self.delays.as_mut().map_or(0.0, RunDelays::longest);
        let alone = !self.area.helpers().load(Ordering::Relaxed);
        let cpu = self.times.since_last();
        let balance = cpu.and_then(|used| self.balance(seconds, &used));
        let lost = cpu.zip(balance).is_some_and(|(used, balance)| self.lost_much(&balance, &used));
        if (alone && delay > STARVED_SHARE * seconds) || lost {
            marks.push(Mark::Starved);
        }
        let stolen = cpu.map_or(0.0, |used| used.most_stolen);
        if stolen > STOLEN_SECONDS.max(STOLEN_SHARE * seconds) {
            marks.push(Mark::Steal);
        }
        if seconds > LATE_FACTOR * asked + 0.005 {
            marks.push(Mark::Late);
            // Catching up would only produce intervals that are too short.
            self.next = Instant::now();
        }
        if clocks.disagree_since(&self.clocks) {
            marks.push(Mark::Clock);
        }
        if counts.contains(&0) && seconds > self.stalled_after {
            marks.push(Mark::Stalled);
        }

        if let Some(Balance { had, lost }) = balance.filter(|_| !marks.is_empty()) {
            self.marked = self.marked + Balance { had, lost: lost.max(0.0) };
        }
        let phase = if self.warm { Phase::Measure } else { Phase::Warmup };
        self.warm = true;
        self.idle = (0..self.tasks).filter(|&nr| counts[nr] == 0).collect();
        for (moved, (reading, &count)) in self.moved.iter_mut().zip(now.iter().zip(&counts)) {
            if count > 0 {
                *moved = reading.at;
            }
        }
        self.last = now;
        self.clocks = clocks;
        let lost = balance.as_ref().map(Balance::share);
        let described =
            self.described(phase, seconds, rates, cpu.map(|used| used.shares), lost, marks);
        if phase == Phase::Warmup {
            return described;
        }
        Sample { latency: self.latency(), counters, ..described }
    }

    /// The times of single iterations in the last interval.
    fn latency(&self) -> Option<Latency> {
        let times = self.iterations.clone();
        let clock = Some(self.cost_of_clock());
        (!times.is_empty()).then(|| Latency { times, clock, ..Latency::default() })
    }

    /// Nanoseconds that a reading of the clock costs, averaged over the tasks.
    fn cost_of_clock(&self) -> f64 {
        self.area.timers().map(Timer::cost).sum::<u64>() as f64 / self.tasks as f64
    }

    /// Returns a failure if a counter did not count iterations in the last interval.
    pub(super) fn check_counts(&self) -> Result<(), Failure> {
        let Some(wrong) = &self.wrong else { return Ok(()) };
        let remedy = "a plug-in must only add to its counter";
        Err(Failure::new(FailureKind::Died, wrong.clone(), remedy))
    }

    /// Returns a failure if the clock costs too large a share of an iteration of the last interval.
    pub(super) fn check_clock(&self) -> Result<(), Failure> {
        let (clock, iteration) = (self.cost_of_clock(), self.iterations.quantile(0.5));
        if self.iterations.is_empty() || clock <= MOST_CLOCK * iteration {
            return Ok(());
        }
        let reason = format!(
            "reading the clock takes {}, more than {} of the median iteration ({}), so knee cannot \
             measure the latency of this testcase",
            time(clock / 1e9),
            percent(MOST_CLOCK),
            time(iteration / 1e9)
        );
        let remedy = "leave out --latency to measure only its rate";
        Err(Failure::new(FailureKind::CannotRun, reason, remedy))
    }

    /// What the tasks lost in an interval that just ended.
    fn balance(&mut self, seconds: f64, used: &CpuUse) -> Option<Balance> {
        let clocks = self.task_clocks.as_mut()?;
        let mut balance = Balance::of(self.cpus.len(), seconds, used, clocks.since_last()?);
        if !self.lost_much(&balance, used) {
            return Some(balance);
        }
        // Perhaps not to others. Looking is too slow to do it for each sample.
        balance.lost -=
            self.ledger.as_mut().map_or(0.0, |ledger| ledger.of_kernel_threads(seconds));
        let clocks = self.task_clocks.as_ref()?;
        if self.lost_much(&balance, used) && clocks.have_children() {
            // Only the account of the round contains the CPU time of children.
            self.task_clocks = None;
            return None;
        }
        Some(balance)
    }

    /// Whether the tasks lost more in an interval than the inexact clocks explain.
    fn lost_much(&self, balance: &Balance, used: &CpuUse) -> bool {
        balance.has_lost(self.tolerated(LOST_SHARE), self.cpus.len(), used, TIMER_TICK)
    }

    fn tolerated(&self, share: f64) -> f64 {
        let is_blind = !self.ledger.as_ref().is_some_and(Ledger::sees_kernel_threads);
        if is_blind { LOST_SHARE_IF_BLIND } else { share }
    }

    /// The whole round, with the speed of the reference loop after it. Its marks apply to all samples. The
    /// tasks must be dead and waited for.
    pub(super) fn round(mut self) -> Sample {
        let mut marks = Vec::new();
        let share = self.tolerated(LOST_SHARE_OF_ROUND);
        let account = self.ledger.take().and_then(Ledger::close);
        if let Some((all, used, _)) = &account
            && (*all - self.marked).has_lost(share, self.cpus.len(), used, 0.0)
        {
            marks.push(Mark::Starved);
        }
        let cpu = account.map(|(_, used, _)| used.shares);
        let lost = account.map(|(all, ..)| all.share());
        let both = || self.last.iter().zip(&self.first);
        let rate =
            |(last, first): (&Reading, &Reading)| last.since(first) as f64 / (last.at - first.at);
        let seconds =
            both().map(|(last, first)| last.at - first.at).sum::<f64>() / self.tasks as f64;
        let rates = both().map(rate).collect();
        let reference = knee_reference::speed_on(&self.cpus);
        Sample { reference, ..self.described(Phase::Round, seconds, rates, cpu, lost, marks) }
    }

    fn described(
        &self,
        phase: Phase,
        seconds: f64,
        rates: Vec<f64>,
        cpu: Option<CpuShares>,
        lost: Option<f64>,
        marks: Vec<Mark>,
    ) -> Sample {
        Sample {
            phase,
            seconds,
            rates,
            cpu,
            lost,
            reference: Some(self.reference),
            memory: self.memory,
            server: None,
            latency: None,
            latency_failure: None,
            counters: None,
            marks,
            left_running: Vec::new(),
        }
    }

    /// Whether a task completed no iteration in the last interval and has made no progress since.
    pub(super) fn has_idle_task(&mut self) -> bool {
        let last = &self.last;
        let count = |nr| self.area.slot(nr).count().load(Ordering::Relaxed);
        self.idle.retain(|&nr| count(nr) == last[nr].count);
        !self.idle.is_empty()
    }

    /// Returns a failure if a task has counted nothing for more than `patience` seconds. This check
    /// was planned `planned` seconds after the previous one. If it is much later, the machine was
    /// stopped, and the time does not count against the tasks.
    pub(super) fn check_progress(&mut self, planned: f64, patience: f64) -> Result<(), Failure> {
        let now = seconds(ClockId::MonotonicRaw);
        let late = now - self.looked - planned;
        self.looked = now;
        if late > STOOD_STILL_SECONDS {
            self.idle.iter().for_each(|&nr| self.moved[nr] += late);
        }
        let hung = |&&nr: &&usize| now - self.moved[nr] > patience;
        match self.idle.iter().find(hung) {
            None => Ok(()),
            Some(nr) => Err(Failure::new(
                FailureKind::Hung,
                format!("task {nr} has completed no iteration for {:.0} s", now - self.moved[*nr]),
                "to see where it hangs, run it with -t 1 --interval 60 and attach a debugger",
            )),
        }
    }

    /// Reads each counter with its own timestamp, because reading thousands of them takes a while.
    fn read(&self) -> Vec<Reading> {
        let read = |count: u64| Reading { count, at: seconds(ClockId::MonotonicRaw) };
        self.area.slots().map(|slot| read(slot.count().load(Ordering::Relaxed))).collect()
    }
}

/// The CPUs that run without a timer tick (nohz_full).
fn tickless_cpus() -> CpuList {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/nohz_full").unwrap_or_default();
    list.trim().parse().unwrap_or_default()
}
