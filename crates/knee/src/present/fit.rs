//! Fits of the Universal Scalability Law.

use std::fmt;

use knee_host::number::{plural, si, spread};
use knee_host::text::{Cell, Column, Screen, Table, and_list};
use knee_results::{Curve, Key, Point, Results};
use knee_stats::usl::{Basis, Estimate, FEWEST_TO_FIT, FEWEST_TO_PREDICT, Fit, FitOptions, Unfit};
use serde_json::{Value, json as object};

use super::enumeration::{and_more, grouped};
use super::notes::{CALMER, lines};
use super::warnings::implausible;
use crate::present::style::{BAD, BOLD, DIM, PLAIN};

/// Version of the JSON document.
const SCHEMA: u32 = 1;

/// Why no curve over connections is fitted.
pub(crate) const OVER_CONNECTIONS: &str = "knee fits curves over tasks (-t), and not over connections, \
     because few connections leave the server idle";

/// A curve and its fit.
pub(crate) struct FittedCurve {
    pub(crate) curve: Curve,
    /// How many CPUs the run used, if known.
    pub(crate) cpus: Option<usize>,
    pub(crate) fit: Result<Fit, Unfit>,
}

impl FittedCurve {
    fn name(&self) -> String {
        format!("{} {}", self.curve.case, self.curve.mode)
    }

    /// Why there is no fit, if there is none.
    fn error(&self) -> Option<String> {
        let unfit = self.fit.as_ref().err()?;
        let advice = match unfit {
            Unfit::TooFewPoints(_) if self.is_point_of_sweep() => {
                return Some(OVER_CONNECTIONS.to_owned());
            }
            Unfit::TooFewPoints(_) => self.remedy(FEWEST_TO_FIT).advice(),
            Unfit::NoThroughput => "",
        };
        let left_out = LeftOut::of([self]);
        Some(match left_out.is_empty() {
            true => format!("{unfit}{advice}"),
            false => format!("without {left_out}, {unfit}{advice}"),
        })
    }

    /// Whether the curve is one number of connections at one task count.
    fn is_point_of_sweep(&self) -> bool {
        self.curve.case.connections().is_some() && self.curve.points().len() == 1
    }

    /// How the curve could get `needed` task counts at which each task has a CPU.
    fn remedy(&self, needed: usize) -> Remedy {
        let points = self.curve.points();
        let own = points.iter().filter(|point| !point.oversubscribed).count();
        let sharing = points.iter().find(|point| point.oversubscribed);
        let most = sharing.map_or(usize::MAX, |point| point.tasks as usize - 1);
        let most = most.min(self.cpus.unwrap_or(usize::MAX));
        match () {
            () if most < needed => Remedy::Cpus,
            () if own < most => Remedy::TaskCounts,
            () => Remedy::Quiet,
        }
    }
}

/// How a curve could get more task counts that can be fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Remedy {
    /// All task counts are measured, and some are disturbed. Another note says so.
    Quiet,
    Cpus,
    TaskCounts,
}

impl Remedy {
    fn advice(self) -> &'static str {
        match self {
            Self::Quiet => "",
            Self::Cpus => "; more task counts require more CPUs",
            Self::TaskCounts => "; measure more task counts (-t)",
        }
    }
}

/// Numbers of points that are not fitted, because they do not show how the testcase scales.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LeftOut {
    disturbed: usize,
    oversubscribed: usize,
    /// Servers that share CPUs with their load, or leave CPUs idle.
    servers: usize,
}

impl LeftOut {
    fn of<'c>(curves: impl IntoIterator<Item = &'c FittedCurve>) -> Self {
        let mut left_out = Self::default();
        let curves = curves.into_iter().map(|fitted| &fitted.curve);
        for (curve, point) in
            curves.flat_map(|curve| curve.points().iter().map(move |point| (curve, point)))
        {
            // An oversubscribed point is left out even if nothing disturbs it.
            left_out.oversubscribed += usize::from(point.oversubscribed);
            left_out.disturbed += usize::from(point.disturbed && !point.oversubscribed);
            let is_other = !point.disturbed && !point.oversubscribed && !curve.is_sound(point);
            left_out.servers += usize::from(is_other);
        }
        left_out
    }

    fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl fmt::Display for LeftOut {
    /// `1 disturbed point and 2 points with more tasks than CPUs`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            (self.disturbed, plural(self.disturbed, "disturbed point")),
            (
                self.oversubscribed,
                format!("{} with more tasks than CPUs", plural(self.oversubscribed, "point")),
            ),
            (
                self.servers,
                format!(
                    "{} of a server that was not busy or shared its CPUs",
                    plural(self.servers, "point")
                ),
            ),
        ];
        let kinds = kinds.into_iter().filter(|(n, _)| *n > 0).map(|(_, kind)| kind);
        f.write_str(&and_list(&kinds.collect::<Vec<String>>()))
    }
}

/// Text: a line per curve, with the finding in words.
pub(crate) fn table(
    results: &Results,
    curves: &[FittedCurve],
    options: &FitOptions,
    threshold: f64,
    screen: &Screen,
) -> String {
    let mut text = String::new();
    if let Some(run) = &results.origin {
        let head = format!("{BOLD}{}{BOLD:#}\n", run.environment.summary());
        text += &screen.wrap(&head, "  ");
    }
    let mut table = Table::new(vec![
        Column::left("per second"),
        Column::right("λ").drops(2),
        Column::left("σ contention"),
        Column::left("κ coherency").drops(3),
        Column::right("R²").drops(1),
        Column::right("fitted knee"),
        Column::left("finding"),
    ]);
    table.titles();
    let fits = || curves.iter().filter_map(|fitted| Some((fitted, fitted.fit.as_ref().ok()?)));
    for (fitted, fit) in fits() {
        table.row(row(fitted.name(), fit, threshold));
    }
    if fits().next().is_some() {
        text += &table.render(screen);
    }
    let unfit: Vec<_> = curves.iter().filter_map(|c| Some((c, c.error()?))).collect();
    for group in grouped(&unfit, |a, b| a.1 == b.1) {
        let names: Vec<String> = group.iter().map(|(fitted, _)| fitted.name()).collect();
        let line = format!("{BAD}no fit{BAD:#}  {}: {}\n", names.join(", "), group[0].1);
        text += &screen.wrap(&line, "        ");
    }
    let is_shown = |key: &Key| curves.iter().any(|c| c.curve.case == key.case);
    let mut gaps = results
        .points
        .iter()
        .filter_map(|(key, measured)| Some((key, measured, measured.gap.as_ref()?)))
        .filter(|(key, ..)| is_shown(key));
    let mut notes = Vec::new();
    let left_out = LeftOut::of(curves);
    if !left_out.is_empty() {
        let advice = if left_out.disturbed > 0 { format!("; {CALMER}") } else { String::new() };
        notes.push(format!("the fits leave out {left_out}{advice}"));
    }
    notes.extend(implausible(fits().map(|(fitted, _)| &fitted.curve)));
    if let Some((first, measured, reason)) = gaps.next() {
        let what =
            if measured.rounds.is_empty() { "no result for" } else { "incomplete result for" };
        let more = and_more(gaps.count());
        notes.push(format!("{what} {first} ({reason}){more}"));
    }
    if fits().any(|(_, fit)| fit.basis != Basis::Rounds) {
        notes.push(
            "some points have fewer than three rounds, so the fits cannot show how much results \
             vary between rounds; measure more rounds (-r)"
                .to_owned(),
        );
    }
    let no_predictions = fits().filter(|(_, fit)| !fit.is_prediction);
    if let Some(remedy) = no_predictions.map(|(curve, _)| curve.remedy(FEWEST_TO_PREDICT)).max() {
        notes.push(format!(
            "a fit to fewer than six task counts describes only the measured points and predicts \
             nothing{}",
            remedy.advice()
        ));
    }
    if !notes.is_empty() {
        text.push('\n');
    }
    text += &lines(notes, None, screen);
    let method = format!(
        "\n{DIM}{:.1}% bootstrap intervals from {} resamples, seed {}. The fitted knee is the \
         first task count at which the law gives less than {} efficiency; knee show prints the \
         measured knee.{DIM:#}\n",
        options.confidence * 100.0,
        options.resamples,
        options.seed,
        spread(threshold)
    );
    text + &screen.wrap(&method, "")
}

fn row(name: String, fit: &Fit, threshold: f64) -> Vec<Cell> {
    let style = if fit.is_prediction { PLAIN } else { DIM };
    let knee = fit.model.knee(threshold).map_or("-".to_owned(), |n| n.to_string());
    let r2 = fit.r_squared.map_or("-".to_owned(), |r2| format!("{r2:.3}"));
    let (sigma, kappa) = (estimate(&fit.sigma), estimate(&fit.kappa));
    let cells = [name, si(fit.lambda.value), sigma, kappa, r2, knee, finding(fit)];
    cells.map(|text| Cell::new(text, style)).to_vec()
}

/// `0.031 [0.028 0.035]`
fn estimate(estimate: &Estimate) -> String {
    let value = short(estimate.value);
    match estimate.interval {
        Some((low, high)) => format!("{value} [{} {}]", short(low), short(high)),
        None => value,
    }
}

/// Formats a number with two or three digits, whatever its size.
fn short(value: f64) -> String {
    match value {
        // Zero, apart from rounding errors.
        v if v.abs() < 1e-9 => "0".to_owned(),
        v if v.abs() < 0.001 => format!("{v:.1e}"),
        v if v.abs() < 0.1 => format!("{v:.4}"),
        v if v.abs() < 10.0 => format!("{v:.3}"),
        v => format!("{v:.0}"),
    }
}

/// Formats a task count that may be fractional.
fn tasks(n: f64) -> String {
    if n < 9.95 { format!("{n:.1}") } else { format!("{n:.0}") }
}

/// Describes what limits the curve.
fn finding(fit: &Fit) -> String {
    let points = fit.residuals.len();
    let hedge = match fit.is_prediction {
        true => String::new(),
        false => format!(" ({}: not a prediction)", plural(points, "point")),
    };
    // If the interval of σ includes 0, contention is not a proven limit.
    let is_contended = fit.sigma.interval.is_none_or(|(low, _)| low > 0.0);
    let what = match (&fit.peak, fit.model.speedup_limit().filter(|_| is_contended)) {
        (Some(peak), _) => {
            let interval =
                peak.interval.map(|(low, high)| format!(" [{} {}]", tasks(low), tasks(high)));
            let interval = interval.unwrap_or_default();
            format!("▼ peaks at {} tasks{interval}, then falls", tasks(peak.value))
        }
        (None, Some(limit)) => {
            format!("◐ contended: at most {} times the rate of one task", tasks(limit))
        }
        (None, None) => "● no limit found".to_owned(),
    };
    what + &hedge
}

/// JSON for programs.
pub(crate) fn json(
    results: &Results,
    curves: &[FittedCurve],
    options: &FitOptions,
    threshold: f64,
) -> Value {
    object!({
        "schema": SCHEMA,
        "source": results.source.display().to_string(),
        "confidence": options.confidence,
        "resamples": options.resamples,
        "seed": options.seed,
        "knee_threshold": threshold,
        "curves": curves.iter().map(|curve| curve_json(curve, threshold)).collect::<Vec<Value>>(),
    })
}

fn curve_json(fitted: &FittedCurve, threshold: f64) -> Value {
    let value = |e: &Estimate| object!({ "value": e.value, "low": e.interval.map(|i| i.0), "high": e.interval.map(|i| i.1) });
    let fit = match &fitted.fit {
        Err(_) => object!({ "error": fitted.error() }),
        Ok(fit) => object!({
            "law": if fit.is_amdahl { "Amdahl" } else { "universal scalability" },
            "lambda": value(&fit.lambda),
            "sigma": value(&fit.sigma),
            "kappa": value(&fit.kappa),
            "peak": fit.peak.as_ref().map(value),
            "speedup_limit": fit.model.speedup_limit(),
            "knee": fit.model.knee(threshold),
            "r_squared": fit.r_squared,
            "rmse": fit.rmse,
            "is_prediction": fit.is_prediction,
            "intervals_from": match fit.basis {
                Basis::Rounds => Some("rounds"),
                Basis::Residuals => Some("residuals"),
                Basis::Nothing => None,
            },
            "points": fit.residuals,
        }),
    };
    let tasks_of = |is: fn(&Point) -> bool| -> Vec<u32> {
        fitted.curve.points().iter().filter(|point| is(point)).map(|point| point.tasks).collect()
    };
    object!({
        "testcase": fitted.curve.case,
        "mode": fitted.curve.mode,
        "fit": fit,
        // Task counts that the fit leaves out.
        "disturbed": tasks_of(|point| point.disturbed),
        "oversubscribed": tasks_of(|point| point.oversubscribed),
    })
}
