//! The run itself: interleaved rounds of all points, until each has enough.

mod enough;
mod progress;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::path::{Path, PathBuf};

use knee_host::Interrupt;
use knee_host::workdir::WorkDir;
use knee_results::PointId;

pub use self::progress::Estimate;
use self::progress::Progress;
use crate::Catalogue;
use crate::catalogue::SelectError;
use crate::job::{Failure, FailureKind, Job, Source};
use crate::launch::Executor;
use crate::needs::{self, Context, TMPFS, unusable_dir};
use crate::plan::{Case, turns};
use crate::record::{
    PointFailure, RecordError, RoundSummary, Rounds, RunEnd, RunRecord, SampleLine, Writer,
};
use crate::server;
use crate::stopped::Stopped;
use crate::testcase::Need;

/// Receives the progress of a run.
pub trait Observer {
    /// A round of `point` begins.
    fn round(&mut self, point: &PointId, round: u32, estimate: &Estimate);
    /// Each point of the run that has not failed has its first round. `left` are the seconds until the end;
    /// `None` if unknown.
    fn first_round_ended(&mut self, run: &RunRecord, rounds: &Rounds, left: Option<f64>);
    /// A point has failed, and is not measured further.
    fn failed(&mut self, failure: &PointFailure);
    /// The latency of a server could not be measured in a round of a point, for the first time at this point.
    /// The rate of the round counts.
    fn latency_failed(&mut self, failure: &PointFailure);
    /// A further round of a point has failed. The point keeps its earlier rounds, and is not measured
    /// further.
    fn repeat_failed(&mut self, failure: &PointFailure);
}

/// How a recorded run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It completed.
    Done,
    /// This signal ended it.
    Interrupted(i32),
}

/// A running run.
pub struct Sweep<'a> {
    /// Its description; failures are added to it.
    pub run: &'a mut RunRecord,
    /// Its record.
    pub writer: &'a mut Writer,
    /// Runs the rounds.
    pub executor: &'a mut dyn Executor,
    /// Receives the progress.
    pub observer: &'a mut dyn Observer,
    /// Interrupts the run.
    pub interrupt: &'a Interrupt,
    /// The available testcases.
    pub catalogue: Catalogue,
}

impl Sweep<'_> {
    /// Measures all rounds that are not in `finished`, the rounds that the record already contains.
    pub fn run(&mut self, finished: &Rounds) -> Result<Ended, RecordError> {
        let mut progress = Progress::new(self.run, finished.clone());
        let ended = self.all_rounds(&mut progress);
        self.run.end = Some(match &ended {
            Ok(Ended::Done) => RunEnd::Done,
            Ok(Ended::Interrupted(_)) => RunEnd::Interrupted,
            Err(_) => RunEnd::Failed,
        });
        self.run.complete = matches!(ended, Ok(Ended::Done)) && self.run.failures.is_empty();
        let described = self.writer.describe(self.run);
        let ended = ended?;
        described?;
        Ok(ended)
    }

    fn all_rounds(&mut self, progress: &mut Progress) -> Result<Ended, RecordError> {
        self.check_needs(progress)?;
        let mut work = WorkDirs::new();
        let request = self.run.request.clone();
        let all = progress.points().len();
        for round in 0.. {
            let open = progress.open();
            if open.is_empty() {
                break;
            }
            // In a resumed run, all points may already have the early rounds.
            let open: Vec<usize> =
                open.into_iter().filter(|&nr| round >= progress.measured(nr)).collect();
            for (turn_nr, turn) in
                turns(&open, all, round, request.order, request.seed).into_iter().enumerate()
            {
                let point = progress.points()[turn.point].clone();
                if progress.is_closed(turn.point) {
                    continue;
                }
                let left_in_round = open.len() - turn_nr;
                self.observer.round(&point, round, &progress.estimate(round, left_in_round));
                let mut has_result = progress.has_result(turn.point);
                let failure = match self.one_round(&point, round, turn.layout, &mut work)? {
                    Ok(summary) => {
                        self.note_latency(&point, round, &summary, progress.rounds());
                        let failure = summary.failure().cloned();
                        progress.add(turn.point, round, summary);
                        let Some(failure) = failure else { continue };
                        // The rates of a server that has failed under load do not excuse it.
                        has_result = false;
                        failure
                    }
                    Err(Stopped::Interrupted(signal)) => return Ok(Ended::Interrupted(signal)),
                    Err(Stopped::ByReceiver(error)) => Failure::runner(error.to_string()),
                    Err(Stopped::Failed(failure)) => failure,
                };
                progress.close(turn.point);
                let failure = PointFailure { point, round, failure };
                match has_result {
                    true => self.keep_earlier(failure)?,
                    false => self.give_up(failure)?,
                }
            }
            progress.end_of_round(self.run);
            if round == 0 && !open.is_empty() && !progress.open().is_empty() {
                let left = progress.estimate(1, 0).left;
                self.observer.first_round_ended(self.run, progress.rounds(), left);
            }
        }
        Ok(Ended::Done)
    }

    /// Marks the points that need rounds but cannot run here as failed.
    fn check_needs(&mut self, progress: &mut Progress) -> Result<(), RecordError> {
        let dir = self.run.request.dir.clone();
        for nr in progress.open() {
            let point = progress.points()[nr].clone();
            let context = Context { dir: &dir, mode: point.mode, tasks: point.tasks };
            let case = self.case(&point);
            let failure = match (&case.source, self.needs(case)) {
                (Source::Server { server, .. }, _) => server::check(server).err(),
                (_, Ok(needs)) => needs.iter().find_map(|&need| needs::check(need, &context).err()),
                (_, Err(failure)) => Some(failure),
            };
            if let Some(failure) = failure {
                progress.close(nr);
                self.give_up(PointFailure { point, round: progress.measured(nr), failure })?;
            }
        }
        Ok(())
    }

    /// The requirements of a case.
    fn needs(&self, case: &Case) -> Result<&'static [Need], Failure> {
        if !case.is_built_in() {
            return Ok(&[]);
        }
        let selected = self.catalogue.of_record(&case.id);
        selected.map(|selected| selected.testcase.needs).map_err(|error| unknown(&error))
    }

    fn give_up(&mut self, failure: PointFailure) -> Result<(), RecordError> {
        self.observer.failed(&failure);
        self.run.failures.push(failure);
        self.writer.describe(self.run)
    }

    /// Tells the observer of the first round of a point without latency, unless this is a failure of the
    /// server, of which [`give_up`](Self::give_up) tells.
    fn note_latency(
        &mut self,
        point: &PointId,
        round: u32,
        summary: &RoundSummary,
        earlier: &Rounds,
    ) {
        let is_first = earlier.of(point).all(|round| round.latency_failure().is_none());
        if let (Some(failure), None, true) =
            (summary.latency_failure(), summary.failure(), is_first)
        {
            let (point, failure) = (point.clone(), failure.clone());
            self.observer.latency_failed(&PointFailure { point, round, failure });
        }
    }

    /// Notes that a further round of a point failed, without which it has a result.
    fn keep_earlier(&mut self, failure: PointFailure) -> Result<(), RecordError> {
        self.observer.repeat_failed(&failure);
        self.run.failed_repeats.push(failure);
        self.writer.describe(self.run)
    }

    fn case(&self, point: &PointId) -> &Case {
        self.run.case(&point.case).expect("each point belongs to a case of the run")
    }

    fn one_round(
        &mut self,
        point: &PointId,
        round: u32,
        layout: u32,
        work: &mut WorkDirs,
    ) -> Result<Result<RoundSummary, Stopped>, RecordError> {
        let case = self.case(point).clone();
        let on_tmpfs = self.needs(&case).is_ok_and(|needs| needs.contains(&Need::Tmpfs));
        let parent = if on_tmpfs { TMPFS.into() } else { self.run.request.dir.clone() };
        let (work, dir) = match begin_round(work, &parent) {
            Ok(begun) => begun,
            Err(failure) => return Ok(Err(failure.into())),
        };
        let job = self.job(&case, point, dir.clone(), layout);
        let mut summary = RoundSummary::default();
        let mut taken = 0;
        let mut unwritten = None;
        let mut said = String::new();
        let mut left_running = Vec::new();
        let result = {
            let writer = &mut *self.writer;
            self.executor.run(&job, self.interrupt, &mut |description, mut sample| {
                left_running.append(&mut sample.left_running);
                said.clear();
                said.push_str(description);
                let Some(line) = SampleLine::new(point, round, taken, sample, case.steps) else {
                    return Ok(());
                };
                taken += 1;
                writer.append(&line).map_err(|error| {
                    unwritten = Some(error);
                    io::Error::other("the record cannot be written")
                })?;
                summary.add(&line);
                Ok(())
            })
        };
        if case.description.is_empty() && !said.is_empty() {
            // The description of a plug-in is known only after a runner has loaded it.
            if let Some(case) = self.run.cases.iter_mut().find(|c| c.id == case.id) {
                case.description = said;
            }
            self.writer.describe(self.run)?;
        }
        if self.run.note_left_running(&case.id, left_running) {
            self.writer.describe(self.run)?;
        }
        let removed = work.end_round(&dir);
        if let Some(error) = unwritten {
            return Err(error);
        }
        self.writer.sync()?;
        let removed = removed.map_err(|error| left_over(&dir, &error).into());
        Ok(result.and(removed).map(|()| summary))
    }

    fn job(&self, case: &Case, point: &PointId, dir: PathBuf, layout: u32) -> Job {
        let request = &self.run.request;
        Job {
            case: case.id.clone(),
            source: case.source.clone(),
            mode: point.mode,
            tasks: point.tasks,
            sampler_cpu: spare_cpu(&request.cpus, point.tasks, case),
            cpus: request.cpus.clone(),
            pin: request.placement.pins(),
            warmup: request.warmup,
            interval: request.interval.max(case.min_interval),
            start_timeout: request.start_timeout,
            samples: Some(request.samples),
            latency: request.latency,
            counters: request.counters.clone(),
            dir,
            layout,
        }
    }
}

/// The failure of a testcase that only a different version of knee has.
fn unknown(error: &SelectError) -> Failure {
    let remedy = "use the version of knee that wrote the record";
    Failure::new(FailureKind::CannotRun, error.to_string(), remedy)
}

/// The failure of a testcase whose files cannot be removed. More rounds would fill the disk.
fn left_over(dir: &Path, error: &io::Error) -> Failure {
    Failure::new(
        FailureKind::CannotRun,
        format!("its files cannot be removed: {error}"),
        format!("inspect {}", dir.display()),
    )
}

/// A CPU for the measuring process: the last one of the placement on which neither a task of the
/// point nor a helper runs.
pub fn spare_cpu(cpus: &[u32], tasks: u32, case: &Case) -> Option<u32> {
    (u64::from(tasks) * case.cpus_per_task < cpus.len() as u64)
        .then(|| cpus.last().copied())
        .flatten()
}

/// The directories of a run by their parents, created on first use.
type WorkDirs = BTreeMap<PathBuf, WorkDir>;

fn begin_round<'w>(
    work: &'w mut WorkDirs,
    parent: &Path,
) -> Result<(&'w WorkDir, PathBuf), Failure> {
    let failed = |error: io::Error| unusable_dir(parent, &error);
    let work = match work.entry(parent.to_owned()) {
        Entry::Occupied(work) => work.into_mut(),
        Entry::Vacant(place) => place.insert(WorkDir::create(parent).map_err(failed)?),
    };
    let dir = work.begin_round().map_err(failed)?;
    Ok((work, dir))
}

/// The severity of a failure for the run as a whole.
pub fn worst_kind(failures: &[PointFailure]) -> Option<FailureKind> {
    failures.iter().map(|f| f.failure.kind).max()
}

#[cfg(test)]
mod tests;
