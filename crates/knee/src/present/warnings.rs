//! Warnings to read before trusting a table. Each warning says what to do, if possible.

mod noise;
mod seats;

use std::collections::BTreeMap;

use knee_host::Environment;
use knee_host::number::{percent, plural, spread};
use knee_results::{Curve, LatencyGap, Mark, Mode, Order, Point, PointId, PointLatency};
use knee_run::record::{Record, RunEnd, RunRecord};

use self::seats::{shared_beyond, without_spare_cpu};
use super::enumeration::{NAMED, and_more, named};
use super::failures;
use super::left_running;
use super::notes::CALMER;
use super::view::View;

/// knee warns below this confidence. Five rounds give 93.75%, which the table header shows.
pub(super) const LEAST_CONFIDENCE: f64 = 0.93;

/// The warnings about `record`, most important first. Notes that are the same after every run on this
/// machine are left out, unless the user asked for all notes.
pub(super) fn warnings(record: &Record, curves: &[Curve], view: &View<'_>) -> Vec<String> {
    let run = &record.run;
    let points: Vec<(&Curve, &Point)> =
        curves.iter().flat_map(|c| c.points().iter().map(move |point| (c, point))).collect();
    if points.is_empty() {
        // There is nothing to trust or to distrust yet.
        return lacking(record).into_iter().collect();
    }
    let sweeps = Curve::over_connections(curves);
    let candidates = [
        lacking(record),
        run.environment.cgroup_cpu_quota.map(|cpus| {
            format!(
                "a cgroup limits CPU time to {cpus:.1} CPUs, so no curve can scale further; \
                 raise the cgroup's CPU limit to measure beyond it"
            )
        }),
        other_work(run, curves, &points),
        lower_bounds(&sweeps, &points),
        // The detailed table says so above these points.
        shared_with_load(&points).filter(|_| !view.detail),
        late_generator(&points),
        missing_latency(run, &points),
        run.request.latency.filter(|latency| latency.slows_rates()).map(|_| {
            "the rates include reading the clock after each iteration (--latency), so knee does not \
             compare them to rates measured without --latency"
                .to_owned()
        }),
        run.request.counters.as_ref().map(|_| {
            "the rates include the cost of counting (--counters), so knee does not compare them to rates \
             measured without --counters"
                .to_owned()
        }),
        implausible(curves),
        failed_repeats(run),
        left_running::of_run(run),
        left_running::of_servers(run),
        few_rounds(run, &points),
        run.request.precision.and_then(|asked| imprecise(&points, asked)),
        marked(&points),
        no_single_task(run, curves, &sweeps),
        // There too.
        shared_beyond(run, curves).filter(|_| !view.detail).map(|beyond| {
            format!("with more than {beyond}, tasks share CPUs, so there is no efficiency or knee")
        }),
    ];
    let doubts = view.floors.map(|floors| noise::warnings(curves, view.knee, floors));
    let constant = if view.all_notes { of_every_run(run, curves, view) } else { Vec::new() };
    candidates.into_iter().flatten().chain(doubts.into_iter().flatten()).chain(constant).collect()
}

/// Notes that are the same after every run on this machine.
fn of_every_run(run: &RunRecord, curves: &[Curve], view: &View<'_>) -> Vec<String> {
    let spare_cpu = without_spare_cpu(run, curves).map(|from| {
        format!(
            "starting at {from}, no CPU is free for the measuring process, so this process \
             interrupts a task for a few microseconds per sample"
        )
    });
    // Interleaved rounds cancel the differences that a noise floor describes.
    let lacks_floor = view.floors.is_none() && run.request.order != Order::InTurns;
    let floor = lacks_floor.then(|| {
        "the noise floor of this machine is unknown; to measure it: knee run --aa".to_owned()
    });
    [spare_cpu, floor].into_iter().flatten().collect()
}

/// A warning about other work on the machine, with all of its effects, because they have the same
/// remedy.
fn other_work(run: &RunRecord, curves: &[Curve], points: &[(&Curve, &Point)]) -> Option<String> {
    let effects = [
        all_disturbed(curves).or_else(|| disturbed(points)),
        lost_rounds(run, points),
        others_running(&run.environment),
    ];
    let effects: Vec<String> = effects.into_iter().flatten().collect();
    (!effects.is_empty()).then(|| format!("{}; {CALMER}", effects.join(". ")))
}

/// The programs that were busy when the run began.
fn others_running(environment: &Environment) -> Option<String> {
    let threads = environment.others_running.filter(|&threads| threads > 0)?;
    let programs = &environment.running_programs;
    let names = match programs.is_empty() {
        true => String::new(),
        false => format!(" ({})", named(programs)),
    };
    Some(format!(
        "{} of other programs{names} occupied or waited for CPUs when the run began",
        plural(threads as usize, "thread")
    ))
}

/// A warning about points that are missing from the run.
fn lacking(record: &Record) -> Option<String> {
    let run = &record.run;
    let lost = run.failures.iter().filter(|f| supports_only_other_mode(run, &f.point)).count();
    // Resuming the run cannot add such points.
    if run.end == Some(RunEnd::Done) && lost > 0 && lost == run.failures.len() {
        return Some(format!(
            "the run lacks {} of testcases that support only threads; measure them in a run with \
             -m threads",
            plural(lost, "point")
        ));
    }
    let (how, next) = match run.end {
        _ if run.complete => return None,
        Some(RunEnd::Interrupted) => ("was interrupted", "to continue it"),
        Some(RunEnd::Failed) => ("stopped because it could not write its record", "to continue it"),
        Some(RunEnd::Done) if run.runs_commands() => (
            "lacks the points that failed; a changed command or description needs a new run",
            "to measure the same again",
        ),
        Some(RunEnd::Done) => ("lacks the points that failed", "to measure them"),
        None => ("was killed or is still running", "to continue it"),
    };
    Some(format!("the run {how}; {next}{}", run.resume_advice(&record.dir)))
}

fn supports_only_other_mode(run: &RunRecord, point: &PointId) -> bool {
    let modes = run.case(&point.case).map(|case| case.modes(&[Mode::Processes, Mode::Threads]));
    modes.is_some_and(|modes| !modes.contains(&point.mode))
}

/// Says that nothing may be concluded from any point, if so.
pub(crate) fn all_disturbed(curves: &[Curve]) -> Option<String> {
    is_useless(curves).then(|| {
        "other work disturbed most rounds of every point, so this run shows nothing".to_owned()
    })
}

fn is_useless(curves: &[Curve]) -> bool {
    let mut points = curves.iter().flat_map(Curve::points).peekable();
    points.peek().is_some() && points.all(|point| point.disturbed)
}

/// The points from which nothing may be concluded.
fn disturbed(points: &[(&Curve, &Point)]) -> Option<String> {
    let names: Vec<String> =
        points.iter().filter(|(_, p)| p.disturbed).map(|(c, p)| name(c, p)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "other work disturbed most rounds of {} (marked !!), so knee concludes nothing from \
             these rates",
            named(&names)
        )
    })
}

/// A warning about latencies that are partly those of the generator.
fn late_generator(points: &[(&Curve, &Point)]) -> Option<String> {
    let is_late = |point: &Point| point.latency.as_ref().is_some_and(PointLatency::is_late);
    let mut late = points.iter().filter(|(_, point)| is_late(point));
    let (curve, point) = late.next()?;
    Some(format!(
        "knee itself sent requests late at {}{} (late p99), which is part of the measured latency; give \
         the load more CPUs {}, or reduce other load",
        name(curve, point),
        and_more(late.clone().count()),
        where_more_cpus(late.map(|(_, point)| point.tasks).chain([point.tasks]))
    ))
}

/// The points at which a server shares its CPUs with its load.
fn shared_with_load(points: &[(&Curve, &Point)]) -> Option<String> {
    let shared = points.iter().filter(|(_, point)| point.is_shared_with_load());
    let names: Vec<String> = shared.clone().map(|(curve, point)| name(curve, point)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "the load shares CPUs with the server at {} (rates in parentheses), so these are rates of \
             both, without efficiency or knee; give the load CPUs of its own {}",
            named(&names),
            where_more_cpus(shared.map(|(_, point)| point.tasks))
        )
    })
}

/// A warning about rounds without latency, except for failures, which the results list.
fn missing_latency(run: &RunRecord, points: &[(&Curve, &Point)]) -> Option<String> {
    let is_listed = |id: &PointId, gap: &LatencyGap| {
        run.failures.iter().any(|f| f.point == *id && f.failure.reason == gap.reason)
    };
    let gaps: Vec<(&Curve, &Point, &LatencyGap)> = points
        .iter()
        .filter_map(|&(curve, point)| Some((curve, point, point.latency_gap.as_ref()?)))
        .filter(|(curve, point, gap)| !is_listed(&curve.id(point.tasks), gap))
        .collect();
    let (_, _, first) = gaps.first()?;
    let (named, others) = gaps.split_at(gaps.len().min(NAMED));
    let names: Vec<String> = named
        .iter()
        .map(|(curve, point, gap)| {
            format!("{} ({} of {} rounds)", name(curve, point), gap.rounds, gap.of)
        })
        .collect();
    Some(format!(
        "latency is missing at {}{}: {}; {}",
        names.join(", "),
        and_more(others.len()),
        first.reason,
        first.remedy
    ))
}

/// The points at which the server was not busy, although it could be. `sweeps` are the curves over connections.
fn lower_bounds(sweeps: &[Curve], points: &[(&Curve, &Point)]) -> Option<String> {
    let is_bound = |(curve, point): &&(&Curve, &Point)| {
        // Few connections leave a server idle, which the curve over connections shows.
        let counts =
            if curve.is_on(sweeps) { point.is_limited_by_load() } else { point.is_lower_bound() };
        // Another warning covers disturbed points.
        counts && !point.disturbed
    };
    let bounds = points.iter().filter(is_bound);
    let names: Vec<String> = bounds
        .clone()
        .filter_map(|(curve, point)| {
            Some(format!("{} ({} busy)", name(curve, point), percent(point.server?.server_busy)))
        })
        .collect();
    let full = bounds.filter(|(_, point)| point.server.is_some_and(|server| server.is_load_full()));
    (!names.is_empty()).then(|| {
        format!(
            "the server left its CPUs idle at {}, so it serves at least these rates (marked ≥), and \
             knee concludes nothing about scaling from them; {}",
            named(&names),
            idle_advice(full.map(|(_, point)| point.tasks))
        )
    })
}

/// What to do about a server that left its CPUs idle. `full` are the task counts at which the CPUs of its load were full.
pub(super) fn idle_advice(full: impl IntoIterator<Item = u32>) -> String {
    let mut full = full.into_iter().peekable();
    match full.peek() {
        Some(_) => {
            format!("the CPUs of the load were full; give it more CPUs {}", where_more_cpus(full))
        }
        None => "use more connections, or find out what the server is waiting for".to_owned(),
    }
}

/// Where a load finds more CPUs than it has beside a server with these task counts.
fn where_more_cpus(tasks: impl IntoIterator<Item = u32>) -> &'static str {
    match tasks.into_iter().any(|tasks| tasks > 1) {
        true => "with fewer tasks (-t) or on another host (load.host)",
        false => "on another host (load.host)",
    }
}

/// A warning about further rounds that failed.
fn failed_repeats(run: &RunRecord) -> Option<String> {
    let (first, others) = run.failed_repeats.split_first()?;
    let others = match others.len() {
        0 => String::new(),
        n => format!(" (and further rounds of {})", plural(n, "other point")),
    };
    Some(format!("{}{others}; knee uses the rounds before it", failures::of_round(first)))
}

/// A warning about points with more throughput per task than one task has.
pub(super) fn implausible<'c>(curves: impl IntoIterator<Item = &'c Curve>) -> Option<String> {
    let names: Vec<String> = curves
        .into_iter()
        .flat_map(|curve| curve.implausible().map(move |(point, scaling)| (curve, point, scaling)))
        .map(|(curve, point, scaling)| {
            format!("{} ({})", name(curve, point), percent(scaling.efficiency))
        })
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "the efficiency of {} is implausible: placement, a low CPU frequency or a \
             warm-up effect may have slowed the point at 1 task; try another --placement, the \
             performance governor or a longer --warmup",
            named(&names)
        )
    })
}

/// The undisturbed point with the fewest rounds, if they are too few for the required confidence.
fn fewest_rounds<'p>(run: &RunRecord, points: &[(&Curve, &'p Point)]) -> Option<&'p Point> {
    // Other lines and warnings cover failed and disturbed points.
    let has_failed = |id: &PointId| run.failures.iter().any(|failed| failed.point == *id);
    let sound = points
        .iter()
        .filter(|(curve, point)| !point.disturbed && !has_failed(&curve.id(point.tasks)));
    let point = sound.map(|(_, point)| *point).min_by_key(|point| point.rounds.len())?;
    // Another warning says how to continue the run.
    let is_unfinished = matches!(run.end, None | Some(RunEnd::Interrupted));
    let is_enough = point.confidence >= LEAST_CONFIDENCE || is_unfinished;
    (!is_enough).then_some(point)
}

/// A warning about a request for too few rounds.
fn few_rounds(run: &RunRecord, points: &[(&Curve, &Point)]) -> Option<String> {
    let point = fewest_rounds(run, points)?;
    let confidence = point.confidence * 100.0;
    match (point.rounds.len(), run.request.rounds as usize) {
        (rounds, asked) if rounds < asked => None,
        (1, _) => {
            Some("one round shows no spread; use six rounds for 95% confidence: -r 6".to_owned())
        }
        (rounds, _) => Some(format!(
            "{rounds} rounds give only {confidence:.1}% confidence; use six rounds for 95%: -r 6"
        )),
    }
}

/// The requested rounds that do not count, if the others are too few.
fn lost_rounds(run: &RunRecord, points: &[(&Curve, &Point)]) -> Option<String> {
    let point = fewest_rounds(run, points)?;
    let (rounds, asked) = (point.rounds.len(), run.request.rounds as usize);
    let confidence = point.confidence * 100.0;
    (rounds < asked).then(|| {
        format!(
            "knee can use only {rounds} of {asked} rounds at some points, which gives \
             {confidence:.1}% confidence (95% requires six)"
        )
    })
}

/// A warning about points that did not reach `--precision`.
fn imprecise(points: &[(&Curve, &Point)], asked: f64) -> Option<String> {
    // Another warning covers disturbed points.
    let is_wide = |p: &Point| !p.disturbed && !p.is_precise(asked);
    let wide: Vec<_> = points.iter().filter(|(_, p)| is_wide(p)).collect();
    let (curve, point) = wide
        .iter()
        .max_by(|(_, a), (_, b)| a.relative_half_width().total_cmp(&b.relative_half_width()))?;
    Some(format!(
        "{} of {} points did not reach the requested ±{} at 95% confidence, at worst {} (±{}); use \
         a longer --max-time, or reduce other load",
        wide.len(),
        points.len(),
        spread(asked),
        name(curve, point),
        spread(point.relative_half_width())
    ))
}

/// A warning about marked samples. `None` if all samples are marked, because another warning covers
/// their points.
fn marked(points: &[(&Curve, &Point)]) -> Option<String> {
    let points = || points.iter().map(|(_, point)| point);
    let marked: u64 = points().map(|point| point.marked).sum();
    let of: u64 = points().map(|point| point.samples).sum();
    if marked == 0 || marked == of {
        return None;
    }
    let mut marks: BTreeMap<Mark, u64> = BTreeMap::new();
    for (mark, n) in points().flat_map(|point| &point.marks) {
        *marks.entry(*mark).or_default() += n;
    }
    let list: Vec<String> =
        marks.iter().map(|(mark, n)| format!("{n} {}", describe(*mark))).collect();
    let (were, counts) = if marked == 1 { ("was", "does") } else { ("were", "do") };
    Some(format!(
        "{marked} of {of} samples {were} disturbed ({}) and {counts} not count (rows marked !)",
        list.join(", ")
    ))
}

fn describe(mark: Mark) -> &'static str {
    match mark {
        Mark::Starved => "preempted by other work",
        Mark::Steal => "with steal time",
        Mark::Late => "taken late",
        Mark::Clock => "with a clock jump",
        Mark::Stalled => "with a stalled task",
        Mark::Slow => "while the machine was slower",
    }
}

/// A warning about curves without a sound point at one task.
fn no_single_task(run: &RunRecord, curves: &[Curve], sweeps: &[Curve]) -> Option<String> {
    // Another warning says that the run shows nothing at all.
    if is_useless(curves) {
        return None;
    }
    let curves: Vec<&Curve> = curves.iter().filter(|curve| !curve.is_on(sweeps)).collect();
    let subject = match (curves.iter().filter(|c| c.base().is_none()).count(), curves.len()) {
        (0, _) => return None,
        (lacking, of) if lacking == of => "no curve has a usable result".to_owned(),
        (1, of) => format!("1 of {of} curves lacks a usable result"),
        (lacking, of) => format!("{lacking} of {of} curves lack a usable result"),
    };
    let advice = if run.request.tasks.contains(&1) { "" } else { "; add 1 to -t" };
    Some(format!("{subject} at 1 task, so there is no speed-up, efficiency or knee{advice}"))
}

fn name(curve: &Curve, point: &Point) -> String {
    curve.id(point.tasks).to_string()
}
