//! The results of comparing runs, as text and for programs.

pub(crate) mod benchstat;
mod change;
mod counters;
mod form;
mod json;
mod latency;
mod machine;
mod markdown;
mod table;

use std::collections::BTreeSet;

use knee_host::number::{percent, plural, si, spread, time};
use knee_host::shell::word;
use knee_host::text::Style;
use knee_results::{
    CaseId, Compared, ComparedPoint, Difference, Family, Gap, PointId, Results, Verdicts,
};
use knee_run::noise::NoiseFloors;
use knee_stats::{CompareOptions, RatioInterval, Test, Verdict};

pub(crate) use self::change::change;
pub(crate) use self::form::Form;
use super::enumeration::{and_more, grouped};
use super::notes::CALMER;
use super::style::{BAD, DIM, GOOD, PLAIN};
use super::warnings::idle_advice;

/// One run, and the comparison of each other run with it.
pub(crate) struct Comparisons<'r> {
    pub(crate) before: &'r Results,
    pub(crate) options: CompareOptions,
    pub(crate) compared: Vec<(&'r Results, Compared)>,
}

/// Medians before and after, as printed: rates, or times for commands. `≥` marks a lower bound.
fn medians(point: &ComparedPoint) -> [String; 2] {
    let shown = |rate: f64, is_bound: bool| match (point.timed, is_bound) {
        (true, _) => time(1.0 / rate),
        (false, true) => format!("≥{}", si(rate)),
        (false, false) => si(rate),
    };
    let (c, [before, after]) = (&point.comparison, point.lower_bounds());
    [shown(c.before_median, before), shown(c.after_median, after)]
}

/// The printed change and its interval: of the time for commands, otherwise of the rate.
fn changes(point: &ComparedPoint) -> Option<[String; 2]> {
    let shown = |i: RatioInterval| {
        let (low, high) = (change(i.low), change(i.high));
        [change(i.ratio), format!("{low} to {high}")]
    };
    let over = |i: RatioInterval| RatioInterval {
        ratio: 1.0 / i.ratio,
        low: 1.0 / i.high,
        high: 1.0 / i.low,
    };
    let [change, interval] =
        point.comparison.ratio.map(|i| shown(if point.timed { over(i) } else { i }))?;
    // Too few rounds have no interval.
    let interval = if point.comparison.test.is_none() { "-".to_owned() } else { interval };
    Some([change, interval])
}

/// The quantity that the printed medians measure.
fn quantity(compared: &Compared) -> &'static str {
    if compared.points.first().is_some_and(|point| point.timed) { "time" } else { "per second" }
}

/// The colour of a verdict.
fn colour(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Faster => GOOD,
        Verdict::Slower => BAD,
        Verdict::Same => PLAIN,
        Verdict::Inconclusive => DIM,
    }
}

/// The name of a test, for programs.
fn test_name(test: Test) -> &'static str {
    match test {
        Test::Welch => "Welch",
        Test::MannWhitneyExact => "Mann-Whitney, exact",
        Test::MannWhitneyNormal => "Mann-Whitney, normal approximation",
        Test::SignedRankExact => "Wilcoxon signed-rank, exact",
        Test::SignedRankNormal => "Wilcoxon signed-rank, normal approximation",
    }
}

/// Formats a p-value with three or four decimals; `<0.0001` for smaller ones.
pub(crate) fn p_value(p: f64) -> String {
    match p {
        p if p < 0.0001 => "<0.0001".to_owned(),
        p if p < 0.01 => format!("{p:.4}"),
        p => format!("{p:.3}"),
    }
}

/// The verdict in words; if it is inconclusive, what would decide it.
fn verdict(point: &ComparedPoint, options: &CompareOptions) -> String {
    match point.comparison.verdict {
        Verdict::Faster => "▲ faster".to_owned(),
        Verdict::Slower => "▼ slower".to_owned(),
        Verdict::Same => "= same".to_owned(),
        Verdict::Inconclusive if point.disturbed => "~ too disturbed".to_owned(),
        Verdict::Inconclusive if point.comparison.test.is_none() => "~ too few rounds".to_owned(),
        Verdict::Inconclusive if point.lacks_load() => "~ server not busy".to_owned(),
        Verdict::Inconclusive if is_small_but_real(point) => {
            "~ different, but perhaps by less than the threshold".to_owned()
        }
        Verdict::Inconclusive => match point.comparison.rounds_needed {
            Some(n) if exceeds_threshold(point, options) => {
                format!("~ unconfirmed; about {n} rounds needed to confirm the change")
            }
            Some(n) => format!(
                "~ no difference found; about {n} rounds needed to exclude a change of {}",
                spread(options.threshold.unwrap_or(0.0))
            ),
            None => "~ too noisy".to_owned(),
        },
    }
}

/// Whether the difference is real but possibly below the threshold.
fn is_small_but_real(point: &ComparedPoint) -> bool {
    point
        .comparison
        .ratio
        .is_some_and(|i| point.comparison.adjusted_p < 0.05 && (i.low > 1.0 || i.high < 1.0))
}

/// Whether the estimated change is at least the threshold, with and without the correction for drift.
fn exceeds_threshold(point: &ComparedPoint, options: &CompareOptions) -> bool {
    point.comparison.ratio.is_some_and(|RatioInterval { ratio, .. }| {
        point.comparison.drift.least_change(ratio) >= options.threshold.unwrap_or(0.0)
    })
}

/// `1 faster, 2 slower, 3 the same, 4 inconclusive`, without zero counts.
fn tally(verdicts: &Verdicts) -> String {
    let counts = [
        (verdicts.faster, "faster"),
        (verdicts.slower, "slower"),
        (verdicts.same, "the same"),
        (verdicts.inconclusive, "inconclusive"),
    ];
    let said: Vec<String> =
        counts.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    if said.is_empty() { "nothing compared".to_owned() } else { said.join(", ") }
}

/// The points that cannot be compared, and those whose latency cannot be compared.
fn gaps(compared: &Compared) -> Vec<String> {
    let latency = gap_lines(&compared.latency_gaps).into_iter();
    let latency = latency.map(|line| format!("latency of {line}"));
    gap_lines(&compared.gaps).into_iter().chain(latency).collect()
}

/// `open1 (processes ×2, threads ×2): no result after (it died)`: gaps of a testcase with the same
/// reason share a line.
fn gap_lines(gaps: &[Gap]) -> Vec<String> {
    let same =
        |a: &Gap, b: &Gap| (&a.key.case, &a.before, &a.after) == (&b.key.case, &b.before, &b.after);
    let side = |side: &str, reason: &Option<String>| {
        reason.as_ref().map(|reason| format!("no result {side} ({reason})"))
    };
    let line = |group: Vec<&Gap>| {
        let Gap { key, before, after } = group[0];
        let sides = if before == after {
            [side("before or after", before), None]
        } else {
            [side("before", before), side("after", after)]
        };
        let sides: Vec<String> = sides.into_iter().flatten().collect();
        let places = group.iter().map(|gap| gap.key.place()).collect::<Vec<String>>();
        let places = match places.join(", ") {
            places if places.is_empty() => places,
            places => format!(" ({places})"),
        };
        format!("{}{places}: {}", key.case, sides.join(", "))
    };
    grouped(gaps, same).into_iter().map(line).collect()
}

/// Notes about reasons to doubt the comparison, most important first.
fn notes(before: &Results, compared: &Compared, options: &CompareOptions) -> Vec<String> {
    let mut notes: Vec<String> = compared
        .differences
        .iter()
        .map(|Difference { what, before, after }| {
            format!(
                "the runs also differ in {what} ({before} before, {after} after), which may \
                 explain changes"
            )
        })
        .collect();
    notes.extend(variants(compared));
    notes.extend(machine::notes(before, compared));
    notes.extend(unfinished(compared));
    notes.extend(too_few_pairs(before, compared, options));
    notes.extend(undecided(before, compared, options));
    notes.extend(idle_servers(compared));
    notes.extend(hidden_in_noise(before, compared));
    let disturbed = compared.points.iter().filter(|point| point.disturbed).count();
    if disturbed > 0 {
        notes.push(format!(
            "other work disturbed most rounds of {} on at least one side, so knee concludes \
             nothing there; {CALMER}",
            plural(disturbed, "point")
        ));
    }
    let is_few = |point: &&ComparedPoint| !point.disturbed && point.rounds.contains(&1);
    let few = compared.points.iter().filter(is_few).count();
    if few > 0 {
        notes.push(format!(
            "{} only one round on a side, which proves nothing; measure more rounds (-r)",
            if few == 1 { "1 point has".to_owned() } else { format!("{few} points have") }
        ));
    }
    notes
}

/// A note on different variants that knee compares with each other.
fn variants(compared: &Compared) -> Option<String> {
    let (first, others) = compared.variants.split_first()?;
    let more = match others.len() {
        0 => String::new(),
        n => format!(", and {n} more"),
    };
    Some(format!(
        "knee compares different variants of a testcase ({} with {}{more}); to measure them in \
         interleaved rounds, which cancels drift: {}",
        first.before,
        first.after,
        in_turns(&first.before, &first.after)
    ))
}

/// The command that compares two testcases in interleaved rounds.
fn in_turns(before: &CaseId, after: &CaseId) -> String {
    let [before, after] = [before, after].map(|case| word(&case.to_string()).into_owned());
    format!("knee ab --before {before} --after {after}")
}

fn has_command(run: &Results) -> bool {
    run.cases.values().any(|case| case.family == Some(Family::Command))
}

/// The command that compares the two runs' commands in interleaved rounds, if each run has one.
fn commands_in_turns(before: &Results, after: &Results) -> Option<String> {
    let sides = [before, after].map(|side| {
        let (_, case) = side.cases.first_key_value()?;
        let is_only = side.cases.len() == 1 && case.family == Some(Family::Command);
        let command = case.settings.get("command").filter(|_| is_only)?;
        Some((word(command), case.settings.get("--read"), &case.unit))
    });
    let [Some((one, read, unit)), Some((other, other_read, other_unit))] = sides else {
        return None;
    };
    let score = match read {
        _ if (read, unit) != (other_read, other_unit) => return None,
        Some(read) => format!(" --read {}", word(read)),
        None if unit == "runs" => String::new(),
        None => " --rate".to_owned(),
    };
    Some(format!("knee ab --before {one} --after {other}{score}"))
}

/// Explains why the rates of these runs cannot be compared, if only some of them include the cost of an
/// option.
pub(crate) fn different_rates(runs: &[Results]) -> Option<String> {
    let (first, others) = runs.split_first()?;
    others.iter().find_map(|other| slowed_rates(first, other))
}

/// Explains why the rates of the two runs cannot be compared, if only one of them was measured with an option
/// that lowers its rates.
fn slowed_rates(one: &Results, other: &Results) -> Option<String> {
    let option = one.different_option(other)?;
    let is_slowed = one.slowing_options().contains(&option);
    let (slowed, plain) = if is_slowed { (one, other) } else { (other, one) };
    Some(format!(
        "cannot compare {}, measured with {option}, to {}, measured without it: {option} lowers the \
         rates; repeat one of the runs",
        slowed.source.display(),
        plain.source.display()
    ))
}

/// Explains why two runs have nothing to compare, and what to do.
pub(crate) fn nothing_in_common(before: &Results, after: &Results) -> String {
    if let Some(why) = slowed_rates(before, after) {
        return why;
    }
    let (names_before, names_after) = (before.measured(), after.measured());
    let same = names_before.intersection(&names_after).next();
    let variants = || {
        names_before.iter().find_map(|one| {
            let other = names_after.iter().find(|other| one.testcase == other.testcase)?;
            Some((one, other))
        })
    };
    let advice = match (same, variants(), names_before.first().zip(names_after.first())) {
        (Some(name), _, _) => format!("both contain {name}; measure it with the same -m and -t"),
        (None, Some((one, other)), _) => format!(
            "a run contains several variants of {}, and it is unclear which to compare; compare \
             runs with one variant each, or measure two variants in interleaved rounds: {}",
            one.testcase,
            in_turns(one, other)
        ),
        _ if [before, after].iter().any(|run| has_command(run)) => {
            match commands_in_turns(before, after) {
                Some(command) => {
                    format!(
                        "to compare two commands, measure them in interleaved rounds: {command}"
                    )
                }
                None => "compare runs of the same command".to_owned(),
            }
        }
        (None, None, Some((one, other))) if before.origin.is_some() && after.origin.is_some() => {
            format!(
                "to compare two testcases, measure them in interleaved rounds: {}",
                in_turns(one, other)
            )
        }
        _ => "compare runs of the same testcases".to_owned(),
    };
    format!(
        "{} and {} have no points (testcase, mode and task count) in common; {advice}",
        before.source.display(),
        after.source.display()
    )
}

/// A note on sides with fewer rounds than requested.
fn unfinished(compared: &Compared) -> Option<String> {
    let mut unfinished =
        compared.points.iter().filter_map(|point| Some((point, point.gap.as_ref()?)));
    let (first, reason) = unfinished.next()?;
    let more = match unfinished.count() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    Some(format!("{} is incomplete ({reason}){more}", first.key))
}

/// A note on points with too few pairs of rounds for any claim.
fn too_few_pairs(
    before: &Results,
    compared: &Compared,
    options: &CompareOptions,
) -> Option<String> {
    let run = before.origin.as_ref().filter(|_| compared.in_turns)?;
    // Another note covers disturbed points, and the correction of p-values ignores them.
    let calm = || compared.points.iter().filter(|point| !point.disturbed);
    let needed = options.pairs_to_claim(calm().count()) as usize;
    let few = |point: &&ComparedPoint| {
        point.comparison.verdict == Verdict::Inconclusive && point.rounds[0] < needed
    };
    let first = calm().find(few)?;
    let more = and_more(calm().filter(few).count() - 1);
    let (used, asked) = (first.rounds[0], run.request.rounds as usize);
    let measured = before.points.get(&first.key).map_or(used, |measured| measured.measured);
    let (lost, advice) = match measured >= asked {
        _ if used >= asked => (String::new(), "use more rounds (-r)"),
        true => (format!(" of {asked} (the others were disturbed)"), CALMER),
        false => {
            (format!(" of {asked} (the others are unfinished)"), "continue the run with --resume")
        }
    };
    Some(format!(
        "{}{more}: knee can use only {}{lost}, but {}% confidence requires {needed}; {advice}",
        first.key,
        plural(used, "round"),
        options.confidence * 100.0
    ))
}

/// A note on points that a run could not decide in its time.
fn undecided(before: &Results, compared: &Compared, options: &CompareOptions) -> Option<String> {
    let (run, looks) = (before.origin.as_ref()?, options.looks?);
    let is_open = |point: &&ComparedPoint| {
        point.comparison.verdict == Verdict::Inconclusive
            && !point.disturbed
            && !point.lacks_load()
            && point.rounds[0] >= looks.first() as usize
    };
    let first = compared.points.iter().find(is_open).filter(|_| run.complete)?;
    let more = and_more(compared.points.iter().filter(is_open).count() - 1);
    Some(format!(
        "{}{more}: {} in {} s of measurement of each side do not decide whether the sides are the \
         same within {}; reduce other load, or use a longer --max-time",
        first.key,
        plural(first.rounds[0], "round"),
        run.request.max_time,
        spread(options.threshold.unwrap_or(0.0))
    ))
}

/// A note on points about which nothing is claimed, because a server left its CPUs idle.
fn idle_servers(compared: &Compared) -> Option<String> {
    // Other notes cover disturbed points and those with too few rounds.
    let lacks_load = |point: &&ComparedPoint| {
        point.lacks_load() && !point.disturbed && point.comparison.test.is_some()
    };
    let idle = || compared.points.iter().filter(lacks_load);
    let first = idle().next()?;
    let busy = first.server.map(|server| server.map_or(0.0, |server| server.server_busy));
    let is_full =
        |point: &&ComparedPoint| point.server.iter().flatten().any(|server| server.is_load_full());
    Some(format!(
        "the server left its CPUs idle at {}{} ({} busy before, {} after), so the load, or something that \
         the server waits for, limits the rates (marked ≥), and knee concludes nothing from them; {}",
        first.key,
        and_more(idle().count() - 1),
        percent(busy[0]),
        percent(busy[1]),
        idle_advice(idle().filter(is_full).filter_map(|point| point.key.tasks))
    ))
}

/// A note on claims that an A/A run of this machine could show by chance.
fn hidden_in_noise(before: &Results, compared: &Compared) -> Option<String> {
    if compared.in_turns {
        // The noise floor is measured without interleaving, so it does not apply.
        return None;
    }
    let floors = NoiseFloors::load(before)?;
    let below = |point: &&ComparedPoint| -> Option<bool> {
        if !point.comparison.verdict.is_change() {
            return None;
        }
        let key = &point.key;
        let at = PointId { case: key.case.clone(), mode: key.mode?, tasks: key.tasks? };
        Some((point.comparison.ratio?.ratio - 1.0).abs() < floors.measured(&at)?)
    };
    let mut hidden = compared.points.iter().filter(|point| below(point) == Some(true));
    let first = hidden.next()?;
    let and = and_more(hidden.count());
    Some(format!(
        "{}{and} changed by less than this machine's noise floor (typically {}); repeat both \
         runs to confirm the change",
        first.key,
        spread(floors.typical)
    ))
}

/// Describes the statistical method in one sentence.
fn method(compared: &Compared, options: &CompareOptions) -> String {
    // Disturbed points are not tested.
    let tested = || compared.points.iter().filter(|point| !point.disturbed);
    let tests: BTreeSet<&str> = tested()
        .filter_map(|point| point.comparison.test)
        .map(|test| match test {
            Test::Welch => "Welch",
            Test::MannWhitneyExact | Test::MannWhitneyNormal => "Mann–Whitney",
            Test::SignedRankExact | Test::SignedRankNormal => "Wilcoxon's signed ranks",
        })
        .collect();
    let n = tested().count();
    let tests = tests.into_iter().collect::<Vec<_>>().join(" or ");
    let by = if tests.is_empty() { String::new() } else { format!("; p by {tests}") };
    let corrected = if n > 1 {
        format!(", corrected for {n} points (Benjamini–Hochberg)")
    } else {
        String::new()
    };
    if let (true, Some(looks)) = (compared.in_turns, options.looks) {
        return format!(
            "medians over interleaved rounds (ABBA); Hodges–Lehmann changes within a round{by}; \
             intervals and p are corrected for {} and {} looks, the first after {} rounds (alpha \
             spending, Lan and DeMets 1983), so all verdicts hold together at {:.1}% confidence; \
             changes within {} are the same",
            plural(looks.points(), "point"),
            looks.count(),
            looks.first(),
            options.confidence * 100.0,
            spread(options.threshold.unwrap_or(0.0))
        );
    }
    let changes =
        format!("changes below {} do not count", spread(options.threshold.unwrap_or(0.0)));
    let confidence = options.confidence * 100.0;
    if compared.in_turns {
        return format!(
            "medians over interleaved rounds (ABBA); Hodges–Lehmann changes within a round, with \
             {confidence:.1}% intervals{by}{corrected}; {changes}"
        );
    }
    let drift = machine::divided_out(compared).map_or(String::new(), |by| {
        format!(
            "; verdicts hold both as measured and with the drift of the machine ({by}) divided out"
        )
    });
    format!(
        "medians over rounds; {confidence:.1}% bootstrap intervals of the ratio{by}{corrected}\
         {drift}; {changes}"
    )
}
