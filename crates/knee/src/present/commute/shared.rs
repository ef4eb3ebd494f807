//! The results of a check, for a page or a drawing.

use knee_host::number::plural;
use knee_report::{Shared, SharedLine, SharedSide, SharedVerdict};
use knee_trace::findings::{Findings, Ranking, SharedLine as Line, Tally, Verdict};

use super::check::operations_of_matrix;
use super::explain::{notes, sentences};

/// Maximum steps of the suggested fixes.
const FIXES: usize = 10;

/// The findings of a check.
///
/// # Errors
/// They have too many operations for a matrix.
pub(crate) fn record(findings: &Findings) -> anyhow::Result<Shared> {
    let check = &findings.check;
    let mut shared =
        Shared::new(check.tested.to_string(), operations_of_matrix(&Tally::of(&findings.tests))?);
    let ranking = Ranking::of(&findings.tests, &findings.layouts, FIXES);
    shared.fixes = sentences(&ranking);
    let mut left_out = 0;
    for test in &findings.tests {
        let lines = test.conflicts.iter().map(line);
        let (verdict, note) = (verdict(test.verdict), notes(test).join("; "));
        if !shared.add(&test.test, &test.operations(), verdict, note, lines) {
            left_out += 1;
        }
    }
    let of_others =
        |n| format!("not shown: {} with fewer or more than two calls", plural(n, "test"));
    shared.facts = [
        (findings.missing() > 0).then(|| format!("{} missing", plural(findings.missing(), "test"))),
        missing_shards(findings),
        (left_out > 0).then(|| of_others(left_out)),
        ranking.fixes_cut.then(|| {
            "not shown: more fixes, because the tests share too many different sets of data"
                .to_owned()
        }),
        Some(format!("QEMU {}", check.qemu)),
        Some(format!("knee {}", check.knee_version)),
        Some(check.began.clone()),
    ]
    .into_iter()
    .flatten()
    .collect();
    Ok(shared)
}

/// Says how many shards of sets are missing. The tests of such shards are not known.
fn missing_shards(findings: &Findings) -> Option<String> {
    let shards = findings.missing_shards().len();
    (findings.check.sets.is_some() && shards > 0)
        .then(|| format!("{} missing", plural(shards, "shard")))
}

fn verdict(verdict: Verdict) -> SharedVerdict {
    match verdict {
        Verdict::ConflictFree => SharedVerdict::Free,
        Verdict::Conflict => SharedVerdict::Conflict,
        Verdict::Sometimes => SharedVerdict::Sometimes,
        Verdict::Disturbed => SharedVerdict::Disturbed,
        Verdict::Died => SharedVerdict::Died,
    }
}

fn line(line: &Line) -> SharedLine {
    let sides = line.sides.iter().map(|(&call, touched)| SharedSide {
        call,
        bytes: touched.bytes,
        writers: touched.ways(&touched.writers),
        readers: touched.ways(&touched.readers),
    });
    SharedLine { name: line.name(), same_bytes: line.same_bytes, sides: sides.collect() }
}
