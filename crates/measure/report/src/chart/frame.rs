//! The axes that all charts of a testcase share.

use knee_host::number::Prefix;
use knee_results::Axis;

use super::drawing::{Anchor, Drawing, Path};
use super::scale::{Scale, count_ticks, round_ticks, tick_decimals};
use super::{Panel, run_class};

/// Width in user units; the style sheet scales it to the width of its column.
pub(super) const WIDTH: f64 = 320.0;
/// Top of the plot, with room for one line of labels above it.
pub(super) const TOP: f64 = 18.0;
/// Bottom of the plot.
pub(super) const BOTTOM: f64 = 200.0;
/// Top of the drawings below the task counts.
pub(super) const BELOW: f64 = 226.0;
const LEFT: f64 = 42.0;
/// Room for a label at the end of a line.
const RIGHT: f64 = 265.0;
/// Room for the name of the axis over connections, which is longer than `tasks`.
const LONGER_NAME: f64 = 30.0;
/// Distance between the ends of the axis and the outermost points.
const INSET: f64 = 8.0;
/// Greatest distance between the boundary of oversubscription and the first point beyond it.
const BEFORE: f64 = 24.0;
/// Approximate number of ticks on the vertical axis.
const TICKS: u32 = 5;
/// Minimum distance between numbers on the horizontal axis.
const TICK_GAP: f64 = 22.0;

/// A drawing with axes.
pub(super) struct Frame {
    pub(super) drawing: Drawing,
    pub(super) x: Scale,
    pub(super) y: Scale,
}

impl Frame {
    /// `y` is the domain of the vertical axis.
    pub(super) fn new(
        panel: &Panel,
        height: f64,
        y: (f64, f64),
        title: &str,
        description: &str,
    ) -> Self {
        let (first, last) = panel.tasks;
        let (domain, end) = ((f64::from(first), f64::from(last)), RIGHT - INSET);
        let x = match panel.case.axis() {
            Axis::Tasks => Scale::new(domain, (LEFT + INSET, end)),
            // From one to thousands of connections.
            Axis::Connections { .. } => {
                Scale::logarithmic(domain, (LEFT + INSET, end - LONGER_NAME))
            }
        };
        let y = Scale::new(y, (BOTTOM, TOP));
        let title = format!("{title} of {}", panel.name());
        // For the script, which marks the selected task count.
        let ((n0, n1), (x0, x1)) = (x.domain, x.range);
        let kind = if x.is_logarithmic() { " data-logarithmic" } else { "" };
        let axis = format!(r#" data-tasks="{n0} {n1} {x0} {x1} {TOP} {BOTTOM}"{kind}"#);
        let drawing = Drawing::new("chart", (WIDTH, height), &title, description, &axis);
        let mut frame = Self { drawing, x, y };
        frame.tasks_axis(panel);
        frame
    }

    fn tasks_axis(&mut self, panel: &Panel) {
        let mut axis = Path::default();
        axis.move_to(LEFT, BOTTOM).horizontal_to(RIGHT);
        self.drawing.open_group("tasks-axis");
        for n in count_ticks(&panel.counts(), &self.x, TICK_GAP) {
            let x = self.x.at(f64::from(n));
            axis.move_to(x, BOTTOM).vertical_to(BOTTOM + 4.0);
            self.drawing.plain_text((x, BOTTOM + 16.0), &n.to_string());
        }
        self.drawing.close_group();
        self.drawing.path("axis", &axis);
        self.drawing.text("tick", (WIDTH, BOTTOM + 16.0), Anchor::End, panel.case.axis().as_str());
    }

    /// Horizontal lines at round numbers, in multiples of `prefix`, with `suffix` after each
    /// number.
    pub(super) fn grid_of_rates(&mut self, prefix: Prefix, suffix: &str) {
        let decimals = tick_decimals(prefix.scale(self.y.domain.1), TICKS);
        self.grid(|value| format!("{:.decimals$}{suffix}", prefix.scale(value)));
    }

    /// Horizontal lines at round numbers, formatted by `label`.
    pub(super) fn grid(&mut self, label: impl Fn(f64) -> String) {
        let (low, high) = self.y.domain;
        let mut grid = Path::default();
        self.drawing.open_group("value-axis");
        for value in round_ticks(low, high, TICKS) {
            let y = self.y.at(value);
            grid.move_to(LEFT, y).horizontal_to(RIGHT);
            self.drawing.plain_text((LEFT - 6.0, y + 4.0), &label(value));
        }
        self.drawing.close_group();
        self.drawing.path("grid", &grid);
    }

    /// A horizontal line at `value`.
    pub(super) fn level(&mut self, class: &str, value: f64) {
        let y = self.y.within(value);
        let mut path = Path::default();
        path.move_to(LEFT, y).horizontal_to(RIGHT);
        self.drawing.path(class, &path);
    }

    /// The horizontal line of perfect scaling at `value`, which ends where there are more tasks than
    /// CPUs in all runs.
    pub(super) fn ideal_level(&mut self, panel: &Panel, value: f64) {
        let ends = panel.curves.iter().map(|curve| curve.highest_with_cpus()).max();
        let end = match ends {
            Some(n) if n < panel.tasks.1 => self.x.within(f64::from(n)),
            _ => RIGHT,
        };
        let mut path = Path::default();
        path.move_to(LEFT, self.y.within(value)).horizontal_to(end);
        self.drawing.path("ideal", &path);
    }

    /// The name of a drawing below the axis.
    pub(super) fn name_below(&mut self, y: f64, name: &str) {
        self.drawing.text("tick", (LEFT - 6.0, y), Anchor::End, name);
    }

    /// A note in place of a drawing below the axis.
    pub(super) fn note_below(&mut self, y: f64, note: &str) {
        self.drawing.text("tick", ((LEFT + RIGHT) / 2.0, y), Anchor::Middle, note);
    }

    /// The position of task count `n` in run `run` of `runs`. Runs are side by side, so that none
    /// hides another.
    pub(super) fn x_of_run(&self, n: u32, run: usize, runs: usize) -> f64 {
        const APART: f64 = 3.0;
        let middle = (runs.saturating_sub(1)) as f64 / 2.0;
        self.x.at(f64::from(n)) + (run as f64 - middle) * APART
    }

    /// A vertical line between the points whose tasks each have a CPU and those with more tasks.
    pub(super) fn boundaries(&mut self, panel: &Panel) {
        let boundaries = panel.boundaries();
        let mut line = Path::default();
        for &(below, first) in &boundaries {
            let at = |n: u32| self.x.at(f64::from(n));
            let before = if below == 0 { INSET } else { (at(first) - at(below)) / 2.0 };
            line.move_to(at(first) - before.min(BEFORE), BOTTOM).vertical_to(TOP);
        }
        self.drawing.path("boundary", &line);
        if !boundaries.is_empty() {
            let text = "more tasks than CPUs";
            self.drawing.text("tick", (WIDTH, TOP - 6.0), Anchor::End, text);
        }
    }

    /// A mark at a disturbed point, with an explanation as its title.
    pub(super) fn disturbed(&mut self, panel: &Panel, (run, tasks): (usize, u32), y: f64) {
        let runs = panel.curves.len();
        let x = self.x_of_run(tasks, run, runs);
        let mut mark = Path::default();
        mark.disturbed(x, y);
        let why = format!(
            "{}, {}: disturbed by other work; nothing is concluded from this point",
            panel.curves[run].run.label,
            panel.case.axis().count(tasks)
        );
        self.drawing.open_group(&run_class(panel.curves[run].curve.run));
        self.drawing.titled_path("disturbed", &mark, &why);
        self.drawing.close_group();
    }

    /// A cross on the axis for each point without a result, with the reason as its title.
    pub(super) fn gaps(&mut self, panel: &Panel) {
        let runs = panel.curves.len();
        for (i, reading) in panel.curves.iter().enumerate() {
            for gap in &reading.curve.missing {
                let (x, y) = (self.x_of_run(gap.tasks, i, runs), BOTTOM - 7.0);
                let mut cross = Path::default();
                cross.cross(x, y, 4.0);
                let why = format!(
                    "{}, {}: not measured: {}",
                    reading.run.label,
                    panel.case.axis().count(gap.tasks),
                    gap.reason
                );
                self.drawing.titled_path("gap", &cross, &why);
            }
        }
    }

    /// Writes texts beside the right ends of lines, moved apart if they would overlap. A label is the
    /// end of its line, its class and its text.
    pub(super) fn end_labels(&mut self, mut labels: Vec<((f64, f64), String, String)>) {
        const LINE: f64 = 13.0;
        labels.sort_by(|a, b| a.0.1.total_cmp(&b.0.1));
        let mut free = f64::NEG_INFINITY;
        for ((_, y), ..) in &mut labels {
            *y = y.max(free);
            free = *y + LINE;
        }
        let mut free = BOTTOM;
        for ((_, y), ..) in labels.iter_mut().rev() {
            *y = y.min(free);
            free = *y - LINE;
        }
        for ((x, y), class, text) in labels {
            self.drawing.text(
                &format!("end {class}"),
                (x + INSET + 3.0, y + 4.0),
                Anchor::Start,
                &text,
            );
        }
    }
}
