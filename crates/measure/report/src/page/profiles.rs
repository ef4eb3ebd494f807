//! Where the cycles of a testcase go: what grows with its tasks beside its knee, and a flame graph for each
//! point that was sampled.

use knee_host::number::plural;
use knee_results::Mode;
use maud::{Markup, PreEscaped, html};

use super::fragment::fragment;
use crate::model::{Page, Profile};

/// The graphs of a testcase, to be opened.
pub(super) fn flames(page: &Page, case: &str) -> Markup {
    html! {
        @for profile in page.profiles.iter().filter(|profile| profile.case == case) {
            details.data.flame-of id=(id(profile)) {
                summary { "Flame graph: " (profile.mode.as_str()) ", " (plural(profile.tasks as usize, "task")) }
                p.note { (profile.summary) }
                // Made by crate profile, which escapes all names in it.
                (PreEscaped(&profile.flame))
            }
        }
    }
}

/// What grows in a mode of a testcase, who waits, and links to its graphs.
pub(super) fn beside_knee(page: &Page, case: &str, mode: Mode) -> Markup {
    let of_this = |name: &str, of: Mode| name == case && of == mode;
    let graphs: Vec<&Profile> =
        page.profiles.iter().filter(|profile| of_this(&profile.case, profile.mode)).collect();
    html! {
        @for growth in page.growths.iter().filter(|growth| of_this(&growth.case, growth.mode)) {
            p.note { "What an iteration takes more of with more tasks:" }
            pre.growth tabindex="0" { (growth.table) }
        }
        @for waits in page.waits.iter().filter(|waits| of_this(&waits.case, waits.mode)) {
            p.note { "Waits for locks of the kernel, " (plural(waits.tasks as usize, "task")) ":" }
            pre.growth tabindex="0" { (waits.table) }
        }
        @if !graphs.is_empty() {
            p.note {
                "Where the cycles go:"
                @for profile in graphs {
                    " " a href={ "#" (id(profile)) } { (plural(profile.tasks as usize, "task")) }
                }
            }
        }
    }
}

fn id(profile: &Profile) -> String {
    format!(
        "flame={}&mode={}&tasks={}",
        fragment(&profile.case),
        profile.mode.as_str(),
        profile.tasks
    )
}
