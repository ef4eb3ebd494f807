//! Points without a result, in words: which, why, and what to do.

use knee_run::record::PointFailure;

/// One failed point.
pub(super) fn line(failure: &PointFailure) -> String {
    let PointFailure { point, failure, .. } = failure;
    format!("{point}: {}; {}", failure.reason, failure.remedy)
}

/// All failures by testcase, those with one reason in one line.
pub(super) fn lines(failures: &[PointFailure]) -> Vec<String> {
    let mut sorted: Vec<&PointFailure> = failures.iter().collect();
    sorted.sort_by_key(|failure| &failure.point);
    let mut groups: Vec<(&PointFailure, Vec<String>)> = Vec::new();
    for failure in sorted {
        let at = format!("{} ×{}", failure.point.mode, failure.point.tasks);
        let same = |other: &PointFailure| {
            other.point.case == failure.point.case && other.failure == failure.failure
        };
        match groups.iter_mut().find(|(other, _)| same(other)) {
            Some((_, points)) => points.push(at),
            None => groups.push((failure, vec![at])),
        }
    }
    groups
        .into_iter()
        .map(|(f, points)| {
            let (name, points) = (&f.point.case, points.join(", "));
            format!("{name} ({points}): {}; {}", f.failure.reason, f.failure.remedy)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use knee_results::CaseId;
    use knee_results::Mode;
    use knee_results::PointId;
    use knee_run::job::{Failure, FailureKind};

    use super::*;

    #[test]
    fn failures_are_told_in_the_order_of_the_points_and_each_reason_once() {
        let failure = |mode, tasks, reason: &str| PointFailure {
            point: PointId { case: CaseId::new("mine"), mode, tasks },
            round: 0,
            failure: Failure::new(FailureKind::Died, reason, "fix it"),
        };
        let failures = [
            failure(Mode::Threads, 2, "it died"),
            failure(Mode::Processes, 2, "task 1 died"),
            failure(Mode::Threads, 1, "it died"),
        ];
        let expected = [
            "mine (processes ×2): task 1 died; fix it",
            "mine (threads ×1, threads ×2): it died; fix it",
        ];
        assert_eq!(lines(&failures), expected);
        assert_eq!(line(&failures[1]), "mine processes ×2: task 1 died; fix it");
    }
}
