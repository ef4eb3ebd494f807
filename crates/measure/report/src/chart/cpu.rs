//! The CPU time in user mode, in system mode and idle, as thin bars below the task counts. If a
//! curve bends while the CPUs are idle, the tasks wait; if it bends while they are busy, the tasks
//! contend.

use super::drawing::Path;
use super::frame::{BELOW, Frame};
use super::{Panel, run_class};

const BAR: f64 = 18.0;
const GAP: f64 = 4.0;

/// Height below the axis that the bars of `panel` need.
pub(super) fn height(panel: &Panel) -> f64 {
    BELOW - super::frame::BOTTOM + rows(panel).count() as f64 * (BAR + GAP)
}

fn rows<'a>(panel: &'a Panel) -> impl Iterator<Item = &'a crate::reading::CurveReading<'a>> {
    panel.curves.iter().filter(|reading| reading.measured.points().iter().any(|p| p.cpu.is_some()))
}

pub(super) fn draw(frame: &mut Frame, panel: &Panel) {
    let several = panel.curves.len() > 1;
    for (row, reading) in rows(panel).enumerate() {
        let top = BELOW + row as f64 * (BAR + GAP);
        let mut bars =
            [("user", Path::default()), ("system", Path::default()), ("idle", Path::default())];
        for point in reading.measured.points() {
            let Some(cpu) = point.cpu else { continue };
            let x = frame.x.at(f64::from(point.tasks));
            let mut y = top;
            for ((_, path), share) in bars.iter_mut().zip([cpu.user, cpu.system, cpu.idle]) {
                let end = y + share.clamp(0.0, 1.0) * BAR;
                path.move_to(x, y).vertical_to(end);
                y = end;
            }
        }
        let width = bar_width(frame, panel);
        frame.drawing.open_group(&format!("cpu {}", run_class(reading.curve.run)));
        for (class, path) in &bars {
            frame.drawing.wide_path(class, width, path);
        }
        frame.drawing.close_group();
        let name =
            if several { format!("run {}", reading.curve.run + 1) } else { "CPU".to_owned() };
        frame.name_below(top + BAR * 0.75, &name);
    }
}

/// The width that the two closest task counts leave for a bar, within limits.
fn bar_width(frame: &Frame, panel: &Panel) -> f64 {
    let counts = panel.counts();
    let closest =
        counts.windows(2).map(|w| frame.x.at(f64::from(w[1])) - frame.x.at(f64::from(w[0])));
    (closest.fold(f64::INFINITY, f64::min) * 0.8).clamp(0.8, 12.0)
}
