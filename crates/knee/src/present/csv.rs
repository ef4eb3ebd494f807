//! A record as one flat table, for spreadsheets: CSV (RFC 4180) or TSV.
//!
//! The columns have the names of the JSON document, and an unknown value is an empty cell.

use knee_results::{Curve, Point, PointCounters, PointId, PointLatency};
use knee_run::record::{RoundSummary, Rounds};
use serde_json::{Value, json};

use super::json::point_json;

/// The first columns of a point and of a round, as paths in their JSON.
const FIRST: [&str; 3] = ["/testcase", "/mode", "/tasks"];
/// The last columns of both.
const LAST: [&str; 34] = [
    "/min",
    "/max",
    "/fairness",
    "/cpu/user",
    "/cpu/system",
    "/cpu/idle",
    "/cpu/machine_idle",
    "/samples",
    "/marked",
    "/marks",
    "/server/server_busy",
    "/server/load_busy",
    "/server/cpu_per_request",
    "/server/shared",
    "/latency/p50",
    "/latency/p90",
    "/latency/p99",
    "/latency/p99_9",
    "/latency/max",
    "/latency/rate",
    "/latency/lateness/p99",
    "/latency_gap/rounds",
    "/latency_gap/reason",
    "/connections",
    "/counters/per_operation/cycles",
    "/counters/per_operation/instructions",
    "/counters/ipc",
    "/counters/per_operation/llc-misses",
    "/counters/per_operation/cache-misses",
    "/counters/per_operation/branch-misses",
    "/counters/per_operation/context-switches",
    "/counters/per_operation/cpu-migrations",
    "/counters/per_operation/page-faults",
    "/counters/per_operation/task-clock",
];
/// The other columns of a point.
const POINT: [&str; 12] = [
    "/rate",
    "/low",
    "/high",
    "/confidence",
    "/rounds",
    "/measured",
    "/speedup",
    "/efficiency",
    "/disturbed",
    "/oversubscribed",
    "/implausible",
    "/lower_bound",
];
/// The other columns of a round.
const ROUND: [&str; 3] = ["/round", "/rate", "/disturbed"];

/// What separates the cells of a row. Neither format lets text imitate a row, a column or a formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    /// CSV, which quotes a cell with a comma.
    Comma,
    /// TSV, which quotes nothing.
    Tab,
}

/// A row per point. Speed-up and efficiency of swept connections are those over connections.
pub(super) fn points(curves: &[Curve], separator: Separator) -> String {
    let sweeps = Curve::over_connections(curves);
    let row = |curve: &Curve, point: &Point| {
        let mut row = point_json(curve, point);
        if let Some((sweep, swept)) = curve.on_sweep(point, &sweeps) {
            let mut along = point_json(sweep, swept);
            for relative in ["speedup", "efficiency", "implausible"] {
                row[relative] = along[relative].take();
            }
        }
        row
    };
    let rows = curves.iter().flat_map(|curve| curve.points().iter().map(move |p| (curve, p)));
    let columns = [&FIRST[..], &POINT, &LAST].concat();
    table(&columns, rows.map(|(curve, point)| row(curve, point)), separator)
}

/// A row per round of each point.
pub(super) fn rounds(curves: &[Curve], finished: &Rounds, separator: Separator) -> String {
    let points =
        curves.iter().flat_map(|curve| curve.points().iter().map(move |p| curve.id(p.tasks)));
    let rounds = points.flat_map(|point| {
        let of_point = finished.numbered(&point).map(|(nr, round)| round_json(&point, nr, round));
        of_point.collect::<Vec<Value>>()
    });
    table(&[&FIRST[..], &ROUND, &LAST].concat(), rounds, separator)
}

/// A round. Its rate is that of its undisturbed samples, or of all samples if it is disturbed.
fn round_json(point: &PointId, nr: u32, round: &RoundSummary) -> Value {
    let clean = round.clean_rate();
    json!({
        "testcase": point.case,
        "mode": point.mode,
        "tasks": point.tasks,
        "connections": point.case.connections(),
        "round": nr,
        "rate": clean.or(round.rate()),
        "disturbed": clean.is_none(),
        "min": round.min,
        "max": round.max,
        "fairness": round.fairness(),
        "cpu": round.cpu(),
        "server": round.served(),
        "latency": PointLatency::of(&[round.latency()]),
        "latency_gap": round.latency_failure().map(|failure| json!({
            "rounds": 1,
            "reason": failure.reason,
        })),
        "counters": PointCounters::of([round.counters()]),
        "samples": round.samples,
        "marked": round.marked(),
        "marks": round.marks(),
    })
}

/// The name of a column. Quantiles of latency would not be distinct without their group, and the name of an event
/// does not say what it is relative to.
fn name(path: &str) -> String {
    let last = path.rsplit('/').next().unwrap_or(path);
    if path.starts_with("/latency") {
        return path.trim_start_matches('/').replace('/', "_");
    }
    match path.strip_prefix("/counters/per_operation/") {
        Some(event) => format!("{}_per_operation", event.replace('-', "_")),
        None => last.to_owned(),
    }
}

fn table(paths: &[&str], rows: impl Iterator<Item = Value>, separator: Separator) -> String {
    let names = paths.iter().map(|path| name(path));
    let mut text = separator.row(names);
    for row in rows {
        text += &separator.row(paths.iter().map(|path| separator.cell(row.pointer(path))));
    }
    text
}

impl Separator {
    fn cell(self, value: Option<&Value>) -> String {
        match value {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) if self == Self::Tab => unquoted(text),
            Some(Value::String(text)) => harmless(&on_one_line(text)),
            Some(Value::Array(rates)) => {
                rates.iter().map(Value::to_string).collect::<Vec<String>>().join(" ")
            }
            Some(Value::Object(counts)) => {
                let counts = counts.iter().map(|(name, count)| format!("{name}={count}"));
                counts.collect::<Vec<String>>().join(" ")
            }
            Some(number) => number.to_string(),
        }
    }

    fn row(self, cells: impl Iterator<Item = String>) -> String {
        let (separator, cells): (&str, Vec<String>) = match self {
            Self::Comma => (",", cells.map(quoted).collect()),
            Self::Tab => ("\t", cells.collect()),
        };
        cells.join(separator) + "\n"
    }
}

/// Text for a format without quotes. Spreadsheets also split lines at other separators than that of the format, and
/// take a quotation mark at the start of a cell for the start of a quoted one, which may contain further lines. So no
/// part of the text begins like a formula or with a quotation mark.
pub(super) fn unquoted(text: &str) -> String {
    let part = |part: &str| match part.trim_start().starts_with('"') {
        true => format!("'{part}"),
        false => harmless(part),
    };
    on_one_line(text).split_inclusive([',', ';', '|']).map(part).collect()
}

/// A name with a newline or a tab would imitate a row or a column.
fn on_one_line(text: &str) -> String {
    text.replace(['\t', '\n', '\r'], " ")
}

/// Text that a spreadsheet does not take for a formula, which it could run.
fn harmless(text: &str) -> String {
    // Spreadsheets ignore quotation marks, blanks and invisible characters before a formula.
    let is_visible = |c: &char| c.is_alphanumeric() || c.is_ascii_graphic() || is_formula(*c);
    match text.chars().filter(is_visible).find(|c| *c != '"') {
        Some(first) if is_formula(first) => format!("'{text}"),
        _ => text.to_owned(),
    }
}

/// Whether a formula can begin with this character. East Asian keyboards also have wide ones.
fn is_formula(character: char) -> bool {
    matches!(character, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠')
}

/// Quotes a cell that any of the separators in use would split, or from which a reader would remove blanks.
fn quoted(cell: String) -> String {
    match cell.contains([',', ';', '|', '"']) || cell.starts_with(char::is_whitespace) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(separator: Separator) -> String {
        let row = json!({
            "testcase": "a@x=1,y=2", "rate": 1.5, "rounds": [1.0, 2.0], "cpu": { "user": 0.25 },
            "disturbed": false, "efficiency": null, "marks": { "late": 1, "steal": 2 },
            "mode": "=1+\"\t1",
        });
        let paths = [
            "/testcase",
            "/rate",
            "/rounds",
            "/cpu/user",
            "/cpu/idle",
            "/disturbed",
            "/efficiency",
            "/marks",
            "/mode",
        ];
        table(&paths, std::iter::once(row), separator)
    }

    #[test]
    fn cells_are_quoted_in_csv_and_contain_no_tab_or_newline() {
        assert_eq!(
            rows(Separator::Comma),
            "testcase,rate,rounds,user,idle,disturbed,efficiency,marks,mode\n\
             \"a@x=1,y=2\",1.5,1.0 2.0,0.25,,false,,late=1 steal=2,\"'=1+\"\" 1\"\n"
        );
        assert_eq!(
            rows(Separator::Tab),
            "testcase\trate\trounds\tuser\tidle\tdisturbed\tefficiency\tmarks\tmode\n\
             a@x=1,y=2\t1.5\t1.0 2.0\t0.25\t\tfalse\t\tlate=1 steal=2\t'=1+\" 1\n"
        );
    }

    #[test]
    fn no_text_is_a_formula_whatever_precedes_it() {
        for formula in [
            "=1+1",
            "+1",
            "-1",
            "@SUM(A1)",
            "＝1",
            "＋1",
            "－1",
            "＠SUM(A1)",
            "\"=1+1\"",
            "\" =1",
            " \u{a0}=1",
            "\u{feff}=1",
            "\u{200b}\u{2060}=1",
            "\u{7}=1",
            "\t=1",
        ] {
            let cell = |separator: Separator| separator.cell(Some(&json!(formula)));
            assert!(cell(Separator::Comma).starts_with('\''), "{formula:?}");
            assert!(cell(Separator::Tab).starts_with('\''), "{formula:?}");
        }
        for text in ["mmap1", "a=1", "'=1", "\"quoted\" =", ""] {
            assert_eq!(Separator::Comma.cell(Some(&json!(text))), text);
        }
        assert_eq!(unquoted("vm_mmap1@di=epoch,rmap=page"), "vm_mmap1@di=epoch,rmap=page");
        assert_eq!(unquoted("x,=1+1,-2\n+3,@a"), "x,'=1+1,'-2 +3,'@a");
    }

    #[test]
    fn other_separators_split_no_cell_into_a_formula() {
        let row = |separator: Separator, name: &str| {
            table(&["/name"], std::iter::once(json!({ "name": name })), separator)
        };
        let hostile = "x;=cmd|'/c calc'!A0";
        assert_eq!(row(Separator::Comma, hostile), "name\n\"x;=cmd|'/c calc'!A0\"\n");
        assert_eq!(row(Separator::Tab, hostile), "name\nx;'=cmd|'/c calc'!A0\n");
        assert_eq!(row(Separator::Comma, " x"), "name\n\" x\"\n");
        assert_eq!(row(Separator::Tab, "\"a"), "name\n'\"a\n", "it does not quote the next rows");
    }
}
