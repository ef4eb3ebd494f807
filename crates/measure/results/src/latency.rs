//! How long single requests or iterations took.

use knee_stats::{Histogram, Quantiles, median};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// If the load generator sent requests late by more than this share of the latency, it says less about the
/// server. Both are 99th percentiles.
const LATE: f64 = 0.5;

/// Which latency a run measures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyRequest {
    /// Of requests to a server. After the rate, each round measures the latency in an open loop.
    Requests {
        /// The rate of the open loop, as a share of the rate that the round measured.
        share: f64,
    },
    /// Of single iterations of a testcase, by reading the clock after each. The rates of such a run
    /// include this.
    Iterations,
}

impl LatencyRequest {
    /// Whether the rates of the run include reading the clock, so that they cannot be compared with
    /// those of other runs.
    pub fn slows_rates(self) -> bool {
        self == Self::Iterations
    }
}

/// Latencies of an interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// The time of each request, from when it was due until its reply was complete; for a testcase, of
    /// each iteration, without the cost of the clock.
    pub times: Histogram,
    /// By how much the load generator sent each request late, although a connection was free. These
    /// delays are part of `times`. Only the lines of a server contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Histogram>,
    /// Requests per second that were due. Only the lines of a server contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// Nanoseconds that reading the clock took, which knee subtracted from each time. Only the lines of
    /// a testcase contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<f64>,
}

impl Latency {
    /// Adds the latencies of another interval of the same round.
    pub fn add(&mut self, other: &Self) {
        self.times.add(&other.times);
        if let Some(lateness) = &other.lateness {
            self.lateness.get_or_insert_default().add(lateness);
        }
        self.rate = other.rate.or(self.rate);
        self.clock = other.clock.or(self.clock);
    }
}

/// The latencies of a point.
#[derive(Debug, Clone, PartialEq)]
pub struct PointLatency {
    /// All times of the rounds that count.
    pub times: Histogram,
    /// The quantiles of `times`.
    pub quantiles: Quantiles,
    /// The quantiles of each of these rounds.
    pub rounds: Vec<Quantiles>,
    /// By how much the load generator sent requests late, if a server was measured.
    pub lateness: Option<Quantiles>,
    /// Median over the rounds of the requests per second that were due, if a server was measured.
    pub rate: Option<f64>,
    /// Median over the rounds of the cost of the clock in seconds, if a testcase was measured.
    pub clock: Option<f64>,
}

impl PointLatency {
    /// The latencies of a point from those of its rounds; `None` without a time.
    pub fn of(rounds: &[&Latency]) -> Option<Self> {
        let mut all = Latency::default();
        rounds.iter().for_each(|round| all.add(round));
        let typical = |of: fn(&Latency) -> Option<f64>| {
            median(&rounds.iter().filter_map(|round| of(round)).collect::<Vec<f64>>())
        };
        Some(Self {
            quantiles: all.times.quantiles()?,
            rounds: rounds.iter().filter_map(|round| round.times.quantiles()).collect(),
            lateness: all.lateness.as_ref().and_then(Histogram::quantiles),
            rate: typical(|round| round.rate),
            clock: typical(|round| round.clock).map(|nanos| nanos / 1e9),
            times: all.times,
        })
    }

    /// Whether the load generator caused much of the latency itself, because it sent requests late.
    pub fn is_late(&self) -> bool {
        self.lateness.is_some_and(|late| late.p99 > LATE * self.quantiles.p99)
    }
}

/// Rounds of a point whose latency could not be measured, although their rate was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LatencyGap {
    /// How many rounds that count lack the latency.
    pub rounds: usize,
    /// Of how many that count.
    pub of: usize,
    /// What happened in the first of them.
    pub reason: String,
    /// What to do next.
    pub remedy: String,
}

/// Times in seconds, without the histogram.
#[derive(Serialize)]
struct Summary<'l> {
    #[serde(flatten)]
    quantiles: Quantiles,
    count: u64,
    rate: Option<f64>,
    lateness: Option<Quantiles>,
    clock: Option<f64>,
    rounds: &'l [Quantiles],
}

impl Serialize for PointLatency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { quantiles, lateness, rate, clock, .. } = *self;
        let count = self.times.count();
        let rounds = &self.rounds;
        Summary { quantiles, count, rate, lateness, clock, rounds }.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(times: &[u64]) -> Latency {
        let mut latency = Latency { rate: Some(times.len() as f64), ..Latency::default() };
        times.iter().for_each(|&time| latency.times.record(time, 1));
        latency
    }

    #[test]
    fn the_quantiles_of_a_point_are_those_of_all_times_together() {
        let quick = round(&[100; 90]);
        let slow = round(&[200; 10]);
        let point = PointLatency::of(&[&quick, &slow]).unwrap();
        assert_eq!((point.quantiles.p50, point.quantiles.p99), (1e-7, 2e-7));
        assert_eq!(point.rounds.len(), 2);
        assert_eq!((point.rate, point.times.count()), (Some(50.0), 100));
        assert_eq!(PointLatency::of(&[]), None);
        let json = serde_json::to_value(&point).unwrap();
        assert_eq!((&json["p90"], &json["count"]), (&1e-7.into(), &100.into()));
    }

    #[test]
    fn the_parts_of_a_round_add_up() {
        let mut one = round(&[1]);
        one.lateness = Some(round(&[7]).times);
        let mut other = Latency { clock: Some(20.0), ..round(&[2, 3]) };
        other.add(&one);
        assert_eq!((other.times.count(), other.clock, other.rate), (3, Some(20.0), Some(1.0)));
        assert_eq!(other.lateness.unwrap().longest(), 7);
    }
}
