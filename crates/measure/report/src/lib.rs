//! One self-contained HTML page about runs: how every testcase scales, where it stops scaling, and
//! what changed between two runs. It also shows when the operations of an interface commute, and
//! what commuting operations share in a kernel, and predicted curves.
//!
//! A [`Page`] holds the numbers, and [`render`] turns it into text. This crate reads and writes no
//! files, and equal input gives equal bytes. The page needs no network and no server. All charts
//! and tables are readable without JavaScript. The exception is a page with thousands of points,
//! which compresses its testcases: without JavaScript, only the overview and the first testcase are
//! readable.
//!
//! ```text
//! model    the contents of a page: plain data, filled by the caller
//! matrix   when operations commute: data and document
//! cpu_map  what it costs the CPUs of a machine to communicate
//! shared   what commuting calls share in a kernel
//! drawing  the matrix of shared lines as a separate drawing
//! finite   values that are not numbers become marked gaps
//! reading  results derived from the numbers: efficiency, verdicts, order
//! verdict  what is concluded from a curve or a comparison, in words and symbols
//! finding  the title: the one sentence to remember
//! chart    SVG: scales, axes, and one file per kind of chart
//! page     HTML: head, overview, testcases, when operations commute, machine and method
//! embed    the same numbers as JSON, for scripts and downloads
//! ```
//!
//! ```
//! use knee_report::{Curve, Page, Run, render};
//! use knee_results::{self as results, CaseId, Mode, Point};
//!
//! let rates = [(1, 4e5), (2, 7.6e5), (4, 9e5), (8, 7e5)];
//! let points = rates.map(|(tasks, rate)| Point::new(tasks, vec![rate, rate * 0.99, rate * 1.01]));
//! let points = points.into_iter().flatten().collect();
//! let measured = results::Curve::new(CaseId::new("mmap1"), Mode::Threads, points);
//! let page = Page {
//!     runs: vec![Run { label: "6.12".to_owned(), ..Run::default() }],
//!     curves: vec![Curve::new(0, measured)],
//!     ..Page::default()
//! };
//! let html = render(&page);
//! assert!(html.contains("<h1>mmap1 peaks at 4 threads, then loses"));
//! ```
#![forbid(unsafe_code)]

mod chart;
mod cpu_map;
mod drawing;
mod embed;
mod finding;
mod finite;
mod matrix;
mod model;
mod page;
mod reading;
mod shared;
mod verdict;

pub use cpu_map::CpuMap;
pub use drawing::draw;
pub use matrix::{Differing, Matrix, MatrixError, MatrixOperation, Pair};
pub use model::{Change, Curve, Growth, KNEE_EFFICIENCY, Missing, Page, Profile, Run, Waits};
pub use shared::{Shared, SharedLine, SharedSide, SharedVerdict};

/// The page as HTML. Panics if the run of a curve is not on the page.
pub fn render(page: &Page) -> String {
    let page = finite::with_marked_gaps(page);
    let html = page::html(&reading::Reading::of(&page));
    // maud does not replace control characters, which HTML forbids, or controls of the direction of
    // text, with which a name could rearrange the text around it.
    knee_host::text::plain(&html).into_owned()
}

/// The title of the page, which summarises its results in a sentence.
pub fn finding(page: &Page) -> String {
    let page = finite::with_marked_gaps(page);
    finding::sentence(&reading::Reading::of(&page))
}
