//! The numbers of a page as JSON inside it: for its script, for downloads, and for whoever finds
//! the file in ten years. A testcase each, so that a script parses only what it shows.

use maud::{Markup, PreEscaped, html};
use serde::Serialize;

use crate::model::{Case, Curve, Run};
use crate::reading::{CaseReading, Reading};

/// Version of the embedded JSON.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct EmbeddedPage<'p> {
    schema: u32,
    runs: &'p [Run],
    knee_efficiency: f64,
    threshold: Option<f64>,
}

#[derive(Serialize)]
struct EmbeddedCase<'p> {
    case: &'p Case,
    curves: Vec<&'p Curve>,
}

/// What all testcases share.
pub(crate) fn page(reading: &Reading) -> Markup {
    let page = reading.page;
    script(
        "page-data",
        None,
        &EmbeddedPage {
            schema: SCHEMA,
            runs: &page.runs,
            knee_efficiency: page.knee_efficiency,
            threshold: page.threshold,
        },
    )
}

/// One testcase.
pub(crate) fn case(case: &CaseReading) -> Markup {
    let curves = case.curves.iter().map(|reading| reading.curve).collect();
    script("case-data", Some(&case.case.name), &EmbeddedCase { case: case.case, curves })
}

fn script(class: &str, case: Option<&str>, value: &impl Serialize) -> Markup {
    let json = serde_json::to_string(value).expect("plain data has no keys that are not text");
    html! {
        script type="application/json" class=(class) data-case=[case] {
            (PreEscaped(inert(&json)))
        }
    }
}

/// JSON that no HTML parser takes for a tag: `<` stands only in strings, where it may be escaped.
fn inert(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_the_script_that_holds_it() {
        let json = inert(&serde_json::to_string("</script><!--<script>").unwrap());
        assert!(!json.contains('<'), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), "</script><!--<script>");
    }
}
