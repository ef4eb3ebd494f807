//! Many runs, several at a time.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use knee_host::Interrupt;
use knee_host::number::duration;
use knee_host::process::wait_readable;

use crate::fault::Fault;
use crate::finding::Finding;
use crate::options::Options;
use crate::readers::Reader;
use crate::summary::Summary;
use crate::trial::{Places, Trial};

/// How many inputs to keep for each fault.
const MOST_KEPT: u64 = 3;
/// Intervals between lines of progress, on a terminal and in a file.
const ON_TERMINAL: Duration = Duration::from_secs(1);
const IN_FILE: Duration = Duration::from_secs(60);

/// What all jobs share.
pub(crate) struct Campaign<'c> {
    pub(crate) options: &'c Options,
    pub(crate) readers: &'c [Reader],
    pub(crate) artifacts: &'c Path,
    next: AtomicU64,
    stops: AtomicBool,
    summary: Mutex<Summary>,
}

/// How a campaign ended.
pub(crate) struct Outcome {
    pub(crate) summary: Summary,
    /// The signal that interrupted it.
    pub(crate) signal: Option<i32>,
    /// Why it could not go on. The summary has the runs before.
    pub(crate) error: Option<anyhow::Error>,
}

impl<'c> Campaign<'c> {
    pub(crate) fn new(options: &'c Options, readers: &'c [Reader], artifacts: &'c Path) -> Self {
        Self {
            options,
            readers,
            artifacts,
            next: AtomicU64::new(0),
            stops: AtomicBool::new(false),
            summary: Mutex::default(),
        }
    }

    /// Carries out all runs, with one job in each of the directories.
    pub(crate) fn run(self, places: &[Places], interrupt: &Interrupt) -> Outcome {
        let campaign = &self;
        let (signal, error) = thread::scope(|scope| {
            let start = |places| scope.spawn(move || campaign.job(places));
            let jobs: Vec<_> = places.iter().map(start).collect();
            let mut progress = Progress::start(campaign.options.runs);
            let mut signal = None;
            while !jobs.iter().all(|job| job.is_finished()) {
                wait_readable(interrupt, Duration::from_millis(100));
                signal = signal.or(interrupt.take());
                if signal.is_some() {
                    campaign.stops.store(true, Relaxed);
                }
                progress.show(&campaign.summary.lock().expect("no job panics"));
            }
            progress.end();
            let ended = jobs.into_iter().map(|job| job.join().expect("no job panics"));
            (signal, ended.filter_map(Result::err).last())
        });
        Outcome { summary: self.summary.into_inner().expect("no job panics"), signal, error }
    }

    /// Carries out runs until none is left. An error stops the other jobs as well.
    fn job(&self, places: &Places) -> anyhow::Result<()> {
        loop {
            let run = self.next.fetch_add(1, Relaxed);
            if run >= self.options.runs || self.stops.load(Relaxed) {
                return Ok(());
            }
            if let Err(error) = self.one(run, places) {
                self.stops.store(true, Relaxed);
                return Err(error);
            }
        }
    }

    fn one(&self, run: u64, places: &Places) -> anyhow::Result<()> {
        let reader = of_run(self.readers, run);
        let trial = Trial::of_run(self.options.seed, run, reader);
        let directory = places.of(reader);
        trial.write(&directory)?;
        let ended = trial.run(&self.options.knee, &directory, false)?;
        let fault = Fault::of(&trial.arguments(), &ended);
        let mut summary = self.summary.lock().expect("no job panics");
        let before = summary.add(run, reader.name, trial.command, &ended, fault.as_ref());
        drop(summary);
        if let Some(fault) = fault.filter(|_| before < MOST_KEPT) {
            let finding = Finding { run, trial: &trial, ended: &ended, fault: Some(&fault) };
            let kept = finding.keep(self.options, self.artifacts)?;
            eprintln!("\nmutate: {}: {fault}; kept in {}", reader.name, kept.display());
        }
        Ok(())
    }
}

/// The reader of a run: each has its share of every hundred runs.
pub(crate) fn of_run(readers: &[Reader], run: u64) -> &Reader {
    let all: usize = readers.iter().map(|reader| reader.share).sum();
    let mut place = (run % all as u64) as usize;
    for reader in readers {
        if place < reader.share {
            return reader;
        }
        place -= reader.share;
    }
    unreachable!("the shares add up to {all}")
}

/// Repeats one run, and prints what knee prints.
pub(crate) fn repeat(
    options: &Options,
    readers: &[Reader],
    run: u64,
    places: &Places,
    artifacts: &Path,
) -> anyhow::Result<Option<Fault>> {
    let reader = of_run(readers, run);
    let trial = Trial::of_run(options.seed, run, reader);
    let directory = places.of(reader);
    trial.write(&directory)?;
    let ended = trial.run(&options.knee, &directory, true)?;
    let fault = Fault::of(&trial.arguments(), &ended);
    eprint!("{}", ended.errors);
    let finding = Finding { run, trial: &trial, ended: &ended, fault: fault.as_ref() };
    let kept: PathBuf = finding.keep(options, artifacts)?;
    eprintln!("{}kept in {}", finding.text(options), kept.display());
    Ok(fault)
}

/// A line with the number of runs, their rate and the remaining time.
struct Progress {
    runs: u64,
    began: Instant,
    next: Instant,
    is_terminal: bool,
}

impl Progress {
    fn start(runs: u64) -> Self {
        let now = Instant::now();
        Self { runs, began: now, next: now, is_terminal: std::io::stderr().is_terminal() }
    }

    fn show(&mut self, summary: &Summary) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now + if self.is_terminal { ON_TERMINAL } else { IN_FILE };
        let done = summary.runs();
        let rate = done as f64 / (now - self.began).as_secs_f64().max(0.001);
        let left = (self.runs - done) as f64 / rate.max(0.001);
        let line = format!(
            "{done} of {} runs, {rate:.0}/s, {} left, {} faults",
            self.runs,
            if done == 0 { "?".to_owned() } else { duration(left) },
            summary.faults()
        );
        let mut errors = std::io::stderr().lock();
        let _ = match self.is_terminal {
            true => write!(errors, "\r\x1b[K{line}"),
            false => writeln!(errors, "{line}"),
        };
    }

    fn end(&self) {
        if self.is_terminal {
            eprint!("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::inputs::Inputs;
    use crate::readers::readers;

    #[test]
    fn a_fault_is_counted_and_kept_with_what_repeats_it() {
        let scratch = tempfile::tempdir().unwrap();
        let (knee, artifacts) = (scratch.path().join("knee"), scratch.path().join("artifacts"));
        fs::write(&knee, "#!/bin/sh\necho \"panicked at $1.rs:1:2:\" >&2\nkill -ABRT $$\n")
            .unwrap();
        fs::set_permissions(&knee, fs::Permissions::from_mode(0o755)).unwrap();
        let options = Options { knee, runs: 40, jobs: 2, seed: 5, only: None, run: None };
        let mut readers = readers(&Inputs::new("/nowhere".into())).unwrap();
        readers.retain(|reader| reader.name == "numbers");
        let place = |nr| Places::create(scratch.path().join(nr), &readers).unwrap();
        let interrupt = Interrupt::install().unwrap();
        let campaign = Campaign::new(&options, &readers, &artifacts);
        let ended = campaign.run(&["1", "2"].map(place), &interrupt);
        assert_eq!((ended.summary.runs(), ended.summary.faults()), (40, 40));
        let kept: Vec<_> = fs::read_dir(&artifacts).unwrap().map(|entry| entry.unwrap()).collect();
        assert_eq!(kept.len() as u64, MOST_KEPT);
        for entry in kept {
            let name = entry.file_name().into_string().unwrap();
            let run = name.strip_prefix("5-").unwrap().parse().unwrap();
            let trial = Trial::of_run(5, run, &readers[0]);
            assert_eq!(fs::read(entry.path().join("numbers")).unwrap(), trial.text);
            let text = fs::read_to_string(entry.path().join("finding.txt")).unwrap();
            assert!(
                text.starts_with("panicked at compare.rs:1:2: knee was killed by SIGABRT"),
                "{text}"
            );
            assert!(text.contains(&format!("mutate --seed 5 --run {run}\n")), "{text}");
        }
    }

    #[test]
    fn a_campaign_that_cannot_go_on_keeps_its_summary() {
        let scratch = tempfile::tempdir().unwrap();
        let knee = scratch.path().join("knee");
        // The fourth run finds no program any more.
        let script = "#!/bin/sh\necho >>../runs\n[ $(wc -l <../runs) -lt 3 ] || rm \"$0\"\n";
        fs::write(&knee, script).unwrap();
        fs::set_permissions(&knee, fs::Permissions::from_mode(0o755)).unwrap();
        let options = Options { knee, runs: 40, jobs: 1, seed: 5, only: None, run: None };
        let mut readers = readers(&Inputs::new("/nowhere".into())).unwrap();
        readers.retain(|reader| reader.name == "numbers");
        let places = [Places::create(scratch.path().join("1"), &readers).unwrap()];
        let campaign = Campaign::new(&options, &readers, scratch.path());
        let ended = campaign.run(&places, &Interrupt::install().unwrap());
        assert!(ended.error.is_some());
        assert_eq!(ended.summary.runs(), 3);
    }

    #[test]
    fn each_reader_has_its_share_of_the_runs() {
        let readers = readers(&Inputs::new("/nowhere".into())).unwrap();
        let all: usize = readers.iter().map(|reader| reader.share).sum();
        for reader in &readers {
            let runs = (0..all as u64).filter(|run| of_run(&readers, *run).name == reader.name);
            assert_eq!(runs.count(), reader.share, "{}", reader.name);
        }
    }
}
