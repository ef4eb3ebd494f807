//! Measured results, from knee or from other tools.
//!
//! ```text
//! records, CSV, will-it-scale → Results → Curve → table, JSON, CSV, compare, history, fit, page
//! ```
//!
//! * A [`CaseId`] identifies what a rate belongs to: a testcase, its parameters, and the side of a
//!   comparison. Together with a [`Mode`] and a task count, it is a [`PointId`].
//! * A [`Point`] is the measurement at a [`PointId`], and a [`Curve`] is all points of a testcase in a
//!   mode. Its [`Axis`] is the task count or, for a server, the number of connections. All outputs show
//!   the same speed-up, efficiency, [`Knee`] and [`CurveVerdict`].
//! * [`Results`] are all points of a run of knee or of another tool. [`Compared`] holds the differences
//!   between two results, and [`history`] finds when a series changed.
//!
//! ```
//! use knee_results::{CaseId, Curve, Knee, Mode, Point};
//!
//! let points = [(1, 10.0), (2, 19.0), (4, 22.0)].map(|(tasks, rate)| Point::new(tasks, vec![rate]));
//! let curve = Curve::new(CaseId::new("mmap1"), Mode::Threads, points.into_iter().flatten().collect());
//! assert_eq!(curve.knee(0.8), Knee::At(4));
//! ```

mod axis;
mod case_id;
mod compared;
mod compared_latency;
mod counters;
mod csv;
mod curve;
mod difference;
mod family;
mod gap;
mod history;
mod kind;
mod latency;
mod mode;
mod point;
pub mod prediction;
mod request;
mod results;
mod sample;
mod served;
mod variants;
mod verdict;
mod will_it_scale;

pub use axis::Axis;
pub use case_id::{CaseId, Side};
pub use compared::{Compared, ComparedPoint, FamilySummary, MachineChange, Verdicts};
pub use compared_latency::{ComparedLatency, Doubt};
pub use counters::{CountedWork, Counts, PointCounters};
pub use curve::{Curve, Knee, MAX_PLAUSIBLE_EFFICIENCY, Scaling};
pub use difference::{Difference, differences, differences_of_cases};
pub use family::Family;
pub use gap::Gap;
pub use history::{Series, history, in_time_order};
pub use kind::Kind;
pub use latency::{Latency, LatencyGap, LatencyRequest, PointLatency};
pub use mode::Mode;
pub use point::{CONFIDENCE, MAX_TASKS, PerTask, Point, PointId};
pub use request::{Order, Origin, Request, UntilDecided};
pub use results::{
    CaseInfo, ITERATIONS, Key, Measured, RUN_FILE, Results, ResultsError, check_size,
};
pub use sample::{CpuShares, Mark};
pub use served::{Served, ServerUse};
pub use variants::VariantPair;
pub use verdict::CurveVerdict;

/// An upper limit for rates: more than all CPUs of the largest machine complete per second. Squares
/// of sums of rates up to this limit stay finite.
pub const MAX_RATE: f64 = 1e30;
