//! The title of a page: its main finding.

use std::fmt::Write as _;

use knee_host::number::{change, percent, plural, tasks};
use knee_host::text::and_list;
use knee_results::{Axis, CurveVerdict, Point};
use knee_stats as stats;

use crate::cpu_map::CpuMap;
use crate::matrix::{Matrix, Pair};
use crate::model::Change;
use crate::reading::{CaseReading, CurveReading, Reading};
use crate::verdict::ChangeVerdict;

/// The main finding in one sentence.
pub(crate) fn sentence(reading: &Reading) -> String {
    if !reading.shows_runs() {
        let matrices = reading.page.matrices.iter().map(commuting);
        let shared = reading.page.shared.iter();
        let shared = shared.map(|shared| format!("{}: {}", shared.name, shared.total().sentence()));
        let maps = reading.page.cpu_maps.iter().map(CpuMap::sentence);
        let predictions = predicted(reading).into_iter();
        let all = predictions.chain(matrices).chain(shared).chain(maps);
        return all.collect::<Vec<String>>().join("; ");
    }
    if reading.curves().all(|(_, curve)| curve.measured.points().is_empty()) {
        let off_chart: usize = reading.page.runs.iter().map(|run| run.off_chart.len()).sum();
        return match off_chart {
            0 => "Nothing was measured".to_owned(),
            n => format!("{}, none of which has a task count", plural(n, "result")),
        };
    }
    let runs = &reading.page.runs;
    let comparisons: Vec<String> =
        (1..runs.len()).filter_map(|run| comparison(reading, run)).collect();
    let found = if comparisons.is_empty() { scaling(reading) } else { comparisons.join("; ") };
    let incomplete: Vec<&str> =
        runs.iter().filter(|run| run.is_incomplete).map(|run| run.label.as_str()).collect();
    match incomplete.as_slice() {
        [] => found,
        [_] if runs.len() == 1 => format!("{found}; the run is incomplete"),
        [one] => format!("{found}; the run {one} is incomplete"),
        several => format!("{found}; the runs {} are incomplete", and_list(several)),
    }
}

/// The first prediction, and how many others there are.
fn predicted(reading: &Reading) -> Option<String> {
    let mut all = reading.page.predictions.iter().flat_map(|file| &file.predictions);
    let first = all.next()?.sentence();
    Some(match all.count() {
        0 => first,
        more => format!("{first}; {}", plural(more, "more prediction")),
    })
}

/// How run `run` differs from the first.
fn comparison(reading: &Reading, run: usize) -> Option<String> {
    let base = &reading.page.runs[0].label;
    let label = &reading.page.runs[run].label;
    let mut compared = Vec::new();
    for (case, curve) in reading.curves().filter(|(_, curve)| curve.curve.run == run) {
        let changes = curve.curve.changes.iter();
        compared.extend(changes.map(|(&tasks, change)| (case, curve, tasks, change)));
    }
    let of = |verdict| {
        let verdict = ChangeVerdict::Compared(verdict);
        compared.iter().filter(move |(.., change)| ChangeVerdict::of(change) == verdict)
    };
    let farthest = |verdict| {
        let away = |by: &Change| by.comparison.ratio.map_or(0.0, |ratio| ratio.ratio.ln().abs());
        of(verdict).max_by(|a, b| away(a.3).total_cmp(&away(b.3))).map(|(case, curve, n, by)| {
            let place = curve.measured.place(*n);
            let ratio = by.comparison.ratio;
            let by = ratio.map_or("by an unknown ratio".to_owned(), |ratio| change(ratio.ratio));
            format!("{by} ({}, {place})", case.name)
        })
    };
    let disturbed = compared.iter().filter(|(.., change)| change.disturbed).count();
    let clean = compared.len() - disturbed;
    let all = plural(clean, "point");
    let (slower, faster) = (of(stats::Verdict::Slower).count(), of(stats::Verdict::Faster).count());
    if compared.is_empty() {
        return None;
    }
    if clean == 0 {
        let all = plural(disturbed, "point");
        return Some(format!("{base} and {label} cannot be compared: other work disturbed {all}"));
    }
    let mut text = match (farthest(stats::Verdict::Slower), farthest(stats::Verdict::Faster)) {
        (Some(worst), None) => {
            format!(
                "{label} is slower than {base} at {slower} of {all}, at worst {worst}; no point \
                 is faster"
            )
        }
        (None, Some(best)) => {
            format!(
                "{label} is faster than {base} at {faster} of {all}, at best {best}; no point is \
                 slower"
            )
        }
        (Some(worst), Some(best)) => format!(
            "{label} is faster than {base} at {faster} of {all}, at best {best}; slower at {slower}, at worst {worst}"
        ),
        (None, None) => {
            let mut text = format!("No difference found between {base} and {label} at {all}");
            let open = of(stats::Verdict::Inconclusive).count();
            if open > 0 {
                let _ = write!(text, " ({open} inconclusive)");
            }
            text
        }
    };
    if disturbed > 0 {
        let are = if disturbed == 1 { "is" } else { "are" };
        let _ = write!(text, "; {} {are} too disturbed to compare", plural(disturbed, "point"));
    }
    Some(text)
}

/// How the testcases of the runs scale. Disturbed curves do not count, but it says how many there
/// are.
fn scaling(reading: &Reading) -> String {
    let disturbed =
        reading.curves().filter(|(_, curve)| curve.verdict == CurveVerdict::Disturbed).count();
    let text = match worst(reading) {
        Some((case, curve)) => scaling_of_all(reading, case, curve),
        None if reading.curves().all(|(_, curve)| {
            matches!(curve.verdict, CurveVerdict::Disturbed | CurveVerdict::Missing)
        }) =>
        {
            let what = measured(reading, |_| true);
            return format!("{what}, but other work disturbed every curve: nothing is concluded");
        }
        None => no_verdict(reading),
    };
    match disturbed {
        0 => text,
        1 => text + "; 1 disturbed curve is not counted",
        n => format!("{text}; {n} disturbed curves are not counted"),
    }
}

/// The curve that scales worst. Of implausible curves, it is the least plausible one.
fn worst<'r, 'p>(reading: &'r Reading<'p>) -> Option<(&'r CaseReading<'p>, &'r CurveReading<'p>)> {
    let badness = |curve: &CurveReading| match curve.verdict {
        CurveVerdict::Implausible => -greatest_efficiency(curve),
        _ => curve.measured.last_efficiency().unwrap_or(f64::INFINITY),
    };
    let counted = reading.curves().filter(|(_, curve)| curve.verdict.counts());
    counted
        .min_by(|(_, a), (_, b)| a.verdict.cmp(&b.verdict).then(badness(a).total_cmp(&badness(b))))
}

fn greatest_efficiency(curve: &CurveReading) -> f64 {
    curve.implausible().map(|(_, scaling)| scaling.efficiency).fold(0.0, f64::max)
}

fn scaling_of_all(reading: &Reading, case: &CaseReading, curve: &CurveReading) -> String {
    let text = one(case, curve);
    let axis = curve.measured.axis.as_str();
    // A sentence that names the axis counts no curves over the other one.
    let names_axis = matches!(curve.verdict, CurveVerdict::Retrograde | CurveVerdict::Contended);
    let is_meant = |c: &CurveReading| !names_axis || c.measured.axis.as_str() == axis;
    let count = |property: &dyn Fn(&CurveReading) -> bool| {
        let has = |case: &&CaseReading| case.curves.iter().any(|c| is_meant(c) && property(c));
        reading.cases.iter().filter(has).count()
    };
    let all = count(&|c| c.verdict.counts());
    if all == 1 {
        return text;
    }
    let n = count(&|c| c.verdict == curve.verdict);
    match curve.verdict {
        CurveVerdict::Retrograde => {
            format!("{n} of {all} testcases lose throughput with more {axis}; {text}")
        }
        CurveVerdict::Contended => {
            format!("{n} of {all} testcases stop scaling with more {axis}; {text}")
        }
        CurveVerdict::Implausible => {
            let show = if n == 1 { "shows" } else { "show" };
            format!(
                "No testcase stops scaling, but {n} of {all} {show} an implausible efficiency; \
                 {text}"
            )
        }
        _ => format!("All {all} testcases scale; the worst: {text}"),
    }
}

fn one(case: &CaseReading, curve: &CurveReading) -> String {
    let name = &case.name;
    let at = |n| curve.measured.place(n);
    let (Some(last), Some(peak)) = (curve.measured.last(), curve.measured.peak()) else {
        return name.clone();
    };
    // Unknown only for a loss of throughput, whose sentence does not contain it.
    let efficiency = curve.measured.last_efficiency().unwrap_or_default();
    let most = at(last.tasks);
    match (curve.verdict, curve.knee) {
        (CurveVerdict::Retrograde, _) => format!(
            "{name} peaks at {}, then loses {} of its throughput",
            at(peak.tasks),
            percent(1.0 - last.rate / peak.rate)
        ),
        (CurveVerdict::Contended, Some(knee)) => format!(
            "{name} stops scaling at {}: {most} do the work of {:.1}",
            at(knee),
            efficiency * f64::from(last.tasks)
        ),
        (CurveVerdict::Implausible, _) => {
            let efficiency = percent(greatest_efficiency(curve));
            format!("{name} reaches {efficiency} efficiency, which is implausible")
        }
        _ => format!("{name} scales to {most} at {} efficiency", percent(efficiency)),
    }
}

/// How often the operations of an interface commute.
fn commuting(matrix: &Matrix) -> String {
    let Matrix { interface, pairs, .. } = matrix;
    let with = |percent| pairs.iter().filter(|pair| pair.percent() == Some(percent)).count();
    let least = pairs.iter().filter(|pair| pair.percent().is_some()).min_by(|one, other| {
        let across = |a: &Pair, b: &Pair| u64::from(a.commuting) * u64::from(b.situations);
        across(one, other).cmp(&across(other, one))
    });
    let (always, never, all) = (with(100), with(0), plural(pairs.len(), "pair"));
    match least {
        None => format!("{interface}: no situations were explored"),
        Some(_) if always == pairs.len() => {
            format!("{interface}: {all} of operations, which always commute")
        }
        Some(_) if never > 0 => {
            format!("{interface}: {always} of {all} of operations always commute, {never} never")
        }
        Some(pair) => format!(
            "{interface}: {always} of {all} of operations always commute; {} and {} commute \
             least, in {} of their situations",
            pair.operations[0],
            pair.operations[1],
            percent(f64::from(pair.percent().unwrap_or(0)) / 100.0)
        ),
    }
}

/// How many testcases have points on a curve that `is_meant`.
fn measured(reading: &Reading, is_meant: impl Fn(&CurveReading) -> bool) -> String {
    let is_measured = |case: &&CaseReading| {
        case.curves.iter().any(|curve| is_meant(curve) && !curve.measured.points().is_empty())
    };
    plural(reading.cases.iter().filter(is_measured).count(), "testcase") + " measured"
}

/// The title if no curve has a verdict.
fn no_verdict(reading: &Reading) -> String {
    let is_meant = |curve: &CurveReading| curve.verdict != CurveVerdict::Disturbed;
    let curves = || reading.curves().map(|(_, curve)| curve).filter(|curve| is_meant(curve));
    let points = || curves().flat_map(|curve| curve.measured.points());
    let counts: std::collections::BTreeSet<u32> = points().map(|point| point.tasks).collect();
    let shares_cpus = points().any(|point| point.oversubscribed);
    let what = measured(reading, is_meant);
    if points().all(|point| point.oversubscribed) {
        return format!("{what}, but only with more tasks than CPUs: no efficiency, no knee");
    }
    if points().all(Point::is_shared_with_load) {
        return format!("{what}, but on CPUs shared with the load: no efficiency, no knee");
    }
    if curves().any(|curve| curve.verdict == CurveVerdict::Unknown) {
        let axis = curves().next().map_or(Axis::Tasks, |curve| curve.measured.axis);
        return format!("{what}, but not with {}: no efficiency, no knee", axis.count(1));
    }
    match counts.first() {
        Some(n) if counts.len() == 1 => {
            format!("{what} at {}: no curve", tasks(*n))
        }
        _ if points().any(Point::is_shared_with_load) => {
            format!("{what}; with more CPUs, the load shares them with the server: no curve")
        }
        _ if shares_cpus => {
            format!("{what}, each at one task count without shared CPUs: no curve")
        }
        _ => format!("{what}, each at one task count: no curve"),
    }
}

#[cfg(test)]
mod tests {
    use knee_results::{self as results, Axis, CaseId, Mode, Point, Served};
    use knee_stats::{CompareOptions, Verdict, compare};

    use crate::model::{Change, Curve, Page, Run};

    fn page(curves: &[&[(u32, f64)]]) -> Page {
        let curves = curves.iter().zip(["a", "b", "c"]).map(|(rates, name)| {
            let points = rates.iter().filter_map(|&(n, x)| Point::new(n, vec![x])).collect();
            Curve::new(0, results::Curve::new(CaseId::new(name), Mode::Threads, points))
        });
        Page {
            curves: curves.collect(),
            runs: vec![Run { label: "base".to_owned(), ..Run::default() }],
            ..Page::default()
        }
    }

    fn compared(verdict: Verdict, ratio: f64) -> Page {
        let mut page = page(&[&[(1, 1.0), (2, 2.0)]]);
        page.runs.push(Run { label: "new".to_owned(), ..Run::default() });
        let mut curve = Curve { run: 1, ..page.curves[0].clone() };
        let mut comparison = compare(&[1.0], &[ratio], &CompareOptions::default()).unwrap();
        comparison.verdict = verdict;
        curve.changes.insert(2, Change { comparison, disturbed: false });
        page.curves.push(curve);
        page
    }

    fn title(page: &Page) -> String {
        crate::finding(page).replace('\u{a0}', " ")
    }

    #[test]
    fn the_title_of_one_curve_names_its_knee_or_peak() {
        assert_eq!(
            title(&page(&[&[(1, 10.0), (2, 20.0), (4, 15.0)]])),
            "a peaks at 2 threads, then loses 25% of its throughput"
        );
        assert_eq!(
            title(&page(&[&[(1, 10.0), (2, 12.0), (4, 15.0)]])),
            "a stops scaling at 2 threads: 4 threads do the work of 1.5"
        );
        assert_eq!(
            title(&page(&[&[(1, 10.0), (2, 19.0)]])),
            "a scales to 2 threads at 95% efficiency"
        );
    }

    #[test]
    fn the_title_of_many_curves_counts_them_and_names_the_worst() {
        let good: &[_] = &[(1, 10.0), (2, 19.0)];
        let bad: &[_] = &[(1, 10.0), (2, 5.0)];
        assert_eq!(
            title(&page(&[good, bad, good])),
            "1 of 3 testcases lose throughput with more tasks; b peaks at 1 thread, then loses \
             50% of its throughput"
        );
        assert_eq!(
            title(&page(&[good, good])),
            "All 2 testcases scale; the worst: a scales to 2 threads at 95% efficiency"
        );
    }

    /// `page` whose curve number `nr` is over connections.
    fn over_connections(mut page: Page, nr: usize) -> Page {
        let measured = page.curves[nr].measured.clone();
        page.curves[nr].measured = measured.along(Axis::Connections { tasks: 1 });
        page
    }

    #[test]
    fn the_title_counts_only_curves_over_the_axis_that_it_names() {
        let good: &[_] = &[(1, 10.0), (2, 19.0)];
        let (stops, loses, worse): (&[_], &[_], &[_]) =
            (&[(1, 10.0), (2, 11.0)], &[(1, 10.0), (2, 5.0)], &[(1, 10.0), (2, 4.0)]);
        assert_eq!(
            title(&over_connections(page(&[good, loses, worse]), 1)),
            "1 of 2 testcases lose throughput with more tasks; c peaks at 1 thread, then loses 60% \
             of its throughput"
        );
        assert_eq!(
            title(&over_connections(page(&[good, stops, stops]), 2)),
            "1 of 2 testcases stop scaling with more tasks; b stops scaling at 2 threads: 2 threads \
             do the work of 1.1"
        );
        assert_eq!(
            title(&over_connections(page(&[loses, stops, worse]), 2)),
            "c peaks at 1 connection, then loses 60% of its throughput"
        );
        assert_eq!(
            title(&over_connections(page(&[good, good]), 1)),
            "All 2 testcases scale; the worst: a scales to 2 threads at 95% efficiency"
        );
    }

    #[test]
    fn the_title_names_incomplete_runs() {
        let mut page = page(&[&[(1, 10.0), (2, 19.0)]]);
        page.runs[0].is_incomplete = true;
        assert_eq!(title(&page), "a scales to 2 threads at 95% efficiency; the run is incomplete");
        page.runs[0].label = "one".to_owned();
        page.runs.push(Run { label: "two".to_owned(), ..Run::default() });
        assert!(title(&page).ends_with("; the run one is incomplete"));
        page.runs[1].is_incomplete = true;
        assert!(title(&page).ends_with("; the runs one and two are incomplete"));
    }

    #[test]
    fn without_a_curve_the_title_does_not_claim_one() {
        assert_eq!(title(&page(&[&[(2, 10.0)]])), "1 testcase measured at 2 tasks: no curve");
        assert_eq!(title(&page(&[&[]])), "Nothing was measured");
        assert_eq!(title(&Page::default()), "Nothing was measured");
        let off_chart = vec!["mmap1: 388 k in 1 round".to_owned()];
        let page = Page { runs: vec![Run { off_chart, ..Run::default() }], ..Page::default() };
        assert_eq!(title(&page), "1 result, none of which has a task count");
    }

    #[test]
    fn without_a_point_at_one_task_the_title_does_not_claim_scaling() {
        assert_eq!(
            title(&page(&[&[(2, 10.0), (4, 20.0)]])),
            "1 testcase measured, but not with 1 task: no efficiency, no knee"
        );
        assert_eq!(
            title(&page(&[&[(2, 10.0), (4, 5.0)]])),
            "a peaks at 2 threads, then loses 50% of its throughput"
        );
    }

    #[test]
    fn the_title_of_matrices_counts_pairs_that_always_or_never_commute() {
        use crate::matrix::{Matrix, Pair};
        let page = |shares: &[(u32, u32)]| {
            let pairs = shares.iter().enumerate().map(|(nr, &(commuting, situations))| Pair {
                operations: ["get".to_owned(), format!("put{nr}")],
                situations,
                commuting,
                cut: false,
                given_up: 0,
                commute_if_any_of: Vec::new(),
                differ: Vec::new(),
            });
            let pairs = pairs.collect();
            let matrix = Matrix { interface: "map".to_owned(), pairs, ..Matrix::default() };
            Page { matrices: vec![matrix], ..Page::default() }
        };
        assert_eq!(
            title(&page(&[(1, 1), (2, 3), (1, 2)])),
            "map: 1 of 3 pairs of operations always commute; get and put2 commute least, in 50% of \
             their situations"
        );
        assert_eq!(
            title(&page(&[(1, 1), (0, 3), (1, 2)])),
            "map: 1 of 3 pairs of operations always commute, 1 never"
        );
        assert_eq!(title(&page(&[(1, 1)])), "map: 1 pair of operations, which always commute");
        assert_eq!(title(&page(&[(0, 0)])), "map: no situations were explored");
        let mut both = self::page(&[&[(2, 10.0)]]);
        both.matrices = page(&[(1, 1)]).matrices;
        assert_eq!(title(&both), "1 testcase measured at 2 tasks: no curve");
    }

    #[test]
    fn the_title_of_two_runs_states_what_changed() {
        assert_eq!(
            title(&compared(Verdict::Slower, 0.88)),
            "new is slower than base at 1 of 1 point, at worst −12.0% (a, 2 threads); no point is \
             faster"
        );
        assert_eq!(
            title(&compared(Verdict::Inconclusive, 1.1)),
            "No difference found between base and new at 1 point (1 inconclusive)"
        );
    }

    /// `page` with a change to the points of some curves.
    fn with(mut page: Page, curves: &[usize], change: impl Fn(&mut Point)) -> Page {
        for &nr in curves {
            let old = &page.curves[nr].measured;
            let (case, mode, mut points) = (old.case.clone(), old.mode, old.points().to_vec());
            points.iter_mut().for_each(&change);
            page.curves[nr].measured = results::Curve::new(case, mode, points);
        }
        page
    }

    #[test]
    fn disturbed_curves_are_not_counted_but_mentioned() {
        let good: &[_] = &[(1, 10.0), (2, 19.0)];
        let bad: &[_] = &[(1, 10.0), (2, 5.0)];
        let disturbs = |point: &mut Point| point.disturbed = point.tasks == 2;
        assert_eq!(
            title(&with(page(&[good, bad, good]), &[1], disturbs)),
            "All 2 testcases scale; the worst: a scales to 2 threads at 95% efficiency; 1 \
             disturbed curve is not counted"
        );
        assert_eq!(
            title(&with(page(&[bad, bad, good]), &[0, 1], disturbs)),
            "c scales to 2 threads at 95% efficiency; 2 disturbed curves are not counted"
        );
        assert_eq!(
            title(&with(page(&[bad, &[(2, 1.0)]]), &[0], disturbs)),
            "1 testcase measured at 2 tasks: no curve; 1 disturbed curve is not counted"
        );
        assert_eq!(
            title(&with(page(&[good, bad]), &[0, 1], disturbs)),
            "2 testcases measured, but other work disturbed every curve: nothing is concluded"
        );
    }

    #[test]
    fn points_with_more_tasks_than_cpus_are_not_in_the_title() {
        let loses: &[_] = &[(1, 10.0), (2, 19.0), (4, 5.0)];
        let shares = |least| move |point: &mut Point| point.oversubscribed = point.tasks >= least;
        assert_eq!(
            title(&with(page(&[loses]), &[0], shares(4))),
            "a scales to 2 threads at 95% efficiency"
        );
        assert_eq!(
            title(&with(page(&[loses]), &[0], shares(2))),
            "1 testcase measured, each at one task count without shared CPUs: no curve"
        );
        assert_eq!(
            title(&with(page(&[loses]), &[0], shares(1))),
            "1 testcase measured, but only with more tasks than CPUs: no efficiency, no knee"
        );
    }

    #[test]
    fn servers_that_share_cpus_with_their_load_are_named_as_such() {
        let rates: &[_] = &[(1, 10.0), (2, 19.0)];
        let shares = |least| {
            move |point: &mut Point| {
                let shared = point.tasks >= least;
                let (server_busy, load_busy, cpu_per_request) = (1.0, 0.5, 0.1);
                let served = Served { server_busy, load_busy, cpu_per_request, shared };
                point.server = Some(served);
            }
        };
        assert_eq!(
            title(&with(page(&[rates]), &[0], shares(2))),
            "1 testcase measured; with more CPUs, the load shares them with the server: no curve"
        );
        assert_eq!(
            title(&with(page(&[rates]), &[0], shares(1))),
            "1 testcase measured, but on CPUs shared with the load: no efficiency, no knee"
        );
    }

    #[test]
    fn an_implausible_efficiency_is_not_praised() {
        let doubtful: &[_] = &[(1, 10.0), (2, 70.0)];
        assert_eq!(title(&page(&[doubtful])), "a reaches 350% efficiency, which is implausible");
        let good: &[_] = &[(1, 10.0), (2, 19.0)];
        assert_eq!(
            title(&page(&[good, doubtful])),
            "No testcase stops scaling, but 1 of 2 shows an implausible efficiency; b reaches 350% \
             efficiency, which is implausible"
        );
    }

    #[test]
    fn the_title_of_two_runs_says_how_many_points_are_too_disturbed_to_compare() {
        let mut page = compared(Verdict::Slower, 0.88);
        let change = page.curves[1].changes[&2];
        page.curves[1].changes.insert(1, Change { disturbed: true, ..change });
        assert_eq!(
            title(&page),
            "new is slower than base at 1 of 1 point, at worst −12.0% (a, 2 threads); no point is \
             faster; 1 point is too disturbed to compare"
        );
        page.curves[1].changes.remove(&2);
        assert_eq!(title(&page), "base and new cannot be compared: other work disturbed 1 point");
    }
}
