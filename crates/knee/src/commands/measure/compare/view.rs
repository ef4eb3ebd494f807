//! How files of numbers are shown.

use knee_host::text::Screen;
use knee_stats::ministat::Confidence;

/// Which parts of the results to print.
pub(super) struct View {
    pub(super) confidence: Confidence,
    pub(super) comparisons: bool,
    pub(super) head: bool,
    pub(super) plot: Option<Plot>,
    /// Where text for people goes.
    pub(super) screen: Screen,
}

/// How the plot is drawn.
pub(super) struct Plot {
    pub(super) width: u16,
    pub(super) separate: bool,
}
