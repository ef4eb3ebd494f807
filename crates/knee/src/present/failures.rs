//! Points without a result, in words: the point, the reason and what to do.

use knee_run::record::PointFailure;

use super::enumeration::grouped;

/// One failed point.
pub(super) fn line(failure: &PointFailure) -> String {
    let PointFailure { point, failure, .. } = failure;
    format!("{point}: {}; {}", failure.reason, failure.remedy)
}

/// One failed round.
pub(super) fn of_round(PointFailure { point, round, failure }: &PointFailure) -> String {
    format!("round {} of {point} failed: {}", round + 1, failure.reason)
}

/// All failures by testcase; failures with the same reason share a line.
pub(super) fn lines<'f>(failures: impl IntoIterator<Item = &'f PointFailure>) -> Vec<String> {
    let mut sorted: Vec<&PointFailure> = failures.into_iter().collect();
    sorted.sort_by_key(|failure| &failure.point);
    let same = |a: &PointFailure, b: &PointFailure| {
        (&a.point.case, &a.failure) == (&b.point.case, &b.failure)
    };
    let line = |group: Vec<&PointFailure>| {
        let places = group.iter().map(|f| format!("{} ×{}", f.point.mode, f.point.tasks));
        let places = places.collect::<Vec<String>>().join(", ");
        let PointFailure { point, failure, .. } = group[0];
        format!("{} ({places}): {}; {}", point.case, failure.reason, failure.remedy)
    };
    grouped(sorted, same).into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use knee_results::{CaseId, Mode, PointId};
    use knee_run::job::{Failure, FailureKind};

    use super::*;

    #[test]
    fn failures_are_sorted_by_point_and_share_a_line_per_reason() {
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
