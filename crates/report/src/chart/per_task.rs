//! What a single task gets: the range from the slowest to the fastest one, their mean, and how
//! fairly they share.

use maud::Markup;

use super::drawing::Path;
use super::frame::{BELOW, Frame};
use super::{Panel, run_class, sentences};
use crate::number::{si, tasks};

/// Height of the strip of fairness below the axis.
const FAIRNESS: f64 = 24.0;
const HEIGHT: f64 = BELOW + FAIRNESS + 6.0;

pub(crate) fn per_task(panel: &Panel) -> Markup {
    let points = || panel.case.curves.iter().flat_map(|reading| &reading.curve.points);
    let best = points().flat_map(|p| [p.max, p.rate / f64::from(p.tasks)]).fold(0.0, f64::max);
    let best = if best > 0.0 { best } else { 1.0 };
    let description = sentences(panel, |reading| {
        let last = reading.last()?;
        Some(format!(
            "with {} the slowest task does {}, the fastest {} {}/s; fairness {:.3}.",
            tasks(last.tasks, panel.mode),
            si(last.min),
            si(last.max),
            panel.case.case.unit,
            last.fairness
        ))
    });
    let top = best * 1.06;
    let mut frame = Frame::new(panel, HEIGHT, (0.0, top), "Throughput per task", &description);
    let prefix = crate::number::Prefix::for_max(top);
    frame.grid(|value, _| {
        let step = super::scale::round_step(prefix.scale(top) / 5.0);
        let value = prefix.scale(value);
        format!("{value:.*}{}", super::scale::step_decimals(step), prefix.letter())
    });
    let (one, none) = (BELOW, BELOW + FAIRNESS);
    let fairness_y = |fairness: f64| none + (one - none) * fairness.clamp(0.0, 1.0);
    let mut bounds = Path::default();
    let (left, right) = (frame.x.range.0, frame.x.range.1);
    bounds.move_to(left, one).horizontal_to(right).move_to(left, none).horizontal_to(right);
    frame.drawing.path("grid", &bounds);
    frame.name_below(one + 4.0, "fair 1");
    frame.name_below(none + 2.0, "0");
    for reading in panel.curves {
        let mut range = Path::default();
        let mut mean = Path::default();
        let mut fairness = Path::default();
        for piece in reading.unbroken() {
            let x = |n: u32| frame.x.at(f64::from(n));
            let above = piece.iter().map(|(p, _)| (x(p.tasks), frame.y.within(p.max)));
            let below = piece.iter().rev().map(|(p, _)| (x(p.tasks), frame.y.within(p.min)));
            range.line(above.chain(below)).close();
            mean.line(
                piece
                    .iter()
                    .map(|(p, _)| (x(p.tasks), frame.y.within(p.rate / f64::from(p.tasks)))),
            );
            fairness.line(piece.iter().map(|(p, _)| (x(p.tasks), fairness_y(p.fairness))));
        }
        frame.drawing.open_group(&run_class(reading.curve.run));
        frame.drawing.path("band", &range);
        frame.drawing.path("line", &mean);
        frame.drawing.path("line", &fairness);
        frame.drawing.close_group();
    }
    frame.gaps(panel);
    frame.drawing.finish()
}
