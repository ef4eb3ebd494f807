//! The outcome of `knee jobs run`.

use std::path::Path;

use knee_host::number::{duration, plural, time};
use knee_host::signal::describe_end;
use knee_host::text::{Cell, Column, Screen, Table};
use serde_json::{Value, json};

use super::style::{BAD, PLAIN, UNKNOWN};

/// Version of the document.
const SCHEMA: u32 = 1;
/// A table of more jobs shows only those that are not done.
const MAX_ROWS: usize = 50;
/// How many characters of the last line of a failed job are shown.
const QUOTED: usize = 80;
/// A shell reports a signal as this plus the number of the signal.
const SIGNALLED: i32 = 128;
/// The largest number of a signal.
const LAST_SIGNAL: i32 = 64;

/// A job of a directory.
pub(crate) struct Job<'a> {
    pub(crate) number: usize,
    pub(crate) command: &'a str,
    /// Attempts of this knee process; 0 for jobs that were done before or have not begun.
    pub(crate) attempts: u32,
    /// How the last attempt ended, if one has.
    pub(crate) end: Option<End>,
    /// The last line that a failed job printed.
    pub(crate) message: Option<String>,
}

/// How a job ended.
pub(crate) struct End {
    /// As a shell reports it.
    pub(crate) status: i32,
    pub(crate) seconds: f64,
    pub(crate) machine: String,
}

impl End {
    fn describe(&self) -> String {
        match self.status - SIGNALLED {
            signal @ 1..=LAST_SIGNAL => describe_end(Some(signal), None),
            _ => describe_end(None, Some(self.status)),
        }
    }
}

impl Job<'_> {
    pub(crate) fn is_done(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.status == 0)
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.status != 0)
    }

    fn state(&self) -> &'static str {
        match &self.end {
            None => "not run",
            Some(end) if end.status == 0 => "done",
            Some(_) => "failed",
        }
    }
}

/// The outcome for people.
pub(crate) fn text(jobs: &[Job<'_>], directory: &Path, screen: &Screen) -> String {
    let mut table = Table::new(vec![
        Column::right("job"),
        Column::left("state"),
        Column::right("attempts").drops(1),
        Column::right("time"),
        Column::left("machine").drops(0),
        Column::left("command"),
    ]);
    table.titles();
    let is_shown = |job: &&Job<'_>| jobs.len() <= MAX_ROWS || !job.is_done();
    for job in jobs.iter().filter(is_shown) {
        let style = if job.is_failed() { BAD } else { PLAIN };
        let end = job.end.as_ref();
        table.row(vec![
            Cell::from(job.number.to_string()),
            Cell::new(job.state(), style),
            Cell::from(match job.attempts {
                0 => UNKNOWN.to_owned(),
                attempts => attempts.to_string(),
            }),
            Cell::from(end.map_or(UNKNOWN.to_owned(), |end| time(end.seconds))),
            Cell::from(end.map_or("", |end| end.machine.as_str())),
            Cell::from(job.command),
        ]);
    }
    let rows = jobs.iter().filter(is_shown).count();
    let table = if rows > 0 { table.render(screen) + "\n" } else { String::new() };
    let failures = failures(jobs, directory);
    table + &screen.wrap(&(failures + &summary(jobs, directory)), "  ")
}

/// Why jobs failed, a line for each of the first ones.
fn failures(jobs: &[Job<'_>], directory: &Path) -> String {
    let failed = jobs.iter().filter(|job| job.is_failed()).take(MAX_ROWS);
    let line = |job: &Job<'_>| {
        let end = job.end.as_ref().map_or(String::new(), End::describe);
        let quoted = |line: &String| format!(": {}", line.chars().take(QUOTED).collect::<String>());
        let message = job.message.as_ref().map_or(String::new(), quoted);
        let log = directory.join("jobs").join(format!("{}.log", job.number));
        format!("job {} {end}{message} (output: {})\n", job.number, log.display())
    };
    failed.map(line).collect()
}

/// `3 of 8 jobs done, 1 failed.`, how long they took, and where the results are.
fn summary(jobs: &[Job<'_>], directory: &Path) -> String {
    let Totals { done, failed, waiting, seconds } = Totals::of(jobs);
    let failed_jobs = if failed > 0 { format!(", {failed} failed") } else { String::new() };
    let time = match (done, failed + waiting) {
        (0, _) => String::new(),
        (_, 0) => format!(" Sum of run times: {}.", duration(seconds)),
        (_, left) => format!(
            " Sum of run times: {} (done), about {} (remaining).",
            duration(seconds),
            duration(seconds / done as f64 * left as f64)
        ),
    };
    let results = directory.join("results");
    let jobs = plural(jobs.len(), "job");
    format!("{done} of {jobs} done{failed_jobs}.{time} Results: {}\n", results.display())
}

/// The outcome for programs.
pub(crate) fn json(jobs: &[Job<'_>], directory: &Path) -> Value {
    let Totals { done, failed, waiting, seconds } = Totals::of(jobs);
    let job = |job: &Job<'_>| {
        json!({
            "job": job.number,
            "command": job.command,
            "state": job.state(),
            "attempts": job.attempts,
            "status": job.end.as_ref().map(|end| end.status),
            "seconds": job.end.as_ref().map(|end| end.seconds),
            "machine": job.end.as_ref().map(|end| end.machine.as_str()),
        })
    };
    json!({
        "schema": SCHEMA,
        "directory": directory.to_string_lossy(),
        "done": done,
        "failed": failed,
        "not_run": waiting,
        "seconds": seconds,
        "jobs": jobs.iter().map(job).collect::<Vec<_>>(),
    })
}

/// Counts of jobs, and the time that those which are done took.
struct Totals {
    done: usize,
    failed: usize,
    waiting: usize,
    seconds: f64,
}

impl Totals {
    fn of(jobs: &[Job<'_>]) -> Self {
        let done: Vec<f64> = (jobs.iter().filter(|job| job.is_done()))
            .filter_map(|job| Some(job.end.as_ref()?.seconds))
            .collect();
        let failed = jobs.iter().filter(|job| job.is_failed()).count();
        let waiting = jobs.len() - done.len() - failed;
        // The sum of no numbers would be -0.0.
        let seconds = done.iter().fold(0.0, |sum, seconds| sum + seconds);
        Self { done: done.len(), failed, waiting, seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: usize, end: Option<(i32, f64)>) -> Job<'static> {
        let end = end.map(|(status, seconds)| End { status, seconds, machine: "alpha".to_owned() });
        Job { number, command: "check", attempts: 1, end, message: None }
    }

    #[test]
    fn the_summary_extrapolates_the_time_of_the_jobs_that_are_left() {
        let jobs = [job(1, Some((0, 60.0))), job(2, Some((1, 5.0))), job(3, None)];
        assert_eq!(
            summary(&jobs, Path::new("out")),
            "1 of 3 jobs done, 1 failed. Sum of run times: 1 min 0 s (done), about 2 min 0 s (remaining). \
             Results: out/results\n"
        );
    }

    #[test]
    fn the_time_of_no_jobs_has_no_sign() {
        let document = json(&[job(1, None)], Path::new("out"));
        assert!(document["seconds"].as_f64().unwrap().is_sign_positive(), "{document}");
    }

    #[test]
    fn a_long_table_shows_only_jobs_that_are_not_done() {
        let mut jobs: Vec<_> = (1..=60).map(|number| job(number, Some((0, 1.0)))).collect();
        jobs[41] = job(42, Some((137, 1.0)));
        let text = text(&jobs, Path::new("out"), &Screen::UNLIMITED);
        assert!(text.contains("job 42 was killed by SIGKILL (output: out/jobs/42.log)"), "{text}");
        assert_eq!(text.lines().filter(|line| line.contains("alpha")).count(), 1, "{text}");
    }
}
