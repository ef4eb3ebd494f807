//! Rows of operations, and what each costs.
//!
//! A sample: one or two threads, each bound to a CPU of its own, begin together and repeat the
//! operation for some milliseconds. The threads are there all the time; those that a sample does not
//! need, and the one that waits for the result, sleep. A round takes a sample of each row, so that a
//! machine whose clock drifts treats all alike. A sample in which a thread had to give its CPU to
//! another program is taken again.

mod options;
mod table;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

pub use options::{Options, machine};
pub use table::{figures_json, figures_table, tell_disturbed};

/// Threads at most.
pub const THREADS: usize = 2;
/// A sample's duration: shorter than what a scheduler gives a thread.
const SPAN: Duration = Duration::from_millis(4);
/// Operations between two looks at the clock take so long at least, which a look does not (30 ns).
const CHUNK: Duration = Duration::from_micros(30);
/// Attempts at a sample that nobody disturbs.
const ATTEMPTS: usize = 20;

type Run = Box<dyn Fn(&Round) + Sync>;

/// An operation that is measured.
pub struct Row {
    pub name: String,
    run: Run,
    /// Numbers of threads that it is measured with.
    threads: &'static [usize],
    /// Also among idle threads.
    pub among_idle: bool,
    /// It has a thread of its own in the background, which disturbs by right.
    background: bool,
}

/// The threads of a sample.
struct Meeting {
    threads: usize,
    ready: AtomicUsize,
    stop: AtomicBool,
}

/// A thread's part in a sample.
pub struct Round<'a> {
    /// 0 or 1.
    pub thread: usize,
    meeting: &'a Meeting,
    sample: Cell<Option<Sample>>,
}

#[derive(Clone, Copy)]
struct Sample {
    /// For each operation of a thread.
    nanos: f64,
    /// How often a thread had to give its CPU to another.
    disturbed: i64,
}

/// What has been measured of a row, with one number of threads.
pub struct Figure {
    pub name: String,
    pub threads: usize,
    /// Threads that are registered and sleep.
    pub idle: usize,
    /// Nanoseconds, ascending.
    pub samples: Vec<f64>,
    /// Samples that were disturbed at each attempt.
    pub disturbed: usize,
}

impl Row {
    /// `run` prepares and calls [`Round::time`] or [`Round::time_many`] once.
    pub fn new(name: impl Into<String>, run: impl Fn(&Round) + Sync + 'static) -> Row {
        let (name, run) = (name.into(), Box::new(run));
        Row { name, run, threads: &[1, 2], among_idle: false, background: false }
    }

    /// An operation that needs no preparation.
    pub fn of(name: impl Into<String>, operation: impl Fn() + Sync + 'static) -> Row {
        Row::new(name, move |round| round.time(&operation))
    }

    pub fn with_threads(mut self, threads: &'static [usize]) -> Row {
        self.threads = threads;
        self
    }

    pub fn with_background(mut self) -> Row {
        self.background = true;
        self
    }

    pub fn among_idle(mut self) -> Row {
        self.among_idle = true;
        self
    }
}

impl Round<'_> {
    /// Repeats the operation for a sample. Generic, as a call through a pointer costs more than some
    /// operations.
    #[inline]
    pub fn time(&self, mut operation: impl FnMut()) {
        self.time_many(|times| (0..times).for_each(|_| operation()));
    }

    /// The same of what repeats an operation on its own.
    pub fn time_many(&self, mut many: impl FnMut(u64)) {
        let chunk = chunk(&mut many);
        self.meet();
        let (switches, begin) = (switches(), Instant::now());
        let mut done = 0;
        loop {
            many(chunk);
            done += chunk;
            // Who is first ends it for both, so that neither runs alone.
            if self.meeting.stop.load(Relaxed) || begin.elapsed() >= SPAN {
                break;
            }
        }
        let nanos = begin.elapsed().as_nanos() as f64 / done as f64;
        self.meeting.stop.store(true, Relaxed);
        let disturbed = self::switches() - switches;
        self.sample.set(Some(Sample { nanos, disturbed }));
    }

    /// Runs beside the other thread without an operation of its own.
    pub fn accompany(&self) {
        self.meet();
        while !self.meeting.stop.load(Relaxed) {
            std::hint::spin_loop();
        }
    }

    /// Waits until all threads of the sample are here, and running.
    fn meet(&self) {
        self.meeting.ready.fetch_add(1, SeqCst);
        let mut spins = 0_u32;
        while self.meeting.ready.load(SeqCst) < self.meeting.threads {
            spins += 1;
            if spins.is_multiple_of(1 << 12) { thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// How many operations take [`CHUNK`]. Warms up as well.
fn chunk(many: &mut impl FnMut(u64)) -> u64 {
    let mut chunk = 1;
    loop {
        let begin = Instant::now();
        many(chunk);
        if begin.elapsed() >= CHUNK {
            return chunk;
        }
        chunk *= 2;
    }
}

impl Figure {
    pub fn median(&self) -> f64 {
        let middle = self.samples.len() / 2;
        match self.samples.len() % 2 {
            0 => f64::midpoint(self.samples[middle - 1], self.samples[middle]),
            _ => self.samples[middle],
        }
    }

    pub fn least(&self) -> f64 {
        self.samples[0]
    }

    pub fn most(&self) -> f64 {
        self.samples[self.samples.len() - 1]
    }
}

/// Measures rows, in rounds. The threads have exited when it returns.
pub fn measure(title: &str, rows: &[&Row], rounds: usize, idle: usize) -> Vec<Figure> {
    let mut figures = Vec::new();
    for &row in rows {
        for &threads in row.threads {
            let name = row.name.clone();
            let samples = Vec::with_capacity(rounds);
            figures.push((row, Figure { name, threads, idle, samples, disturbed: 0 }));
        }
    }
    thread::scope(|scope| {
        let (results, samples) = channel();
        let (mut workers, mut threads) = (Vec::new(), Vec::new());
        for (thread, cpu) in cpus().into_iter().enumerate() {
            let (worker, jobs) = channel::<(&Row, Arc<Meeting>)>();
            let results = results.clone();
            let thread = scope.spawn(move || {
                bind(cpu);
                for (row, meeting) in jobs {
                    // The only one who listens has not gone.
                    let _ = results.send(run(row, thread, &meeting));
                }
            });
            workers.push(worker);
            threads.push(thread);
        }
        for round in 1..=rounds {
            eprintln!("{title}: round {round} of {rounds}");
            for (row, figure) in &mut figures {
                let sample = undisturbed(row, || take(row, figure.threads, &workers, &samples));
                figure.disturbed += usize::from(sample.disturbed > 0);
                figure.samples.push(sample.nanos);
            }
        }
        drop(workers);
        for thread in threads {
            // A scope would not wait for destructors of thread-locals, where libraries end their part.
            thread.join().expect("operations do not panic");
        }
    });
    let sorted = |(_, mut figure): (_, Figure)| {
        figure.samples.sort_by(f64::total_cmp);
        figure
    };
    figures.into_iter().map(sorted).collect()
}

/// The first sample that nobody disturbs, or the one that was disturbed least.
fn undisturbed(row: &Row, mut take: impl FnMut() -> Sample) -> Sample {
    let mut best = take();
    for _ in 1..ATTEMPTS {
        if best.disturbed == 0 || row.background {
            break;
        }
        let sample = take();
        if sample.disturbed < best.disturbed {
            best = sample;
        }
    }
    best
}

/// A sample of a row: the mean of its threads.
fn take<'row>(
    row: &'row Row,
    threads: usize,
    workers: &[Sender<(&'row Row, Arc<Meeting>)>],
    samples: &Receiver<Option<Sample>>,
) -> Sample {
    let meeting =
        Arc::new(Meeting { threads, ready: AtomicUsize::new(0), stop: AtomicBool::new(false) });
    for worker in &workers[..threads] {
        worker.send((row, Arc::clone(&meeting))).expect("workers wait for more");
    }
    let taken = (0..threads).filter_map(|_| samples.recv().expect("a worker answers"));
    let taken: Vec<Sample> = taken.collect();
    let nanos = taken.iter().map(|sample| sample.nanos).sum::<f64>() / taken.len() as f64;
    Sample { nanos, disturbed: taken.iter().map(|sample| sample.disturbed).sum() }
}

/// A thread's part; none if it has only accompanied the other.
fn run(row: &Row, thread: usize, meeting: &Meeting) -> Option<Sample> {
    let round = Round { thread, meeting, sample: Cell::new(None) };
    (row.run)(&round);
    round.sample.get()
}

/// A CPU for each thread, of those that the process may use.
fn cpus() -> Vec<usize> {
    // SAFETY: the set is plain data, of the size that is given.
    let cpus: Vec<usize> = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&set), &mut set);
        (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
    };
    assert!(cpus.len() >= THREADS, "two threads need two CPUs, and there is {}", cpus.len());
    cpus[..THREADS].to_vec()
}

fn bind(cpu: usize) {
    // SAFETY: the set is plain data, of the size that is given.
    let bound = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set)
    };
    assert_eq!(bound, 0, "the CPU is one that the process may use");
}

/// How often the thread was switched out because another had its turn.
fn switches() -> i64 {
    // SAFETY: the struct is plain data.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage.ru_nivcsw
    }
}
