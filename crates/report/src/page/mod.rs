//! The page as HTML: the finding, the overview, every testcase, machine and method.

mod case;
mod fit;
mod head;
mod machine;
mod overview;
mod packed;
mod table;
mod words;

use maud::{DOCTYPE, PreEscaped, html};

use crate::reading::Reading;
use crate::{chart, embed, finding};

pub(crate) use words::words_of_changes;

const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");

pub(crate) fn html(reading: &Reading) -> String {
    let finding = finding::sentence(reading);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head::head(&finding))
            body {
                (chart::markers())
                a.skip href="#overview" { "Skip to the overview" }
                header {
                    h1 { (finding) }
                    (head::about(reading))
                    nav aria-label="Sections" {
                        a href="#overview" { "Overview" }
                        a href="#testcases" { "Testcases" }
                        a href="#machine" { "Machine and method" }
                    }
                }
                main {
                    (overview::overview(reading))
                    (case::cases(reading))
                    (machine::machine(reading))
                }
                (embed::page(reading))
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string() + "\n"
}

/// The name of a testcase as it stands in the fragment of an address, and so in an id.
fn fragment(name: &str) -> String {
    use std::fmt::Write as _;
    let mut encoded = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                encoded.push(char::from(byte));
            }
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}
