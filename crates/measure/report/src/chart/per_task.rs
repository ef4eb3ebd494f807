//! Throughput per task: the range from the slowest to the fastest task, the mean, and the fairness.

use knee_host::number::{Prefix, si};
use knee_results::{PerTask, Point};
use maud::Markup;

use super::drawing::Path;
use super::frame::{BELOW, Frame};
use super::{Panel, run_class, sentences};

/// Height of the strip below the axis that shows fairness.
const FAIRNESS: f64 = 24.0;
const HEIGHT: f64 = BELOW + FAIRNESS + 6.0;

pub(crate) fn per_task(panel: &Panel) -> Markup {
    let points = || panel.case.curves.iter().flat_map(|reading| reading.measured.points());
    let mean = |p: &Point| p.rate / f64::from(p.tasks);
    let best = points().map(|p| p.per_task.map_or(mean(p), |t| t.max.max(mean(p))));
    let best = best.fold(0.0, f64::max);
    let best = if best > 0.0 { best } else { 1.0 };
    let description = sentences(panel, |reading| {
        let last = reading.measured.last()?;
        let (at, unit) = (reading.measured.place(last.tasks), &panel.case.info.unit);
        Some(match last.per_task {
            Some(PerTask { min, max, fairness }) => format!(
                "with {at}, the slowest task completes {} {unit}/s and the fastest {} {unit}/s; \
                 fairness {fairness:.3}.",
                si(min),
                si(max)
            ),
            None => {
                format!("with {at}, {} {unit}/s for each on average.", si(mean(last)))
            }
        })
    });
    let top = best * 1.06;
    let title = format!("Throughput per {}", panel.case.axis().unit());
    let mut frame = Frame::new(panel, HEIGHT, (0.0, top), &title, &description);
    let prefix = Prefix::for_max(top);
    frame.grid_of_rates(prefix, prefix.letter());
    frame.boundaries(panel);
    let (one, none) = (BELOW, BELOW + FAIRNESS);
    let fairness_y = |fairness: f64| none + (one - none) * fairness.clamp(0.0, 1.0);
    let mut bounds = Path::default();
    let (left, right) = (frame.x.range.0, frame.x.range.1);
    bounds.move_to(left, one).horizontal_to(right).move_to(left, none).horizontal_to(right);
    frame.drawing.path("grid", &bounds);
    frame.name_below(one + 4.0, "fair 1");
    frame.name_below(none + 2.0, "0");
    if points().all(|point| point.per_task.is_none()) {
        frame.note_below((one + none) / 2.0 + 4.0, "not known");
    }
    for (i, reading) in panel.curves.iter().enumerate() {
        let x = |n: u32| frame.x.at(f64::from(n));
        let means = |piece: &[Point]| -> Vec<(f64, f64)> {
            piece.iter().map(|p| (x(p.tasks), frame.y.within(mean(p)))).collect()
        };
        let spread = |piece: &[Point], range: &mut Path, fairness: &mut Path| {
            for known in piece.split(|p| p.per_task.is_none()).filter(|k| !k.is_empty()) {
                let known = || known.iter().filter_map(|p| Some((x(p.tasks), p.per_task?)));
                let above = known().map(|(x, t)| (x, frame.y.within(t.max)));
                let below = known().rev().map(|(x, t)| (x, frame.y.within(t.min)));
                range.line(above.chain(below)).close();
                fairness.line(known().map(|(x, t)| (x, fairness_y(t.fairness))));
            }
        };
        let [mut range, mut line, mut fairness] = [(); 3].map(|()| Path::default());
        for piece in reading.unbroken() {
            line.line(means(piece).into_iter());
            spread(piece, &mut range, &mut fairness);
        }
        let [mut beyond_range, mut beyond, mut beyond_fairness] = [(); 3].map(|()| Path::default());
        for piece in reading.oversubscribed() {
            beyond.line(means(piece).into_iter());
            spread(piece, &mut beyond_range, &mut beyond_fairness);
        }
        let paths = [
            ("band shared-cpus-band", &beyond_range),
            ("shared-cpus", &beyond),
            ("shared-cpus", &beyond_fairness),
            ("band", &range),
            ("line", &line),
            ("line", &fairness),
        ];
        frame.drawing.group(&run_class(reading.curve.run), &paths);
        for point in reading.disturbed() {
            let y = frame.y.within(mean(point));
            frame.disturbed(panel, (i, point.tasks), y);
        }
    }
    frame.gaps(panel);
    frame.drawing.finish()
}
