//! The table on the terminal: a line per curve, or in detail a line per point.

mod connections;
pub(super) mod counters;
mod detail;
mod latency;
mod overview;
mod remark;

use std::fmt::{self, Write};

use knee_host::number::{percent_beside, plural, tasks, threshold};
use knee_host::shell::word;
use knee_results::{CONFIDENCE, Curve, CurveVerdict, Point, PointId};
use knee_run::plan::Case;
use knee_run::record::{Record, RunRecord};

use self::overview::Summary;
use super::style::{BAD, BOLD};
use super::view::View;
use super::warnings::warnings;
use super::{failures, notes};

/// Maximum curves in the closing sentence.
const WORST: usize = 3;

/// The table, the failures, the warnings and a closing sentence.
pub(super) fn render(record: &Record, curves: &[Curve], view: &View<'_>) -> String {
    let run = &record.run;
    let mut text = view.screen.wrap(&head(run, curves), "  ");
    // One point of a curve says nothing about scaling.
    let scales = curves.iter().any(|curve| curve.points().len() > 1);
    let sweeps = Curve::over_connections(curves);
    let alone = without_swept_points(curves, &sweeps);
    if !alone.is_empty() {
        text += &if view.detail {
            detail::render(run, &alone, scales, view)
        } else {
            let summary = if scales { Summary::Scaling } else { Summary::Precision };
            overview::render(run, &alone, summary, view)
        };
    }
    text += &connections::render(run, &sweeps, view);
    text += &latency::render(run, curves, view);
    text += &counters::render(run, &[alone, sweeps].concat(), view);
    let is_shown = |id: &PointId| {
        curves.iter().any(|curve| curve.points().iter().any(|point| curve.id(point.tasks) == *id))
    };
    let (partly, wholly): (Vec<_>, Vec<_>) =
        run.failures.iter().partition(|failure| is_shown(&failure.point));
    for (what, failures) in [("not measured", wholly), ("incomplete", partly)] {
        for line in failures::lines(failures) {
            let line = format!("{BAD}{what:12}{BAD:#}  {line}");
            let _ = writeln!(text, "{}", view.screen.wrap(&line, "              "));
        }
    }
    if !run.failures.is_empty() {
        text.push('\n');
    }
    let all_notes = format!("knee show {} --detail", word(&record.dir));
    let all_notes = (!view.all_notes).then_some(all_notes.as_str());
    text += &notes::lines(warnings(record, curves, view), all_notes, &view.screen);
    let closing = if scales { closing(curves, view) } else { String::new() };
    text + &view.screen.wrap(&closing, "")
}

/// The curves with something to show beside `sweeps`: those that are not on one, or have several task counts.
fn without_swept_points(curves: &[Curve], sweeps: &[Curve]) -> Vec<Curve> {
    let is_shown = |curve: &&Curve| curve.points().len() > 1 || !curve.is_on(sweeps);
    curves.iter().filter(is_shown).cloned().collect()
}

/// The rates after the first round of a run, without anything that one round cannot show.
pub(super) fn after_first_round(run: &RunRecord, curves: &[Curve], view: &View<'_>) -> String {
    let least = if run.request.precision.is_some() { "at least " } else { "" };
    let head = format!(
        "{BOLD}Rates of the first round, of {least}{}.{BOLD:#} The final table, with intervals and \
         knees, follows at the end.\n\n",
        plural(run.request.rounds as usize, "round")
    );
    view.screen.wrap(&head, "") + &overview::render(run, curves, Summary::None, view)
}

fn head(run: &RunRecord, curves: &[Curve]) -> String {
    let request = &run.request;
    let points = || curves.iter().flat_map(Curve::points);
    let calm = || points().filter(|point| !point.disturbed);
    let confidence = calm().map(|p| p.confidence).fold(CONFIDENCE, f64::min);
    let intervals = if calm().next().is_some() && calm().all(Point::has_interval) {
        format!(", {:.1}% intervals", confidence * 100.0)
    } else {
        String::new()
    };
    // A round of a command is one invocation.
    let samples = (!run.cases.iter().all(Case::is_command))
        .then(|| format!(" of {} × {} s", request.samples, request.interval));
    let rounds = rounds(points(), request.rounds as usize, &samples.unwrap_or_default());
    format!(
        "{BOLD}{}{BOLD:#}\n{rounds}{intervals}, placement {}, seed {}\n\n",
        run.environment.summary(),
        request.placement,
        request.seed
    )
}

/// The round counts of the points, or `asked` if there are no points yet: `6 rounds`, or if some
/// rounds do not count, `5–6 of 6 rounds, 6–9 measured`. Each consists of `samples`: ` of 5 × 1 s`.
fn rounds<'p>(
    points: impl Iterator<Item = &'p Point> + Clone,
    asked: usize,
    samples: &str,
) -> String {
    let counts = Extent::of(points.clone().map(counting));
    let measured = Extent::of(points.map(|p| p.measured));
    match (counts, measured) {
        (Some(counts), Some(measured)) if counts != measured => {
            let of = if counts.most <= asked { format!(" of {asked}") } else { String::new() };
            let each = if samples.is_empty() { "" } else { ", each" };
            format!("{counts}{of} rounds, {measured} measured{each}{samples}")
        }
        (Some(Extent { least: 1, most: 1 }), _) => format!("1 round{samples}"),
        (Some(counts), _) => format!("{counts} rounds{samples}"),
        (None, _) => plural(asked, "round") + samples,
    }
}

/// How many rounds of a point count. Disturbed rounds never count, even where their rates are shown
/// because no round is clean.
fn counting(point: &Point) -> usize {
    let shows_disturbed = point.disturbed && point.rounds.len() == point.measured;
    if shows_disturbed { 0 } else { point.rounds.len() }
}

/// The least and the greatest of some numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Extent {
    least: usize,
    most: usize,
}

impl Extent {
    fn of(numbers: impl Iterator<Item = usize> + Clone) -> Option<Self> {
        Some(Self { least: numbers.clone().min()?, most: numbers.max()? })
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { least, most } = self;
        if least < most { write!(f, "{least}–{most}") } else { least.fmt(f) }
    }
}

/// Summarises the scaling of the whole run in one sentence. Curves with a disturbed point or an
/// implausible efficiency do not count: this point could be the knee, and this efficiency hides one.
fn closing(curves: &[Curve], view: &View<'_>) -> String {
    let with =
        |verdict: CurveVerdict| curves.iter().filter(|c| c.verdict(view.knee) == verdict).count();
    let (disturbed, implausible) = (with(CurveVerdict::Disturbed), with(CurveVerdict::Implausible));
    let counts = |c: &&Curve| match c.verdict(view.knee) {
        CurveVerdict::Implausible => false,
        // Efficiency requires a point at one task.
        verdict => verdict.counts() && c.base().is_some(),
    };
    let curves: Vec<&Curve> = curves.iter().filter(counts).collect();
    let most = curves.iter().flat_map(|c| c.last()).map(|point| point.tasks).max();
    let Some(most) = most else { return String::new() };
    let mut knees: Vec<(u32, f64, f64, &Curve)> = curves
        .iter()
        .filter_map(|c| {
            let knee = c.knee(view.knee).tasks()?;
            let (base, at) = (c.base()?, c.at(knee)?);
            let at_most = at.high / (base.low * f64::from(knee));
            Some((knee, c.scaling(at)?.efficiency, at_most, *c))
        })
        .collect();
    knees.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let scaling = curves.len() - knees.len();
    let mut text = format!(
        "\n{BOLD}{scaling} of {} {} above {} efficiency up to {}.{BOLD:#}",
        curves.len(),
        if curves.len() == 1 { "curve stays" } else { "curves stay" },
        threshold(view.knee),
        tasks(most)
    );
    let worst: Vec<String> = knees
        .iter()
        .take(WORST)
        .map(|(knee, efficiency, at_most, c)| {
            let efficiency = percent_beside(*efficiency, view.knee);
            let doubt = if *at_most >= view.knee { ", uncertain" } else { "" };
            format!("{} {} (knee {knee}, {efficiency}{doubt})", c.case, c.mode)
        })
        .collect();
    if !worst.is_empty() {
        let _ = write!(text, " First to stop scaling: {}.", worst.join(", "));
    }
    for (n, kind) in [(disturbed, "disturbed"), (implausible, "implausible")] {
        let curves = if n == 1 { "curve is" } else { "curves are" };
        if n > 0 {
            let _ = write!(text, " {n} {kind} {curves} excluded.");
        }
    }
    text.push('\n');
    text
}
