//! What limits a predicted curve, in words.

use std::ops::RangeInclusive;

use knee_host::number::{si, tasks, time};

use super::{Class, Curve, Next, Point, Prediction, Station, StationKind};

/// Share of transfers from other sockets that is worth a remark.
const FAR: f64 = 0.05;

/// Neighbouring points of a curve that have the same class and the same limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit<'c> {
    /// The lowest and the highest task count.
    pub tasks: RangeInclusive<u32>,
    /// The class.
    pub class: Class,
    /// The line or lock at the highest task count. `None` if nothing that tasks share limits them.
    pub station: Option<&'c Station>,
}

impl Curve {
    /// What limits the curve, from the lowest task count to the highest.
    pub fn limits(&self) -> Vec<Limit<'_>> {
        let is_same =
            |a: &Point, b: &Point| (a.class, a.limit.as_ref()) == (b.class, b.limit.as_ref());
        fn limit(points: &[Point]) -> Limit<'_> {
            let last = &points[points.len() - 1];
            let tasks = points[0].tasks..=last.tasks;
            Limit { tasks, class: last.class, station: last.binding() }
        }
        self.points.chunk_by(is_same).map(limit).collect()
    }
}

impl Limit<'_> {
    /// `8 to 24`, or `8`.
    pub fn range(&self) -> String {
        match (self.tasks.start(), self.tasks.end()) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first} to {last}"),
        }
    }

    /// How often and for how long each iteration needs the line or lock at the highest task count:
    /// `4.00 transfers per iteration, 60.3 ns each, 6% from another socket: at most 4.15 M/s with
    /// 48 tasks`. `None` if nothing that tasks share limits them.
    pub fn sentence(&self) -> Option<String> {
        let how = self.station?.sentence();
        Some(format!("{how} with {}", tasks(*self.tasks.end())))
    }
}

impl Station {
    fn sentence(&self) -> String {
        let what = match self.kind {
            StationKind::Line => "transfers",
            StationKind::Lock => "lock sections",
            StationKind::Shootdown => "shootdowns",
        };
        let far = match self.far {
            far if far >= FAR => format!(", {:.0}% from another socket", 100.0 * far),
            _ => String::new(),
        };
        format!(
            "{:.2} {what} per iteration, {} each{far}: at most {}/s",
            self.visits,
            time(self.service_ns / 1e9),
            si(self.plateau)
        )
    }
}

impl Point {
    /// The rate, or `at most about` the bound.
    pub fn rate_in_words(&self) -> String {
        match self.rate {
            Some(rate) => si(rate),
            None => format!("at most about {}", si(self.bound)),
        }
    }

    /// `limited by zone.lock`, or by `nothing that tasks share`.
    fn limited_by(&self) -> String {
        let limit = self.limit.as_deref().unwrap_or("nothing that tasks share");
        format!("limited by {limit}")
    }
}

impl Next {
    /// `without zone.lock: 70.8 M/s at 48 tasks, limited by nothing that tasks share`
    pub fn sentence(&self) -> String {
        let Self { without, point } = self;
        let (rate, by) = (point.rate_in_words(), point.limited_by());
        format!("without {without}: {rate}/s at {}, {by}", tasks(point.tasks))
    }
}

impl Prediction {
    /// The main finding in a sentence: the ratio of two kernels, or the rate, at the highest task
    /// count.
    pub fn sentence(&self) -> String {
        let what = format!("{} on {}", self.testcase, self.machine.name);
        let (Some(first), Some(curve)) = (self.curves.first(), self.curves.last()) else {
            return format!("{what}: no prediction");
        };
        let Some(point) = curve.points.last() else { return format!("{what}: no prediction") };
        let at = self.mode.tasks(point.tasks);
        if let Some(ratio) = point.ratio {
            let (new, old) = (&curve.kernel, &first.kernel);
            let (value, low, high) = (ratio.value, ratio.low, ratio.high);
            return format!(
                "{what}: {new} has {value:.2} ({low:.2} to {high:.2}) times the predicted \
                 throughput of {old} with {at}"
            );
        }
        let band = match point.band() {
            Some((_, low, high)) => format!(" ({} to {})", si(low), si(high)),
            None => String::new(),
        };
        let rate = point.rate_in_words();
        format!("{what}: predicted {rate}/s{band} with {at}, {}", point.limited_by())
    }
}
