//! ministat: summaries of data sets, Student's t-test between them, and a text plot.
//!
//! Poul-Henning Kamp's program is the standard judge of benchmarks on FreeBSD, and scripts read its
//! output. This module computes the same numbers and the same plot, to the last bit: sums are taken
//! in input order, the median of an even number of values is the upper one of the two middle
//! values, and variances come from sums of squares, although that loses digits if the spread is
//! small compared to the mean.
//!
//! The pipeline is bytes → [`Reader`] → [`Value`] → [`DataSet`] → [`Comparison`] and [`plot()`].
//!
//! ```
//! use knee_stats::ministat::{Comparison, Confidence, DataSet, Quantiles, plot};
//!
//! let iguana = DataSet::new(&[50.0, 200.0, 150.0, 400.0, 750.0, 400.0, 150.0]).unwrap();
//! let chameleon = DataSet::new(&[150.0, 400.0, 720.0, 500.0, 930.0]).unwrap();
//! let ninety_five: Confidence = "95".parse().unwrap();
//! let comparison = Comparison::new(&chameleon, &iguana, ninety_five, Quantiles::Ministat);
//! assert_eq!(comparison.difference, 240.0);
//! assert!(!comparison.is_proven());
//! assert!(plot(&[&iguana, &chameleon], 60, true).unwrap().starts_with("+-----"));
//! ```

mod data_set;
mod number;
mod plot;
mod reader;
mod student;

pub use data_set::{DataSet, MIN_VALUES};
pub use number::{general, parse};
pub use plot::{MAX_DATA_SETS, PlotError, SYMBOLS, plot};
pub use reader::{ReadError, Reader, Value};
pub use student::{Comparison, Confidence, Quantiles, UnknownConfidence};
